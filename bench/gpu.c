/* graft-bench-gpu: whole networks and their operators on a device, for bench/gpu.sh.
 *
 *   graft-bench-gpu [OPTION...] device | ceilings | blocks | sd15|sdxl|vae MODEL.safetensors |
 *                               picture MODEL.safetensors COMMAND...
 *
 * sd15 and sdxl: the UNet at 512x512 or 1024x1024 with guidance, as one batch of two. vae: the
 * decoder at 1024x1024. Networks are tuned first. ceilings: the fastest products of one size.
 * blocks: a layer whose weights are packed, of each type, beside the same in bf16.
 * device: only says what would be measured, which libraries, and from which files; code 4 where
 * cuBLASLt, cuDNN or NVRTC is missing, since own kernels would be measured in their place. picture:
 * COMMAND makes one with MODEL in a process of its own, from its start to its end, and what it
 * takes of the device's memory; with an empty folder of --cache and once more, as with --start.
 *
 * The time of a step is that of one of many that are handed over one after the other with inputs
 * that are on the device, as a sampler does it. What one alone takes, with its inputs and outputs
 * copied from and to the host and waited for, is another figure: KIND_run_ms.
 *
 *   --operators       where the step's time goes, and what tuning found of each variant
 *   --against NAME    the network once more by that backend in float32: a result further from it
 *                     than rounding explains is a failure, and so is a backend that cannot run
 *   --overlap         the step beside one whose kernels start one after the other: both results,
 *                     and KIND's pdl_KIND_ratio, the time of the former over that of the latter
 *   --swap FILE       the swap to a second set of weights and back
 *   --levels          also with 8-bit layers, integers and FP8
 *   --start           the UNet is only made ready, tuning included, and run once: with an empty
 *                     folder of --cache and once more is what a first and a second start take
 *   --cache FOLDER    what was tuned and compiled is kept there; without it nowhere
 *   --tuning off|fast|full (full), --repeats N (30), --backend NAME (cuda)
 *   --json FILE       figures go there, too
 *   --side N          of the latents, to try this program with a small model
 *
 * Code 3: everything was measured and something is wrong. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "bench/gpu_picture.h"
#include "bench/gpu_products.h"
#include "bench/gpu_table.h"
#include "bench/record.h"
#include "engine/calibrate/quantize.h"
#include "engine/exec/invariants.h"
#include "engine/exec/trial.h"
#include "engine/graph/cost.h"

enum { REPEATS = 64, STEPS = 20, ROUNDS = 5, PROFILES = 5 };
enum { WRONG = 3, INCOMPLETE = 4 }; /* codes */

typedef struct bench {
    graft_engine *engine;
    graft_backend *device;
    const char *json, *backend, *kind, *model, *cache, *against, *second;
    char **command; /* of a picture, NULL-terminated */
    int repeats, operators, levels, start, overlap, side, wrong, no_nvrtc, overlaps;
    graft_tuning tuning;
    char how[240];
} bench;

/* What a small model took is not to be taken for the figure of that name. */
static void note(const bench *b, const char *name, double value, const char *unit)
{
    char tried[80];
    snprintf(tried, sizeof tried, "%s%s", b->side ? "tried_" : "", name);
    record(b->json, tried, value, unit, b->how);
}

static void note_product(const void *b, const char *name, double value, const char *unit)
{
    note(b, name, value, unit);
}

/* For `device` everything that the library says of what it found. */
static void log_line(void *ctx, int32_t level, const char *text)
{
    bench *b = ctx;
    b->no_nvrtc |= strstr(text, "no NVRTC") != NULL;
    b->overlaps |= strstr(text, "kernels start before the one ahead") != NULL;
    if (level >= GRAFT_LOG_WARN) fprintf(stderr, "graft-bench-gpu: %s\n", text);
    if (level < GRAFT_LOG_WARN && strcmp(b->kind, "device") == 0) printf("  %s\n", text);
}

/* With the device, which is opened. */
static graft_status open_engine(bench *b, graft_err *e)
{
    graft_engine_config config = {.kernel_dir = GRAFT_LIB_DIR,
                                  .backend = b->backend,
                                  .cache_dir = b->cache,
                                  .log = {b, log_line}};
    graft_status st = graft_engine_create(&config, &b->engine, e);
    return st ? st : graft_backends_get(&b->engine->backends, b->backend, &b->device, e);
}

/* ------------------------------------------------------------------ one network */

typedef struct network {
    graft_binding *binding;
    void *in[GRAFT_MAX_INPUTS], *out[2];
    void *there[GRAFT_MAX_INPUTS]; /* the inputs on the device, where it can copy them itself */
    bool on_device;
    graft_invariants *series; /* NULL: each step computes everything */
    double flops;
} network;

static graft_backend *backend_of(const network *s)
{
    return s->binding->exe->backend;
}

static void *need(void *p)
{
    if (p) return p;
    fputs("graft-bench-gpu: out of memory\n", stderr);
    exit(1);
}

static void send_inputs(network *s)
{
    const graft_exe *x = s->binding->exe;
    const graft_backend *d = x->backend;
    graft_err e = GRAFT_ERR_INIT;
    s->on_device = !d->info.host_memory && GRAFT_KERNELS_HAS(graft_backend_more(d), copy);
    for (size_t i = 0; i < x->graph->n_inputs && s->on_device; i++) {
        uint64_t bytes = (uint64_t)x->input[i].bytes;
        s->there[i] = need(d->api->alloc(d->device, bytes));
        if (d->api->upload(d->device, s->there[i], s->in[i], bytes))
            must(graft_fail(&e, GRAFT_E_DEVICE, "inputs do not arrive on the device"), &e);
    }
}

static void open_network(network *s, graft_binding *binding)
{
    const graft_exe *x = binding->exe;
    uint32_t seed = 7;
    memset(s, 0, sizeof *s);
    s->binding = binding;
    for (size_t i = 0; i < x->graph->n_inputs; i++) {
        float *p = s->in[i] = need(calloc(1, (size_t)x->input[i].bytes));
        for (int64_t k = 0; k < x->input[i].bytes / 4; k++) {
            seed = seed * 1664525u + 1013904223u;
            p[k] = (float)(seed >> 8) * (2.0f / 16777216.0f) - 1.0f;
        }
    }
    for (size_t i = 0; i < x->graph->n_outputs; i++)
        s->out[i] = need(malloc((size_t)x->output[i].bytes));
    for (size_t i = 0; i < x->graph->n_nodes; i++) s->flops += graft_cost_flops(x->graph, i);
    send_inputs(s);
    const unsigned long long away = binding->offload ? binding->offload->bytes >> 20 : 0;
    if (away) printf("  %llu MiB of weights come anew in each run\n", away);
}

static void close_network(network *s)
{
    const graft_backend *d = backend_of(s);
    for (int i = 0; i < GRAFT_MAX_INPUTS; i++) {
        if (s->there[i]) d->api->free(d->device, s->there[i]);
        free(s->in[i]);
    }
    for (int i = 0; i < 2; i++) free(s->out[i]);
    graft_binding_release(s->binding);
}

/* Alone, with everything that the host must do for it. */
static double run_once(const bench *b, const network *s)
{
    graft_err e = GRAFT_ERR_INIT;
    double t = graft_clock_now();
    must(graft_exe_run(s->binding, b->engine->arenas, (const void *const *)s->in, s->out, NULL,
                       NULL, &e),
         &e);
    return graft_clock_now() - t;
}

/* ------------------------------------------------------------------ steps */

static graft_status write_inputs(void *ctx, void *const *address)
{
    const network *s = ctx;
    const graft_exe *x = s->binding->exe;
    const graft_backend *d = x->backend;
    graft_status st = GRAFT_OK;
    for (size_t i = 0; i < x->graph->n_inputs && !st; i++)
        st = graft_backend_more(d)->copy(d->device, address[i], s->there[i],
                                         (uint64_t)x->input[i].bytes);
    return st;
}

static graft_status leave_outputs(void *ctx, void *const *address)
{
    (void)ctx, (void)address;
    return GRAFT_OK;
}

/* Handed over, not waited for. */
static void hand_over(const bench *b, network *s, graft_exe_profile *profile)
{
    graft_err e = GRAFT_ERR_INIT;
    if (!s->on_device)
        must(graft_exe_run(s->binding, b->engine->arenas, (const void *const *)s->in, s->out, NULL,
                           profile, &e),
             &e);
    else
        must(graft_exe_run_there(s->binding, b->engine->arenas, s->series, write_inputs,
                                 leave_outputs, s, NULL, profile, &e),
             &e);
}

static void wait_for(const network *s)
{
    const graft_backend *d = backend_of(s);
    graft_err e = GRAFT_ERR_INIT;
    char text[256] = "";
    graft_status st = d->api->wait(d->device, text, sizeof text);
    if (st) must(graft_fail(&e, st, "%s", text), &e);
}

/* The first steps are an ordinary one and the recording. */
static void warm_up(const bench *b, network *s)
{
    for (int i = 0; i < 4; i++) hand_over(b, s, NULL);
    wait_for(s);
}

/* One of many steps between two waits, in seconds. */
static double time_round(const bench *b, network *s)
{
    int steps = b->repeats < STEPS ? b->repeats : STEPS;
    double t = graft_clock_now();
    for (int i = 0; i < steps; i++) hand_over(b, s, NULL);
    wait_for(s);
    return (graft_clock_now() - t) / steps;
}

/* The median over some rounds, in ms. */
static double time_steps(const bench *b, network *s)
{
    double t[ROUNDS];
    int steps = b->repeats < STEPS ? b->repeats : STEPS;
    warm_up(b, s);
    for (int round = 0; round < ROUNDS; round++) t[round] = time_round(b, s);
    record_sort(t, ROUNDS);
    double step = t[ROUNDS / 2];
    const graft_exe *x = s->binding->exe;
    printf("  %d rounds of %d steps: least %.3f, median %.3f, most %.3f ms a step; %.0f GFLOP, "
           "%.1f TFLOP/s\n",
           ROUNDS, steps, t[0] * 1e3, step * 1e3, t[ROUNDS - 1] * 1e3, s->flops * 1e-9,
           s->flops / step * 1e-12);
    printf("  arena %.1f MiB (bound %.1f), weights %.1f MiB\n", (double)x->arena_bytes / 1048576,
           (double)x->arena_bound / 1048576, (double)x->weight_bytes / 1048576);
    return step * 1e3;
}

/* The same one by one with copies and waits: the median, in ms. */
static double time_runs(const bench *b, const network *s)
{
    double t[REPEATS];
    int n = b->repeats < REPEATS ? b->repeats : REPEATS;
    for (int i = 0; i < 2; i++) run_once(b, s);
    for (int i = 0; i < n; i++) t[i] = run_once(b, s);
    record_sort(t, n);
    printf("  %d runs with copies: least %.3f, median %.3f, most %.3f ms\n", n, t[0] * 1e3,
           t[n / 2] * 1e3, t[n - 1] * 1e3);
    return t[n / 2] * 1e3;
}

/* Of a sampling's later steps, which leave out what the first has computed: what the prompt alone
 * decides. */
static void time_later_steps(const bench *b, network *s, const char *what)
{
    graft_err e = GRAFT_ERR_INIT;
    char name[64];
    must(graft_invariants_create(s->binding->exe, b->engine->kept, &s->series, &e), &e);
    if (s->series && s->on_device) {
        snprintf(name, sizeof name, "%s_later_step_ms", what);
        note(b, name, time_steps(b, s), "ms, one of many later steps of a sampling");
    }
    graft_invariants_destroy(s->series);
    s->series = NULL;
}

/* All figures; the first is that of a step, and is returned. */
static double time_network(const bench *b, network *s, const char *what)
{
    char name[64];
    double step = time_steps(b, s);
    snprintf(name, sizeof name, "%s_step_ms", what);
    note(b, name, step, "ms, one of many steps handed over together");
    snprintf(name, sizeof name, "%s_run_ms", what);
    note(b, name, time_runs(b, s), "ms, one alone with copies from and to the host");
    time_later_steps(b, s, what);
    return step;
}

/* Recorded steps before the one that is looked at keep the device busy until all of that one was
 * handed over: else the time of handing over would show between its operators. */
static void profile(bench *b, network *s, double step_ms)
{
    const graft_exe *x = s->binding->exe;
    graft_exe_profile p = {.n = x->graph->n_nodes};
    if (!b->operators) return;
    p.seconds = need(calloc(p.n, sizeof *p.seconds));
    for (int i = 0; i < PROFILES; i++) {
        for (int k = 0; k < 3 && s->on_device; k++) hand_over(b, s, NULL);
        hand_over(b, s, &p);
    }
    int wrong = gpu_table_print(b->engine, x, &p, step_ms);
    if (wrong) {
        fprintf(stderr, "graft-bench-gpu: %d variants compute something else\n", wrong);
        b->wrong = 1;
    }
    free(p.seconds);
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
 * back, with both resident; times until the first step has run with it, less an ordinary step. Then
 * what a step takes with it beside one before the swap. */
static void time_swaps(const bench *b, const graft_model *m, int64_t side, double step)
{
    graft_model *other = NULL;
    graft_err e = GRAFT_ERR_INIT;
    char name[64];
    for (int resident = 0; resident < 2; resident++) {
        network s;
        double t = graft_clock_now();
        if (!resident) must(graft_model_swap(m, b->second, true, NULL, &other, &e), &e);
        graft_binding *binding = bind(resident ? m : other, side);
        t = graft_clock_now() - t;
        open_network(&s, binding);
        double first = run_once(b, &s) * 1e3;
        snprintf(name, sizeof name, "swap_%s_%s_ms", b->kind, resident ? "resident" : "file");
        note(b, name, t * 1e3 + (first > step ? first - step : 0), "ms");
        snprintf(name, sizeof name, "swap_%s_%s_step_ratio", b->kind,
                 resident ? "resident" : "file");
        note(b, name, time_steps(b, &s) / step, "of a step's time before the swap");
        close_network(&s);
    }
    graft_model_release(other);
}

/* Of 8-bit layers, in networks of random weights: SDXL's in FP8 come to 0.08. Something else has 2.
 */
#define LEVELS_MOST 0.3

/* All layers above QuantizeModel's default density, whatever the error: time is the question. */
static graft_model *quantized(const graft_model *m, int64_t side, graft_quant_format format)
{
    const graft_quant_limits limits = {{true, true, true}, {1, 1, 1}, 300};
    graft_net_shape shape = {
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
static void bench_levels(bench *b, const graft_model *m, int64_t side, const network *plain,
                         graft_quant_format format)
{
    char name[64];
    const char *what = format == GRAFT_FORMAT_FP8 ? "fp8" : "int8";
    graft_model *q = quantized(m, side, format);
    network s;
    double t = graft_clock_now();
    open_network(&s, bind(q, side));
    printf("  made ready in %.2f s\n", graft_clock_now() - t);
    run_once(b, plain);
    run_once(b, &s);
    printf("  the first run, launched one by one: nmse %.4g of bf16\n", error_of(&s, plain));
    snprintf(name, sizeof name, "%s_%s", b->kind, what);
    double step = time_network(b, &s, name);
    run_once(b, plain);
    run_once(b, &s);
    double error = error_of(&s, plain);
    snprintf(name, sizeof name, "%s_%s_nmse", b->kind, what);
    note(b, name, error, "of bf16, one call");
    if (!(error < LEVELS_MOST)) {
        fprintf(stderr, "graft-bench-gpu: %s layers compute something else: %g\n", what, error);
        b->wrong = 1;
    }
    profile(b, &s, step);
    close_network(&s);
    graft_model_release(q);
}

/* Networks of random weights in bfloat16 come within a thousandth of float32. */
#define ERROR_MOST 1e-2

static int64_t side_of(const bench *b)
{
    return b->side ? b->side : strcmp(b->kind, "sd15") == 0 ? 64 : 128;
}

/* The VAE's decoder as it is timed, or `plain`: in float32 on the engine's own backend. */
static graft_status bind_vae(const bench *b, graft_engine *engine, bool plain, graft_binding **out,
                             graft_err *e)
{
    graft_vae *v = NULL;
    graft_status st = graft_vae_load(engine, b->model, NULL, &v, e);
    if (st) return st;
    snprintf(v->options.precision, sizeof v->options.precision, "%s", plain ? "f32" : "bf16");
    if (!plain) snprintf(v->options.device, sizeof v->options.device, "%s", b->backend);
    v->options.tuning = plain ? GRAFT_TUNING_OFF : b->tuning;
    v->options.no_disk = plain || !b->cache;
    st = graft_vae_bind(v, true, side_of(b), side_of(b), NULL, out, e);
    graft_vae_release(v);
    return st;
}

static graft_status bind_plain(const bench *b, graft_engine *engine, graft_binding **out,
                               graft_err *e)
{
    graft_model *m = NULL;
    if (strcmp(b->kind, "vae") == 0) return bind_vae(b, engine, true, out, e);
    graft_status st = graft_model_load(engine, b->model, NULL, &m, e);
    if (st) return st;
    snprintf(m->options.precision, sizeof m->options.precision, "f32");
    m->options.no_disk = true;
    m->options.tuning = GRAFT_TUNING_OFF;
    st = graft_model_bind(m, 2, side_of(b), side_of(b), 77, NULL, out, e);
    graft_model_release(m);
    return st;
}

/* The error of the network's result beside that. */
static graft_status error_beside(const bench *b, graft_engine *engine, const network *s,
                                 double *error, graft_err *e)
{
    graft_binding *binding = NULL;
    network other;
    graft_status st = bind_plain(b, engine, &binding, e);
    if (st) return st;
    open_network(&other, binding);
    st = graft_exe_run(other.binding, engine->arenas, (const void *const *)other.in, other.out,
                       NULL, NULL, e);
    if (!st) *error = error_of(s, &other);
    close_network(&other);
    return st;
}

/* The same network with the same inputs on another backend. */
static void compare(bench *b, const network *s)
{
    graft_engine *engine = NULL;
    graft_err e = GRAFT_ERR_INIT;
    char name[64];
    double error = 0, t = graft_clock_now();
    graft_engine_config config = {.kernel_dir = GRAFT_LIB_DIR, .backend = b->against};
    graft_status st = graft_engine_create(&config, &engine, &e);
    if (!st) st = error_beside(b, engine, s, &error, &e);
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

/* The same network on the same device opened a second time, with what was tuned for the first, and
 * with kernels that start one after the other. The two take turns, so that a clock that changes
 * changes for both. */
static void bench_overlap(bench *b, int64_t side, network *s)
{
    bench apart = *b;
    network other;
    double t[2][ROUNDS];
    char name[64];
    graft_err e = GRAFT_ERR_INIT;
    if (!b->overlaps) {
        printf("  no kernel starts before the one ahead has ended: nothing to compare\n");
        return;
    }
    setenv("GRAFT_CUDA_PDL", "off", 1);
    must(open_engine(&apart, &e), &e);
    unsetenv("GRAFT_CUDA_PDL");
    graft_model *m = load(&apart);
    open_network(&other, bind(m, side));
    warm_up(b, s);
    warm_up(&apart, &other);
    for (int round = 0; round < ROUNDS; round++) {
        t[0][round] = time_round(b, s);
        t[1][round] = time_round(&apart, &other);
    }
    for (int i = 0; i < 2; i++) record_sort(t[i], ROUNDS);
    double on = t[0][ROUNDS / 2] * 1e3, off = t[1][ROUNDS / 2] * 1e3;
    snprintf(name, sizeof name, "pdl_%s_ratio", b->kind);
    note(b, name, on / off, "of a step's time without programmatic dependent launch");
    run_once(b, s);
    run_once(&apart, &other);
    double error = error_of(s, &other);
    printf("  kernels that start early: %.3f ms a step, one after the other %.3f, ", on, off);
    printf("results differ by %g\n", error);
    if (!(error < ERROR_MOST)) {
        fprintf(stderr, "graft-bench-gpu: kernels that start early compute something else\n");
        b->wrong = 1;
    }
    close_network(&other);
    graft_model_release(m);
    graft_engine_destroy(apart.engine);
}

static void bench_unet(bench *b)
{
    int64_t side = side_of(b);
    graft_model *m = load(b);
    double t = graft_clock_now();
    network s;
    open_network(&s, bind(m, side));
    printf("%s UNet, batch 2, latents of %d x %d, bf16: made ready in %.2f s\n", b->kind, (int)side,
           (int)side, graft_clock_now() - t);
    double step = time_network(b, &s, b->kind);
    profile(b, &s, step);
    if (b->against) compare(b, &s);
    if (b->overlap) bench_overlap(b, side, &s);
    if (b->second) time_swaps(b, m, side, step);
    if (b->levels) {
        bench_levels(b, m, side, &s, GRAFT_FORMAT_INT);
        bench_levels(b, m, side, &s, GRAFT_FORMAT_FP8);
    }
    close_network(&s);
    graft_model_release(m);
}

static void count_entry(void *ctx, const char *name, uint64_t bytes, int64_t modified, bool good)
{
    (void)name, (void)bytes, (void)modified, (void)good;
    ++*(int *)ctx;
}

static int cache_entries(const bench *b)
{
    int entries = 0;
    graft_err e = GRAFT_ERR_INIT;
    must(graft_cache_list(b->engine, false, count_entry, &entries, &e), &e);
    return entries;
}

/* What is in use on the whole device, this process's context and code among it; 0: not known. */
static double used_mib(const bench *b)
{
    graft_device_info info = {.size = sizeof info};
    if (b->device->api->info(b->device->device, &info) || !info.memory_free) return 0;
    return (double)(info.memory_total - info.memory_free) / 1048576;
}

static void bench_start(bench *b)
{
    char name[64];
    network s;
    int entries = cache_entries(b);
    graft_model *m = load(b);
    double t = graft_clock_now();
    open_network(&s, bind(m, side_of(b)));
    double ready = graft_clock_now() - t, step = run_once(b, &s);
    printf("%s UNet with %d entries in %s: ready in %.3f s, then the first step %.3f s\n", b->kind,
           entries, b->cache, ready, step);
    snprintf(name, sizeof name, "%s_ready_%s_s", b->kind, entries ? "again" : "first");
    note(b, name, ready + step, "s, with the first step, weights from the page cache");
    warm_up(b, &s);
    snprintf(name, sizeof name, "%s_over_weights_mib", b->kind);
    double weights = (double)s.binding->exe->weight_bytes / 1048576, used = used_mib(b);
    if (used > 0 && entries)
        note(b, name, used - weights, "MiB in use on the device beside the UNet's weights");
    close_network(&s);
    graft_model_release(m);
}

static void bench_picture(bench *b)
{
    char name[64];
    gpu_picture p;
    graft_err e = GRAFT_ERR_INIT;
    const char *limit = getenv("GRAFT_MEMORY_MB");
    const char *turn = limit && limit[0] ? "limited" : cache_entries(b) ? "again" : "first";
    setenv("GRAFT_CACHE", b->cache, 1);
    setenv("GRAFT_BACKEND", b->backend, 1);
    must(gpu_picture_run(b->device, b->model, b->command, &p, &e), &e);
    double file = (double)p.file_bytes / 1048576, peak = (double)p.peak_bytes / 1048576;
    printf("a picture in a new process (%s): %.3f s; reading its checkpoint's %.0f MiB %.3f s\n",
           turn, p.seconds, file, p.read_seconds);
    snprintf(name, sizeof name, "picture_%s_s", turn);
    note(b, name, p.seconds - p.read_seconds, "s beside reading the checkpoint");
    snprintf(name, sizeof name, "picture_%s_over_file_mib", turn);
    if (p.peak_bytes)
        note(b, name, peak - file, "MiB of the device at most, beside the size of the checkpoint");
}

static void bench_vae(bench *b)
{
    graft_binding *binding = NULL;
    graft_err e = GRAFT_ERR_INIT;
    network s;
    must(bind_vae(b, b->engine, false, &binding, &e), &e);
    open_network(&s, binding);
    printf("VAE decoder, %d x %d, bf16\n", 8 * (int)side_of(b), 8 * (int)side_of(b));
    double step = time_steps(b, &s);
    note(b, "vae_1024_ms", step, "ms, one of many handed over together");
    note(b, "vae_1024_run_ms", time_runs(b, &s), "ms, one alone with copies from and to the host");
    profile(b, &s, step);
    if (b->against) compare(b, &s);
    close_network(&s);
}

/* ------------------------------------------------------------------ the command */

/* Own kernels stand in for what is missing, and their times would be taken for the libraries'. The
 * identity names versions, 0 where there is none. */
static int complete(const bench *b)
{
    const char *id = b->device->info.identity;
    int good = 1;
    if (strcmp(b->backend, "cuda") != 0) return 1;
    if (strstr(id, " lt 0")) good = !printf("  MISSING: cuBLASLt\n");
    if (strstr(id, " dnn 0")) good = !printf("  MISSING: cuDNN\n");
    if (b->no_nvrtc) good = !printf("  MISSING: NVRTC\n");
    return good;
}

static int usage(void)
{
    fputs("usage: graft-bench-gpu [--operators] [--against NAME] [--overlap] [--swap FILE]\n"
          "                       [--levels] [--start] [--cache FOLDER] [--tuning off|fast|full]\n"
          "                       [--json FILE] [--repeats N] [--side N] [--backend NAME]\n"
          "                       device | ceilings | blocks | sd15|sdxl|vae MODEL.safetensors |\n"
          "                       picture MODEL.safetensors COMMAND...\n",
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

static int parse_option(const char *name, const char *value, bench *b)
{
    const struct {
        const char *name, **text;
        int *number;
    } options[] = {{"--json", &b->json, NULL},       {"--backend", &b->backend, NULL},
                   {"--against", &b->against, NULL}, {"--cache", &b->cache, NULL},
                   {"--swap", &b->second, NULL},     {"--repeats", NULL, &b->repeats},
                   {"--side", NULL, &b->side}};
    if (strcmp(name, "--tuning") == 0) return tuning_of(value, &b->tuning);
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        if (strcmp(name, options[i].name) != 0) continue;
        if (options[i].text)
            *options[i].text = value;
        else
            *options[i].number = atoi(value);
        return 1;
    }
    return 0;
}

static int parse(int argc, char **argv, bench *b)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--operators") == 0)
            b->operators = 1;
        else if (strcmp(argv[i], "--levels") == 0)
            b->levels = 1;
        else if (strcmp(argv[i], "--start") == 0)
            b->start = 1;
        else if (strcmp(argv[i], "--overlap") == 0)
            b->overlap = 1;
        else if (i + 1 < argc && parse_option(argv[i], argv[i + 1], b))
            i++;
        else if (argv[i][0] != '-' && !b->kind)
            b->kind = argv[i];
        else if (argv[i][0] != '-' && !b->model)
            b->model = argv[i];
        else if (argv[i][0] != '-' && strcmp(b->kind, "picture") == 0) {
            b->command = argv + i;
            break;
        } else
            return 0;
    }
    if (!b->kind || b->repeats < 1 || b->side < 0 || (b->start && !b->cache)) return 0;
    if (!strcmp(b->kind, "device") || !strcmp(b->kind, "ceilings") || !strcmp(b->kind, "blocks"))
        return 1;
    if (!strcmp(b->kind, "picture")) return b->command && b->cache;
    return b->model && (!strcmp(b->kind, "sd15") || !strcmp(b->kind, "sdxl") ||
                        (!strcmp(b->kind, "vae") && !b->start));
}

static void run(bench *b)
{
    const gpu_products products = {b->device, b->side != 0, b, note_product};
    if (strcmp(b->kind, "ceilings") == 0)
        gpu_products_ceilings(&products);
    else if (strcmp(b->kind, "blocks") == 0)
        gpu_products_blocks(&products);
    else if (strcmp(b->kind, "vae") == 0)
        bench_vae(b);
    else if (strcmp(b->kind, "picture") == 0)
        bench_picture(b);
    else if (b->start)
        bench_start(b);
    else if (b->model)
        bench_unet(b);
}

int main(int argc, char **argv)
{
    bench b = {.backend = "cuda", .repeats = 30, .tuning = GRAFT_TUNING_FULL};
    graft_err e = GRAFT_ERR_INIT;
    if (!parse(argc, argv, &b)) return usage();
    setvbuf(stdout, NULL, _IOLBF, 0); /* a run that is cut short has said what it did */
    if (b.model) must_exist(b.model);
    must(open_engine(&b, &e), &e);
    printf("%s: %s\n", b.device->name, b.device->info.name);
    printf("  %s\n", b.device->info.identity);
    snprintf(b.how, sizeof b.how, "bench/gpu.sh on %s, tuning %s", b.device->info.name,
             tunings[b.tuning]);
    int good = strcmp(b.kind, "device") != 0 || complete(&b);
    run(&b);
    graft_engine_destroy(b.engine);
    return b.wrong ? WRONG : good ? 0 : INCOMPLETE;
}
