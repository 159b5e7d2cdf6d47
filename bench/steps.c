/* graft-bench-steps: the kinds of step of a UNet with guidance at 512x512, in turns: whole ones,
 * and DeepCache's that store and that take the rest from the store, in bf16 and with int8 layers,
 * and whole ones in float32.
 *
 *   graft-bench-steps SD15.safetensors [--rounds N] [--block N] [--only TEXT]
 *                     [--shapes] [--least] [--against DIR]
 *
 * Figures are medians over rounds, in each of which every kind runs once; with --least they are
 * sums of each operator's least time, which a machine that does other things besides disturbs less.
 * DeepCache cuts at the outermost place, or at --block of the first level. --shapes prints what
 * each shape of operator takes at least; --only runs the kinds whose name has TEXT in it. --against
 * runs each kind with the kernel libraries of a second folder too and prints how much faster the
 * first are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "bench/quantized.h"
#include "bench/record.h"
#include "engine/calibrate/quantize.h"
#include "engine/graph/cost.h"

enum { STEPS = 20, SIDE = 64, TOKENS = 77, KINDS = 7, MAX_ROUNDS = 64, LINES = 512 };

typedef enum layers { BF16, INT8, F32, LAYERS } layers;
typedef struct kind {
    const char *name;
    layers layers;
    graft_variant variant;
} kind;

static const kind kinds[KINDS] = {
    {"bf16 whole", BF16, GRAFT_WHOLE}, {"bf16 store", BF16, GRAFT_STORE},
    {"bf16 fast", BF16, GRAFT_FAST},   {"int8 whole", INT8, GRAFT_WHOLE},
    {"int8 store", INT8, GRAFT_STORE}, {"int8 fast", INT8, GRAFT_FAST},
    {"f32 whole", F32, GRAFT_WHOLE},
};

typedef struct options {
    const char *model, *only, *against;
    int rounds, block;
    bool shapes, least;
} options;

/* One kind of step on one folder's kernels. */
typedef struct subject {
    graft_engine *engine;
    graft_binding *binding;
    void *in[8], *out[2];
    graft_exe_profile profile;
    double *least; /* of each node */
    double seconds[MAX_ROUNDS];
} subject;

static void *need(void *p)
{
    if (p) return p;
    fputs("graft-bench-steps: out of memory\n", stderr);
    exit(1);
}

/* Of values sorted meanwhile. */
static double quantile(double *v, int n, double part)
{
    record_sort(v, n);
    return v[(int)(part * (n - 1) + 0.5)];
}

/* ------------------------------------------------------------------ subjects */

static graft_model *all_quantized(const graft_model *m)
{
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    must(quantize_all(m, &out, &e), &e);
    return out;
}

static void subject_run(subject *s, double *seconds)
{
    graft_err e = GRAFT_ERR_INIT;
    double start = graft_clock_now();
    must(graft_exe_run(s->binding, s->engine->arenas, (const void *const *)s->in, s->out, NULL,
                       &s->profile, &e),
         &e);
    *seconds = graft_clock_now() - start;
    for (size_t i = 0; i < s->profile.n; i++) {
        double *t = &s->profile.seconds[i];
        if (s->least[i] <= 0 || *t < s->least[i]) s->least[i] = *t;
        *t = 0;
    }
}

static void subject_init(subject *s, const graft_model *m, graft_variant variant)
{
    graft_err e = GRAFT_ERR_INIT;
    double warm;
    s->engine = m->engine;
    must(graft_model_bind_guided(m,
                                 &(graft_unet_use){.variant = variant,
                                                   .pictures = 1,
                                                   .entries = 2,
                                                   .height = SIDE,
                                                   .width = SIDE,
                                                   .tokens = TOKENS},
                                 NULL, &s->binding, &e),
         &e);
    const graft_graph *g = s->binding->exe->graph;
    for (size_t i = 0; i < g->n_inputs && i < 8; i++) {
        const graft_gvalue *v = &g->value[g->input[i]];
        size_t n = (size_t)graft_gvalue_count(v);
        s->in[i] = need(graft_calloc(n, graft_dtype_size(v->dtype)));
        for (size_t k = 0; v->dtype == GRAFT_F32 && k < n; k++)
            ((float *)s->in[i])[k] = (float)(k * 2654435761u % 4096) / 1024.0f - 2.0f;
    }
    for (size_t i = 0; i < g->n_outputs && i < 2; i++)
        s->out[i] = need(graft_calloc((size_t)graft_gvalue_count(&g->value[g->output[i]]), 4));
    s->profile.n = g->n_nodes;
    s->profile.seconds = need(graft_calloc(g->n_nodes, sizeof *s->profile.seconds));
    s->least = need(graft_calloc(g->n_nodes, sizeof *s->least));
    subject_run(s, &warm);
}

static void subject_finish(subject *s)
{
    for (int i = 0; i < 8; i++) graft_free(s->in[i]);
    for (int i = 0; i < 2; i++) graft_free(s->out[i]);
    graft_free(s->profile.seconds);
    graft_free(s->least);
    graft_binding_release(s->binding);
}

static bool wanted(const options *o, int i)
{
    return !o->only || strstr(kinds[i].name, o->only);
}

/* The engine on one folder's kernels with all kinds that are wanted. */
static graft_engine *open_all(const options *o, const char *folder, subject *s)
{
    graft_engine_config config = {.kernel_dir = folder, .backend = "cpu"};
    graft_compile_options compile = {"bf16", "off", "auto", 0, false, false, 0, 0, 0};
    const graft_deepcache_options cache = {3, 0, o->block, 0, 1000, "uniform", 0, o->block < 0};
    graft_engine *g = NULL;
    graft_model *m = NULL, *plain[LAYERS], *cached[F32] = {NULL};
    graft_err e = GRAFT_ERR_INIT;
    must(graft_engine_create(&config, &g, &e), &e);
    must(graft_model_load(g, o->model, NULL, &m, &e), &e);
    must(graft_model_compile(m, &compile, NULL, &plain[BF16], &e), &e);
    compile.precision = "f32";
    must(graft_model_compile(m, &compile, NULL, &plain[F32], &e), &e);
    plain[INT8] = all_quantized(plain[BF16]);
    for (int i = 0; i < F32; i++) must(graft_model_deepcache(plain[i], &cache, &cached[i], &e), &e);
    for (int i = 0; i < KINDS; i++) {
        const graft_model *use = (kinds[i].variant ? cached : plain)[kinds[i].layers];
        if (wanted(o, i)) subject_init(&s[i], use, kinds[i].variant);
    }
    for (int i = 0; i < LAYERS; i++) graft_model_release(plain[i]);
    for (int i = 0; i < F32; i++) graft_model_release(cached[i]);
    graft_model_release(m);
    return g;
}

/* ------------------------------------------------------------------ shapes */

typedef struct line {
    char text[160];
    double seconds, flops, bytes;
    int count;
} line;

static void shape_text(char *to, size_t size, const graft_graph *g, const graft_gnode *n)
{
    int at = snprintf(to, size, "%s", graft_op_name(n->op));
    for (int i = 0; i < 2 && n->in[i] >= 0; i++) {
        const graft_gvalue *v = &g->value[n->in[i]];
        for (int d = 0; d < v->rank && at < (int)size; d++)
            at += snprintf(to + at, size - (size_t)at, "%s%lld",
                           d   ? "x"
                           : i ? " * "
                               : " ",
                           (long long)v->dim[d]);
    }
    if (n->attrs.act == GRAFT_ACT_GEGLU && at < (int)size)
        snprintf(to + at, size - (size_t)at, " geglu");
}

static int by_seconds(const void *a, const void *b)
{
    double x = ((const line *)a)->seconds, y = ((const line *)b)->seconds;
    return (x < y) - (x > y);
}

static void print_shapes(const subject *s)
{
    const graft_graph *g = s->binding->exe->graph;
    line *all = need(graft_calloc(LINES, sizeof *all)), key;
    int n = 0;
    double sum = 0;
    for (size_t i = 0; i < g->n_nodes; i++) {
        int k = 0;
        memset(&key, 0, sizeof key);
        shape_text(key.text, sizeof key.text, g, &g->node[i]);
        while (k < n && strcmp(all[k].text, key.text) != 0) k++;
        if (k == LINES) continue;
        if (k == n) all[n++] = key;
        double t = s->least[i];
        all[k].seconds += t;
        all[k].flops += graft_cost_flops(g, i);
        all[k].bytes += graft_cost_bytes(g, i);
        all[k].count++;
        sum += t;
    }
    qsort(all, (size_t)n, sizeof *all, by_seconds);
    printf("  %-52s %5s %9s %6s %9s %7s\n", "operator", "count", "ms", "share", "GFLOP/s", "GB/s");
    for (int k = 0; k < n && all[k].seconds > 0.001 * sum; k++)
        printf("  %-52s %5d %9.2f %5.1f%% %9.1f %7.1f\n", all[k].text, all[k].count,
               all[k].seconds * 1e3, 100 * all[k].seconds / sum,
               all[k].flops / all[k].seconds * 1e-9, all[k].bytes / all[k].seconds * 1e-9);
    graft_free(all);
}

/* ------------------------------------------------------------------ figures */

/* Printed only: bench.json has these figures from graft-bench-quant. */
static void note(const char *name, double value, const char *unit)
{
    printf("  %-28s %12.4g %s\n", name, value, unit);
}

/* A picture of whole steps against one with DeepCache, from medians. */
static double gain(double whole, double store, double fast, int interval)
{
    int full = (STEPS + interval - 1) / interval;
    return STEPS * whole / (full * store + (STEPS - full) * fast);
}

static double least_of(const subject *s)
{
    double sum = 0;
    for (size_t i = 0; i < s->profile.n; i++) sum += s->least[i];
    return sum;
}

static void figures(const options *o, subject *s)
{
    double t[KINDS];
    for (int i = 0; i < KINDS; i++)
        t[i] = o->least ? least_of(&s[i]) : quantile(s[i].seconds, o->rounds, 0.5);
    note("deepcache_fast_step", t[2] / t[0], "of a whole step");
    note("deepcache3_speedup", gain(t[0], t[1], t[2], 3), "times as fast");
    note("deepcache5_speedup", gain(t[0], t[1], t[2], 5), "times as fast");
    note("int8_vs_bf16", t[0] / t[3], "times as fast a step");
    note("int8_deepcache3_vs_bf16", gain(t[0], t[4], t[5], 3), "times as fast");
}

static void print_times(const options *o, subject *s, subject *other)
{
    for (int i = 0; i < KINDS; i++) {
        double *t = s[i].seconds, ratio[MAX_ROUNDS];
        if (!wanted(o, i)) continue;
        for (int r = 0; o->against && r < o->rounds; r++) ratio[r] = other[i].seconds[r] / t[r];
        printf("%s: %.4f s (%.4f ... %.4f), operators at least %.4f s", kinds[i].name,
               quantile(t, o->rounds, 0.5), quantile(t, o->rounds, 0), quantile(t, o->rounds, 1),
               least_of(&s[i]));
        if (o->against)
            printf("; %.3f times as fast (%.3f ... %.3f) as %.4f s, at least %.4f s",
                   quantile(ratio, o->rounds, 0.5), quantile(ratio, o->rounds, 0.25),
                   quantile(ratio, o->rounds, 0.75), quantile(other[i].seconds, o->rounds, 0.5),
                   least_of(&other[i]));
        putchar('\n');
        if (o->shapes) print_shapes(&s[i]);
        if (o->shapes && o->against) print_shapes(&other[i]);
    }
}

static int parse(int argc, char **argv, options *o)
{
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (more && strcmp(argv[i], "--rounds") == 0)
            o->rounds = atoi(argv[++i]);
        else if (more && strcmp(argv[i], "--block") == 0)
            o->block = atoi(argv[++i]);
        else if (more && strcmp(argv[i], "--only") == 0)
            o->only = argv[++i];
        else if (more && strcmp(argv[i], "--against") == 0)
            o->against = argv[++i];
        else if (strcmp(argv[i], "--shapes") == 0)
            o->shapes = true;
        else if (strcmp(argv[i], "--least") == 0)
            o->least = true;
        else if (argv[i][0] != '-' && !o->model)
            o->model = argv[i];
        else
            return 2;
    }
    return o->model && o->rounds >= 1 && o->rounds <= MAX_ROUNDS ? 0 : 2;
}

int main(int argc, char **argv)
{
    options o = {.rounds = 5, .block = -1};
    static subject s[KINDS], other[KINDS];
    if (parse(argc, argv, &o)) {
        fputs("usage: graft-bench-steps SD15.safetensors [--rounds N] [--block N] "
              "[--only TEXT] [--shapes] [--least] [--against DIR]\n",
              stderr);
        return 2;
    }
    graft_engine *g = open_all(&o, GRAFT_LIB_DIR, s);
    graft_engine *h = o.against ? open_all(&o, o.against, other) : NULL;
    for (int r = 0; r < o.rounds; r++)
        for (int i = 0; i < KINDS; i++) {
            if (!wanted(&o, i)) continue;
            if (h && r % 2) subject_run(&other[i], &other[i].seconds[r]);
            subject_run(&s[i], &s[i].seconds[r]);
            if (h && r % 2 == 0) subject_run(&other[i], &other[i].seconds[r]);
        }
    print_times(&o, s, other);
    if (!o.only) figures(&o, s);
    for (int i = 0; i < KINDS; i++) {
        if (s[i].binding) subject_finish(&s[i]);
        if (other[i].binding) subject_finish(&other[i]);
    }
    graft_engine_destroy(g);
    graft_engine_destroy(h);
    return 0;
}
