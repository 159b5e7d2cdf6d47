/* graft-bench-series: what a step of a sampling gains by what earlier steps left it
 * (engine/exec/invariants.h): one evaluation of a UNet with guidance, alone and as a later one of a
 * series, in turns.
 *
 *   graft-bench-series MODEL.safetensors [--rounds N] [--side PIXELS] [--dtype bf16|f32]
 *                      [--references N]
 *
 * With references: without guidance, and the prompt, of 64 tokens, shows so many pictures as large
 * as the one that is made. Prints the medians in seconds, and the ratio of each pair with its
 * quartiles. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "bench/record.h"
#include "engine/objects/objects.h"
#include "engine/exec/invariants.h"

enum { TOKENS = 77, SHOWN_TOKENS = 64, MAX_ROUNDS = 64, INPUTS = 8 };

typedef struct options {
    const char *model, *dtype;
    int rounds, side, references;
} options;

typedef struct subject {
    graft_engine *engine;
    graft_binding *binding;
    void *in[INPUTS], *out;
} subject;

static void *need(void *p)
{
    if (p) return p;
    fputs("graft-bench-series: out of memory\n", stderr);
    exit(1);
}

static graft_unet_use use_of(const options *o, const graft_model *m)
{
    const int32_t side = (int32_t)(o->side / graft_net_cell(&m->arch));
    graft_unet_use use = {
        .pictures = 1, .entries = 2, .height = side, .width = side, .tokens = TOKENS};
    if (!o->references) return use;
    use.entries = 1;
    use.tokens = SHOWN_TOKENS;
    use.references.n = o->references;
    for (int i = 0; i < o->references; i++) use.references.of[i] = (graft_grid){side, side};
    return use;
}

static void open_model(const options *o, subject *s)
{
    const graft_engine_config config = {.kernel_dir = GRAFT_LIB_DIR, .backend = "cpu"};
    const graft_compile_options compile = {.precision = o->dtype, .tuning = "fast"};
    graft_model *m = NULL, *compiled = NULL;
    graft_err e = GRAFT_ERR_INIT;
    must(graft_engine_create(&config, &s->engine, &e), &e);
    must(graft_model_load(s->engine, o->model, NULL, &m, &e), &e);
    must(graft_model_compile(m, &compile, NULL, &compiled, &e), &e);
    const graft_unet_use use = use_of(o, m);
    must(graft_model_bind_guided(compiled, &use, NULL, &s->binding, &e), &e);
    const graft_graph *g = s->binding->exe->graph;
    for (size_t i = 0; i < g->n_inputs && i < INPUTS; i++) {
        const graft_gvalue *v = &g->value[g->input[i]];
        size_t n = (size_t)graft_gvalue_count(v);
        s->in[i] = need(graft_calloc(n, graft_dtype_size(v->dtype)));
        for (size_t k = 0; v->dtype == GRAFT_F32 && k < n; k++)
            ((float *)s->in[i])[k] = (float)(k * 2654435761u % 4096) / 1024.0f - 2.0f;
    }
    /* All of a prompt's tokens count. */
    if (graft_net_counts_tokens(&m->arch, use.tokens))
        ((float *)s->in[3])[graft_net_y_width(&m->arch, use.tokens) - 1] = (float)use.tokens;
    s->out = need(graft_calloc((size_t)graft_gvalue_count(&g->value[g->output[0]]), 4));
    graft_model_release(compiled);
    graft_model_release(m);
}

static double run(const subject *s, graft_invariants *series)
{
    graft_err e = GRAFT_ERR_INIT;
    double start = graft_clock_now();
    must(graft_exe_run_again(s->binding, s->engine->arenas, series, (const void *const *)s->in,
                             (void *[]){s->out}, NULL, &e),
         &e);
    return graft_clock_now() - start;
}

static double quantile(double *v, int n, double part)
{
    record_sort(v, n);
    return v[(int)(part * (n - 1) + 0.5)];
}

static int parse(int argc, char **argv, options *o)
{
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (more && strcmp(argv[i], "--rounds") == 0)
            o->rounds = atoi(argv[++i]);
        else if (more && strcmp(argv[i], "--side") == 0)
            o->side = atoi(argv[++i]);
        else if (more && strcmp(argv[i], "--references") == 0)
            o->references = atoi(argv[++i]);
        else if (more && strcmp(argv[i], "--dtype") == 0)
            o->dtype = argv[++i];
        else if (argv[i][0] != '-' && !o->model)
            o->model = argv[i];
        else
            return 2;
    }
    if (o->references < 0 || o->references > GRAFT_REFERENCES) return 2;
    return o->model && o->rounds >= 1 && o->rounds <= MAX_ROUNDS && o->side >= 64 ? 0 : 2;
}

int main(int argc, char **argv)
{
    options o = {.rounds = 8, .side = 512, .dtype = "bf16"};
    double alone[MAX_ROUNDS], later[MAX_ROUNDS], ratio[MAX_ROUNDS];
    subject s = {0};
    graft_invariants *series = NULL;
    graft_err e = GRAFT_ERR_INIT;
    if (parse(argc, argv, &o)) {
        fputs("usage: graft-bench-series MODEL.safetensors [--rounds N] [--side PIXELS] "
              "[--dtype bf16|f32] [--references N]\n",
              stderr);
        return 2;
    }
    open_model(&o, &s);
    must(graft_invariants_create(s.binding->exe, s.engine->kept, &series, &e), &e);
    run(&s, NULL);
    run(&s, series); /* the first of the series */
    for (int r = 0; r < o.rounds; r++) {
        if (r % 2) later[r] = run(&s, series);
        alone[r] = run(&s, NULL);
        if (r % 2 == 0) later[r] = run(&s, series);
        ratio[r] = alone[r] / later[r];
    }
    printf("alone %.4f s, in a series %.4f s; %.3f times as fast (%.3f to %.3f), %.1f MiB kept\n",
           quantile(alone, o.rounds, 0.5), quantile(later, o.rounds, 0.5),
           quantile(ratio, o.rounds, 0.5), quantile(ratio, o.rounds, 0.25),
           quantile(ratio, o.rounds, 0.75), (double)s.binding->exe->kept_bytes / 1048576);
    graft_invariants_destroy(series);
    for (int i = 0; i < INPUTS; i++) graft_free(s.in[i]);
    graft_free(s.out);
    graft_binding_release(s.binding);
    graft_engine_destroy(s.engine);
    return 0;
}
