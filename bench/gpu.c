/* graft-bench-gpu: whole networks and their operators on a device, for bench/gpu.sh.
 *
 *   graft-bench-gpu [--json FILE] [--backend cuda] [--repeats N] [--tuning off|fast|full]
 *                   [--operators] [--against cpu] [--cache FOLDER] KIND MODEL.safetensors
 *
 * KIND: sd15 or sdxl (the UNet at 512x512 or 1024x1024 with guidance, as one batch of two; then the
 * swap to a second set of weights, and the UNet with 8-bit layers), vae (the decoder at 1024x1024),
 * or device, without a model, which only says what would be measured. A step's time includes the
 * copies of its inputs and outputs. Ceilings are measured in the same run. Networks are tuned
 * first, in full unless --tuning says otherwise.
 *
 * With --against the UNet is run once more by that backend in float32, and a result that is further
 * from it than rounding explains is a failure. It is one, too, when that backend cannot run, but
 * everything else is measured all the same.
 *
 * With --cache a UNet is only made ready, tuning included, with what the folder keeps from earlier
 * processes: once with an empty folder and once more is what a first and a second start take. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "bench/record.h"
#include "engine/api/quantize.h"
#include "engine/exec/trial.h"
#include "engine/graph/cost.h"

enum { REPEATS = 64 };

typedef struct bench {
    graft_engine *engine;
    graft_backend *device;
    const char *json, *backend, *kind, *model, *cache, *against;
    int repeats, operators, wrong;
    graft_tuning tuning;
    char how[240];
} bench;

static void note(const bench *b, const char *name, double value, const char *unit)
{
    record(b->json, name, value, unit, b->how);
}

/* ------------------------------------------------------------------ one network */

typedef struct network {
    graft_binding *binding;
    void *in[GRAFT_MAX_INPUTS], *out[2];
    double flops;
} network;

static void open_network(network *s, graft_binding *binding)
{
    const graft_exe *x = binding->exe;
    uint32_t seed = 7;
    memset(s, 0, sizeof *s);
    s->binding = binding;
    for (size_t i = 0; i < x->graph->n_inputs; i++) {
        float *p = s->in[i] = calloc(1, (size_t)x->input[i].bytes);
        if (!p) abort();
        for (int64_t k = 0; k < x->input[i].bytes / 4; k++) {
            seed = seed * 1664525u + 1013904223u;
            p[k] = (float)(seed >> 8) * (2.0f / 16777216.0f) - 1.0f;
        }
    }
    for (size_t i = 0; i < x->graph->n_outputs; i++)
        if (!(s->out[i] = malloc((size_t)x->output[i].bytes))) abort();
    for (size_t i = 0; i < x->graph->n_nodes; i++) s->flops += graft_cost_flops(x->graph, i);
}

static void close_network(network *s)
{
    for (int i = 0; i < GRAFT_MAX_INPUTS; i++) free(s->in[i]);
    for (int i = 0; i < 2; i++) free(s->out[i]);
    graft_binding_release(s->binding);
}

static double run_once(const bench *b, const network *s)
{
    graft_err e = GRAFT_ERR_INIT;
    double t = graft_clock_now();
    must(graft_exe_run(s->binding, b->engine->arenas, (const void *const *)s->in, s->out, NULL,
                       NULL, &e),
         &e);
    return graft_clock_now() - t;
}

/* The median, in ms. The first runs are ordinary ones and the recording. */
static double time_network(const bench *b, const network *s)
{
    double t[REPEATS];
    int n = b->repeats < REPEATS ? b->repeats : REPEATS;
    for (int i = 0; i < 4; i++) run_once(b, s);
    for (int i = 0; i < n; i++) t[i] = run_once(b, s);
    record_sort(t, n);
    printf("  %d runs: least %.3f, median %.3f, most %.3f ms; %.0f GFLOP, %.1f TFLOP/s\n", n,
           t[0] * 1e3, t[n / 2] * 1e3, t[n - 1] * 1e3, s->flops * 1e-9,
           s->flops / t[n / 2] * 1e-12);
    const graft_exe *x = s->binding->exe;
    printf("  arena %.1f MiB (bound %.1f), weights %.1f MiB\n", (double)x->arena_bytes / 1048576,
           (double)x->arena_bound / 1048576, (double)x->weight_bytes / 1048576);
    return t[n / 2] * 1e3;
}

/* What the library calls a variant of an operator. */
static void variant_name(const bench *b, const graft_op_desc *d, int32_t variant, char *out,
                         size_t n)
{
    graft_kernel *k = NULL;
    graft_kernel_info info = {.size = sizeof info};
    bool known = b->device->api->prepare(b->device->device, d, variant, &k, &info, NULL, 0) == 0;
    snprintf(out, n, "%s", known ? info.variant : "?");
    b->device->api->release(k);
}

/* Every distinct operator of the network, or quantized one, its variants timed one by one. */
static void time_operators(const bench *b, const graft_exe *x, bool quantized_only)
{
    graft_op_desc *seen = calloc(x->graph->n_nodes, sizeof *seen);
    int *times = calloc(x->graph->n_nodes, sizeof *times);
    size_t n = 0;
    if (!seen || !times) abort();
    for (size_t i = 0; i < x->graph->n_nodes; i++) {
        graft_op_desc d;
        size_t k = 0;
        memset(&d, 0, sizeof d);
        graft_graph_desc(x->graph, i, &d);
        if (quantized_only && !d.attrs.quant) continue;
        while (k < n && memcmp(&seen[k], &d, sizeof d) != 0) k++;
        if (k == n) seen[n++] = d;
        times[k]++;
    }
    printf("  %-10s %5s  %-44s us of each variant\n", "operator", "count", "shape");
    for (size_t k = 0; k < n; k++) {
        graft_trial t;
        graft_err e = GRAFT_ERR_INIT;
        graft_trial_limits limits = {.max_bytes = (int64_t)4 << 30};
        const int64_t *o = seen[k].out.dim, *w = seen[k].in[1].dim;
        printf("  %-10s %5d  (%lld,%lld,%lld,%lld) by (%lld,%lld,%lld,%lld) ",
               graft_op_name(seen[k].op), times[k], (long long)o[0], (long long)o[1],
               (long long)o[2], (long long)o[3], (long long)w[0], (long long)w[1], (long long)w[2],
               (long long)w[3]);
        if (graft_trial_run(b->device, &seen[k], &limits, NULL, &t, &e)) {
            printf("%s\n", e.text);
            continue;
        }
        for (int v = 0; v < t.count; v++) {
            char variant[64];
            variant_name(b, &seen[k], v, variant, sizeof variant);
            printf("%s %s %.1f", v ? "," : "", variant, (double)t.ns[v] * 1e-3);
        }
        printf("%s\n", t.count == 1 ? " (one variant, not timed)" : "");
    }
    free(seen);
    free(times);
}

/* The squared distance of two results over the size of the second. */
static double error_of(const network *got, const network *want)
{
    double error = 0, size = 1e-30;
    int64_t n = want->binding->exe->output[0].bytes / 4;
    for (int64_t i = 0; i < n; i++) {
        double a = ((const float *)got->out[0])[i], b = ((const float *)want->out[0])[i];
        error += (a - b) * (a - b);
        size += b * b;
    }
    return error / size;
}

static graft_model *load(const bench *b)
{
    graft_model *m = NULL;
    graft_err e = GRAFT_ERR_INIT;
    must(graft_model_load(b->engine, b->model, NULL, &m, &e), &e);
    snprintf(m->options.precision, sizeof m->options.precision, "bf16");
    snprintf(m->options.device, sizeof m->options.device, "%s", b->backend);
    m->options.tuning = b->tuning;
    m->options.no_disk = !b->cache;
    return m;
}

static graft_binding *bind(const graft_model *m, int64_t side)
{
    graft_binding *binding = NULL;
    graft_err e = GRAFT_ERR_INIT;
    must(graft_model_bind(m, 2, side, side, 77, NULL, &binding, &e), &e);
    return binding;
}

/* Another file of the same architecture takes the place of the first, from the page cache, and
 * back, with both resident; times until the first step has run with it, less an ordinary step. */
static void time_swaps(const bench *b, const graft_model *m, int64_t side, double step)
{
    graft_model *other = NULL;
    graft_err e = GRAFT_ERR_INIT;
    const char *path = getenv("GRAFT_BENCH_SECOND");
    char name[64];
    if (!path) {
        printf("  skipped: swaps, GRAFT_BENCH_SECOND names no second checkpoint\n");
        return;
    }
    for (int resident = 0; resident < 2; resident++) {
        network s;
        double t = graft_clock_now();
        if (!resident) must(graft_model_swap(m, path, true, NULL, &other, &e), &e);
        graft_binding *binding = bind(resident ? m : other, side);
        t = graft_clock_now() - t;
        open_network(&s, binding);
        double first = run_once(b, &s) * 1e3;
        snprintf(name, sizeof name, "swap_%s_%s_ms", b->kind, resident ? "resident" : "file");
        note(b, name, t * 1e3 + (first > step ? first - step : 0), "ms");
        close_network(&s);
    }
    graft_model_release(other);
}

/* All layers above QuantizeModel's default density, whatever the error: time is the question. */
static graft_model *quantized(const graft_model *m, int64_t side, graft_quant_format format)
{
    const graft_quant_limits limits = {{true, true, true}, {1, 1, 1}, 300};
    graft_unet_shape shape = {
        .batch = 2, .height = side, .width = side, .tokens = 77, .act_dtype = GRAFT_F32};
    graft_quant_plan *p = NULL;
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    must(graft_quant_plan_create(&m->arch, &shape, &p, &e), &e);
    p->format = format;
    size_t layers = graft_quant_plan_select(p, &limits);
    printf("to %s: %zu of %zu layers\n", graft_quant_levels_name(p->bits, p->format), layers, p->n);
    must(graft_model_with_plan(m, p, &out, &e), &e);
    graft_quant_plan_destroy(p);
    return out;
}

/* The same step with 8-bit layers; its error is that of one call with made-up inputs. */
static void bench_levels(const bench *b, const graft_model *m, int64_t side, const network *plain,
                         graft_quant_format format)
{
    char name[64];
    const char *what = format == GRAFT_FORMAT_FP8 ? "fp8" : "int8";
    graft_model *q = quantized(m, side, format);
    network s;
    double t = graft_clock_now();
    open_network(&s, bind(q, side));
    printf("  made ready in %.2f s\n", graft_clock_now() - t);
    snprintf(name, sizeof name, "%s_%s_step_ms", b->kind, what);
    note(b, name, time_network(b, &s), "ms");
    run_once(b, plain);
    snprintf(name, sizeof name, "%s_%s_nmse", b->kind, what);
    note(b, name, error_of(&s, plain), "of bf16, one call");
    if (b->operators) time_operators(b, s.binding->exe, true);
    close_network(&s);
    graft_model_release(q);
}

/* Networks of random weights in bfloat16 come within a thousandth of float32. */
#define ERROR_MOST 1e-2

/* The error of the network's result beside the same in float32 by the engine's own backend. */
static graft_status error_beside(const bench *b, graft_engine *engine, int64_t side,
                                 const network *s, double *error, graft_err *e)
{
    graft_model *m = NULL;
    graft_binding *binding = NULL;
    network other;
    graft_status st = graft_model_load(engine, b->model, NULL, &m, e);
    if (st) return st;
    snprintf(m->options.precision, sizeof m->options.precision, "f32");
    m->options.no_disk = true;
    m->options.tuning = GRAFT_TUNING_OFF;
    st = graft_model_bind(m, 2, side, side, 77, NULL, &binding, e);
    graft_model_release(m);
    if (st) return st;
    open_network(&other, binding);
    st = graft_exe_run(other.binding, engine->arenas, (const void *const *)other.in, other.out,
                       NULL, NULL, e);
    if (!st) *error = error_of(s, &other);
    close_network(&other);
    return st;
}

/* The same network with the same inputs on another backend. */
static void compare(bench *b, int64_t side, const network *s)
{
    graft_engine *engine = NULL;
    graft_err e = GRAFT_ERR_INIT;
    char name[64];
    double error = 0, t = graft_clock_now();
    graft_engine_config config = {.kernel_dir = GRAFT_LIB_DIR, .backend = b->against};
    graft_status st = graft_engine_create(&config, &engine, &e);
    if (!st) st = error_beside(b, engine, side, s, &error, &e);
    graft_engine_destroy(engine);
    if (st) {
        fprintf(stderr, "graft-bench-gpu: not compared with %s: %s\n", b->against, e.text);
        b->wrong = 1;
        return;
    }
    snprintf(name, sizeof name, "%s_nmse", b->kind);
    note(b, name, error, "of float32 on the processor, one call");
    printf("  compared with %s in %.1f s\n", b->against, graft_clock_now() - t);
    if (!(error < ERROR_MOST)) {
        fprintf(stderr, "graft-bench-gpu: the result is wrong: an error of %g\n", error);
        b->wrong = 1;
    }
}

static void bench_unet(bench *b)
{
    char name[64];
    int64_t side = strcmp(b->kind, "sdxl") == 0 ? 128 : 64;
    graft_model *m = load(b);
    double t = graft_clock_now();
    network s;
    open_network(&s, bind(m, side));
    printf("%s UNet, batch 2, latents of %d x %d, bf16: made ready in %.2f s\n", b->kind, (int)side,
           (int)side, graft_clock_now() - t);
    double step = time_network(b, &s);
    snprintf(name, sizeof name, "%s_step_ms", b->kind);
    note(b, name, step, "ms");
    if (b->against) compare(b, side, &s);
    time_swaps(b, m, side, step);
    bench_levels(b, m, side, &s, GRAFT_FORMAT_INT);
    bench_levels(b, m, side, &s, GRAFT_FORMAT_FP8);
    if (b->operators) time_operators(b, s.binding->exe, false); /* last: it takes the longest */
    close_network(&s);
    graft_model_release(m);
}

static void count_entry(void *ctx, const char *name, uint64_t bytes, int64_t modified, bool good)
{
    (void)name, (void)bytes, (void)modified, (void)good;
    ++*(int *)ctx;
}

static void bench_start(const bench *b)
{
    char name[64];
    int entries = 0;
    graft_err e = GRAFT_ERR_INIT;
    must(graft_cache_list(b->engine, false, count_entry, &entries, &e), &e);
    graft_model *m = load(b);
    double t = graft_clock_now();
    graft_binding *binding = bind(m, strcmp(b->kind, "sdxl") == 0 ? 128 : 64);
    t = graft_clock_now() - t;
    printf("%s UNet with %d entries in %s\n", b->kind, entries, b->cache);
    snprintf(name, sizeof name, "%s_ready_%s_s", b->kind, entries ? "again" : "first");
    note(b, name, t, "s, weights from the page cache");
    graft_binding_release(binding);
    graft_model_release(m);
}

static void bench_vae(const bench *b)
{
    graft_vae *v = NULL;
    graft_binding *binding = NULL;
    graft_err e = GRAFT_ERR_INIT;
    network s;
    must(graft_vae_load(b->engine, b->model, NULL, &v, &e), &e);
    snprintf(v->options.precision, sizeof v->options.precision, "bf16");
    snprintf(v->options.device, sizeof v->options.device, "%s", b->backend);
    v->options.tuning = b->tuning;
    v->options.no_disk = true;
    must(graft_vae_bind(v, true, 128, 128, NULL, &binding, &e), &e);
    open_network(&s, binding);
    printf("VAE decoder, 1024 x 1024, bf16\n");
    note(b, "vae_1024_ms", time_network(b, &s), "ms");
    if (b->operators) time_operators(b, s.binding->exe, false);
    close_network(&s);
    graft_vae_release(v);
}

/* ------------------------------------------------------------------ ceilings */

/* The best of all variants of one operator, in seconds; 0 when it cannot run. */
static double best_of(const bench *b, const graft_op_desc *d)
{
    graft_trial t;
    graft_err e = GRAFT_ERR_INIT;
    graft_trial_limits limits = {.max_bytes = (int64_t)8 << 30};
    uint64_t best = 0;
    if (graft_trial_run(b->device, d, &limits, NULL, &t, &e)) {
        printf("  skipped: %s\n", e.text);
        return 0;
    }
    for (int i = 0; i < t.count; i++)
        if (t.ns[i] && (!best || t.ns[i] < best)) best = t.ns[i];
    return (double)best * 1e-9;
}

static void ceilings(const bench *b)
{
    const int64_t n = 8192;
    graft_tensor_desc square = {
        .dtype = GRAFT_BF16, .rank = 2, .dim = {n, n}, .stride = {n, 1}, .constant = 0};
    graft_op_desc d = {.size = sizeof d, .op = GRAFT_OP_LINEAR, .out = square};
    d.in[GRAFT_LINEAR_X] = d.in[GRAFT_LINEAR_W] = square;
    d.in[GRAFT_LINEAR_W].constant = 1;
    double t = best_of(b, &d);
    if (t > 0)
        note(b, "gpu_gemm_bf16_tflops", 2.0 * (double)n * (double)n * (double)n / t * 1e-12,
             "TFLOP/s, 8192 x 8192 x 8192");
    d.attrs.quant = GRAFT_QUANT_INT8;
    t = best_of(b, &d);
    if (t > 0)
        note(b, "gpu_gemm_int8_tops", 2.0 * (double)n * (double)n * (double)n / t * 1e-12,
             "TOP/s, the same with x quantized in it");
}

static void log_line(void *ctx, int32_t level, const char *text)
{
    (void)ctx;
    if (level >= GRAFT_LOG_WARN) fprintf(stderr, "graft-bench-gpu: %s\n", text);
}

static int usage(void)
{
    fputs("usage: graft-bench-gpu [--json FILE] [--backend NAME] [--repeats N] "
          "[--tuning off|fast|full] [--operators] [--against NAME] [--cache FOLDER] "
          "device | sd15|sdxl|vae MODEL.safetensors\n",
          stderr);
    return 2;
}

static const char *const tunings[] = {"off", "fast", "full"}; /* graft_tuning */

static int tuning_of(const char *text, graft_tuning *out)
{
    for (int i = 0; i < 3; i++) {
        if (strcmp(text, tunings[i]) != 0) continue;
        *out = (graft_tuning)i;
        return 1;
    }
    return 0;
}

static int parse(int argc, char **argv, bench *b)
{
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (more && strcmp(argv[i], "--json") == 0)
            b->json = argv[++i];
        else if (more && strcmp(argv[i], "--backend") == 0)
            b->backend = argv[++i];
        else if (more && strcmp(argv[i], "--repeats") == 0)
            b->repeats = atoi(argv[++i]);
        else if (more && strcmp(argv[i], "--tuning") == 0 && tuning_of(argv[i + 1], &b->tuning))
            i++;
        else if (more && strcmp(argv[i], "--against") == 0)
            b->against = argv[++i];
        else if (more && strcmp(argv[i], "--cache") == 0)
            b->cache = argv[++i];
        else if (strcmp(argv[i], "--operators") == 0)
            b->operators = 1;
        else if (argv[i][0] != '-' && !b->kind)
            b->kind = argv[i];
        else if (argv[i][0] != '-' && !b->model)
            b->model = argv[i];
        else
            return 0;
    }
    if (b->kind && strcmp(b->kind, "device") == 0) return 1;
    return b->kind && b->model && b->repeats > 0 &&
           (!strcmp(b->kind, "sd15") || !strcmp(b->kind, "sdxl") || !strcmp(b->kind, "vae"));
}

int main(int argc, char **argv)
{
    bench b = {.backend = "cuda", .repeats = 30, .tuning = GRAFT_TUNING_FULL};
    graft_err e = GRAFT_ERR_INIT;
    if (!parse(argc, argv, &b)) return usage();
    setvbuf(stdout, NULL, _IOLBF, 0); /* a run that is cut short has said what it did */
    graft_engine_config config = {.kernel_dir = GRAFT_LIB_DIR,
                                  .backend = b.backend,
                                  .cache_dir = b.cache,
                                  .log = {NULL, log_line}};
    must(graft_engine_create(&config, &b.engine, &e), &e);
    must(graft_backends_get(&b.engine->backends, b.backend, &b.device, &e), &e);
    printf("%s: %s\n", b.device->name, b.device->info.name);
    printf("  %s\n", b.device->info.identity);
    snprintf(b.how, sizeof b.how, "bench/gpu.sh on %s, tuning %s", b.device->info.name,
             tunings[b.tuning]);
    if (strcmp(b.kind, "device") != 0 && !b.cache) ceilings(&b);
    if (strcmp(b.kind, "vae") == 0) bench_vae(&b);
    if (b.kind[0] == 's' && b.cache) bench_start(&b);
    if (b.kind[0] == 's' && !b.cache) bench_unet(&b);
    graft_engine_destroy(b.engine);
    return b.wrong;
}
