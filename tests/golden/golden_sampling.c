#include "tests/golden/golden_sampling.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "engine/sampling/noise.h"
#include "engine/sampling/sampler.h"
#include "engine/sampling/schedule.h"

/* A float32 copy (graft_free), aligned, unlike the file. */
static float *copy_values(const graft_st_tensor *t, size_t *n)
{
    float *v = t && t->dtype == GRAFT_F32 ? graft_malloc((size_t)t->bytes + 1) : NULL;
    *n = v ? (size_t)t->bytes / sizeof *v : 0;
    if (v) memcpy(v, t->data, (size_t)t->bytes);
    return v;
}

static double worst_difference(const float *a, const float *b, size_t n)
{
    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - b[i]);
        if (!(d <= worst)) worst = d;
        if (isnan(d)) return d;
    }
    return worst;
}

static double worst_relative(const float *a, const float *reference, size_t n)
{
    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        if (isnan(reference[i])) continue;
        double size = fabs((double)reference[i]), d = fabs((double)a[i] - reference[i]);
        d = size > 0 ? d / size : d;
        if (isnan(d)) return d;
        worst = fmax(worst, d);
    }
    return worst;
}

graft_status golden_noise(const graft_safetensors *f, golden_case_fn *report, void *ctx,
                          graft_err *e)
{
    for (size_t i = 0; i < graft_safetensors_count(f); i++) {
        const graft_st_tensor *t = graft_safetensors_at(f, i);
        if (!graft_str_starts(t->name, "seed") || t->rank != 4) continue;
        size_t n;
        float *wanted = copy_values(t, &n), *got = graft_malloc_array(n + 1, sizeof *got);
        graft_status st = GRAFT_E_NOMEM;
        if (wanted && got)
            st = graft_noise_latent(strtoull(t->name + 4, NULL, 10), t->shape, NULL, got, e);
        if (st == GRAFT_OK) report(ctx, t->name, worst_difference(got, wanted, n), 0);
        graft_free(wanted);
        graft_free(got);
        if (st == GRAFT_E_NOMEM) return graft_fail_nomem(e, "a comparison of noise");
        if (st != GRAFT_OK) return st;
    }
    return GRAFT_OK;
}

/* Both directions between timesteps and sigmas: `from` names the inputs, `name` the results. */
static void compare_probe(const graft_safetensors *f, const graft_sigma_table *table,
                          const char *from, const char *name, bool to_sigma, golden_case_fn *report,
                          void *ctx)
{
    size_t n, n_wanted;
    float *v = copy_values(graft_safetensors_find(f, from), &n);
    float *wanted = copy_values(graft_safetensors_find(f, name), &n_wanted);
    if (v && wanted && n == n_wanted) {
        for (size_t i = 0; i < n; i++)
            v[i] = to_sigma ? graft_timestep_to_sigma(table, v[i])
                            : graft_sigma_to_timestep(table, v[i]);
        report(ctx, name, worst_relative(v, wanted, n), 1e-6);
    }
    graft_free(v);
    graft_free(wanted);
}

graft_status golden_schedules(const graft_safetensors *f, golden_case_fn *report, void *ctx,
                              graft_err *e)
{
    graft_sigma_table table;
    graft_sigma_table_init(&table, 0.00085, 0.012, false, false);
    compare_probe(f, &table, "timesteps", "sigma_of_timesteps", true, report, ctx);
    compare_probe(f, &table, "sigmas_probe", "timestep_of_sigmas", false, report, ctx);
    for (size_t i = 0; i < graft_safetensors_count(f); i++) {
        const graft_st_tensor *t = graft_safetensors_at(f, i);
        const char *dot = strchr(t->name, '.');
        bool whole = strcmp(t->name, "sigmas_table") == 0;
        if (!dot && !whole) continue;
        char scheduler[64];
        snprintf(scheduler, sizeof scheduler, "%.*s", dot ? (int)(dot - t->name) : 0, t->name);
        size_t n, count = 0, cap = 20000;
        float *wanted = copy_values(t, &n), *got = graft_malloc_array(cap, sizeof *got);
        graft_status st = wanted && got ? GRAFT_OK : GRAFT_E_NOMEM;
        if (st == GRAFT_OK && !whole)
            st = graft_schedule_make(&table, scheduler, atoi(dot + 1), got, cap, &count, e);
        else if (st == GRAFT_OK)
            count = (size_t)table.count, memcpy(got, table.sigma, count * sizeof *got);
        if (st == GRAFT_OK)
            report(ctx, t->name, count == n ? worst_relative(got, wanted, n) : NAN, 1e-6);
        graft_free(wanted);
        graft_free(got);
        if (st == GRAFT_E_NOMEM) return graft_fail_nomem(e, "a comparison of schedules");
        if (st != GRAFT_OK) return st;
    }
    return GRAFT_OK;
}

typedef struct analytic {
    const float *a, *b;
    size_t n;
} analytic;

static graft_status denoise(void *ctx, const float *x, float sigma, float *out, graft_err *e)
{
    (void)e;
    const analytic *m = ctx;
    for (size_t i = 0; i < m->n; i++) out[i] = (x[i] * m->a[i] + m->b[i]) / (1 + sigma * sigma);
    return GRAFT_OK;
}

static const graft_st_tensor *find_part(const graft_safetensors *f, const char *name, size_t length,
                                        const char *part)
{
    char whole[256];
    snprintf(whole, sizeof whole, "%.*s.%s", (int)length, name, part);
    return graft_safetensors_find(f, whole);
}

/* Runs the case `name` (its first `length` characters) and reports it. */
static graft_status run_case(const graft_safetensors *f, const char *name, size_t length,
                             analytic *model, golden_case_fn *report, void *ctx, graft_err *e)
{
    char text[256];
    size_t n_sigmas, n, n_out;
    float *sigmas = copy_values(find_part(f, name, length, "sigmas"), &n_sigmas);
    float *x = copy_values(find_part(f, name, length, "x0"), &n);
    float *out = copy_values(find_part(f, name, length, "out"), &n_out);
    graft_status st = GRAFT_E_FORMAT;
    snprintf(text, sizeof text, "%.*s", (int)strcspn(name, "."), name);
    if (sigmas && x && out && n == n_out && n == model->n) {
        graft_rng rng;
        graft_rng_seed(&rng, 98);
        graft_noise_source noise = graft_noise_plain(&rng);
        graft_denoiser denoiser = {.ctx = model, .denoise = denoise};
        graft_sampler_run run = {.denoiser = &denoiser,
                                 .noise = &noise,
                                 .sigmas = sigmas,
                                 .n_sigmas = n_sigmas,
                                 .x = x,
                                 .n = n,
                                 .batch = 1};
        st = graft_sampler_run_named(text, &run, e);
        double most = 0;
        for (size_t i = 0; i < n; i++) most = fmax(most, fabs(out[i]));
        snprintf(text, sizeof text, "%.*s", (int)length, name);
        if (st == GRAFT_OK) report(ctx, text, worst_difference(x, out, n) / most, 1e-5);
    } else {
        graft_fail(e, st, "%s: tensors are missing or of other sizes", name);
    }
    graft_free(sigmas);
    graft_free(x);
    graft_free(out);
    return st;
}

graft_status golden_samplers(const graft_safetensors *f, golden_case_fn *report, void *ctx,
                             graft_err *e)
{
    size_t n_a, n_b;
    float *a = copy_values(graft_safetensors_find(f, "a"), &n_a);
    float *b = copy_values(graft_safetensors_find(f, "b"), &n_b);
    graft_status st = a && b && n_a == n_b ? GRAFT_OK : GRAFT_E_FORMAT;
    if (st != GRAFT_OK) graft_fail(e, st, "the denoiser's a and b are missing or differ in size");
    analytic model = {a, b, n_a};
    for (size_t i = 0; st == GRAFT_OK && i < graft_safetensors_count(f); i++) {
        const char *name = graft_safetensors_at(f, i)->name;
        if (!graft_str_ends(name, ".sigmas")) continue;
        st = run_case(f, name, strlen(name) - strlen(".sigmas"), &model, report, ctx, e);
    }
    graft_free(a);
    graft_free(b);
    return st;
}
