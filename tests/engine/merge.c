/* Merges: sums against weights merged by hand, what must be the same bits, and one compiled graph
 * for all of them. */
#include "base/alloc.h"
#include "tests/engine/merge.h"
#include "tests/engine/sample.h"

static graft_engine *engine;
static char path_a[256], path_b[256], path_c[256], path_copy[256], path_lora[256], path_lora_b[256];

static graft_compiled_stats compiled(void)
{
    graft_compiled_stats s;
    graft_compiled_stats_get(engine->compiled, &s);
    return s;
}

static void run_file(made_file *f, float out[OUT])
{
    const char *path = temp_path("by-hand.safetensors");
    write_file(f, path, config_of(path_a));
    graft_model *m = load_model(engine, path);
    run_model(m, out);
    graft_model_release(m);
    unlink(path);
}

static void same_as_by_hand(const graft_model *m, const part_of_merge *part, size_t n)
{
    float got[OUT], want[OUT];
    run_model(m, got);
    run_file(merge_by_hand(part, n), want);
    CHECK(difference(got, want, OUT) < 2e-5);
}

/* ------------------------------------------------------------------ arithmetic */

static void sums(void)
{
    float one[OUT], two[OUT], got[OUT];
    graft_model *a = load_model(engine, path_a), *b = load_model(engine, path_b);
    graft_model *m = simple(a, b, 0.3), *blocks = merged(a, b, 0.9, 0.25, 0.4);
    graft_model *less = minus(a, b, 0.5), *more = plus(a, b);
    run_model(a, one);
    run_model(b, two);
    run_model(m, got);
    CHECK(difference(got, one, OUT) > 1e-2);
    CHECK(difference(got, two, OUT) > 1e-2);
    same_as_by_hand(m, (part_of_merge[]){{path_a, 0.3, 0.3, 0.3}, {path_b, 0.7, 0.7, 0.7}}, 2);
    same_as_by_hand(blocks, (part_of_merge[]){{path_a, 0.9, 0.25, 0.4}, {path_b, 0.1, 0.75, 0.6}},
                    2);
    same_as_by_hand(less, (part_of_merge[]){{path_a, 0.5, 0.5, 0.5}, {path_b, -0.5, -0.5, -0.5}},
                    2);
    same_as_by_hand(more, (part_of_merge[]){{path_a, 1, 1, 1}, {path_b, 1, 1, 1}}, 2);
    run_model(a, got);
    CHECK(same_bits(got, one)); /* the parts stay what they were */
    RELEASE_ALL(a, b, m, blocks, less, more);
}

/* Float16, bfloat16 and float32 files in one sum: C is bfloat16, B float16. */
static void deep_trees(void)
{
    graft_model *a = load_model(engine, path_a), *b = load_model(engine, path_b);
    graft_model *c = load_model(engine, path_c), *d = minus(b, c, 1.0), *e = plus(a, d);
    graft_model *f = simple(e, c, 0.25), *g = merged(f, a, 0.5, 1.0, 0.0);
    same_as_by_hand(
        e, (part_of_merge[]){{path_a, 1, 1, 1}, {path_b, 1, 1, 1}, {path_c, -1, -1, -1}}, 3);
    same_as_by_hand(f,
                    (part_of_merge[]){{path_a, 0.25, 0.25, 0.25},
                                      {path_b, 0.25, 0.25, 0.25},
                                      {path_c, 0.5, 0.5, 0.5}},
                    3);
    same_as_by_hand(g,
                    (part_of_merge[]){{path_a, 0.625, 0.25, 1.0},
                                      {path_b, 0.125, 0.25, 0.0},
                                      {path_c, 0.25, 0.5, 0.0}},
                    3);
    RELEASE_ALL(a, b, c, d, e, f, g);
}

/* Thirty merges on top of each other are three files. */
static void merges_of_merges_stay_small(void)
{
    graft_err e = GRAFT_ERR_INIT;
    double share[3] = {1, 0, 0};
    graft_span factor[GRAFT_REGIONS];
    graft_model *all[3] = {load_model(engine, path_a), load_model(engine, path_b),
                           load_model(engine, path_c)};
    graft_model *m = graft_model_retain(all[0]);
    for (int i = 0; i < 30; i++) {
        graft_model *next = simple(m, all[i % 3], 0.9);
        for (int k = 0; k < 3; k++) share[k] = 0.9 * share[k] + (k == i % 3 ? 0.1 : 0);
        graft_model_release(m);
        m = next;
    }
    for (size_t i = 0; i < 3; i++) {
        CHECK(graft_weights_summand(m->weights, i, factor) != NULL);
        CHECK_NEAR(factor[0].least, share[i], 1e-12);
        CHECK_NEAR(factor[0].most, share[i], 1e-12);
    }
    CHECK(graft_weights_summand(m->weights, 3, factor) == NULL);
    same_as_by_hand(m,
                    (part_of_merge[]){{path_a, share[0], share[0], share[0]},
                                      {path_b, share[1], share[1], share[1]},
                                      {path_c, share[2], share[2], share[2]}},
                    3);
    char *text = NULL;
    CHECK_OK(graft_model_report(m, NULL, NULL, &text, NULL, &e), &e);
    CHECK(text && strstr(text, "\n  merged from  ") && strstr(text, "a.safetensors times 0."));
    graft_text_free(text);
    graft_model_release(m);
    release_all(all, 3);
}

/* ------------------------------------------------------------------ the same bits */

static void same_model(const graft_model *got, const graft_model *want)
{
    float one[OUT], two[OUT];
    run_model(want, one);
    uint64_t made = packs_of(engine).made;
    run_model(got, two);
    CHECK(same_bits(one, two));
    CHECK_INT(packs_of(engine).made, made); /* they are the very same weights */
}

static void one_and_zero(void)
{
    graft_model *a = load_model(engine, path_a), *b = load_model(engine, path_b);
    graft_model *all = simple(a, b, 1.0), *none = simple(a, b, 0.0);
    graft_model *times = minus(a, b, 0.0), *half = merged(a, b, 1.0, 0.0, 1.0);
    float out[OUT], plain[OUT];
    same_model(all, a);
    same_model(none, b);
    run_model(times, out); /* nothing of either */
    CHECK(isfinite(out[0]));
    run_model(half, out);
    run_model(a, plain);
    CHECK(!same_bits(out, plain));
    RELEASE_ALL(a, b, all, none, times, half);
}

static void merged_with_itself(void)
{
    graft_model *a = load_model(engine, path_a), *again = load_model(engine, path_a);
    graft_model *copy = load_model(engine, path_copy);
    float want[OUT], got[OUT];
    run_model(a, want);
    for (int i = 1; i < 100; i += 7) {
        graft_model *m = simple(a, again, 0.01 * i), *n = simple(a, copy, 0.01 * i);
        same_model(m, a); /* the same file, whoever opened it */
        run_model(n, got);
        CHECK(difference(got, want, OUT) < 2e-5);
        RELEASE_ALL(m, n);
    }
    RELEASE_ALL(a, again, copy);
}

static void subtracted_and_added(void)
{
    graft_model *a = load_model(engine, path_a), *b = load_model(engine, path_b);
    graft_model *l = with_lora(b, path_lora, 0.7);
    graft_model *d = minus(a, b, 1.0), *back = plus(d, b);
    graft_model *e = minus(a, l, 1.0), *whole = plus(e, l);
    graft_model *third = minus(a, b, 0.1), *steps = graft_model_retain(a);
    float first[OUT], out[OUT];
    same_model(back, a);
    same_model(whole, a);
    run_model(a, first);
    for (int i = 0; i < 10; i++) { /* a tenth of the difference is not exact in binary */
        graft_model *next = minus(steps, third, 1.0);
        graft_model_release(steps);
        steps = next;
    }
    same_model(steps, b);
    run_model(steps, out);
    CHECK(difference(out, first, OUT) > 1e-3);
    RELEASE_ALL(a, b, l, d, back, e, whole, third, steps);
}

/* ------------------------------------------------------------------ with all else */

static void loras(void)
{
    graft_model *a = load_model(engine, path_a), *b = load_model(engine, path_b);
    graft_model *al = with_lora(a, path_lora, 0.8), *bl = with_lora(b, path_lora_b, -0.6);
    graft_model *m = merged(al, bl, 0.75, 0.5, 0.25), *plain = merged(a, b, 0.75, 0.5, 0.25);
    graft_model *top = with_lora(plain, path_lora, 0.5), *self = simple(al, al, 0.3);
    graft_model *first = simple(al, b, 1.0);
    float got[OUT], none[OUT], want[OUT];
    run_model(plain, none);
    run_model(m, got);
    CHECK(difference(got, none, OUT) > 1e-3);
    /* Baked into files by hand: the strengths scale with the share of the block that they are in.
     */
    made_file *f =
        merge_by_hand((part_of_merge[]){{path_a, 0.75, 0.5, 0.25}, {path_b, 0.25, 0.5, 0.75}}, 2);
    const struct {
        const char *lora, *stem, *tensor;
        double strength;
    } patch[] = {{path_lora, "down_blocks_0_attentions_0", "input_blocks.1.1", 0.8 * 0.75},
                 {path_lora, "up_blocks_1_attentions_1", "output_blocks.3.1", 0.8 * 0.25},
                 {path_lora_b, "down_blocks_0_attentions_0", "input_blocks.1.1", -0.6 * 0.25},
                 {path_lora_b, "up_blocks_1_attentions_1", "output_blocks.3.1", -0.6 * 0.75}};
    for (size_t i = 0; i < 4; i++) {
        char name[256];
        const char *layer = i % 2 ? "to_v" : "to_q";
        graft_safetensors *l = open_file(patch[i].lora);
        snprintf(name, sizeof name, "lora_unet_%s_transformer_blocks_0_attn1_%s.lora_up.weight",
                 patch[i].stem, layer);
        float *u = values_of(graft_safetensors_find(l, name));
        snprintf(name, sizeof name, "lora_unet_%s_transformer_blocks_0_attn1_%s.lora_down.weight",
                 patch[i].stem, layer);
        float *d = values_of(graft_safetensors_find(l, name));
        snprintf(name, sizeof name, UNET "%s.transformer_blocks.0.attn1.%s.weight", patch[i].tensor,
                 layer);
        float *w = (float *)(uintptr_t)made_find(f, name)->data;
        for (int r = 0; r < 32; r++)
            for (int c = 0; c < 32; c++)
                for (int k = 0; k < 3; k++)
                    w[32 * r + c] += (float)(patch[i].strength * u[3 * r + k] * d[32 * k + c]);
        free(u);
        free(d);
        graft_safetensors_close(l);
    }
    run_file(f, want);
    CHECK(difference(got, want, OUT) < 2e-5);
    run_model(top, got);
    CHECK(difference(got, none, OUT) > 1e-3);
    same_model(self, al);
    same_model(first, al);
    RELEASE_ALL(a, b, al, bl, m, plain, top, self, first);
}

static void swaps(void)
{
    graft_model *a = load_model(engine, path_a), *b = load_model(engine, path_b);
    graft_model *c = load_model(engine, path_c), *m = simple(a, b, 0.4);
    graft_model *l = with_lora(m, path_lora, 0.5), *lc = with_lora(c, path_lora, 0.5);
    float before[OUT], out[OUT];
    run_model(m, before);
    graft_model *swapped = swap_weights(m, path_c, false), *kept = swap_weights(l, path_c, true);
    same_model(swapped, c);
    same_model(kept, lc);
    graft_model *first = swap_weights(a, path_c, true), *n = simple(first, b, 0.4);
    same_as_by_hand(n, (part_of_merge[]){{path_c, 0.4, 0.4, 0.4}, {path_b, 0.6, 0.6, 0.6}}, 2);
    run_model(m, out);
    CHECK(same_bits(out, before));
    RELEASE_ALL(a, b, c, m, l, lc, swapped, kept, first, n);
}

/* No ratio compiles anything; a ratio that nobody has any more leaves no weights behind; the same
 * merge once more finds those that are there. */
static void nothing_is_compiled_again(void)
{
    float out[OUT], again[OUT], last[OUT] = {0};
    graft_model *a = load_model(engine, path_a), *b = load_model(engine, path_b);
    run_model(a, out);
    run_model(b, out);
    graft_compiled_stats before = compiled();
    graft_packs_stats packs = packs_of(engine);
    for (int i = 1; i < 10; i++) {
        graft_model *m = simple(a, b, 0.1 * i), *twin = simple(a, b, 0.1 * i);
        run_model(m, out);
        uint64_t made = packs_of(engine).made;
        run_model(twin, again);
        CHECK(same_bits(out, again) && !same_bits(out, last));
        CHECK_INT(packs_of(engine).made, made);
        CHECK(packs_of(engine).bytes > packs.bytes);
        memcpy(last, out, sizeof out);
        RELEASE_ALL(m, twin);
        CHECK_INT(packs_of(engine).bytes, packs.bytes);
    }
    CHECK_INT(compiled().built, before.built);
    CHECK_INT(compiled().in_memory, before.in_memory);
    RELEASE_ALL(a, b);
}

static float *sampled(const graft_model *m)
{
    graft_cond *cond = NULL;
    graft_latent *latent = NULL, *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    int64_t shape[4];
    float *copy = calloc(OUT, sizeof *copy);
    CHECK_OK(sample_cond(m, &cond, &e), &e);
    CHECK_OK(graft_latent_empty(4, 8 * SIDE, 8 * SIDE, 1, &latent, &e), &e);
    CHECK_OK(sample_latent(m, cond, latent, "euler", 6, NULL, &out, &e), &e);
    if (out) memcpy(copy, graft_latent_data(out, shape), OUT * sizeof *copy);
    graft_cond_release(cond);
    graft_latent_release(latent);
    graft_latent_release(out);
    return copy;
}

static void same_samples(const graft_model *a, const graft_model *b)
{
    float *x = sampled(a), *y = sampled(b);
    CHECK(same_bits(x, y));
    CHECK(x[0] != 0.0f);
    free(x);
    free(y);
}

static graft_model *quantized(const graft_model *m, const char *plan, graft_err *e)
{
    graft_cond *cond = NULL;
    graft_latent *latent = NULL;
    graft_model *q = NULL;
    CHECK_OK(sample_cond(m, &cond, e), e);
    CHECK_OK(graft_latent_empty(4, 8 * SIDE, 8 * SIDE, 1, &latent, e), e);
    const graft_quantize_options o = {.bits = 8,
                                      .conv = true,
                                      .linear = true,
                                      .conv_mse_threshold = 1,
                                      .linear_mse_threshold = 1,
                                      .positive = cond,
                                      .negative = cond,
                                      .latent = latent,
                                      .steps = 3,
                                      .cfg = 2,
                                      .plan_path = plan};
    graft_model_quantize(m, &o, NULL, &q, NULL, e);
    graft_cond_release(cond);
    graft_latent_release(latent);
    return q;
}

/* What makes a model faster does with a merge what it does with the saved one; a plan knows the
 * merge that it was measured on. */
static void compiled_cached_and_quantized(void)
{
    graft_err e = GRAFT_ERR_INIT;
    char path[256], plan[256];
    const graft_compile_options compile = {.tuning = "off", .width = 64, .height = 64};
    const graft_deepcache_options cache = {
        .cache_interval = 3, .end_step = 1000, .schedule = "uniform", .outermost = true};
    graft_model *a = load_model(engine, path_a), *copy = load_model(engine, path_copy);
    graft_model *b = load_model(engine, path_b), *m = simple(a, b, 0.35), *c[2], *d[2], *q[2];
    snprintf(path, sizeof path, "%s", temp_path("saved.safetensors"));
    snprintf(plan, sizeof plan, "%s", temp_path("plan.json"));
    /* A is float32 and B float16, so float32 is written. */
    CHECK_OK(graft_checkpoint_save(&(graft_checkpoint){.model = m}, path, NULL, NULL, &e), &e);
    graft_model *loaded = load_model(engine, path), *both[2] = {m, loaded};
    same_samples(m, loaded);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(graft_model_compile(both[i], &compile, NULL, &c[i], &e), &e);
        CHECK_OK(graft_model_deepcache(both[i], &cache, &d[i], &e), &e);
        unlink(plan);
        q[i] = quantized(both[i], plan, &e);
        CHECK(q[i] && q[i]->quant.bits == 8);
    }
    same_samples(c[0], c[1]);
    same_samples(d[0], d[1]);
    same_samples(q[0], q[1]);
    graft_model *other = simple(a, b, 0.36), *twin = simple(copy, b, 0.35), *r, *s;
    unlink(plan);
    r = quantized(m, plan, &e);
    graft_model_release(r);
    r = quantized(twin, plan, &e); /* the same content from another file */
    CHECK(r && r->quant.bits == 8);
    s = quantized(other, plan, &e);
    CHECK(!s && strstr(e.text, "other weights"));
    CHECK_INT(graft_model_save_quantized(q[0], path, NULL, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "merge"));
    unlink(plan);
    unlink(path);
    RELEASE_ALL(a, b, copy, m, loaded, c[0], c[1], d[0], d[1], q[0], q[1], other, twin, r, s);
}

/* A file with quantized weights in a merge: its values, and no longer quantized. */
static void quantized_files(void)
{
    graft_err e = GRAFT_ERR_INIT;
    const char *path = temp_path("q8.safetensors");
    graft_model *a = load_model(engine, path_a), *q = quantized(a, NULL, &e);
    CHECK_OK(graft_model_save_quantized(q, path, NULL, &e), &e);
    graft_model *file = load_model(engine, path), *m = simple(a, file, 0.5);
    graft_model *self = simple(a, file, 1.0);
    float plain[OUT], out[OUT];
    run_model(a, plain);
    run_model(m, out);
    CHECK(!same_bits(out, plain) && difference(out, plain, OUT) < 0.05);
    CHECK_INT(m->quant.bits, 0);
    same_model(self, a);
    RELEASE_ALL(a, q, file, m, self);
    unlink(path);
}

/* ------------------------------------------------------------------ what is refused */

static void refuse(graft_status st, const graft_err *e, const graft_model *out, const char *text)
{
    CHECK_INT(st, GRAFT_E_ARG);
    CHECK(out == NULL);
    CHECK(strstr(e->text, text) != NULL);
    if (!strstr(e->text, text)) fprintf(stderr, "%s\n", e->text);
}

static void refused(void)
{
    graft_model *a = load_model(engine, path_a), *b = load_model(engine, path_b), *m = NULL;
    graft_model *sd2 = load_model(engine, SD2), *xl = load_model(engine, SDXL);
    const graft_merge_ratio half = {0.5, 0.5, 0.5}, odd = {0.5, 0.5, NAN};
    graft_err e = GRAFT_ERR_INIT;
    refuse(graft_model_merge(a, sd2, &half, &m, &e), &e, m,
           "unet_sd2.safetensors has another architecture: " UNET
           "input_blocks.1.1.proj_in.weight has the shape (32,32) where (32,32,1,1) belongs");
    refuse(graft_model_merge_add(a, xl, &m, &e), &e, m, "unet_sdxl.safetensors");
    refuse(graft_model_merge_subtract(xl, a, 1.0, &m, &e), &e, m, "has another architecture");
    refuse(graft_model_merge(a, b, &odd, &m, &e), &e, m, "output blocks");
    refuse(graft_model_merge_subtract(a, b, INFINITY, &m, &e), &e, m, "multiplier");
    RELEASE_ALL(a, b, sd2, xl);
}

static void short_of_memory(void)
{
    graft_model *a = load_model(engine, path_a), *b = load_model(engine, path_b);
    graft_model *l = with_lora(b, path_lora, 0.7);
    graft_alloc_stats before, after;
    graft_err e = GRAFT_ERR_INIT;
    graft_merge_ratio half = {0.5, 0.5, 0.5};
    float want[OUT], out[OUT];
    int64_t n = 0;
    bool done = false;
    graft_model *m = simple(a, l, 0.5);
    run_model(m, want);
    graft_model_release(m);
    graft_engine_release_unused(engine);
    graft_alloc_stats_get(&before);
    while (!done && n < 100000) {
        m = NULL;
        graft_alloc_fail_at(++n);
        graft_status st = graft_model_merge(a, l, &half, &m, &e);
        if (!st) st = try_model(m, out, &e);
        done = graft_alloc_fail_at(0) > 0;
        if (st && st != GRAFT_E_NOMEM) {
            CHECK_INT(st, GRAFT_E_NOMEM);
            break;
        }
        /* Unused weights may have made room for those that could not be had. */
        if (!st) CHECK(same_bits(out, want));
        graft_model_release(m);
        n += n / 50;
    }
    CHECK(done && n > 20);
    graft_engine_release_unused(engine);
    graft_alloc_stats_get(&after);
    CHECK_INT(after.live_blocks, before.live_blocks);
    RELEASE_ALL(a, b, l);
}

/* ------------------------------------------------------------------ text encoders */

enum { WIDTH = 96, HIDDEN = GRAFT_TEXT_CHUNK * WIDTH };
#define CLIP_FILE GRAFT_SOURCE_DIR "/golden/small/clip_gelu.safetensors"

/* The table of tokens is no weight of a graph, and is merged too. */
static void text_encoders(void)
{
    static float one[HIDDEN], two[HIDDEN], got[HIDDEN], want[HIDDEN], pooled[WIDTH];
    char other[256], hand[256];
    graft_err e = GRAFT_ERR_INIT;
    graft_safetensors *f = open_file(CLIP_FILE);
    const char *config = graft_safetensors_metadata(f, "config");
    made_file *b = copy_file(f, "text_"), *sum = copy_file(f, "text_");
    for (size_t i = 0; i < b->n; i++) {
        float *v = (float *)(uintptr_t)b->tensor[i].data;
        float *s = (float *)(uintptr_t)sum->tensor[i].data;
        int64_t n = shape_count(b->tensor[i].shape, b->tensor[i].rank);
        for (int64_t k = 0; k < n; k++) {
            float own = v[k];
            v[k] *= 1 + 0.5f * random_value();
            s[k] = (float)(0.4 * (double)own + 0.6 * (double)v[k]);
        }
    }
    snprintf(other, sizeof other, "%s", temp_path("clip-b.safetensors"));
    snprintf(hand, sizeof hand, "%s", temp_path("clip-hand.safetensors"));
    write_file(b, other, config);
    write_file(sum, hand, config);
    graft_safetensors_close(f);
    graft_clip *x = load_encoder(engine, CLIP_FILE), *y = load_encoder(engine, other),
               *z = load_encoder(engine, hand);
    graft_clip *m = NULL, *all = NULL, *none = NULL, *less = NULL, *back = NULL;
    CHECK_OK(graft_clip_merge(x, y, 0.4, &m, &e), &e);
    CHECK_OK(graft_clip_merge(x, y, 1.0, &all, &e), &e);
    CHECK_OK(graft_clip_merge(x, y, 0.0, &none, &e), &e);
    CHECK_OK(graft_clip_merge_subtract(x, y, 1.0, &less, &e), &e);
    CHECK_OK(graft_clip_merge_add(less, y, &back, &e), &e);
    run_encoder(x, 0, one, pooled);
    run_encoder(y, 0, two, pooled);
    run_encoder(z, 0, want, pooled);
    run_encoder(m, 0, got, pooled);
    CHECK(difference(got, want, HIDDEN) < 1e-5);
    CHECK(difference(one, want, HIDDEN) > 1e-2 && difference(two, want, HIDDEN) > 1e-2);
    run_encoder(all, 0, got, pooled);
    CHECK(memcmp(got, one, sizeof one) == 0);
    run_encoder(none, 0, got, pooled);
    CHECK(memcmp(got, two, sizeof two) == 0);
    run_encoder(back, 0, got, pooled);
    CHECK(memcmp(got, one, sizeof one) == 0);
    graft_clip *demo = NULL, *out = NULL;
    CHECK_OK(graft_checkpoint_load(engine, DEMO, NULL, NULL, &demo, NULL, &e), &e);
    CHECK_INT(graft_clip_merge(x, demo, 0.5, &out, &e), GRAFT_E_ARG);
    CHECK(strstr(
        e.text,
        "emoji-64.safetensors has another architecture: cond_stage_model.transformer.text_model."));
    CHECK_INT(graft_clip_merge(x, y, NAN, &out, &e), GRAFT_E_ARG);
    graft_clip *every[] = {x, y, z, m, all, none, less, back, demo, out};
    for (size_t i = 0; i < sizeof every / sizeof *every; i++) graft_clip_release(every[i]);
    unlink(other);
    unlink(hand);
}

int main(void)
{
    make_variant(path_a, "a.safetensors", 0.2f, GRAFT_F32);
    random_state = 99;
    make_variant(path_b, "b.safetensors", 0.5f, GRAFT_F16);
    make_variant(path_c, "c.safetensors", 0.5f, GRAFT_BF16);
    random_state = 1;
    make_variant(path_copy, "copy.safetensors", 0.2f, GRAFT_F32);
    make_lora(path_lora, "lora.safetensors");
    make_lora(path_lora_b, "lora-b.safetensors");
    const char *const backends[] = {"ref", "cpu"};
    for (int i = 0; i < 2; i++) {
        engine = make_engine(backends[i]);
        if (!engine) break;
        RUN(sums);
        RUN(deep_trees);
        RUN(one_and_zero);
        RUN(loras);
        RUN(text_encoders);
        if (i == 1) {
            RUN(merges_of_merges_stay_small);
            RUN(merged_with_itself);
            RUN(subtracted_and_added);
            RUN(swaps);
            RUN(nothing_is_compiled_again);
            RUN(compiled_cached_and_quantized);
            RUN(quantized_files);
            RUN(refused);
            RUN(short_of_memory);
        }
        graft_engine_destroy(engine);
    }
    const char *const made[] = {path_a, path_b, path_c, path_copy, path_lora, path_lora_b};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) unlink(made[i]);
    return test_end();
}
