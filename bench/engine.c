/* graft-bench: whole parts of a model at its real shapes, with the share of the machine's peak.
 *
 * The ceilings (GEMM rates of the kernel library itself) are measured in the same run as what is
 * held against them, and float32 and bf16 take turns, so that a machine that changes its speed does
 * not change the ratios. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "bench/record.h"
#include "engine/objects/objects.h"
#include "engine/graph/cost.h"

typedef struct bench {
    graft_engine *engine;
    const char *json, *model, *backend, *name; /* name: what figures' names begin with */
    graft_tuning tuning;
    int repeats, first, end; /* of the dtypes */
    char how[256];
    double peak[2]; /* GFLOP/s of GEMM: f32, bf16 */
} bench;

static const char *const dtype_text[2] = {"f32", "bf16"};

static void note(const bench *b, const char *name, double value, const char *unit)
{
    char full[96];
    snprintf(full, sizeof full, "%s%s", b->name, name);
    record(b->json, full, value, unit, b->how);
}

/* ------------------------------------------------------------------ ceilings */

static graft_status gemm_once(graft_backend *k, graft_dtype dtype, int64_t size, double *gflops,
                              graft_err *e)
{
    int64_t dim[2] = {size, size};
    graft_graph *g = graft_graph_create();
    graft_vid x = graft_graph_input(g, dtype, 2, dim);
    graft_vid w = graft_graph_weight(g, "w", 2, dim);
    graft_graph_node(g, GRAFT_OP_LINEAR, NULL, (graft_vid[]){x, w}, 2, dtype);
    graft_op_desc d;
    graft_graph_desc(g, 0, &d);
    graft_graph_destroy(g);
    graft_kernel *kernel = NULL;
    graft_kernel_info info = {.size = sizeof info};
    char text[256] = "";
    graft_status st = k->api->prepare(k->device, &d, -1, &kernel, &info, text, sizeof text);
    if (st) return graft_fail(e, st, "GEMM: %s", text);
    size_t n = (size_t)(size * size);
    float *source = graft_calloc(n, sizeof *source);
    void *packed = k->api->alloc(k->device, info.packed_bytes[1]);
    void *in = k->api->alloc(k->device, n * 4), *out = k->api->alloc(k->device, n * 4);
    void *work = info.workspace_bytes ? k->api->alloc(k->device, info.workspace_bytes) : NULL;
    for (size_t i = 0; i < n; i++) source[i] = (float)(i % 17) * 0.01f;
    k->api->pack(kernel, 1, GRAFT_F32, source, packed);
    memset(in, 0, n * 4);
    double best = 1e30;
    for (int i = 0; i < 12; i++) {
        double t = graft_clock_now();
        k->api->launch(kernel, (const void *[GRAFT_MAX_INPUTS]){in, packed}, out, work);
        t = graft_clock_now() - t;
        if (i > 1 && t < best) best = t;
    }
    *gflops = 2.0 * (double)(size * size * size) / best * 1e-9;
    k->api->free(k->device, packed);
    k->api->free(k->device, in);
    k->api->free(k->device, out);
    if (work) k->api->free(k->device, work);
    k->api->release(kernel);
    graft_free(source);
    return GRAFT_OK;
}

static graft_status measure_peaks(bench *b, graft_err *e)
{
    graft_backend *k;
    graft_build_options o;
    graft_dtype unused;
    memset(&o, 0, sizeof o);
    snprintf(o.device, sizeof o.device, "%s", b->backend);
    graft_status st = graft_options_resolve(b->engine, &o, &k, &unused, e);
    if (st) return st;
    static const graft_dtype dtypes[2] = {GRAFT_F32, GRAFT_BF16};
    static const int64_t sizes[3] = {1024, 2048, 3072};
    for (int i = 0; i < 2 && !st; i++) {
        b->peak[i] = 0;
        for (int s = 0; s < 3 && !st; s++) {
            double gflops = 0;
            st = gemm_once(k, dtypes[i], sizes[s], &gflops, e);
            if (gflops > b->peak[i]) b->peak[i] = gflops;
        }
        if (st && i) { /* no bf16 on this backend */
            b->peak[i] = 0;
            st = GRAFT_OK;
        }
    }
    printf("GEMM peak of %s (%s, %d threads)\n", k->name, k->info.name,
           b->engine->backends.threads);
    if (b->peak[1] <= 0 && b->end > 1) b->end = 1;
    if (*b->name) return st; /* the machine's, whatever the model */
    note(b, "gemm_f32_gflops", b->peak[0], "GFLOP/s");
    if (b->peak[1] > 0) note(b, "gemm_bf16_gflops", b->peak[1], "GFLOP/s");
    return st;
}

/* ------------------------------------------------------------------ one part of a model */

typedef struct subject {
    graft_binding *binding;
    void *in[4], *out[2];
    graft_exe_profile profile;
    double flops;
} subject;

static graft_status subject_init(subject *s, graft_binding *b, graft_err *e)
{
    const graft_exe *x = b->exe;
    uint32_t seed = 1;
    memset(s, 0, sizeof *s);
    s->binding = b;
    s->profile.n = x->graph->n_nodes;
    s->profile.seconds = graft_calloc(s->profile.n, sizeof *s->profile.seconds);
    if (!s->profile.seconds) return graft_fail_nomem(e, "profile");
    for (size_t i = 0; i < x->graph->n_inputs; i++) {
        float *p = s->in[i] = graft_calloc(1, (size_t)x->input[i].bytes);
        if (!p) return graft_fail_nomem(e, "inputs");
        bool real = x->graph->value[x->graph->input[i]].dtype == GRAFT_F32;
        for (int64_t k = 0; real && k < x->input[i].bytes / 4; k++) {
            seed = seed * 1664525u + 1013904223u;
            p[k] = (float)(seed >> 8) * (2.0f / 16777216.0f) - 1.0f;
        }
    }
    for (size_t i = 0; i < x->graph->n_outputs; i++) {
        s->out[i] = graft_malloc((size_t)x->output[i].bytes);
        if (!s->out[i]) return graft_fail_nomem(e, "outputs");
    }
    for (size_t i = 0; i < x->graph->n_nodes; i++) s->flops += graft_cost_flops(x->graph, i);
    return GRAFT_OK;
}

static void subject_finish(subject *s)
{
    for (int i = 0; i < 4; i++) graft_free(s->in[i]);
    for (int i = 0; i < 2; i++) graft_free(s->out[i]);
    graft_free(s->profile.seconds);
    graft_binding_release(s->binding);
}

static graft_status subject_run(bench *b, subject *s, bool profiled, double *seconds, graft_err *e)
{
    double t = graft_clock_now();
    graft_status st = graft_exe_run(s->binding, b->engine->arenas, (const void *const *)s->in,
                                    s->out, NULL, profiled ? &s->profile : NULL, e);
    *seconds = graft_clock_now() - t;
    return st;
}

/* Time by kind of operator, most costly first; returns that of all, a run. */
static double print_operators(const bench *b, const subject *s, int which)
{
    const graft_graph *g = s->binding->exe->graph;
    double seconds[GRAFT_OP_END] = {0}, flops[GRAFT_OP_END] = {0}, bytes[GRAFT_OP_END] = {0};
    int count[GRAFT_OP_END] = {0};
    double sum = 0;
    for (size_t i = 0; i < g->n_nodes; i++) {
        graft_op op = g->node[i].op;
        double t = s->profile.seconds[i] / (double)s->profile.runs;
        seconds[op] += t;
        flops[op] += graft_cost_flops(g, i);
        bytes[op] += graft_cost_bytes(g, i);
        count[op]++;
        sum += t;
    }
    printf("  %-20s %5s %9s %6s %9s %7s %7s\n", "operator", "count", "ms", "share", "GFLOP/s",
           "of peak", "GB/s");
    for (;;) {
        int best = 0;
        for (int i = 1; i < GRAFT_OP_END; i++)
            if (seconds[i] > seconds[best]) best = i;
        if (!best) break;
        double rate = flops[best] / seconds[best] * 1e-9;
        printf("  %-20s %5d %9.2f %5.1f%% %9.1f %6.0f%% %7.1f\n", graft_op_name(best), count[best],
               seconds[best] * 1e3, 100 * seconds[best] / sum, rate, 100 * rate / b->peak[which],
               bytes[best] / seconds[best] * 1e-9);
        seconds[best] = 0;
    }
    return sum;
}

typedef graft_status bind_fn(bench *b, const char *precision, graft_binding **out, graft_err *e);

/* Both dtypes take turns; figures NAME_f32_s, NAME_f32_share, NAME_bf16_…, NAME_bf16_vs_f32. */
static graft_status measure(bench *b, const char *name, bind_fn *bind, graft_err *e)
{
    subject s[2] = {{0}, {0}};
    double t[2][32], warm;
    graft_status st = GRAFT_OK;
    char figure[64];
    for (int i = b->first; i < b->end; i++) {
        graft_binding *binding;
        GRAFT_TRY(bind(b, dtype_text[i], &binding, e));
        GRAFT_TRY(subject_init(&s[i], binding, e));
        GRAFT_TRY(subject_run(b, &s[i], false, &warm, e));
    }
    for (int r = 0; r < b->repeats; r++)
        for (int i = b->first; i < b->end; i++) GRAFT_TRY(subject_run(b, &s[i], true, &t[i][r], e));
    for (int i = b->first; i < b->end; i++) {
        double mid = record_median(t[i], b->repeats), rate = s[i].flops / mid * 1e-9;
        printf("\n%s %s: %.0f GFLOP, median %.4g s of %d (%.4g … %.4g), %.0f GFLOP/s, "
               "arena %.1f MiB "
               "(bound %.1f), weights %.0f MiB\n",
               name, dtype_text[i], s[i].flops * 1e-9, mid, b->repeats, t[i][0],
               t[i][b->repeats - 1], rate, (double)s[i].binding->exe->arena_bytes / 1048576,
               (double)s[i].binding->exe->arena_bound / 1048576,
               (double)s[i].binding->exe->weight_bytes / 1048576);
        double explained = print_operators(b, &s[i], i), mean = 0;
        for (int r = 0; r < b->repeats; r++) mean += t[i][r] / b->repeats;
        snprintf(figure, sizeof figure, "%s_%s_s", name, dtype_text[i]);
        note(b, figure, mid, "s");
        snprintf(figure, sizeof figure, "%s_%s_unexplained", name, dtype_text[i]);
        note(b, figure, 1 - explained / mean, "of the time, outside operators");
        snprintf(figure, sizeof figure, "%s_%s_share", name, dtype_text[i]);
        note(b, figure, rate / b->peak[i], "of the GEMM peak");
    }
    if (b->end - b->first == 2) {
        snprintf(figure, sizeof figure, "%s_bf16_vs_f32", name);
        note(b, figure, record_median(t[0], b->repeats) / record_median(t[1], b->repeats),
             "times as fast");
    }
out:
    for (int i = b->first; i < b->end; i++)
        if (s[i].binding) subject_finish(&s[i]);
    graft_packs_trim(b->engine->packs, 0);
    graft_arenas_trim(b->engine->arenas);
    return st;
}

static void choose(const bench *b, const char *precision, graft_build_options *o)
{
    snprintf(o->precision, sizeof o->precision, "%s", precision);
    snprintf(o->device, sizeof o->device, "%s", b->backend);
    o->tuning = b->tuning;
    o->no_disk = true;
}

/* A UNet or a transformer. */
static graft_status bind_net(bench *b, const char *precision, graft_binding **out, graft_err *e)
{
    graft_model *m;
    graft_status st = graft_model_load(b->engine, b->model, NULL, &m, e);
    if (st) return st;
    choose(b, precision, &m->options);
    st = graft_model_bind(m, 1, 64, 64, graft_net_tokens(&m->arch, 77), NULL, out, e);
    graft_model_release(m);
    return st;
}

static graft_status bind_vae(bench *b, const char *precision, graft_binding **out, graft_err *e)
{
    graft_vae *v;
    graft_status st = graft_vae_load(b->engine, b->model, NULL, &v, e);
    if (st) return st;
    choose(b, precision, &v->options);
    st = graft_vae_bind(v, true, 64, 64, NULL, out, e);
    graft_vae_release(v);
    return st;
}

/* A picture of 128x128; only where the file is an upscale model. */
static graft_status bind_upscaler(bench *b, const char *precision, graft_binding **out,
                                  graft_err *e)
{
    graft_upscaler *u;
    graft_status st = graft_upscaler_load(b->engine, b->model, NULL, &u, e);
    if (st) return st;
    choose(b, precision, &u->options);
    st = graft_upscaler_bind(u, 128, 128, NULL, out, e);
    graft_upscaler_release(u);
    return st;
}

/* ------------------------------------------------------------------ a step when told to */

/* Fills the buffer from the file, or the file from the buffer. */
static graft_status transfer(const char *path, bool out, void *data, size_t bytes, graft_err *e)
{
    FILE *f = fopen(path, out ? "wb" : "rb");
    bool done = f && (out ? fwrite(data, 1, bytes, f) : fread(data, 1, bytes, f)) == bytes;
    if (f && fclose(f)) done = false;
    return done ? GRAFT_OK : graft_fail(e, GRAFT_E_IO, "%s: not %zu bytes", path, bytes);
}

static graft_status obey(bench *b, subject *s, const char *line, graft_err *e)
{
    const graft_exe *x = s->binding->exe;
    char path[512];
    size_t i;
    double seconds = 0;
    graft_status st = GRAFT_OK;
    if (sscanf(line, "in %zu %511s", &i, path) == 2 && i < x->graph->n_inputs) {
        st = transfer(path, false, s->in[i], (size_t)x->input[i].bytes, e);
        if (!st) puts("ok");
    } else if (sscanf(line, "out %511s", path) == 1) {
        st = transfer(path, true, s->out[0], (size_t)x->output[0].bytes, e);
        if (!st) puts("ok");
    } else if (strcmp(line, "run\n") == 0) {
        st = subject_run(b, s, false, &seconds, e);
        if (!st) printf("%.6f\n", seconds);
    } else if (strcmp(line, "peak\n") == 0) {
        printf("%.1f\n", record_peak_mib());
    } else if (strcmp(line, "sizes\n") == 0) {
        for (i = 0; i < x->graph->n_inputs; i++) printf("%" PRId64 " ", x->input[i].bytes / 4);
        putchar('\n');
    } else {
        st = graft_fail(e, GRAFT_E_ARG, "no command: %s", line);
    }
    fflush(stdout);
    return st;
}

/* Answers lines of stdin until it ends; bench/peers/compare.py has the protocol. */
static graft_status on_demand(bench *b, bind_fn *bind, graft_err *e)
{
    graft_binding *binding;
    subject s;
    char line[600];
    graft_status st = bind(b, dtype_text[b->first], &binding, e);
    if (st) return st;
    st = subject_init(&s, binding, e);
    if (!st) printf("ready graft %s, %d threads\n", GRAFT_VERSION, b->engine->backends.threads);
    fflush(stdout);
    while (!st && fgets(line, sizeof line, stdin)) st = obey(b, &s, line, e);
    subject_finish(&s);
    return st;
}

/* ------------------------------------------------------------------ whole runs */

#define PICTURE_STEPS 4

/* Text to picture at 512x512 by way of the nodes' own calls, the second of two runs: everything is
 * compiled and packed. Figures picture_DTYPE_s, text_encode_s, and picture_DTYPE_overhead: the time
 * of sampling over that of its UNet evaluations alone. */
static graft_status picture_once(graft_model *m, graft_clip *c, graft_vae *v, double seconds[3],
                                 graft_err *e)
{
    graft_cond *positive = NULL, *negative = NULL;
    graft_latent *empty = NULL, *latent = NULL;
    graft_image *image = NULL;
    graft_status st = GRAFT_OK;
    graft_sample_params p = {.seed = 1,
                             .add_noise = true,
                             .steps = PICTURE_STEPS,
                             .cfg = 7,
                             .sampler = "euler",
                             .scheduler = "normal",
                             .denoise = 1,
                             .end_at_step = PICTURE_STEPS};
    double t = graft_clock_now();
    GRAFT_TRY(graft_clip_encode(c, "a photograph of an astronaut", NULL, &positive, e));
    seconds[0] = graft_clock_now() - t;
    GRAFT_TRY(graft_clip_encode(c, "", NULL, &negative, e));
    GRAFT_TRY(graft_latent_empty(4, 512, 512, 1, &empty, e));
    t = graft_clock_now();
    GRAFT_TRY(graft_sample(m, &p, positive, negative, empty, NULL, &latent, e));
    seconds[1] = graft_clock_now() - t;
    t = graft_clock_now();
    GRAFT_TRY(graft_vae_decode(v, latent, NULL, NULL, &image, e));
    seconds[2] = graft_clock_now() - t;
out:
    graft_cond_release(positive);
    graft_cond_release(negative);
    graft_latent_release(empty);
    graft_latent_release(latent);
    graft_image_release(image);
    return st;
}

/* Seconds of one guided UNet evaluation (both halves as one batch), the median of `repeats`. */
static graft_status evaluation(bench *b, const graft_model *m, double *out, graft_err *e)
{
    graft_binding *binding;
    subject s;
    double t[32];
    graft_status st = graft_model_bind_guided(
        m, &(graft_unet_use){.pictures = 1, .entries = 2, .height = 64, .width = 64, .tokens = 77},
        NULL, &binding, e);
    if (st) return st;
    st = subject_init(&s, binding, e);
    for (int r = 0; r < b->repeats && !st; r++) st = subject_run(b, &s, false, &t[r], e);
    if (!st) *out = record_median(t, b->repeats);
    subject_finish(&s);
    return st;
}

static graft_status measure_pictures(bench *b, graft_err *e)
{
    graft_model *m = NULL;
    graft_clip *c = NULL;
    graft_vae *v = NULL;
    graft_status st = graft_checkpoint_load(b->engine, b->model, NULL, &m, &c, &v, e);
    if (st) return st;
    for (int i = b->first; i < b->end; i++) {
        double s[3] = {0}, once = 0;
        char figure[64];
        choose(b, dtype_text[i], &m->options);
        choose(b, dtype_text[i], &v->options);
        snprintf(c->options.device, sizeof c->options.device, "%s", b->backend);
        for (int run = 0; run < 2; run++) GRAFT_TRY(picture_once(m, c, v, s, e));
        GRAFT_TRY(evaluation(b, m, &once, e));
        printf(
            "\npicture %s: 512x512, %d steps with guidance: text %.3g s, sampling %.4g s, decode "
            "%.4g s\n",
            dtype_text[i], PICTURE_STEPS, s[0], s[1], s[2]);
        if (i == b->first) note(b, "text_encode_s", s[0], "s");
        snprintf(figure, sizeof figure, "picture_%s_s", dtype_text[i]);
        note(b, figure, s[0] + s[1] + s[2], "s");
        snprintf(figure, sizeof figure, "picture_%s_overhead", dtype_text[i]);
        note(b, figure, s[1] / (PICTURE_STEPS * once), "times its UNet evaluations");
        snprintf(figure, sizeof figure, "picture_%s_rss_mib", dtype_text[i]);
        note(b, figure, record_peak_mib(), "MiB at most so far");
    }
out:
    graft_model_release(m);
    graft_clip_release(c);
    graft_vae_release(v);
    return st;
}

/* ------------------------------------------------------------------ program */

static void log_line(void *ctx, int32_t level, const char *text)
{
    (void)ctx;
    if (level >= GRAFT_LOG_WARN) fprintf(stderr, "graft-bench: %s\n", text);
}

static int one_of(const char *text, const char *const *list, int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(text, list[i]) == 0) return i;
    return -1;
}

static int usage(void)
{
    fputs(
        "usage: graft-bench [--json FILE] [--backend NAME] [--repeats N] [--tuning off|fast|full] "
        "[--dtype f32|bf16] [--only unet|vae|picture|upscaler|transformer] [--name PREFIX] "
        "[--on-demand unet|vae|upscaler|transformer] MODEL.safetensors\n",
        stderr);
    return 2;
}

/* What can be timed by itself; `alone`: in files of its own. */
static const struct {
    const char *name;
    bind_fn *bind;
    bool alone;
} parts[] = {{"unet", bind_net, false},
             {"vae", bind_vae, false},
             {"upscaler", bind_upscaler, true},
             {"transformer", bind_net, true}};
enum { PARTS = sizeof parts / sizeof *parts };

/* -1: none of them. */
static int part_of(const char *name)
{
    for (int i = 0; i < PARTS; i++)
        if (strcmp(name, parts[i].name) == 0) return i;
    return -1;
}

static graft_status measure_all(bench *b, const char *only, graft_err *e)
{
    graft_status st = measure_peaks(b, e);
    for (int i = 0; i < PARTS && !st; i++)
        if (*only ? i == part_of(only) : !parts[i].alone)
            st = measure(b, parts[i].name, parts[i].bind, e);
    if (!st && (!*only || strcmp(only, "picture") == 0)) st = measure_pictures(b, e);
    return st;
}

int main(int argc, char **argv)
{
    bench b = {.backend = "cpu", .name = "", .repeats = 5, .end = 2};
    const char *only = "", *tuning = "off";
    int on_demand_part = -1;
    graft_err e = GRAFT_ERR_INIT;
    graft_engine_config config = {.kernel_dir = GRAFT_LIB_DIR, .log = {NULL, log_line}};
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (more && strcmp(argv[i], "--json") == 0)
            b.json = argv[++i];
        else if (more && strcmp(argv[i], "--backend") == 0)
            b.backend = argv[++i];
        else if (more && strcmp(argv[i], "--repeats") == 0)
            b.repeats = atoi(argv[++i]);
        else if (more && strcmp(argv[i], "--dtype") == 0) {
            b.first = one_of(argv[++i], dtype_text, 2);
            b.end = b.first + 1;
            if (b.first < 0) return usage();
        } else if (more && strcmp(argv[i], "--name") == 0)
            b.name = argv[++i];
        else if (more && strcmp(argv[i], "--tuning") == 0) {
            static const char *const levels[] = {"off", "fast", "full"}; /* graft_tuning */
            int level = one_of(tuning = argv[++i], levels, 3);
            if (level < 0) return usage();
            b.tuning = (graft_tuning)level;
        } else if (more && strcmp(argv[i], "--only") == 0)
            only = argv[++i];
        else if (more && strcmp(argv[i], "--on-demand") == 0) {
            on_demand_part = part_of(argv[++i]);
            if (on_demand_part < 0) return usage();
        } else if (argv[i][0] != '-')
            b.model = argv[i];
        else
            return usage();
    }
    if (!b.model || b.repeats < 1 || b.repeats > 32) return usage();
    must_exist(b.model);
    snprintf(b.how, sizeof b.how, "graft-bench --backend %s --repeats %d --tuning %s %s", b.backend,
             b.repeats, tuning, strrchr(b.model, '/') ? strrchr(b.model, '/') + 1 : b.model);
    graft_status st = graft_engine_create(&config, &b.engine, &e);
    if (!st && on_demand_part >= 0) st = on_demand(&b, parts[on_demand_part].bind, &e);
    if (!st && on_demand_part < 0) st = measure_all(&b, only, &e);
    if (st) fprintf(stderr, "graft-bench: %s\n", e.text);
    graft_engine_destroy(b.engine);
    return st == GRAFT_E_UNSUPPORTED ? 3 : st ? 1 : 0;
}
