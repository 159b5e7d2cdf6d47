/* LoRA files of the forms that are no plain product: LoHa, LoKr, whole differences and DoRA. The
 * weights that they make are held against PyTorch's (golden/lora). */
#include "base/alloc.h"
#include "tests/engine/fixture.h"
#include "tests/engine/openclip.h"

#define UNET   "model.diffusion_model."
#define GOLDEN GRAFT_SOURCE_DIR "/golden/lora/"
#define Q      "lora_unet_input_blocks_1_1_transformer_blocks_0_attn1_to_q"

static graft_engine *engine;
static const char *const forms[] = {"loha", "lokr", "difference", "dora"};
#define FORMS (sizeof forms / sizeof *forms)

static const char *file_of(const char *form)
{
    static char path[512];
    snprintf(path, sizeof path, GOLDEN "%s.safetensors", form);
    return path;
}

static graft_model *apply(const graft_model *m, const char *path, double strength)
{
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_lora_apply(m, NULL, path, strength, 0, NULL, &out, NULL, &e), &e);
    return out;
}

/* ------------------------------------------------------------------ the weights */

static void check_values(const graft_model *m, const char *name, const graft_st_tensor *want)
{
    int64_t n = shape_count(want->shape, want->rank);
    float *got = calloc((size_t)n, sizeof *got), *right = values_of(want);
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_weights_patched_values(m->weights, name, graft_weights_find(m->weights, name), n,
                                          got, &e),
             &e);
    double off = difference(got, right, (size_t)n);
    CHECK(off < 2e-6);
    if (off >= 2e-6) fprintf(stderr, "%s: off by %g\n", want->name, off);
    free(got);
    free(right);
}

/* "loha.0.6.model.diffusion_model.…": all that the file changes, and nothing else. */
static void check_form(const graft_model *m, const graft_safetensors *want, const char *form,
                       double strength)
{
    char begin[64];
    size_t found = 0, tensors, patches;
    snprintf(begin, sizeof begin, "%s.%.1f." UNET, form, strength);
    last_log[0] = 0;
    graft_model *l = apply(m, file_of(form), strength);
    CHECK_STR(last_log, "");
    for (size_t i = 0; l && i < graft_safetensors_count(want); i++) {
        const graft_st_tensor *t = graft_safetensors_at(want, i);
        if (strncmp(t->name, begin, strlen(begin)) != 0) continue;
        check_values(l, t->name + strlen(begin), t);
        found++;
    }
    graft_weights_patch_count(l->weights, &tensors, &patches);
    CHECK(found >= 5);
    CHECK_INT(tensors, found);
    CHECK_INT(patches, found);
    graft_model_release(l);
}

static void weights(void)
{
    graft_safetensors *want = open_file(GOLDEN "want.safetensors");
    graft_model *m = load_model(engine, SD1);
    for (size_t i = 0; i < FORMS; i++) {
        check_form(m, want, forms[i], 1.0);
        check_form(m, want, forms[i], 0.6);
    }
    graft_model_release(m);
    graft_safetensors_close(want);
}

/* ------------------------------------------------------------------ the model */

/* A checkpoint with the weights that PyTorch made. */
static graft_model *merged_model(const char *form)
{
    graft_safetensors *base = open_file(SD1), *want = open_file(GOLDEN "want.safetensors");
    made_file *f = copy_file(base, UNET);
    const char *path = temp_path("merged.safetensors");
    for (size_t i = 0; i < f->n; i++) {
        char name[512];
        snprintf(name, sizeof name, "%s.1.0.%s", form, f->tensor[i].name);
        const graft_st_tensor *t = graft_safetensors_find(want, name);
        if (t) memcpy((void *)(uintptr_t)f->tensor[i].data, t->data, t->bytes);
    }
    write_file(f, path, graft_safetensors_metadata(base, "config"));
    graft_model *m = load_model(engine, path);
    unlink(path);
    graft_safetensors_close(base);
    graft_safetensors_close(want);
    return m;
}

static void runs_as_merged(void)
{
    graft_model *m = load_model(engine, SD1);
    float plain[OUT], want[OUT], got[OUT], half[OUT];
    run_model(m, plain);
    for (size_t i = 0; i < FORMS; i++) {
        graft_model *w = merged_model(forms[i]), *l = apply(m, file_of(forms[i]), 1.0);
        graft_model *h = apply(m, file_of(forms[i]), 0.5);
        run_model(w, want);
        run_model(l, got);
        run_model(h, half);
        CHECK(difference(got, want, OUT) < 2e-5);
        CHECK(difference(plain, want, OUT) > 1e-3);
        CHECK(difference(half, want, OUT) > 1e-4);
        graft_model_release(w);
        graft_model_release(l);
        graft_model_release(h);
        run_model(m, got);
        CHECK(same_bits(got, plain));
    }
    graft_model_release(m);
}

/* DoRA is of the base's weights, whatever else is added: the order does not count. */
static void stacked(void)
{
    graft_model *m = load_model(engine, SD1);
    float one[OUT], two[OUT], alone[OUT];
    graft_model *d = apply(m, file_of("dora"), 0.8), *k = apply(m, file_of("lokr"), 0.5);
    graft_model *dk = apply(d, file_of("lokr"), 0.5), *kd = apply(k, file_of("dora"), 0.8);
    run_model(dk, one);
    run_model(kd, two);
    run_model(d, alone);
    CHECK(difference(one, two, OUT) < 2e-5);
    CHECK(difference(one, alone, OUT) > 1e-4);
    graft_model *all[] = {m, d, k, dk, kd};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) graft_model_release(all[i]);
}

/* What is linear is merged; what is not is refused, and goes where its part is nothing. */
static void in_sums(void)
{
    graft_model *m = load_model(engine, SD1), *sum = NULL;
    const double half[3] = {0.5, 0.5, 0.5}, all[3] = {1, 1, 1}, none[3] = {0, 0, 0};
    graft_err e = GRAFT_ERR_INIT;
    float want[OUT], got[OUT];
    for (size_t i = 0; i < FORMS; i++) {
        graft_model *l = apply(m, file_of(forms[i]), 1.0), *h = apply(m, file_of(forms[i]), 0.5);
        graft_weights *w = NULL;
        bool linear = strcmp(forms[i], "dora") != 0;
        CHECK_INT(graft_weights_sum(l->weights, half, m->weights, half, &w, &e),
                  linear ? GRAFT_OK : GRAFT_E_UNSUPPORTED);
        if (linear) {
            sum = graft_model_copy(m);
            graft_weights_release(sum->weights);
            sum->weights = w;
            run_model(sum, got);
            run_model(h, want);
            CHECK(difference(got, want, OUT) < 2e-5);
            graft_model_release(sum);
        } else {
            CHECK(!w && strstr(e.text, "dora_scale") && strstr(e.text, "cannot be merged"));
            CHECK_OK(graft_weights_sum(l->weights, none, m->weights, all, &w, &e), &e);
            graft_weights_release(w);
        }
        graft_model_release(l);
        graft_model_release(h);
    }
    graft_model_release(m);
}

/* ------------------------------------------------------------------ text encoders */

enum { W = 96, LAYERS = 3, HIDDEN = GRAFT_TEXT_CHUNK * W };

static void add(made_file *f, const char *stem, const char *key, int64_t rows, int64_t columns)
{
    char name[256];
    snprintf(name, sizeof name, "lora_te_text_model_encoder_layers_%s.%s", stem, key);
    add_tensor(f, name, columns ? 2 : 1, (const int64_t[]){rows, columns}, NULL, 0.3f);
}

/* OpenCLIP has one matrix where the file's layers are three: rows of it, with biases and lengths.
 */
static void joined_attention(void)
{
    static float plain[HIDDEN], one[HIDDEN], two[HIDDEN], pooled[W];
    const char *clip = GRAFT_SOURCE_DIR "/golden/small/clip_gelu.safetensors";
    const char *path = temp_path("te-forms.safetensors"),
               *open_path = temp_path("open.safetensors");
    made_file *f = calloc(1, sizeof *f);
    graft_safetensors *own = open_file(clip);
    graft_err e = GRAFT_ERR_INIT;
    add(f, "0_self_attn_q_proj", "lokr_w1", 8, 4);
    add(f, "0_self_attn_q_proj", "lokr_w2", W / 8, W / 4);
    add(f, "0_self_attn_q_proj", "diff_b", W, 0);
    add(f, "1_self_attn_v_proj", "lora_up.weight", W, 4);
    add(f, "1_self_attn_v_proj", "lora_down.weight", 4, W);
    add(f, "1_self_attn_v_proj", "dora_scale", W, 1);
    add(f, "2_self_attn_k_proj", "lora_up.weight", W, 4);
    add(f, "2_self_attn_k_proj", "lora_down.weight", 4, W);
    add(f, "2_self_attn_k_proj", "dora_scale", 1, W);
    for (int part = 1; part <= 2; part++) {
        add(f, "1_mlp_fc1", part == 1 ? "hada_w1_a" : "hada_w2_a", 4 * W, 3);
        add(f, "1_mlp_fc1", part == 1 ? "hada_w1_b" : "hada_w2_b", 3, W);
    }
    add(f, "2_layer_norm1", "w_norm", W, 0);
    write_file(f, path, NULL);
    write_file(as_openclip(own, LAYERS, W), open_path, graft_safetensors_metadata(own, "config"));
    graft_clip *c[] = {load_encoder(engine, clip), load_encoder(engine, open_path), NULL, NULL};
    last_log[0] = 0;
    CHECK_OK(graft_lora_apply(NULL, c[0], path, 1, 0.9, NULL, NULL, &c[2], &e), &e);
    CHECK_OK(graft_lora_apply(NULL, c[1], path, 1, 0.9, NULL, NULL, &c[3], &e), &e);
    CHECK_STR(last_log, "");
    /* The two loaders choose other default layers; the same one is compared. */
    for (int i = 0; i < 4; i++)
        if (c[i]) c[i]->encoder[0].layer = 1, c[i]->encoder[0].hidden_norm = true;
    run_encoder(c[0], 0, plain, pooled);
    if (c[2]) run_encoder(c[2], 0, one, pooled);
    if (c[3]) run_encoder(c[3], 0, two, pooled);
    CHECK(difference(plain, one, HIDDEN) > 1e-3);
    CHECK(difference(two, one, HIDDEN) < 1e-5);
    for (int i = 0; i < 4; i++) graft_clip_release(c[i]);
    graft_safetensors_close(own);
    unlink(path);
    unlink(open_path);
}

/* ------------------------------------------------------------------ what is refused */

typedef struct key {
    const char *name;
    int64_t rows, columns; /* columns 0: of rank 1 */
} key;

static const struct {
    key key[5];
    graft_status status;
    const char *words;
} bad[] = {
    {{{Q ".hada_w1_a", 32, 2}, {Q ".hada_w1_b", 2, 32}}, GRAFT_E_FORMAT, "lacks its other part"},
    {{{Q ".hada_w1_a", 32, 2}, {Q ".hada_w1_b", 2, 32}, {Q ".hada_w2_a", 32, 2}},
     GRAFT_E_FORMAT,
     "lacks a factor"},
    {{{Q ".hada_w1_a", 32, 2},
      {Q ".hada_w1_b", 2, 32},
      {Q ".hada_w2_a", 32, 3},
      {Q ".hada_w2_b", 2, 32}},
     GRAFT_E_FORMAT,
     "do not fit"},
    {{{Q ".hada_w1_a", 32, 2},
      {Q ".hada_w1_b", 2, 32},
      {Q ".hada_w2_a", 32, 2},
      {Q ".hada_w2_b", 2, 31}},
     GRAFT_E_FORMAT,
     "do not fit"},
    {{{Q ".lokr_w1", 4, 4}, {Q ".lokr_w2", 8, 7}}, GRAFT_E_FORMAT, "do not fit"},
    {{{Q ".lokr_w1", 4, 4}, {Q ".lokr_w2", 8, 8}, {Q ".lokr_w2_a", 8, 2}},
     GRAFT_E_FORMAT,
     "beside its own factors"},
    {{{Q ".lokr_w1", 4, 4}, {Q ".hada_w2_a", 32, 2}}, GRAFT_E_FORMAT, "of LoHa and of LoKr"},
    {{{Q ".lokr_w1", 4, 4}}, GRAFT_E_FORMAT, "lacks its other part"},
    {{{Q ".lokr_w1", 0, 4}, {Q ".lokr_w2", 8, 8}}, GRAFT_E_FORMAT, "do not fit"},
    {{{Q ".lora_up.weight", 32, 2}, {Q ".lora_down.weight", 2, 32}, {Q ".diff", 32, 32}},
     GRAFT_E_FORMAT,
     "more than one form"},
    {{{Q ".diff", 32, 31}}, GRAFT_E_FORMAT, "do not fit"},
    {{{Q ".diff", 32, 0}}, GRAFT_E_FORMAT, "do not fit"},
    {{{Q ".diff_b", 32, 0}}, GRAFT_E_FORMAT, "has no bias"},
    {{{"lora_unet_time_embed_2.diff_b", 127, 0}}, GRAFT_E_FORMAT, "do not fit"},
    {{{Q ".dora_scale", 32, 1}}, GRAFT_E_FORMAT, "has no up part"},
    {{{Q ".lora_up.weight", 32, 2}, {Q ".lora_down.weight", 2, 32}, {Q ".dora_scale", 31, 1}},
     GRAFT_E_FORMAT,
     "dora_scale (31,1)"},
    {{{Q ".lora_up.weight", 32, 2}, {Q ".lora_down.weight", 2, 32}, {Q ".dora_scale", 1, 31}},
     GRAFT_E_FORMAT,
     "do not fit"},
    {{{Q ".oft_blocks", 4, 4}}, GRAFT_E_UNSUPPORTED, "OFT"},
    {{{Q ".a1.weight", 4, 4}}, GRAFT_E_UNSUPPORTED, "GLoRA"},
};

static void refused(void)
{
    const char *path = temp_path("bad-forms.safetensors");
    graft_model *m = load_model(engine, SD1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        made_file *f = calloc(1, sizeof *f);
        for (const key *k = bad[i].key; k < bad[i].key + 5 && k->name; k++)
            add_tensor(f, k->name, k->columns ? 2 : 1, (const int64_t[]){k->rows, k->columns}, NULL,
                       1);
        write_file(f, path, NULL);
        graft_model *out = NULL;
        graft_err e = GRAFT_ERR_INIT;
        CHECK_INT(graft_lora_apply(m, NULL, path, 1, 0, NULL, &out, NULL, &e), bad[i].status);
        CHECK(!out && strstr(e.text, bad[i].words) && strstr(e.text, "bad-forms.safetensors"));
        if (!strstr(e.text, bad[i].words)) fprintf(stderr, "case %zu: %s\n", i, e.text);
    }
    graft_model_release(m);
    unlink(path);
}

/* Every allocation of an apply and of the weights that it makes fails once. */
static void short_of_memory(void)
{
    graft_model *m = load_model(engine, SD1);
    for (size_t i = 0; i < FORMS; i++) {
        graft_alloc_stats before, after;
        int64_t n = 0;
        float warm[OUT]; /* what the engine keeps, it has from here on */
        graft_model *first = apply(m, file_of(forms[i]), 0.5);
        run_model(first, warm);
        graft_model_release(first);
        graft_engine_release_unused(engine);
        graft_alloc_stats_get(&before);
        for (bool done = false; !done && n < 200000; n += n / 50) {
            graft_model *l = NULL;
            graft_err e = GRAFT_ERR_INIT;
            float out[OUT];
            graft_alloc_fail_at(++n);
            graft_status st =
                graft_lora_apply(m, NULL, file_of(forms[i]), 0.5, 0, NULL, &l, NULL, &e);
            if (!st) st = try_model(l, out, &e);
            done = graft_alloc_fail_at(0) > 0; /* some failures do no harm */
            CHECK(st == GRAFT_E_NOMEM || (!st && same_bits(out, warm)));
            graft_model_release(l);
        }
        CHECK(n > 20 && n < 200000);
        graft_engine_release_unused(engine);
        graft_alloc_stats_get(&after);
        CHECK_INT(after.live_blocks, before.live_blocks);
    }
    graft_model_release(m);
}

int main(void)
{
    static const char *const backends[] = {"ref", "cpu"};
    for (int i = 0; i < 2; i++) {
        engine = make_engine(backends[i]);
        if (!engine) return test_end();
        RUN(weights);
        RUN(runs_as_merged);
        RUN(joined_attention);
        if (i == 1) {
            RUN(stacked);
            RUN(in_sums);
            RUN(refused);
            RUN(short_of_memory);
        }
        graft_engine_destroy(engine);
    }
    return test_end();
}
