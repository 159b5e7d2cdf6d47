/* Factors of attention, and mergers by the parts of any network: against weights that were
 * multiplied or summed up by hand, in files of their own. */
#include "base/alloc.h"
#include "engine/weights/patch.h"
#include "tests/engine/merge.h"
#include "tests/engine/mmdit.h"
#include "tests/engine/openclip.h"

#define CLIP_FILE GRAFT_SOURCE_DIR "/golden/small/clip_gelu.safetensors"
#define FLUX_FILE GRAFT_SOURCE_DIR "/golden/small/flux_dev.safetensors"
enum { WIDTH = 96, LAYERS = 3, HIDDEN = GRAFT_TEXT_CHUNK * WIDTH };

static graft_engine *engine;
static const graft_attention_factors some = {1.5, 0.75, 0.5, 1.25}, none = {1, 1, 1, 1};

static bool ends(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
}

static void multiply(graft_st_tensor *t, int64_t first, int64_t n, double by)
{
    float *v = (float *)(uintptr_t)t->data;
    for (int64_t i = first; i < first + n; i++) v[i] = (float)(by * (double)v[i]);
}

/* Every tensor whose name ends with the layer's and .weight or .bias. */
static int multiply_layer(made_file *f, const char *layer, double by)
{
    char weight[96], bias[96];
    int n = 0;
    snprintf(weight, sizeof weight, "%s.weight", layer);
    snprintf(bias, sizeof bias, "%s.bias", layer);
    for (size_t i = 0; i < f->n; i++) {
        graft_st_tensor *t = &f->tensor[i];
        if (!ends(t->name, weight) && !ends(t->name, bias)) continue;
        multiply(t, 0, shape_count(t->shape, t->rank), by);
        n++;
    }
    return n;
}

static graft_model *multiplied(const graft_model *m, bool cross, const graft_attention_factors *f)
{
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_multiply_attention(m, cross, f, &out, &e), &e);
    return out;
}

/* ------------------------------------------------------------------ UNets */

static void unet(bool cross)
{
    static const char *const layer[4] = {"to_q", "to_k", "to_v", "to_out.0"};
    const double by[4] = {some.q, some.k, some.v, some.out};
    float plain[OUT], got[OUT], want[OUT];
    const char *path = temp_path("multiplied.safetensors");
    graft_safetensors *file = open_file(SD1);
    made_file *f = copy_file(file, UNET);
    for (int i = 0; i < 4; i++) {
        char name[64];
        snprintf(name, sizeof name, ".attn%d.%s", 1 + cross, layer[i]);
        CHECK(multiply_layer(f, name, by[i]) > 0);
    }
    write_file(f, path, graft_safetensors_metadata(file, "config"));
    graft_safetensors_close(file);
    graft_model *m = load_model(engine, SD1), *hand = load_model(engine, path);
    run_model(m, plain);
    run_model(hand, want);
    uint64_t built = graphs_built(engine);
    graft_model *n = multiplied(m, cross, &some);
    run_model(n, got);
    CHECK(difference(got, want, OUT) < 1e-6);
    CHECK(difference(got, plain, OUT) > 1e-3);
    CHECK_INT(graphs_built(engine), built);
    /* Of merges and of itself: factors multiply. */
    graft_model *half = simple(n, m, 0.5), *twice = multiplied(half, cross, &some);
    graft_model *other = simple(hand, m, 0.5), *by_hand = multiplied(other, cross, &some);
    run_model(twice, got);
    run_model(by_hand, want);
    CHECK(difference(got, want, OUT) < 1e-6);
    RELEASE_ALL(m, hand, n, half, twice, other, by_hand);
    unlink(path);
}

static void of_self(void)
{
    unet(false);
}

static void of_cross(void)
{
    unet(true);
}

/* Nothing changes: by factors of 1, not even a bit; and where there is no such attention. */
static void as_it_was(void)
{
    float one[OUT], two[OUT], flow[2][MMDIT_OUT];
    graft_model *m = load_model(engine, SD1), *same = multiplied(m, false, &none);
    run_model(m, one);
    uint64_t made = packs_of(engine).made;
    run_model(same, two);
    CHECK(same_bits(one, two));
    CHECK_INT(packs_of(engine).made, made);
    graft_model *sd3 = load_model(engine, MMDIT), *other = multiplied(sd3, false, &some);
    run_mmdit(sd3, flow[0]);
    run_mmdit(other, flow[1]);
    CHECK(same_mmdit_bits(flow[0], flow[1]));
    RELEASE_ALL(m, same, sd3, other);
}

/* Writes the file again with queries that count twice. */
static void double_queries(const char *from, const char *to)
{
    graft_safetensors *file = open_file(from);
    made_file *f = copy_file(file, UNET);
    CHECK(multiply_layer(f, ".attn1.to_q", 2) > 0);
    write_file(f, to, config_of(SD1));
    graft_safetensors_close(file);
}

/* A LoRA in front of the node is multiplied with its layer, one behind it is not. */
static void with_loras(void)
{
    char lora[256], saved[256], hand[256], bare[256], base[256];
    const graft_attention_factors q = {2, 1, 1, 1};
    float one[OUT], two[OUT], want[OUT];
    graft_err e = GRAFT_ERR_INIT;
    make_lora(lora, "lora.safetensors");
    make_variant(base, "base.safetensors", 0.1f, GRAFT_F32); /* what is saved of it is float32 */
    snprintf(saved, sizeof saved, "%s", temp_path("saved.safetensors"));
    snprintf(hand, sizeof hand, "%s", temp_path("hand.safetensors"));
    snprintf(bare, sizeof bare, "%s", temp_path("bare.safetensors"));
    graft_model *m = load_model(engine, base), *l = with_lora(m, lora, 0.8);
    CHECK_OK(graft_checkpoint_save(&(graft_checkpoint){.model = l}, saved, NULL, NULL, &e), &e);
    double_queries(saved, hand);
    double_queries(base, bare);
    graft_model *before = multiplied(l, false, &q), *twice = multiplied(m, false, &q);
    graft_model *behind = with_lora(twice, lora, 0.8);
    graft_model *h = load_model(engine, hand), *b = load_model(engine, bare);
    graft_model *bl = with_lora(b, lora, 0.8);
    run_model(before, one);
    run_model(h, want);
    CHECK(difference(one, want, OUT) < 1e-5);
    run_model(behind, two);
    run_model(bl, want);
    CHECK(difference(two, want, OUT) < 1e-5);
    CHECK(difference(one, two, OUT) > 1e-4);
    RELEASE_ALL(m, l, before, twice, behind, h, b, bl);
    unlink(lora);
    unlink(saved);
    unlink(hand);
    unlink(bare);
    unlink(base);
}

/* A DoRA stays where its layer does, and is refused where it does not. */
static void with_doras(void)
{
    char path[256];
    float one[OUT], two[OUT], plain[OUT];
    graft_err e = GRAFT_ERR_INIT;
    made_file *f = calloc(1, sizeof *f);
    const char *stem = "lora_unet_down_blocks_0_attentions_0_transformer_blocks_0_attn1_to_q";
    char name[128];
    snprintf(name, sizeof name, "%s.lora_up.weight", stem);
    add_tensor(f, name, 2, (int64_t[]){32, 3}, NULL, 0.4f);
    snprintf(name, sizeof name, "%s.lora_down.weight", stem);
    add_tensor(f, name, 2, (int64_t[]){3, 32}, NULL, 0.4f);
    snprintf(name, sizeof name, "%s.dora_scale", stem);
    float *size = add_tensor(f, name, 2, (int64_t[]){32, 1}, NULL, 0);
    for (int i = 0; i < 32; i++) size[i] = 1.5f;
    snprintf(path, sizeof path, "%s", temp_path("dora.safetensors"));
    write_file(f, path, NULL);
    graft_model *m = load_model(engine, SD1), *d = with_lora(m, path, 1.0), *out = NULL;
    graft_model *same = multiplied(d, true, &none), *other = multiplied(d, true, &some);
    graft_model *behind = multiplied(m, true, &some), *late = with_lora(behind, path, 1.0);
    run_model(m, plain);
    run_model(d, one);
    run_model(same, two);
    CHECK(same_bits(one, two) && difference(one, plain, OUT) > 1e-3);
    run_model(other, one);
    run_model(late, two);
    CHECK(same_bits(one, two));
    CHECK_INT(graft_model_multiply_attention(d, false, &some, &out, &e), GRAFT_E_UNSUPPORTED);
    CHECK(strstr(e.text, "DoRA"));
    RELEASE_ALL(m, d, same, other, behind, late);
    unlink(path);
}

/* ------------------------------------------------------------------ text encoders */

static graft_clip *multiplied_clip(const graft_clip *c, const graft_attention_factors *f)
{
    graft_clip *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_clip_multiply_attention(c, f, &out, &e), &e);
    return out;
}

/* The two loaders choose other default layers; the same one is compared. */
static graft_clip *load_last_layer(const char *path)
{
    graft_clip *c = load_encoder(engine, path);
    if (c) c->encoder[0].layer = 1, c->encoder[0].hidden_norm = true;
    return c;
}

/* The same in transformers' names and in OpenCLIP's, which have queries, keys and values in one
 * matrix. */
static void text_encoders(void)
{
    static float plain[HIDDEN], got[HIDDEN], want[HIDDEN], pooled[WIDTH];
    char hand[256], open[256];
    graft_safetensors *file = open_file(CLIP_FILE);
    const char *config = graft_safetensors_metadata(file, "config");
    made_file *f = copy_file(file, "text_");
    CHECK_INT(multiply_layer(f, ".self_attn.q_proj", some.q), 2 * LAYERS);
    CHECK_INT(multiply_layer(f, ".self_attn.k_proj", some.k), 2 * LAYERS);
    CHECK_INT(multiply_layer(f, ".self_attn.v_proj", some.v), 2 * LAYERS);
    CHECK_INT(multiply_layer(f, ".self_attn.out_proj", some.out), 2 * LAYERS);
    snprintf(hand, sizeof hand, "%s", temp_path("clip-hand.safetensors"));
    snprintf(open, sizeof open, "%s", temp_path("clip-open.safetensors"));
    write_file(f, hand, config);
    write_file(as_openclip(file, LAYERS, WIDTH), open, config);
    graft_safetensors_close(file);
    graft_clip *c[3] = {load_last_layer(CLIP_FILE), load_last_layer(open), load_last_layer(hand)};
    run_encoder(c[2], 0, want, pooled);
    for (int i = 0; i < 2; i++) {
        graft_clip *m = multiplied_clip(c[i], &some), *same = multiplied_clip(c[i], &none);
        run_encoder(c[i], 0, plain, pooled);
        run_encoder(m, 0, got, pooled);
        CHECK(difference(got, want, HIDDEN) < 1e-5);
        CHECK(difference(plain, want, HIDDEN) > 1e-2);
        run_encoder(same, 0, got, pooled);
        CHECK(memcmp(got, plain, sizeof got) == 0);
        graft_clip_release(m);
        graft_clip_release(same);
    }
    for (int i = 0; i < 3; i++) graft_clip_release(c[i]);
    unlink(hand);
    unlink(open);
}

/* A LoRA for one layer's queries and values. */
static void make_text_lora(char path[256])
{
    made_file *f = calloc(1, sizeof *f);
    for (int i = 0; i < 4; i++) {
        char name[256];
        snprintf(name, sizeof name,
                 "lora_te_text_model_encoder_layers_1_self_attn_%s.lora_%s.weight",
                 i % 2 ? "v_proj" : "q_proj", i / 2 ? "up" : "down");
        add_tensor(f, name, 2, (int64_t[]){i / 2 ? WIDTH : 3, i / 2 ? 3 : WIDTH}, NULL, 0.3f);
    }
    snprintf(path, 256, "%s", temp_path("text-lora.safetensors"));
    write_file(f, path, NULL);
}

static graft_clip *clip_with_lora(const graft_clip *c, const char *path, double strength)
{
    graft_clip *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_lora_apply(NULL, c, path, 0, strength, NULL, NULL, &out, &e), &e);
    return out;
}

/* A merge by hand of OpenCLIP's matrix: 0.25 of the encoder with its LoRA, whose queries, keys and
 * values count 1.5, 0.75 and 0.5 times, and 0.75 of it as it is. */
static void loras_of_joined_rows(void)
{
    static float got[HIDDEN], want[HIDDEN], pooled[WIDTH];
    char lora[256], open[256], saved[256];
    graft_err e = GRAFT_ERR_INIT;
    graft_safetensors *file = open_file(CLIP_FILE);
    const char *config = graft_safetensors_metadata(file, "config");
    make_text_lora(lora);
    snprintf(open, sizeof open, "%s", temp_path("clip-open.safetensors"));
    snprintf(saved, sizeof saved, "%s", temp_path("clip-saved.safetensors"));
    write_file(as_openclip(file, LAYERS, WIDTH), open, config);
    graft_clip *c = load_last_layer(open), *l = clip_with_lora(c, lora, 0.7), *mixed = NULL;
    const graft_attention_factors thirds = {some.q, some.k, some.v, 1};
    graft_clip *m = multiplied_clip(l, &thirds);
    CHECK_OK(graft_clip_merge(m, c, 0.25, &mixed, &e), &e);
    run_encoder(mixed, 0, got, pooled);
    /* The encoder in transformers' names, where the same is three layers. */
    graft_clip *h = load_last_layer(CLIP_FILE), *hl = clip_with_lora(h, lora, 0.7), *hx = NULL;
    graft_clip *hm = multiplied_clip(hl, &thirds);
    CHECK_OK(graft_clip_merge(hm, h, 0.25, &hx, &e), &e);
    run_encoder(hx, 0, want, pooled);
    CHECK(difference(got, want, HIDDEN) < 1e-5);
    run_encoder(c, 0, got, pooled);
    CHECK(difference(got, want, HIDDEN) > 1e-3);
    /* What is saved of it is that. */
    const graft_checkpoint kept = {.clip = mixed, .encoder = 1};
    CHECK_OK(graft_checkpoint_save(&kept, saved, NULL, NULL, &e), &e);
    graft_safetensors *s = open_file(saved), *o = open_file(open);
    const char *name = "transformer.resblocks.0.attn.in_proj_weight";
    const graft_st_tensor *was = graft_safetensors_find(o, name);
    const graft_st_tensor *is = graft_safetensors_find(s, name);
    CHECK(was && is);
    if (was && is) {
        float *x = values_of(was), *y = values_of(is);
        const double by[3] = {some.q, some.k, some.v};
        for (int64_t i = 0; i < 3 * WIDTH * WIDTH; i++) {
            double factor = 0.25 * by[i / (WIDTH * WIDTH)] + 0.75;
            CHECK(fabs((double)y[i] - factor * (double)x[i]) <= 1e-6 * fabs((double)x[i]) + 1e-9);
        }
        free(x);
        free(y);
    }
    graft_safetensors_close(s);
    graft_safetensors_close(o);
    graft_safetensors_close(file);
    graft_clip *all[] = {c, l, mixed, m, h, hl, hx, hm};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) graft_clip_release(all[i]);
    unlink(lora);
    unlink(open);
    unlink(saved);
}

/* A patch of the whole joined matrix is cut where the factors differ. */
static void patches_are_cut(void)
{
    static float got[HIDDEN], want[HIDDEN], pooled[WIDTH];
    char lora[256], hand[256], open[256];
    graft_safetensors *file = open_file(CLIP_FILE);
    const char *config = graft_safetensors_metadata(file, "config");
    const char *name = "transformer.resblocks.1.attn.in_proj_weight";
    made_file *f = calloc(1, sizeof *f), *o = as_openclip(file, LAYERS, WIDTH);
    float *diff = add_tensor(f, "transformer.resblocks.1.attn.in_proj_weight.diff", 2,
                             (int64_t[]){3 * WIDTH, WIDTH}, NULL, 0.2f);
    snprintf(open, sizeof open, "%s", temp_path("clip-open.safetensors"));
    snprintf(hand, sizeof hand, "%s", temp_path("clip-hand.safetensors"));
    snprintf(lora, sizeof lora, "%s", temp_path("whole.safetensors"));
    write_again(o, open, config);
    graft_st_tensor *t = made_find(o, name);
    for (int64_t i = 0; i < 3 * WIDTH * WIDTH; i++)
        ((float *)(uintptr_t)t->data)[i] += 0.5f * diff[i];
    const double by[3] = {some.q, some.k, some.v};
    for (int l = 0; l < LAYERS; l++)
        for (int k = 0; k < 3; k++) {
            char called[96];
            snprintf(called, sizeof called, "transformer.resblocks.%d.attn.in_proj_weight", l);
            multiply(made_find(o, called), k * WIDTH * WIDTH, WIDTH * WIDTH, by[k]);
            snprintf(called, sizeof called, "transformer.resblocks.%d.attn.in_proj_bias", l);
            multiply(made_find(o, called), k * WIDTH, WIDTH, by[k]);
        }
    write_file(o, hand, config);
    write_file(f, lora, NULL);
    graft_safetensors_close(file);
    /* Straight to the weight set: no program writes such keys for text encoders. */
    graft_err e = GRAFT_ERR_INIT;
    graft_safetensors *p = open_file(lora);
    graft_weights *owner = NULL, *w = NULL;
    CHECK_OK(graft_weights_create(p, &owner, &e), &e);
    const graft_patch_source source = {
        .part = {{.whole = graft_weights_find(owner,
                                              "transformer.resblocks.1.attn.in_proj_weight.diff")}},
        .alpha = NAN};
    graft_patch patch = graft_patch_make(&source, 0, 0);
    patch.strength = 0.5f;
    graft_clip *c = load_last_layer(open), *h = load_last_layer(hand);
    CHECK_OK(graft_weights_patch(c->encoder[0].weights, &name, &patch, 1, owner, &w, &e), &e);
    graft_weights_release(owner);
    graft_weights_release(c->encoder[0].weights);
    c->encoder[0].weights = w;
    const graft_attention_factors thirds = {some.q, some.k, some.v, 1};
    graft_clip *m = multiplied_clip(c, &thirds);
    run_encoder(m, 0, got, pooled);
    run_encoder(h, 0, want, pooled);
    CHECK(difference(got, want, HIDDEN) < 1e-5);
    graft_clip *all[] = {c, h, m};
    for (int i = 0; i < 3; i++) graft_clip_release(all[i]);
    unlink(lora);
    unlink(open);
    unlink(hand);
}

/* ------------------------------------------------------------------ parts */

static double ratio_by_hand(const char *name, const char *const *prefix, const double *ratio, int n)
{
    for (int i = 0; i < n; i++)
        if (strncmp(name, prefix[i], strlen(prefix[i])) == 0) return ratio[i];
    return ratio[0];
}

/* The file, with all its weights changed by up to half. */
static void write_variant(const char *of, const char *path)
{
    graft_safetensors *file = open_file(of);
    made_file *f = copy_file(file, "");
    for (size_t i = 0; i < f->n; i++) {
        float *v = (float *)(uintptr_t)f->tensor[i].data;
        int64_t n = shape_count(f->tensor[i].shape, f->tensor[i].rank);
        for (int64_t k = 0; k < n; k++) v[k] *= 1 + 0.5f * random_value();
    }
    write_file(f, path, graft_safetensors_metadata(file, "config"));
    graft_safetensors_close(file);
}

/* What CheckpointSave writes of the merge is what each tensor comes to. prefix[0]: of what nothing
 * else fits. */
static void merge_by_parts(const char *of, const char *const *prefix, const double *ratio, int n)
{
    char path[256], saved[256];
    graft_err e = GRAFT_ERR_INIT;
    graft_merge_part part[8];
    int used[8] = {0}, wrong = 0;
    snprintf(path, sizeof path, "%s", temp_path("variant.safetensors"));
    snprintf(saved, sizeof saved, "%s", temp_path("parts.safetensors"));
    write_variant(of, path);
    for (int i = 0; i < n; i++) part[i] = (graft_merge_part){prefix[i], ratio[i]};
    graft_model *a = load_model(engine, of), *b = load_model(engine, path), *m = NULL;
    CHECK_OK(graft_model_merge_parts(a, b, part, (size_t)n, &m, &e), &e);
    CHECK_OK(graft_checkpoint_save(&(graft_checkpoint){.model = m}, saved, NULL, NULL, &e), &e);
    graft_safetensors *s = open_file(saved), *x = open_file(of), *y = open_file(path);
    for (size_t i = 0; s && i < graft_safetensors_count(s); i++) {
        const graft_st_tensor *t = graft_safetensors_at(s, i);
        const graft_st_tensor *p = graft_safetensors_find(x, t->name);
        const graft_st_tensor *q = graft_safetensors_find(y, t->name);
        if (strncmp(t->name, UNET, strlen(UNET)) != 0) continue;
        double r = ratio_by_hand(t->name + strlen(UNET), prefix, ratio, n);
        for (int k = 0; k < n; k++) used[k] += r == ratio[k];
        CHECK(p && q);
        if (!p || !q) continue;
        float *v = values_of(t), *u = values_of(p), *w = values_of(q);
        for (int64_t k = 0; k < shape_count(t->shape, t->rank); k++) {
            double want = r * (double)u[k] + (1 - r) * (double)w[k];
            wrong += fabs((double)v[k] - want) > 1e-6 * fabs((double)u[k]) + 1e-9;
        }
        free(v);
        free(u);
        free(w);
    }
    CHECK_INT(wrong, 0);
    for (int k = 0; k < n; k++) CHECK(used[k] > 0);
    graft_safetensors_close(s);
    graft_safetensors_close(x);
    graft_safetensors_close(y);
    RELEASE_ALL(a, b, m);
    unlink(path);
    unlink(saved);
}

static void parts_of_sd3(void)
{
    static const char *const prefix[] = {"pos_embed.", "x_embedder.", "joint_blocks.0.",
                                         "joint_blocks.1.", "final_layer."};
    merge_by_parts(MMDIT3, prefix, (const double[]){0.5, 0.25, 0.0, 0.875, 1.0}, 5);
}

static void parts_of_flux(void)
{
    static const char *const prefix[] = {"img_in.", "guidance_in", "double_blocks.0.",
                                         "single_blocks.1.", "final_layer."};
    merge_by_parts(FLUX_FILE, prefix, (const double[]){0.5, 0.25, 0.0, 0.875, 1.0}, 5);
}

/* The longest prefix counts, whatever stands first. */
static void longest(void)
{
    float got[OUT], want[OUT];
    char path[256];
    graft_err e = GRAFT_ERR_INIT;
    const graft_merge_part part[] = {{"time_embed.", 1},
                                     {"input_blocks.1", 0.25},
                                     {"input_blocks.1.", 1},
                                     {"input_blocks.10.", 1},
                                     {"input_blocks.11.", 1}};
    make_variant(path, "b.safetensors", 0.5f, GRAFT_F32);
    graft_model *a = load_model(engine, SD1), *b = load_model(engine, path), *m = NULL, *n = NULL;
    CHECK_OK(graft_model_merge_parts(a, b, part, 5, &m, &e), &e);
    run_model(a, want);
    run_model(m, got); /* nothing begins so that is none of the longer ones */
    CHECK(same_bits(got, want));
    const graft_merge_part bad = {"out.", NAN};
    CHECK_INT(graft_model_merge_parts(a, b, &bad, 1, &n, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "out."));
    CHECK_INT(graft_model_merge_parts(a, b, &bad, 0, &n, &e), GRAFT_E_ARG);
    CHECK_INT(graft_model_multiply_attention(a, true, &(graft_attention_factors){1, INFINITY, 1, 1},
                                             &n, &e),
              GRAFT_E_ARG);
    CHECK(strstr(e.text, "keys"));
    RELEASE_ALL(a, b, m);
    unlink(path);
}

static void report(void)
{
    graft_err e = GRAFT_ERR_INIT;
    char *text = NULL;
    graft_model *m = load_model(engine, SD1), *n = multiplied(m, true, &some);
    CHECK_OK(graft_model_report(n, NULL, NULL, &text, NULL, &e), &e);
    CHECK(text && strstr(text, "  merged from  unet_sd1.safetensors times 0.5 to 1.5"));
    graft_text_free(text);
    RELEASE_ALL(m, n);
}

static void short_of_memory(void)
{
    char path[256];
    graft_err e = GRAFT_ERR_INIT;
    graft_alloc_stats before, after;
    make_lora(path, "lora.safetensors");
    graft_model *m = load_model(engine, SD1), *l = with_lora(m, path, 0.8);
    graft_alloc_stats_get(&before);
    graft_status st = GRAFT_E_NOMEM;
    int64_t n = 0;
    while (st == GRAFT_E_NOMEM && n < 1000) {
        graft_model *out = NULL;
        graft_alloc_fail_at(++n);
        st = graft_model_multiply_attention(l, false, &some, &out, &e);
        graft_alloc_fail_at(0);
        graft_model_release(out);
        graft_alloc_stats_get(&after);
        CHECK_INT(after.live_blocks, before.live_blocks);
    }
    CHECK_INT(st, GRAFT_OK);
    CHECK(n > 4);
    RELEASE_ALL(m, l);
    unlink(path);
}

int main(void)
{
    engine = make_engine("cpu");
    if (engine) {
        RUN(of_self);
        RUN(of_cross);
        RUN(as_it_was);
        RUN(with_loras);
        RUN(with_doras);
        RUN(text_encoders);
        RUN(loras_of_joined_rows);
        RUN(patches_are_cut);
        RUN(parts_of_sd3);
        RUN(parts_of_flux);
        RUN(longest);
        RUN(report);
        RUN(short_of_memory);
    }
    graft_engine_destroy(engine);
    return test_end();
}
