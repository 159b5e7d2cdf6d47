/* graft-bench-quant: what quantization costs, brings and breaks, alone and with DeepCache.
 *
 *   graft-bench-quant [SD15.safetensors] [--json FILE] [--backend NAME] [--demo FILE]
 *
 * Figures about pictures come from the demo checkpoint, those about speed from a checkpoint of
 * SD 1.5's size when one is given. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "bench/quantized.h"
#include "bench/record.h"
#include "engine/calibrate/quantize.h"
#include "base/metrics.h"

enum { STEPS = 20, PROMPTS = 32, SEEDS = 2, SIDE = 64, TOKENS = 77 };

typedef struct bench {
    const char *json, *backend, *demo, *model;
    char how[256];
} bench;

static void note(const bench *b, const char *name, double value, const char *unit)
{
    record(b->json, name, value, unit, b->how);
}

static graft_engine *open_engine(const bench *b)
{
    graft_engine_config c = {.kernel_dir = GRAFT_LIB_DIR, .backend = b->backend};
    graft_engine *g = NULL;
    graft_err e = GRAFT_ERR_INIT;
    must(graft_engine_create(&c, &g, &e), &e);
    return g;
}

/* ------------------------------------------------------------------ the demo checkpoint */

static graft_model *compiled(const graft_model *m, const char *precision)
{
    const graft_compile_options o = {precision, "off", "auto", 0, false, false, 0, 0, 0};
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    must(graft_model_compile(m, &o, NULL, &out, &e), &e);
    return out;
}

typedef struct demo {
    graft_engine *engine;
    graft_model *model;
    graft_clip *clip;
    graft_vae *vae;
    graft_cond *positive, *negative;
    graft_latent *latent;
} demo;

static graft_cond *encode(const demo *d, const char *text)
{
    graft_cond *c = NULL;
    graft_err e = GRAFT_ERR_INIT;
    must(graft_clip_encode(d->clip, text, NULL, &c, &e), &e);
    return c;
}

static void demo_open(const bench *b, demo *d)
{
    graft_err e = GRAFT_ERR_INIT;
    d->engine = open_engine(b);
    must(graft_checkpoint_load(d->engine, b->demo, NULL, &d->model, &d->clip, &d->vae, &e), &e);
    d->positive = encode(d, "red apple, 3d");
    d->negative = encode(d, "");
    must(graft_latent_empty(4, 64, 64, 1, &d->latent, &e), &e);
}

static void demo_close(demo *d)
{
    graft_latent_release(d->latent);
    graft_cond_release(d->positive);
    graft_cond_release(d->negative);
    graft_model_release(d->model);
    graft_clip_release(d->clip);
    graft_vae_release(d->vae);
    graft_engine_destroy(d->engine);
}

static graft_latent *sample(const demo *d, const graft_model *m, const graft_cond *positive,
                            uint64_t seed)
{
    const graft_sample_params p = {.seed = seed,
                                   .add_noise = true,
                                   .steps = STEPS,
                                   .cfg = 4.0,
                                   .sampler = "euler",
                                   .scheduler = "normal",
                                   .denoise = 1.0,
                                   .end_at_step = STEPS};
    graft_latent *l = NULL;
    graft_err e = GRAFT_ERR_INIT;
    must(graft_sample(m, &p, positive, d->negative, d->latent, NULL, &l, &e), &e);
    return l;
}

static double latent_mse(const demo *d, const graft_latent *a, const graft_latent *b)
{
    int64_t s[4];
    const float *x = graft_latent_data(a, s), *y = graft_latent_data(b, s);
    double k = d->model->scale_factor;
    return graft_metric_mse(x, y, (size_t)(s[0] * s[1] * s[2] * s[3])) * k * k;
}

/* The shortest of several samplings, all warm. */
static double sampling_seconds(const demo *d, const graft_model *m)
{
    double best = INFINITY;
    graft_latent_release(sample(d, m, d->positive, 1));
    for (int i = 0; i < 5; i++) {
        double start = graft_clock_now();
        graft_latent_release(sample(d, m, d->positive, 1));
        best = fmin(best, graft_clock_now() - start);
    }
    return best;
}

static graft_quantize_options options(const demo *d)
{
    return (graft_quantize_options){.bits = 8,
                                    .conv = true,
                                    .linear = true,
                                    .conv_mse_threshold = 0.1,
                                    .linear_mse_threshold = 0.1,
                                    .attention = true,
                                    .attention_mse_threshold = 0.1,
                                    .compute_density_threshold = 0,
                                    .positive = d->positive,
                                    .negative = d->negative,
                                    .latent = d->latent,
                                    .steps = STEPS,
                                    .cfg = 4.0,
                                    .seed = 1};
}

static graft_model *calibrated(const demo *d, double *seconds, char **report)
{
    graft_quantize_options o = options(d);
    graft_model *q = NULL;
    graft_err e = GRAFT_ERR_INIT;
    double start = graft_clock_now();
    must(graft_model_quantize(d->model, &o, NULL, &q, report, &e), &e);
    *seconds = graft_clock_now() - start;
    return q;
}

/* A calibration in samplings, each with an engine of its own, as it happens once a model: it
 * compiles and packs. Samplings just before it say what one takes; times of either vary, so both
 * are medians. */
static double calibration_samplings(const bench *b)
{
    double ratio[5], seconds[5], own;
    for (int i = 0; i < 5; i++) {
        demo d = {0};
        char *report = NULL;
        demo_open(b, &d);
        graft_latent_release(sample(&d, d.model, d.positive, 1));
        for (int k = 0; k < 5; k++) {
            double start = graft_clock_now();
            graft_latent_release(sample(&d, d.model, d.positive, 1));
            seconds[k] = graft_clock_now() - start;
        }
        graft_model_release(calibrated(&d, &own, &report));
        graft_text_free(report);
        demo_close(&d);
        ratio[i] = own / record_median(seconds, 5);
    }
    return record_median(ratio, 5);
}

/* ------------------------------------------------------------------ ranks */

typedef struct ranked {
    double value, rank;
    size_t index;
} ranked;

static int by_value(const void *a, const void *b)
{
    double x = ((const ranked *)a)->value, y = ((const ranked *)b)->value;
    return (x > y) - (x < y);
}

static double *ranks(const double *v, size_t n)
{
    ranked *r = malloc(n * sizeof *r);
    double *out = malloc(n * sizeof *out);
    if (!r || !out) exit(1);
    for (size_t i = 0; i < n; i++) r[i] = (ranked){.value = v[i], .index = i};
    qsort(r, n, sizeof *r, by_value);
    for (size_t i = 0; i < n; i++) out[r[i].index] = (double)i;
    free(r);
    return out;
}

/* Spearman's, for values without ties. */
static double rank_correlation(const double *a, const double *b, size_t n)
{
    double *x = ranks(a, n), *y = ranks(b, n), sum = 0, count = (double)n;
    for (size_t i = 0; i < n; i++) sum += (x[i] - y[i]) * (x[i] - y[i]);
    free(x);
    free(y);
    return 1 - 6 * sum / (count * (count * count - 1));
}

/* One sampling for each layer, quantized alone, against what calibration made of it. In float32:
 * bfloat16's own rounding changes with every layer, and by more than most layers' error. */
static void brute_force(const bench *b, const demo *d, const graft_model *q)
{
    graft_quant_plan *p = q->quantizer->plan;
    graft_model *exact = compiled(d->model, "f32");
    graft_latent *plain = sample(d, exact, d->positive, 1);
    double estimated[GRAFT_QUANT_LAYERS] = {0}, real[GRAFT_QUANT_LAYERS] = {0};
    graft_quant_reason was[GRAFT_QUANT_LAYERS];
    size_t n = 0;
    graft_err e = GRAFT_ERR_INIT;
    for (size_t i = 0; i < p->n; i++) was[i] = p->layer[i].reason;
    for (size_t i = 0; i < p->n; i++) {
        graft_model *one = NULL;
        if (was[i] == GRAFT_QUANT_KEPT || isnan(p->layer[i].mse)) continue;
        for (size_t k = 0; k < p->n; k++)
            p->layer[k].reason = k == i ? GRAFT_QUANT_CHOSEN : GRAFT_QUANT_ERROR;
        must(graft_model_with_plan(exact, p, &one, &e), &e);
        graft_latent *l = sample(d, one, d->positive, 1);
        real[n] = latent_mse(d, l, plain);
        estimated[n++] = p->layer[i].mse;
        if (getenv("GRAFT_BENCH_LAYERS"))
            printf("    %.3e %.3e %s\n", real[n - 1], estimated[n - 1], p->layer[i].name);
        graft_latent_release(l);
        graft_model_release(one);
    }
    for (size_t i = 0; i < p->n; i++) p->layer[i].reason = was[i];
    graft_latent_release(plain);
    graft_model_release(exact);
    note(b, "calibration_rank_corr", rank_correlation(estimated, real, n), "Spearman's rho");
}

/* ------------------------------------------------------------------ pictures */

static graft_image *picture(const demo *d, const graft_model *m, const graft_cond *c, uint64_t seed)
{
    graft_latent *l = sample(d, m, c, seed);
    graft_image *i = NULL;
    graft_err e = GRAFT_ERR_INIT;
    must(graft_vae_decode(d->vae, l, NULL, NULL, &i, &e), &e);
    graft_latent_release(l);
    return i;
}

/* Mean SSIM of the model's pictures to those of the plain one. */
static double mean_ssim(const demo *d, const graft_model *m)
{
    static const char *const things[PROMPTS / 2] = {
        "red apple", "rocket",     "cat face", "banana",   "airplane", "unicorn", "sun", "umbrella",
        "robot",     "strawberry", "whale",    "mushroom", "cupcake",  "fire",    "owl", "guitar"};
    double sum = 0, one;
    graft_err e = GRAFT_ERR_INIT;
    for (int i = 0; i < PROMPTS; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s, %s", things[i / 2], i % 2 ? "flat" : "3d");
        graft_cond *c = encode(d, text);
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            graft_image *x = picture(d, d->model, c, seed), *y = picture(d, m, c, seed);
            int64_t s[4];
            const float *a = graft_image_data(x, s), *z = graft_image_data(y, s);
            must(graft_metric_ssim(a, z, s[1], s[2], s[3], 1.0, &one, &e), &e);
            sum += one;
            graft_image_release(x);
            graft_image_release(y);
        }
        graft_cond_release(c);
    }
    return sum / (PROMPTS * SEEDS);
}

/* The node's cuts: the outermost, with which the method's published figures were taken, and those
 * by blocks of the first level, of which 1 is the default. */
enum { OUTERMOST = -1, CUTS_END = 2 };

static graft_model *cached(const graft_model *m, int64_t interval, int64_t block)
{
    const graft_deepcache_options o = {interval, 0,         block, 0,
                                       1000,     "uniform", 0,     block == OUTERMOST};
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    must(graft_model_deepcache(m, &o, &out, &e), &e);
    return out;
}

/* A figure of that cut: NAME for the outermost, NAME_block0 and so on for the others. */
static void cut_note(const bench *b, const char *name, int64_t block, double value,
                     const char *unit)
{
    char full[64], what[96];
    snprintf(full, sizeof full, "%s", name);
    snprintf(what, sizeof what, "%s, outermost cut", unit);
    if (block != OUTERMOST) {
        snprintf(full, sizeof full, "%s_block%lld", name, (long long)block);
        snprintf(what, sizeof what, "%s, cache_block_id %lld", unit, (long long)block);
    }
    note(b, full, value, what);
}

/* ------------------------------------------------------------------ quantized files */

static graft_model *all_quantized(const graft_model *m)
{
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    must(quantize_all(m, &out, &e), &e);
    return out;
}

/* Loading a file and packing its UNet for int8, the graph being compiled. */
static double load_seconds(graft_engine *g, const char *path, bool quantize)
{
    double best = INFINITY;
    for (int i = 0; i < 3; i++) {
        graft_model *m = NULL, *q = NULL;
        graft_binding *x = NULL;
        graft_err e = GRAFT_ERR_INIT;
        graft_packs_trim(g->packs, 0);
        double start = graft_clock_now();
        must(graft_model_load(g, path, NULL, &m, &e), &e);
        if (quantize) q = all_quantized(m);
        must(graft_model_bind(q ? q : m, 2, SIDE, SIDE, TOKENS, NULL, &x, &e), &e);
        if (i)
            best =
                fmin(best, graft_clock_now() - start); /* the first compiles and reads the disk */
        graft_binding_release(x);
        graft_model_release(q);
        graft_model_release(m);
    }
    graft_packs_trim(g->packs, 0);
    return best;
}

static void quantized_file(const bench *b, const graft_model *m, const char *path)
{
    const char *folder = getenv("TMPDIR");
    char small[1024];
    graft_err e = GRAFT_ERR_INIT;
    snprintf(small, sizeof small, "%s/graft-bench-quantized.safetensors",
             folder && *folder ? folder : "/tmp");
    graft_model *q = all_quantized(m);
    remove(small); /* of a bench that was broken off */
    must(graft_model_save_quantized(q, small, NULL, &e), &e);
    graft_model_release(q);
    double before = load_seconds(m->engine, path, true),
           after = load_seconds(m->engine, small, false);
    note(b, "quantized_load_share", after / before, "of loading and quantizing");
    remove(small);
}

static void demo_figures(const bench *b)
{
    demo d = {0};
    char *report = NULL;
    double seconds; /* of a calibration; medians are taken elsewhere */
    demo_open(b, &d);
    double plain = sampling_seconds(&d, d.model);
    if (!b->model) quantized_file(b, d.model, b->demo);
    graft_model *q = calibrated(&d, &seconds, &report);
    printf("%s", report);
    graft_text_free(report);
    note(b, "calibration_samplings", calibration_samplings(b), "times one sampling");
    double measured = plain / sampling_seconds(&d, q);
    note(b, "int8_gain_predicted", graft_quant_plan_gain(q->quantizer->plan), "times as fast");
    note(b, "int8_gain_measured", measured, "times as fast, whole samplings");
    brute_force(b, &d, q);
    note(b, "int8_ssim", mean_ssim(&d, q), "mean of 64 pictures");
    for (int64_t block = OUTERMOST; block < CUTS_END; block++) {
        graft_model *dc = cached(d.model, 3, block), *both = cached(q, 3, block);
        cut_note(b, "deepcache3_ssim", block, mean_ssim(&d, dc), "mean of 64 pictures");
        cut_note(b, "int8_deepcache3_ssim", block, mean_ssim(&d, both), "mean of 64 pictures");
        graft_model_release(dc);
        graft_model_release(both);
    }
    graft_model_release(q);
    demo_close(&d);
}

/* ------------------------------------------------------------------ SD 1.5's size */

typedef struct step_time {
    double seconds;
    uint64_t weight_bytes;
} step_time;

/* The shortest of `repeats` runs at 512x512 with both halves of guidance, after one to warm up. */
static step_time step(const graft_model *m, graft_variant variant, int repeats)
{
    step_time t = {INFINITY, 0};
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    must(graft_model_bind_guided(m,
                                 &(graft_unet_use){.variant = variant,
                                                   .pictures = 1,
                                                   .entries = 2,
                                                   .height = SIDE,
                                                   .width = SIDE,
                                                   .tokens = TOKENS},
                                 NULL, &b, &e),
         &e);
    const graft_graph *g = b->exe->graph;
    void *in[8] = {NULL}, *out[2] = {NULL};
    for (size_t i = 0; i < g->n_inputs && i < 8; i++) {
        const graft_gvalue *v = &g->value[g->input[i]];
        size_t n = (size_t)graft_gvalue_count(v);
        in[i] = graft_calloc(n, graft_dtype_size(v->dtype));
        for (size_t k = 0; in[i] && v->dtype == GRAFT_F32 && k < n; k++)
            ((float *)in[i])[k] = (float)(k % 17) * 0.1f - 0.8f;
    }
    for (size_t i = 0; i < g->n_outputs && i < 2; i++)
        out[i] = graft_calloc((size_t)graft_gvalue_count(&g->value[g->output[i]]), 4);
    for (int i = 0; i <= repeats; i++) {
        double start = graft_clock_now();
        must(graft_exe_run(b, m->engine->arenas, (const void *const *)in, out, NULL, NULL, &e), &e);
        if (i) t.seconds = fmin(t.seconds, graft_clock_now() - start);
    }
    t.weight_bytes = b->exe->weight_bytes;
    for (int i = 0; i < 8; i++) graft_free(in[i]);
    for (int i = 0; i < 2; i++) graft_free(out[i]);
    graft_binding_release(b);
    return t;
}

/* A picture's time with DeepCache over 20 steps, from its two kinds of step. */
static double cached_picture(double store, double fast, int interval)
{
    int full = (STEPS + interval - 1) / interval;
    return full * store + (STEPS - full) * fast;
}

/* Pictures with DeepCache against pictures of whole steps of `plain` seconds. */
static void cached_speeds(const bench *b, const graft_model *bf16, const graft_model *int8,
                          double plain, int repeats)
{
    for (int64_t block = OUTERMOST; block < CUTS_END; block++) {
        graft_model *dc = cached(bf16, 3, block), *both = cached(int8, 3, block);
        step_time store = step(dc, GRAFT_STORE, repeats), fast = step(dc, GRAFT_FAST, repeats);
        step_time qstore = step(both, GRAFT_STORE, repeats),
                  qfast = step(both, GRAFT_FAST, repeats);
        cut_note(b, "deepcache_fast_step", block, fast.seconds / plain, "of a whole step");
        cut_note(b, "deepcache3_speedup", block,
                 STEPS * plain / cached_picture(store.seconds, fast.seconds, 3), "times as fast");
        cut_note(b, "deepcache5_speedup", block,
                 STEPS * plain / cached_picture(store.seconds, fast.seconds, 5), "times as fast");
        cut_note(b, "int8_deepcache3_vs_bf16", block,
                 STEPS * plain / cached_picture(qstore.seconds, qfast.seconds, 3), "times as fast");
        graft_model_release(dc);
        graft_model_release(both);
    }
}

static void speeds(const bench *b, const graft_model *m, int repeats)
{
    graft_model *bf16 = compiled(m, "bf16"), *f32 = compiled(m, "f32");
    graft_model *int8 = all_quantized(bf16);
    step_time plain = step(bf16, GRAFT_WHOLE, repeats);
    step_time quantized = step(int8, GRAFT_WHOLE, repeats);
    step_time slow = step(f32, GRAFT_WHOLE, 1);
    note(b, "int8_vs_bf16", plain.seconds / quantized.seconds, "times as fast a step");
    note(b, "int8_vs_f32", slow.seconds / quantized.seconds, "times as fast a step");
    note(b, "int8_weights_share",
         (double)quantized.weight_bytes / (double)graft_weights_stored_bytes(m->weights),
         "of the weights in float16");
    cached_speeds(b, bf16, int8, plain.seconds, repeats);
    graft_model_release(bf16);
    graft_model_release(f32);
    graft_model_release(int8);
}

/* Quantizing and packing all weights anew, per GB of the file's UNet. */
static void requantize(const bench *b, const graft_model *m)
{
    graft_model *q = all_quantized(m);
    graft_binding *x = NULL;
    graft_err e = GRAFT_ERR_INIT;
    must(graft_model_bind(q, 2, SIDE, SIDE, TOKENS, NULL, &x, &e), &e); /* compiles, reads */
    graft_binding_release(x);
    graft_packs_trim(m->engine->packs, 0);
    double start = graft_clock_now();
    must(graft_model_bind(q, 2, SIDE, SIDE, TOKENS, NULL, &x, &e), &e);
    double seconds = graft_clock_now() - start;
    note(b, "requantize_s_per_gb",
         seconds / (1e-9 * (double)graft_weights_stored_bytes(m->weights)), "s/GB");
    graft_binding_release(x);
    graft_model_release(q);
}

static void calibration_time(const bench *b, const graft_model *m)
{
    graft_cond *c = NULL;
    graft_latent *l = NULL;
    graft_model *q = NULL;
    graft_err e = GRAFT_ERR_INIT;
    int64_t n = TOKENS * m->arch.context_dim;
    float *data = graft_malloc_array((size_t)n, sizeof *data);
    if (!data) exit(1);
    for (int64_t i = 0; i < n; i++) data[i] = (float)(i % 17) * 0.1f - 0.8f;
    must(graft_cond_create(TOKENS, m->arch.context_dim, data, 0, NULL, NULL, &c, &e), &e);
    must(graft_latent_empty(4, 256, 256, 1, &l, &e), &e);
    const graft_quantize_options o = {.bits = 8,
                                      .conv = true,
                                      .linear = true,
                                      .conv_mse_threshold = 0.1,
                                      .linear_mse_threshold = 0.1,
                                      .attention = true,
                                      .attention_mse_threshold = 0.1,
                                      .positive = c,
                                      .negative = c,
                                      .latent = l,
                                      .steps = 4,
                                      .cfg = 8.0};
    double start = graft_clock_now();
    must(graft_model_quantize(m, &o, NULL, &q, NULL, &e), &e);
    note(b, "calibration_sd15_s", graft_clock_now() - start, "s");
    graft_model_release(q);
    graft_latent_release(l);
    graft_cond_release(c);
}

static void large_figures(const bench *b)
{
    graft_engine *g = open_engine(b);
    graft_model *m = NULL;
    graft_err e = GRAFT_ERR_INIT;
    must(graft_model_load(g, b->model, NULL, &m, &e), &e);
    requantize(b, m);
    quantized_file(b, m, b->model);
    speeds(b, m, 3);
    calibration_time(b, m);
    graft_model_release(m);
    graft_engine_destroy(g);
}

int main(int argc, char **argv)
{
    bench b = {.backend = "auto",
               .demo = GRAFT_SOURCE_DIR "/models/checkpoints/emoji-64.safetensors"};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0 && i + 1 < argc)
            b.json = argv[++i];
        else if (strcmp(argv[i], "--backend") == 0 && i + 1 < argc)
            b.backend = argv[++i];
        else if (strcmp(argv[i], "--demo") == 0 && i + 1 < argc)
            b.demo = argv[++i];
        else if (argv[i][0] != '-' && !b.model)
            b.model = argv[i];
        else
            argc = 0;
    }
    if (argc < 1) {
        fputs("usage: graft-bench-quant [SD15.safetensors] [--json FILE] [--backend NAME] "
              "[--demo FILE]\n",
              stderr);
        return 2;
    }
    if (b.model) must_exist(b.model);
    must_exist(b.demo);
    snprintf(b.how, sizeof b.how, "graft-bench-quant %s --backend %s", b.model ? b.model : "",
             b.backend);
    if (b.model) large_figures(&b);
    demo_figures(&b);
    return 0;
}
