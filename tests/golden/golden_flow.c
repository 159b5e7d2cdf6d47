/* A flow: its sigmas, and whole runs of its network with guidance. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "engine/denoise/sample.h"
#include "tests/golden/golden.h"

#define RUN_LIMIT 5e-5

typedef struct flow {
    golden *g;
    const graft_safetensors *f;
    graft_model *m;
    graft_cond *positive, *negative;
    graft_sigma_table table; /* of the runs */
} flow;

/* ------------------------------------------------------------------ sigmas */

static double worst_relative(const float *got, const float *wanted, size_t n)
{
    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)got[i] - (double)wanted[i]);
        if (wanted[i] != 0) d /= fabs((double)wanted[i]);
        if (!(d <= worst)) worst = d;
    }
    return worst;
}

static double schedule_limit(const char *scheduler)
{
    return strcmp(scheduler, "karras") == 0       ? 2e-6
           : strcmp(scheduler, "kl_optimal") == 0 ? 2e-5
                                                  : 1e-6;
}

/* "shift3.karras.7", "shift3.sigmas_table" */
static graft_status compare_sigmas(flow *w, const graft_st_tensor *t, graft_err *e)
{
    graft_sigma_table table;
    char scheduler[64];
    const char *what = strchr(t->name, '.') + 1, *dot = strchr(what, '.');
    size_t n = golden_count(t), count = GRAFT_SCHEDULE_STEPS, cap = GRAFT_SCHEDULE_STEPS + 2;
    float *wanted = golden_copy(t), *got = graft_malloc_array(cap, sizeof *got);
    graft_status st = wanted && got ? GRAFT_OK : graft_fail_nomem(e, "sigmas");
    snprintf(scheduler, sizeof scheduler, "%.*s", dot ? (int)(dot - what) : 0, what);
    graft_sigma_table_init_flow(&table, strtod(t->name + strlen("shift"), NULL),
                                GRAFT_SCHEDULE_STEPS);
    if (!st && dot)
        st = graft_schedule_make(&table, scheduler, atoi(dot + 1), got, cap, &count, e);
    else if (!st)
        memcpy(got, table.sigma, (size_t)table.count * sizeof *got);
    if (!st)
        golden_note(w->g, t->name, count == n ? worst_relative(got, wanted, n) : NAN,
                    schedule_limit(scheduler));
    graft_free(wanted);
    graft_free(got);
    return st;
}

/* ------------------------------------------------------------------ runs */

static graft_status make_cond(const graft_safetensors *f, const char *which, graft_cond **out,
                              graft_err *e)
{
    char name[64];
    snprintf(name, sizeof name, "%s.context", which);
    const graft_st_tensor *context = graft_safetensors_find(f, name);
    snprintf(name, sizeof name, "%s.y", which);
    const graft_st_tensor *y = graft_safetensors_find(f, name);
    if (!context || !y) return graft_fail(e, GRAFT_E_FORMAT, "no %s conditioning", which);
    float *data = golden_copy(context), *pooled = golden_copy(y);
    if (data && pooled)
        return graft_cond_create(context->shape[1], context->shape[2], data, y->shape[1], pooled,
                                 NULL, out, e);
    graft_free(data);
    graft_free(pooled);
    return graft_fail_nomem(e, "conditioning");
}

static const graft_st_tensor *part_of(const flow *w, const char *run, const char *part)
{
    char name[160];
    snprintf(name, sizeof name, "%s.%s", run, part);
    return graft_safetensors_find(w->f, name);
}

static void note_part(flow *w, const char *run, const char *part, const float *got)
{
    char what[160];
    const graft_st_tensor *t = part_of(w, run, part);
    float *wanted = t ? golden_copy(t) : NULL;
    snprintf(what, sizeof what, "%s.%s", run, part);
    double error = wanted ? golden_error(got, wanted, golden_count(t)) : NAN;
    if (strcmp(w->g->dtype, "f32") == 0)
        golden_note(w->g, what, error, RUN_LIMIT);
    else
        golden_note_model(w->g, what, error);
    graft_free(wanted);
}

/* `run`: "run.euler.simple.6". */
static graft_status compare_run(flow *w, const char *run, graft_err *e)
{
    const graft_st_tensor *sigmas = part_of(w, run, "sigmas"), *start = part_of(w, run, "start");
    const char *sampler = strchr(run, '.') + 1;
    char name[64];
    graft_guided_config c = {.model = w->m,
                             .table = &w->table,
                             .positive = w->positive,
                             .negative = w->negative,
                             .cfg = 5};
    graft_guided *guided = NULL;
    if (!sigmas || !start) return graft_fail(e, GRAFT_E_FORMAT, "%s has no start", run);
    size_t n = golden_count(start);
    float *sigma = golden_copy(sigmas), *x = golden_copy(start);
    float *denoised = graft_malloc_array(n, sizeof *denoised);
    graft_status st = sigma && x && denoised ? GRAFT_OK : graft_fail_nomem(e, "a run");
    GRAFT_TRY(st);
    memcpy(c.shape, start->shape, sizeof c.shape);
    c.steps = golden_count(sigmas) - 1;
    GRAFT_TRY(graft_guided_create(&c, &guided, e));
    graft_denoiser d = graft_guided_denoiser(guided);
    GRAFT_TRY(d.denoise(d.ctx, x, sigma[0], denoised, e));
    note_part(w, run, "denoised", denoised);
    snprintf(name, sizeof name, "%.*s", (int)strcspn(sampler, "."), sampler);
    graft_sampler_run all = {.denoiser = &d,
                             .sigmas = sigma,
                             .n_sigmas = c.steps + 1,
                             .x = x,
                             .n = n,
                             .batch = (size_t)c.shape[0],
                             .sigma_min = w->table.sigma[0],
                             .sigma_max = w->table.sigma[w->table.count - 1]};
    GRAFT_TRY(graft_sampler_run_named(name, &all, e));
    note_part(w, run, "out", x);
out:
    graft_guided_destroy(guided);
    graft_free(sigma);
    graft_free(x);
    graft_free(denoised);
    return st;
}

static graft_status compare_all(flow *w, graft_err *e)
{
    graft_status st = GRAFT_OK;
    for (size_t i = 0; i < graft_safetensors_count(w->f) && !st; i++) {
        const graft_st_tensor *t = graft_safetensors_at(w->f, i);
        char run[128];
        if (graft_str_starts(t->name, "shift")) st = compare_sigmas(w, t, e);
        if (!graft_str_starts(t->name, "run.") || !graft_str_ends(t->name, ".sigmas")) continue;
        snprintf(run, sizeof run, "%.*s", (int)(strlen(t->name) - strlen(".sigmas")), t->name);
        st = compare_run(w, run, e);
    }
    return st;
}

graft_status golden_flow(golden *g, const char *path, graft_safetensors *f, graft_err *e)
{
    flow w = {.g = g, .f = f};
    graft_status st = graft_model_load(g->engine, path, NULL, &w.m, e);
    if (st) goto out;
    golden_options(g, &w.m->options);
    graft_model_sigma_table(w.m, &w.table);
    GRAFT_TRY(make_cond(f, "positive", &w.positive, e));
    GRAFT_TRY(make_cond(f, "negative", &w.negative, e));
    GRAFT_TRY(compare_all(&w, e));
out:
    if (w.positive) graft_cond_release(w.positive);
    if (w.negative) graft_cond_release(w.negative);
    graft_model_release(w.m);
    graft_safetensors_close(f);
    return st;
}
