/* Krea 2: which files it is found in and under which names, prompts of any length, and what does
 * not go with it. What the network computes is held against golden/small/krea2_*. */
#include <math.h>

#include "engine/exec/invariants.h"
#include "engine/models/krea2.h"
#include "tests/engine/network_changes.h"

static graft_engine *engine;

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define TWO      GRAFT_SOURCE_DIR "/golden/small/krea2_two.safetensors"
#define ONE      GRAFT_SOURCE_DIR "/golden/small/krea2_one.safetensors"

enum { VALUES = 16 * SIDE * SIDE, WORDS_MAX = 96, WIDTH_MAX = 192 };

static void evaluate(const graft_model *m, uint64_t seed, int words, const float *x, float t,
                     float out[VALUES])
{
    static float context[WORDS_MAX * WIDTH_MAX];
    const float y = (float)words;
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK(m->arch.context_dim <= WIDTH_MAX && words <= WORDS_MAX);
    for (int64_t i = 0; i < words * m->arch.context_dim; i++)
        context[i] = fixed_value(seed + (uint64_t)i);
    memset(out, 0, VALUES * sizeof *out);
    graft_status st = graft_model_bind(m, 1, SIDE, SIDE, words, NULL, &b, &e);
    if (!st)
        st = graft_exe_run(b, m->engine->arenas, (const void *[]){x, &t, context, &y},
                           (void *[]){out}, NULL, NULL, &e);
    CHECK_OK(st, &e);
    graft_binding_release(b);
}

static void run_some(const graft_model *m, float out[VALUES])
{
    float x[VALUES];
    for (size_t i = 0; i < VALUES; i++) x[i] = fixed_value(i);
    evaluate(m, 20000, 5, x, 400, out);
}

/* ------------------------------------------------------------------ names */

/* What diffusers calls them, written down here once more; longer ones before those they end with.
 */
static const char *const renamed[][2] = {{".prenorm.scale", ".norm1.weight"},
                                         {".postnorm.scale", ".norm2.weight"},
                                         {".qknorm.qnorm.scale", ".norm_q.weight"},
                                         {".qknorm.knorm.scale", ".norm_k.weight"},
                                         {".attn.wq.", ".attn.to_q."},
                                         {".attn.wk.", ".attn.to_k."},
                                         {".attn.wv.", ".attn.to_v."},
                                         {".attn.gate.", ".attn.to_gate."},
                                         {".attn.wo.", ".attn.to_out.0."},
                                         {".mlp.", ".ff."},
                                         {".mod.lin", ".scale_shift_table"},
                                         {"last.modulation.lin", "final_layer.scale_shift_table"},
                                         {"last.norm.scale", "final_layer.norm.weight"},
                                         {"last.linear.", "final_layer.linear."},
                                         {"first.", "img_in."},
                                         {"tmlp.0.", "time_embed.linear_1."},
                                         {"tmlp.2.", "time_embed.linear_2."},
                                         {"tproj.1.", "time_mod_proj."},
                                         {"txtmlp.0.scale", "txt_in.norm.weight"},
                                         {"txtmlp.1.", "txt_in.linear_1."},
                                         {"txtmlp.3.", "txt_in.linear_2."}};

static const char *theirs(const char *ours)
{
    static char text[8][256];
    static int turn;
    char *p = text[turn++ & 7];
    const char *list = "", *rest = ours;
    if (strncmp(ours, "blocks.", 7) == 0) list = "transformer_";
    if (strncmp(ours, "txtfusion.", 10) == 0) {
        list = "text_fusion.";
        rest += 10;
    }
    snprintf(p, sizeof text[0], "%s%s", list, rest);
    for (size_t i = 0; i < COUNT(renamed); i++) {
        const char *at = strstr(rest, renamed[i][0]);
        if (!at || (renamed[i][0][0] != '.' && at != rest)) continue;
        snprintf(p, sizeof text[0], "%s%.*s%s%s", list, (int)(at - rest), rest, renamed[i][1],
                 at + strlen(renamed[i][0]));
        break;
    }
    return p;
}

/* The network in diffusers' names: a block's vectors are rows there. */
static made_file *diffusers_krea2(const char *path)
{
    made_file *own = part_of_file(path, UNET), *d = calloc(1, sizeof *d);
    for (size_t i = 0; i < own->n; i++) {
        const graft_st_tensor *t = &own->tensor[i];
        int64_t shape[GRAFT_MAX_RANK];
        int rank = t->rank;
        memcpy(shape, t->shape, sizeof shape);
        if (strstr(t->name, ".mod.lin")) {
            shape[1] = shape[0] / 6;
            shape[0] = 6;
            rank = 2;
        }
        add_tensor(d, theirs(t->name), rank, shape, t->data, 0);
    }
    finish_file(own);
    return d;
}

static const char *written(const char *checkpoint, const char *name)
{
    const char *path = temp_path(name);
    write_file(diffusers_krea2(checkpoint), path, config_of(checkpoint));
    return path;
}

/* ------------------------------------------------------------------ loading */

static void kinds(void)
{
    graft_model *two = load_model(engine, TWO), *one = load_model(engine, ONE);
    const graft_krea2_arch *a = &two->arch.krea2, *b = &one->arch.krea2;
    CHECK(a->depth == 2 && a->heads == 3 && a->key_heads == 1 && a->hidden == 48 && a->mlp == 80);
    CHECK(a->rope_dim == 6 && a->patch == 2 && a->channels == 16 && a->time_dim == 256);
    CHECK(a->text_layers == 5 && a->text_width == 24 && a->text_heads == 3);
    CHECK(a->text_key_heads == 3 && a->text_mlp == 40 && a->layer_depth == 2);
    CHECK(a->token_depth == 1 && two->arch.context_dim == 120);
    CHECK(b->depth == 1 && b->heads == 4 && b->key_heads == 2 && b->rope_dim == 2);
    CHECK(b->text_layers == 12 && b->text_heads == 4 && b->text_key_heads == 2);
    CHECK(b->layer_depth == 1 && b->token_depth == 2 && one->arch.context_dim == 192);
    for (int i = 0; i < 2; i++) {
        const graft_model *m = i ? one : two;
        CHECK(m->arch.kind == GRAFT_NET_KREA2 && !m->arch.adm_channels && !m->arch.beside);
        CHECK(m->prediction == GRAFT_PREDICT_FLOW && m->arch.latent_channels == 16);
        CHECK_NEAR(m->flow_shift, 3.158193, 1e-6);
        CHECK(m->planes == &graft_wan_planes);
        CHECK(memcmp(&m->preview, &graft_preview_wan, sizeof m->preview) == 0);
        CHECK_STR(graft_net_kind_name(&m->arch), "krea2");
    }
    RELEASE_ALL(two, one);
}

/* As its authors publish it: without a prefix, and three eighths of a head turn with the row. */
static void as_published(void)
{
    const char *path = temp_path("plain.safetensors");
    write_file(part_of_file(TWO, UNET), path, NULL);
    same_in_file(engine, TWO, path, run_some);
}

static void same_in_diffusers_names(void)
{
    same_in_file(engine, TWO, written(TWO, "transformer.safetensors"), run_some);
    same_in_file(engine, ONE, written(ONE, "transformer.safetensors"), run_some);
}

static void saved(void)
{
    const char *path = temp_path("plain.safetensors");
    write_file(part_of_file(TWO, UNET), path, config_of(TWO));
    saved_like(engine, path, TWO);
    unlink(path);
}

static void no_memory_for_names(void)
{
    const char *path = written(ONE, "oom.safetensors");
    adopt_short_of_memory(path, graft_diffusers_adopt_net);
    unlink(path);
}

/* As ComfyUI-GGUF names it. */
static void gguf(void)
{
    same_in_gguf(engine, ONE, "krea2", config_of(ONE), run_some);
}

/* ------------------------------------------------------------------ damage */

static void refused(made_file *f, graft_status status, const char *words)
{
    graft_err e = GRAFT_ERR_INIT;
    check_refused(engine, f, config_of(TWO), status, words, &e);
}

/* Any of them, in either's names. */
static void without_tensors(void)
{
    made_file *all = part_of_file(TWO, UNET);
    CHECK(all->n == 5 * 12 + 2 + 18);
    for (size_t i = 0; i < all->n; i++)
        for (int other = 0; other < 2; other++) {
            made_file *f = other ? diffusers_krea2(TWO) : part_of_file(TWO, UNET);
            const char *name = all->tensor[i].name, *called = other ? theirs(name) : name;
            drop_tensor(f, called);
            if (strcmp(name, GRAFT_KREA2_TENSOR) == 0) { /* by which it is told */
                graft_err e = GRAFT_ERR_INIT;
                check_refused(engine, f, NULL, GRAFT_E_UNSUPPORTED, "unknown architecture", &e);
            } else {
                refused(f, GRAFT_E_FORMAT, called);
            }
        }
    finish_file(all);
}

static void other_shape(const char *name, int rank, int64_t a, int64_t b, graft_status status,
                        const char *words)
{
    made_file *f = part_of_file(TWO, UNET);
    drop_tensor(f, name);
    add_tensor(f, name, rank, (int64_t[]){a, b}, NULL, 0.1f);
    refused(f, status, words);
}

static void of_another_kind(void)
{
    static const char norm[] = "blocks.0.attn.qknorm.qnorm.scale";
    static const char of_text[] = "txtfusion.layerwise_blocks.0.attn.wk.weight";
    graft_err e = GRAFT_ERR_INIT;
    other_shape(norm, 1, 15, 0, GRAFT_E_UNSUPPORTED, "heads of 15");
    other_shape(norm, 1, 0, 0, GRAFT_E_FORMAT, norm);
    other_shape("blocks.0.attn.wq.weight", 2, 32, 48, GRAFT_E_UNSUPPORTED, "32 rows of queries");
    other_shape("blocks.0.attn.wk.weight", 2, 32, 48, GRAFT_E_UNSUPPORTED, "32 of keys");
    other_shape(of_text, 2, 12, 24, GRAFT_E_UNSUPPORTED, "12 of keys, in heads of 8");
    other_shape("blocks.1.attn.wk.weight", 2, 48, 48, GRAFT_E_FORMAT, "blocks.1.attn.wk.weight");
    other_shape("first.weight", 2, 48, 63, GRAFT_E_FORMAT, "first.weight");
    other_shape("last.linear.weight", 2, 128, 48, GRAFT_E_FORMAT, "last.linear.weight");
    other_shape("last.modulation.lin", 2, 3, 48, GRAFT_E_FORMAT, "last.modulation.lin");
    other_shape("last.modulation.lin", 2, 5, 19, GRAFT_E_FORMAT, "last.modulation.lin");
    other_shape("blocks.1.mod.lin", 1, 5 * 48, 0, GRAFT_E_FORMAT, "blocks.1.mod.lin");
    other_shape("blocks.1.prenorm.scale", 1, 47, 0, GRAFT_E_FORMAT, "blocks.1.prenorm.scale");
    made_file *f = diffusers_krea2(TWO);
    add_tensor(f, "text_fusion.layerwise_blocks.0.attn.to_q.bias", 1, (int64_t[]){24}, NULL, 1);
    refused(f, GRAFT_E_UNSUPPORTED, "Krea 2's transformer has no tensor text_fusion.layerwise");
    f = diffusers_krea2(TWO);
    add_tensor(f, "transformer_blocks.70000.norm1.weight", 1, (int64_t[]){16}, NULL, 1);
    refused(f, GRAFT_E_UNSUPPORTED, "has no tensor transformer_blocks.70000");
    f = part_of_file(TWO, UNET);
    check_refused(engine, f, "{\"rope_dim\": 10}", GRAFT_E_UNSUPPORTED, "of which 10 turn", &e);
}

/* By a loader of something else it is told by its name. */
static void told_by_its_name(void)
{
    const char *path = temp_path("transformer.safetensors");
    for (int i = 0; i < 2; i++) {
        graft_err e = GRAFT_ERR_INIT;
        graft_clip *c = NULL;
        write_file(i ? diffusers_krea2(TWO) : part_of_file(TWO, UNET), path, NULL);
        CHECK_INT(graft_clip_load(engine, &path, 1, "krea2", NULL, &c, &e), GRAFT_E_UNSUPPORTED);
        CHECK(!c && strstr(e.text, "no Qwen 3 text encoder in it"));
        CHECK(strstr(e.text, "a diffusion transformer (Krea 2)") && strstr(e.text, "UNETLoader"));
        unlink(path);
    }
}

/* Some files carry two matrices more, which no published network reads. */
static void with_more_than_it_reads(void)
{
    const char *path = temp_path("more.safetensors");
    made_file *f = part_of_file(TWO, UNET);
    add_tensor(f, "last.down.weight", 2, (int64_t[]){48, 48}, NULL, 1);
    add_tensor(f, "last.up.weight", 2, (int64_t[]){48, 48}, NULL, 1);
    write_file(f, path, config_of(TWO));
    graft_model *a = load_model(engine, TWO), *b = load_model(engine, path);
    answer_alike(a, b, run_some);
    RELEASE_ALL(a, b);
    unlink(path);
}

static void what_does_not_go_with_it(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, TWO), *out = NULL;
    graft_binding *b = NULL;
    const graft_deepcache_options cache = {.schedule = "uniform", .cache_interval = 3};
    CHECK_INT(graft_model_deepcache(m, &cache, &out, &e), GRAFT_E_UNSUPPORTED);
    CHECK_INT(graft_model_perturbed_attention(m, 3, &out, &e), GRAFT_E_UNSUPPORTED);
    CHECK_INT(graft_model_skip_layers(m, "1", 3, 0, 1, &out, &e), GRAFT_E_UNSUPPORTED);
    CHECK_INT(graft_model_sampling(m, "v_prediction", false, &out, &e), GRAFT_E_UNSUPPORTED);
    CHECK(!out && !graft_net_told_guidance(&m->arch) && !graft_net_takes_references(&m->arch));
    CHECK_INT(graft_model_bind(m, 1, 8, 1 << 20, 32, NULL, &b, &e), GRAFT_E_LIMIT);
    CHECK_INT(graft_model_bind(m, 1, 8, 8, 1 << 20, NULL, &b, &e), GRAFT_E_LIMIT);
    CHECK_INT(graft_model_bind(m, 1, 8, 8, 0, NULL, &b, &e), GRAFT_E_ARG);
    CHECK(!b);
    graft_unet_shape shape = {
        .batch = 1, .height = 8, .width = 8, .tokens = 32, .act_dtype = GRAFT_F16};
    graft_graph *g = NULL;
    CHECK_INT(graft_net_build(&m->arch, &shape, 1, &g, &e), GRAFT_E_UNSUPPORTED);
    shape.act_dtype = GRAFT_F32;
    shape.control = 1;
    CHECK_INT(graft_net_build(&m->arch, &shape, 1, &g, &e), GRAFT_E_UNSUPPORTED);
    shape.control = 0;
    shape.references.n = 1;
    CHECK_INT(graft_net_build(&m->arch, &shape, 1, &g, &e), GRAFT_E_UNSUPPORTED);
    shape.references.n = 0;
    shape.width = 7;
    CHECK_INT(graft_net_build(&m->arch, &shape, 1, &g, &e), GRAFT_E_ARG);
    CHECK(!g);
    graft_model_release(m);
}

/* ------------------------------------------------------------------ LoRAs */

static float *matrix(made_file *f, const char *layer, const char *part, int64_t rows,
                     int64_t columns)
{
    char name[300];
    snprintf(name, sizeof name, "%s.%s.weight", layer, part);
    return add_tensor(f, name, 2, (int64_t[]){rows, columns}, NULL, 0.5f);
}

/* A LoRA of one weight by this name, and the network with it. */
static void write_lora(const char *weight, const char *name, const char *lora, const char *whole)
{
    made_file *f = calloc(1, sizeof *f), *m = part_of_file(TWO, UNET);
    graft_st_tensor *t = made_find(m, weight);
    const int64_t rows = t->shape[0], columns = t->shape[1];
    char layer[256];
    snprintf(layer, sizeof layer, "%.*s", (int)(strlen(name) - strlen(".weight")), name);
    const float *up = matrix(f, layer, "lora_B", rows, 2);
    const float *down = matrix(f, layer, "lora_A", 2, columns);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            ((float *)(uintptr_t)t->data)[r * columns + c] +=
                up[2 * r] * down[c] + up[2 * r + 1] * down[columns + c];
    write_file(f, lora, NULL);
    write_file(m, whole, config_of(TWO));
}

/* Each layer alone, in the names of both: that none is taken for another, and that every one
 * changes something. */
static void loras(void)
{
    const char *lora = temp_path("lora.safetensors"), *whole = temp_path("merged.safetensors");
    float plain[VALUES], got[VALUES], want[VALUES];
    graft_model *m = load_model(engine, TWO);
    made_file *f = part_of_file(TWO, UNET);
    size_t n = 0;
    run_some(m, plain);
    for (size_t i = 0; i < f->n; i++) {
        const char *ours = f->tensor[i].name;
        if (f->tensor[i].rank != 2 || strstr(ours, ".lin")) continue;
        if (strstr(ours, "layerwise_blocks.1") || strncmp(ours, "blocks.1", 8) == 0) continue;
        for (int other = 0; other < 2; other++, n++) {
            char name[300];
            snprintf(name, sizeof name, "%s.%s", other ? "transformer" : "diffusion_model",
                     other ? theirs(ours) : ours);
            write_lora(ours, name, lora, whole);
            last_log[0] = 0;
            graft_model *w = load_model(engine, whole), *x = with_lora(m, lora, 1);
            CHECK_STR(last_log, "");
            run_some(w, want);
            run_some(x, got);
            CHECK(difference(got, want, VALUES) < 5e-5);
            CHECK(difference(plain, want, VALUES) > 1e-4);
            if (difference(plain, want, VALUES) <= 1e-4) printf("  %s changes nothing\n", ours);
            RELEASE_ALL(w, x);
        }
    }
    CHECK_INT(n, 2 * (3 * 8 + 8 - 1));
    finish_file(f);
    graft_model_release(m);
    unlink(lora);
    unlink(whole);
}

/* The same LoRA in the names of several programs. */
static void loras_in_other_names(void)
{
    static const struct {
        const char *stem, *up, *down;
        bool alpha;
    } names[] = {
        {"diffusion_model.blocks.1.attn.wk", "lora_B", "lora_A", false},
        {"blocks.1.attn.wk", "lora_B", "lora_A", false},
        {"diffusion_model.blocks.1.attn.wk", "lora_up", "lora_down", true},
        {"lora_unet_blocks_1_attn_wk", "lora_up", "lora_down", true},
        {"transformer.transformer_blocks.1.attn.to_k", "lora_B", "lora_A", false},
        {"transformer_blocks.1.attn.to_k", "lora_B.default", "lora_A.default", false},
        {"lora_unet_transformer_blocks_1_attn_to_k", "lora_up", "lora_down", true},
    };
    const char *path = temp_path("lora.safetensors");
    float plain[VALUES], first[VALUES], got[VALUES];
    graft_model *m = load_model(engine, TWO);
    run_some(m, plain);
    for (size_t i = 0; i < COUNT(names); i++) {
        made_file *f = calloc(1, sizeof *f);
        char alpha[200];
        random_state = 11;
        matrix(f, names[i].stem, names[i].up, 16, 2);
        matrix(f, names[i].stem, names[i].down, 2, 48);
        snprintf(alpha, sizeof alpha, "%s.alpha", names[i].stem);
        if (names[i].alpha) add_tensor(f, alpha, 1, (int64_t[]){1}, (const float[]){2}, 0);
        write_file(f, path, NULL);
        last_log[0] = 0;
        graft_model *x = with_lora(m, path, 1);
        CHECK_STR(last_log, "");
        run_some(x, got);
        if (i == 0) memcpy(first, got, sizeof got);
        CHECK(same_answers(m, first, got) && difference(got, plain, VALUES) > 1e-3);
        graft_model_release(x);
    }
    graft_model_release(m);
    unlink(path);
}

/* ------------------------------------------------------------------ sampling */

/* Euler's steps on the network itself; cfg 1: without a negative prompt. */
static void by_hand(const graft_model *m, const int words[2], float cfg, float out[VALUES])
{
    float x[VALUES] = {0}, v[VALUES], w[VALUES];
    double sigma[STEPS + 1] = {0};
    for (int i = 0; i < STEPS; i++) { /* "simple" */
        double share = 1 - (double)(int)(i * (double)m->flow_steps / STEPS) / m->flow_steps;
        sigma[i] = m->flow_shift * share / (1 + (m->flow_shift - 1) * share);
    }
    for (int i = 0; i < STEPS; i++) {
        evaluate(m, 20000, words[0], x, (float)(1000 * sigma[i]), v);
        if (cfg > 1) evaluate(m, 60000, words[1], x, (float)(1000 * sigma[i]), w);
        for (int k = 0; k < VALUES; k++) {
            float d = cfg > 1 ? w[k] + cfg * (v[k] - w[k]) : v[k];
            x[k] += (float)(sigma[i + 1] - sigma[i]) * d;
        }
    }
    graft_model_unscale_latent(m, x, VALUES, SIDE * SIDE, out);
}

/* Prompts are seen as long as they are, and up to 64 tokens run in the same graph, side by side; 65
 * to 128 in another. */
static void prompts_of_any_length(void)
{
    static const int words[][2] = {{5, 9}, {7, 7}, {1, 33}, {64, 2}, {65, 90}, {96, 1}};
    float got[VALUES], want[VALUES], before[VALUES] = {0};
    graft_model *m = load_model(engine, TWO);
    for (size_t i = 0; i < COUNT(words); i++)
        for (int guided = 0; guided < 2; guided++) {
            graft_cond *a = prompt_of(m, 20000, words[i][0]), *b = prompt_of(m, 60000, words[i][1]);
            const uint64_t built = graphs_built(engine);
            sampled(m, a, b, guided ? 4 : 1, got);
            CHECK_INT(graphs_built(engine) - built, i == 0 || i == 4); /* alone, or two at once */
            by_hand(m, words[i], guided ? 4 : 1, want);
            CHECK(difference(got, want, VALUES) < 2e-4 && difference(got, before, VALUES) > 1e-3);
            memcpy(before, got, sizeof got);
            graft_cond_release(a);
            graft_cond_release(b);
        }
    graft_model_release(m);
}

/* The prompt's tokens have no places: in another order they are the same prompt. */
static void order_of_words(void)
{
    enum { WORDS = 6 };
    static float context[2][WORDS * WIDTH_MAX];
    const float t = 300, y = WORDS;
    float x[VALUES], out[2][VALUES];
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, ONE);
    graft_binding *b = NULL;
    for (size_t i = 0; i < VALUES; i++) x[i] = fixed_value(i);
    for (int i = 0; i < WORDS * WIDTH_MAX; i++) {
        context[0][i] = fixed_value(20000 + (uint64_t)i);
        context[1][(WORDS - 1 - i / WIDTH_MAX) * WIDTH_MAX + i % WIDTH_MAX] = context[0][i];
    }
    CHECK_OK(graft_model_bind(m, 1, SIDE, SIDE, WORDS, NULL, &b, &e), &e);
    for (int i = 0; i < 2; i++)
        CHECK_OK(graft_exe_run(b, engine->arenas, (const void *[]){x, &t, context[i], &y},
                               (void *[]){out[i]}, NULL, NULL, &e),
                 &e);
    CHECK(difference(out[0], out[1], VALUES) < 1e-4);
    graft_binding_release(b);
    graft_model_release(m);
}

/* What the network makes of a prompt alone does not change with the time: the blocks of the prompt
 * are computed in the first run of a series, and later ones read no prompt. */
static void prompts_are_read_once(void)
{
    enum { WORDS = 64 };
    static float context[WORDS * WIDTH_MAX];
    const float time[2] = {700, 300};
    float y = 9, x[2][VALUES], want[VALUES], got[VALUES];
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, TWO);
    graft_binding *b = NULL;
    graft_invariants *series = NULL;
    size_t attentions = 0, once = 0;
    for (size_t i = 0; i < 2 * VALUES; i++) x[i / VALUES][i % VALUES] = fixed_value(i);
    for (size_t i = 0; i < WORDS * 120; i++) context[i] = fixed_value(20000 + i);
    CHECK_OK(graft_model_bind(m, 1, SIDE, SIDE, WORDS, NULL, &b, &e), &e);
    if (!b) return;
    for (size_t i = 0; i < b->exe->graph->n_nodes; i++) {
        const bool attends = b->exe->graph->node[i].op == GRAFT_OP_ATTENTION;
        attentions += attends;
        once += attends && b->exe->kept && b->exe->kept[i].invariant;
    }
    CHECK(attentions == 5 && once == 3);
    CHECK_OK(graft_exe_run(b, engine->arenas, (const void *[]){x[1], &time[1], context, &y},
                           (void *[]){want}, NULL, NULL, &e),
             &e);
    CHECK_OK(graft_invariants_create(b->exe, engine->kept, &series, &e), &e);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(graft_exe_run_again(b, engine->arenas, series,
                                     (const void *[]){x[i], &time[i], context, &y}, (void *[]){got},
                                     NULL, &e),
                 &e);
        for (size_t k = 0; k < WORDS * 120; k++) context[k] = NAN;
        y = NAN;
    }
    CHECK(same_answers(m, got, want));
    graft_invariants_destroy(series);
    graft_binding_release(b);
    graft_model_release(m);
}

static void other_schedules(void)
{
    float got[VALUES], want[VALUES], plain[VALUES];
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, TWO), *n = NULL;
    graft_cond *c = prompt_of(m, 20000, 12);
    CHECK_OK(graft_model_sampling_flow(m, 1.73, false, &n, &e), &e);
    CHECK(n->flow_shift == 1.73);
    sampled(m, c, c, 1, plain);
    sampled(n, c, c, 1, got);
    by_hand(n, (const int[]){12, 1}, 1, want);
    CHECK(difference(got, want, VALUES) < 2e-4 && difference(got, plain, VALUES) > 1e-4);
    graft_cond_release(c);
    RELEASE_ALL(m, n);
}

static bool is_kept(const char *layer)
{
    return strcmp(layer, "first") == 0 || strcmp(layer, "last.linear") == 0 ||
           strncmp(layer, "tmlp.", 5) == 0 || strcmp(layer, "tproj.1") == 0 ||
           strcmp(layer, "txtfusion.projector") == 0;
}

static void quantized(void)
{
    const quantized_layers want = {
        .kept = is_kept, .tokens = 32, .attentions = 5, .linears = 5 * 8 + 8};
    quantized_as(engine, TWO, &want, run_some);
}

static void measured(void)
{
    measured_on(engine, TWO, 12, 40);
}

static void halves(void)
{
    halves_add_up(engine, TWO, config_of(TWO), run_some);
}

int main(void)
{
    engine = make_engine("cpu");
    RUN(kinds);
    RUN(as_published);
    RUN(same_in_diffusers_names);
    RUN(saved);
    RUN(no_memory_for_names);
    RUN(gguf);
    RUN(without_tensors);
    RUN(of_another_kind);
    RUN(told_by_its_name);
    RUN(with_more_than_it_reads);
    RUN(what_does_not_go_with_it);
    RUN(loras);
    RUN(loras_in_other_names);
    RUN(prompts_of_any_length);
    RUN(order_of_words);
    RUN(prompts_are_read_once);
    RUN(other_schedules);
    RUN(quantized);
    RUN(measured);
    RUN(halves);
    graft_engine_destroy(engine);
    return test_end();
}
