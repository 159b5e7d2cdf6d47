#include "engine/denoise/model_sigmas.h"

#include "base/alloc.h"

#define TURBO_STEPS  10 /* SD Turbo was distilled at every hundredth timestep */
#define TURBO_STRIDE 100
#define BETA_MAX     1000 /* a distribution that is one point */

void graft_model_sigma_table(const graft_model *m, graft_sigma_table *out)
{
    if (graft_model_is_flow(m)) {
        graft_sigma_table_init_flow(out, m->flow_shift, m->flow_steps);
        return;
    }
    if (m->continuous.time != GRAFT_TIME_STEPS) {
        graft_sigma_table_init_continuous(out, m->continuous.low, m->continuous.high,
                                          m->continuous.time);
        return;
    }
    graft_sigma_table_init(out, m->beta_start, m->beta_end, m->zsnr,
                           m->prediction == GRAFT_PREDICT_LCM);
}

/* A schedule while parts of it are taken away. */
typedef struct schedule {
    float *sigma;
    size_t first, n; /* those that are left */
} schedule;

static graft_status give(const schedule *s, graft_sigmas **out, graft_err *e)
{
    return graft_sigmas_from_data(s->n ? s->sigma + s->first : NULL, s->n, out, e);
}

/* int(steps / share) steps; share 0: no sigmas. */
static graft_status make(const graft_model *m, const char *scheduler, int64_t steps, double share,
                         bool one_more, schedule *s, graft_err *e)
{
    double asked = share > 0 ? (double)steps / share : 0;
    if (steps < 1 || !(asked < GRAFT_SIGMAS_MAX))
        return graft_fail(e, GRAFT_E_ARG, "steps out of range: %lld at denoise %g",
                          (long long)steps, share);
    if (!(share > 0)) return GRAFT_OK;
    int n = (int)asked + one_more;
    size_t cap = (size_t)(n > GRAFT_SCHEDULE_MOST ? n : GRAFT_SCHEDULE_MOST) + 2;
    graft_sigma_table *t = graft_malloc(sizeof *t);
    s->sigma = graft_malloc_array(cap, sizeof *s->sigma);
    graft_status st = t && s->sigma ? GRAFT_OK : graft_fail_nomem(e, "sigmas");
    if (!st) graft_model_sigma_table(m, t);
    if (!st) st = graft_schedule_make(t, scheduler, n, s->sigma, cap, &s->n, e);
    graft_free(t);
    return st;
}

static void keep_last(schedule *s, size_t n)
{
    if (s->n <= n) return;
    s->first += s->n - n;
    s->n = n;
}

/* What start_at_step and end_at_step leave of it. */
static void keep_between(const graft_sample_params *p, schedule *s)
{
    if (p->end_at_step >= 0 && (size_t)p->end_at_step + 1 < s->n) {
        s->n = (size_t)p->end_at_step + 1;
        if (p->force_full_denoise) s->sigma[s->first + s->n - 1] = 0.0f;
    }
    if (p->start_at_step <= 0) return;
    bool any = (size_t)p->start_at_step + 1 < s->n;
    s->first += any ? (size_t)p->start_at_step : 0;
    s->n = any ? s->n - (size_t)p->start_at_step : 0;
}

graft_status graft_sigmas_for_ksampler(const graft_model *m, const graft_sample_params *p,
                                       graft_sigmas **out, graft_err *e)
{
    schedule s = {0};
    bool part = p->denoise <= 0.9999, drop = graft_sampler_discards_penultimate(p->sampler);
    graft_status st = make(m, p->scheduler, p->steps, part ? p->denoise : 1, drop, &s, e);
    if (!st) {
        if (drop && s.n >= 2) {
            s.sigma[s.n - 2] = s.sigma[s.n - 1];
            s.n--;
        }
        if (part) keep_last(&s, (size_t)p->steps + 1);
        keep_between(p, &s);
        st = give(&s, out, e);
    }
    graft_free(s.sigma);
    return st;
}

graft_status graft_sigmas_from_model(const graft_model *m, const char *scheduler, int64_t steps,
                                     double denoise, graft_sigmas **out, graft_err *e)
{
    schedule s = {0};
    *out = NULL;
    if (!(denoise >= 0)) return graft_fail(e, GRAFT_E_ARG, "denoise %g is negative", denoise);
    graft_status st = make(m, scheduler, steps, denoise < 1 ? denoise : 1, false, &s, e);
    if (!st) {
        keep_last(&s, (size_t)steps + 1);
        st = give(&s, out, e);
    }
    graft_free(s.sigma);
    return st;
}

graft_status graft_sigmas_at_percent(const graft_model *m, double percent, bool actual, double *out,
                                     graft_err *e)
{
    if (!(percent >= 0 && percent <= 1))
        return graft_fail(e, GRAFT_E_ARG, "a share of %g is not between 0 and 1", percent);
    graft_sigma_table *t = graft_malloc(sizeof *t);
    if (!t) return graft_fail_nomem(e, "sigmas");
    graft_model_sigma_table(m, t);
    bool end = percent <= 0 || percent >= 1;
    *out = (double)(actual && end ? t->sigma[percent > 0 ? 0 : t->count - 1]
                                  : graft_percent_to_sigma(t, percent));
    graft_free(t);
    return GRAFT_OK;
}

graft_status graft_sigmas_turbo(const graft_model *m, int64_t steps, double denoise,
                                graft_sigmas **out, graft_err *e)
{
    float sigma[TURBO_STEPS + 1];
    size_t n = 0;
    *out = NULL;
    if (steps < 1 || steps > TURBO_STEPS)
        return graft_fail(e, GRAFT_E_ARG, "%lld steps: not between 1 and %d", (long long)steps,
                          TURBO_STEPS);
    if (!(denoise >= 0 && denoise <= 1))
        return graft_fail(e, GRAFT_E_ARG, "denoise %g is not between 0 and 1", denoise);
    graft_sigma_table *t = graft_malloc(sizeof *t);
    if (!t) return graft_fail_nomem(e, "sigmas");
    graft_model_sigma_table(m, t);
    for (int left = (int)(TURBO_STEPS * denoise); left > 0 && n < (size_t)steps; left--)
        sigma[n++] = graft_timestep_to_sigma(t, (float)(left * TURBO_STRIDE - 1));
    sigma[n++] = 0;
    graft_free(t);
    return graft_sigmas_from_data(sigma, n, out, e);
}

graft_status graft_sigmas_beta(const graft_model *m, int64_t steps, double alpha, double beta,
                               graft_sigmas **out, graft_err *e)
{
    *out = NULL;
    if (steps < 1 || steps >= GRAFT_SIGMAS_MAX)
        return graft_fail(e, GRAFT_E_ARG, "%lld steps: not between 1 and %d", (long long)steps,
                          GRAFT_SIGMAS_MAX - 1);
    if (!(alpha > 0 && alpha <= BETA_MAX && beta > 0 && beta <= BETA_MAX))
        return graft_fail(e, GRAFT_E_ARG,
                          "alpha %g and beta %g: both must be above 0 and at most %d", alpha, beta,
                          BETA_MAX);
    graft_sigma_table *t = graft_malloc(sizeof *t);
    float *sigma = graft_malloc_array((size_t)steps + 1, sizeof *sigma);
    graft_status st = t && sigma ? GRAFT_OK : graft_fail_nomem(e, "sigmas");
    if (!st) {
        graft_model_sigma_table(m, t);
        st = graft_sigmas_from_data(sigma, graft_schedule_beta(t, (int)steps, alpha, beta, sigma),
                                    out, e);
    }
    graft_free(sigma);
    graft_free(t);
    return st;
}
