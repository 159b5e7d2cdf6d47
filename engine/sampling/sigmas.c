/* Sigmas as an object: made from formulas or values, split and turned round. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "base/str.h"
#include "engine/engine.h"
#include "engine/sampling/schedule.h"

struct graft_sigmas {
    atomic_int refs;
    size_t n;
    float value[];
};

graft_sigmas *graft_sigmas_retain(graft_sigmas *s)
{
    if (s) atomic_fetch_add(&s->refs, 1);
    return s;
}

void graft_sigmas_release(graft_sigmas *s)
{
    if (s && atomic_fetch_sub(&s->refs, 1) == 1) graft_free(s);
}

const float *graft_sigmas_data(const graft_sigmas *s, size_t *n)
{
    *n = s->n;
    return s->value;
}

/* n sigmas that are not set yet. */
static graft_status create(size_t n, graft_sigmas **out, graft_err *e)
{
    size_t bytes;
    graft_sigmas *s = NULL;
    *out = NULL;
    if (graft_size_mul(n, sizeof *s->value, &bytes) && graft_size_add(bytes, sizeof *s, &bytes))
        s = graft_malloc(bytes);
    if (!s) return graft_fail_nomem(e, "sigmas");
    atomic_init(&s->refs, 1);
    s->n = n;
    *out = s;
    return GRAFT_OK;
}

/* Lets nobody have what is no sigma. */
static graft_status finish(graft_sigmas *s, graft_sigmas **out, graft_err *e)
{
    for (size_t i = 0; i < s->n; i++) {
        if (isfinite(s->value[i]) && s->value[i] >= 0) continue;
        graft_status st = graft_fail(
            e, GRAFT_E_ARG, "sigma %zu of %zu would be %g: sigmas are finite and at least 0", i + 1,
            s->n, (double)s->value[i]);
        graft_sigmas_release(s);
        return st;
    }
    *out = s;
    return GRAFT_OK;
}

/* The number at `at`, and where it ends; false: there is none. */
static bool number_at(const char *at, float *value, const char **end)
{
    char *last;
    const char *p = at + (*at == '-' || *at == '+');
    size_t whole = strspn(p, "0123456789"), rest = 0;
    if (p[whole] == '.') rest = strspn(p + whole + 1, "0123456789");
    if (!whole && !rest) return false;
    size_t n = (size_t)(p - at) + whole + (rest ? 1 + rest : 0);
    char text[64]; /* more digits than any float32 has */
    snprintf(text, sizeof text, "%.*s", n > 63 ? 63 : (int)n, at);
    *value = (float)graft_str_to_double(text, &last);
    *end = at + n;
    return true;
}

graft_status graft_sigmas_from_text(const char *text, graft_sigmas **out, graft_err *e)
{
    float *v = NULL, value;
    size_t n = 0, cap = 0;
    graft_status st = GRAFT_OK;
    *out = NULL;
    while (*text && !st) {
        if (!number_at(text, &value, &text)) {
            text++;
            continue;
        }
        if (graft_grow(&v, &cap, n + 1, sizeof *v))
            st = graft_fail_nomem(e, "sigmas");
        else
            v[n++] = value;
    }
    if (!st) st = graft_sigmas_from_data(v, n, out, e);
    graft_free(v);
    return st;
}

graft_status graft_sigmas_from_data(const float *values, size_t n, graft_sigmas **out, graft_err *e)
{
    graft_sigmas *s;
    *out = NULL;
    if (n > GRAFT_SIGMAS_MAX) return graft_fail(e, GRAFT_E_LIMIT, "%zu sigmas are too many", n);
    graft_status st = create(n, &s, e);
    if (st) return st;
    if (n) memcpy(s->value, values, n * sizeof *values);
    return finish(s, out, e);
}

/* ------------------------------------------------------------------ formulas */

/* Room for so many steps. */
static graft_status begin(int64_t steps, graft_sigmas **out, graft_err *e)
{
    *out = NULL;
    if (steps < 1 || steps >= GRAFT_SIGMAS_MAX)
        return graft_fail(e, GRAFT_E_ARG, "%lld steps: not between 1 and %d", (long long)steps,
                          GRAFT_SIGMAS_MAX - 1);
    return create((size_t)steps + 1, out, e);
}

/* What a logarithm is taken of, or what divides. */
static graft_status above_zero(const char *name, double v, graft_err *e)
{
    if (v > 0) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_ARG, "%s must be above 0, not %g", name, v);
}

graft_status graft_sigmas_karras(int64_t steps, double sigma_max, double sigma_min, double rho,
                                 graft_sigmas **out, graft_err *e)
{
    graft_sigmas *s = NULL;
    graft_status st = above_zero("rho", rho, e);
    *out = NULL;
    if (!st) st = begin(steps, &s, e);
    if (st) return st;
    graft_schedule_karras((int)steps, sigma_max, sigma_min, rho, s->value);
    return finish(s, out, e);
}

graft_status graft_sigmas_exponential(int64_t steps, double sigma_max, double sigma_min,
                                      graft_sigmas **out, graft_err *e)
{
    graft_sigmas *s = NULL;
    graft_status st = above_zero("sigma_max", sigma_max, e);
    *out = NULL;
    if (!st) st = above_zero("sigma_min", sigma_min, e);
    if (!st) st = begin(steps, &s, e);
    if (st) return st;
    graft_schedule_exponential((int)steps, sigma_max, sigma_min, s->value);
    return finish(s, out, e);
}

graft_status graft_sigmas_polyexponential(int64_t steps, double sigma_max, double sigma_min,
                                          double rho, graft_sigmas **out, graft_err *e)
{
    graft_sigmas *s = NULL;
    graft_status st = above_zero("sigma_max", sigma_max, e);
    *out = NULL;
    if (!st) st = above_zero("sigma_min", sigma_min, e);
    if (!st) st = begin(steps, &s, e);
    if (st) return st;
    graft_schedule_polyexponential((int)steps, sigma_max, sigma_min, rho, s->value);
    return finish(s, out, e);
}

graft_status graft_sigmas_vp(int64_t steps, double beta_d, double beta_min, double eps_s,
                             graft_sigmas **out, graft_err *e)
{
    graft_sigmas *s;
    graft_status st = begin(steps, &s, e);
    *out = NULL;
    if (st) return st;
    graft_schedule_vp((int)steps, beta_d, beta_min, eps_s, s->value);
    return finish(s, out, e);
}

graft_status graft_sigmas_laplace(int64_t steps, double sigma_max, double sigma_min, double mu,
                                  double beta, graft_sigmas **out, graft_err *e)
{
    graft_sigmas *s = NULL;
    *out = NULL;
    if (!(sigma_min >= 0 && sigma_max >= sigma_min))
        return graft_fail(e, GRAFT_E_ARG, "sigma_min %g is not between 0 and sigma_max %g",
                          sigma_min, sigma_max);
    if (!isfinite(mu) || !isfinite(beta))
        return graft_fail(e, GRAFT_E_ARG, "mu %g and beta %g must be finite", mu, beta);
    graft_status st = begin(steps, &s, e);
    if (st) return st;
    s->n--; /* no 0 at the end */
    graft_schedule_laplace((int)steps, sigma_max, sigma_min, mu, beta, s->value);
    return finish(s, out, e);
}

#define TOKEN 16 /* pixels of a token's side */

graft_status graft_sigmas_flux2(int64_t steps, int64_t width, int64_t height, graft_sigmas **out,
                                graft_err *e)
{
    graft_sigmas *s = NULL;
    *out = NULL;
    if (width < TOKEN || height < TOKEN || width > INT32_MAX || height > INT32_MAX)
        return graft_fail(e, GRAFT_E_ARG, "a picture of %lldx%lld pixels: not one of %d each way",
                          (long long)width, (long long)height, TOKEN);
    graft_status st = begin(steps, &s, e);
    if (st) return st;
    graft_schedule_flux2((int)steps, width / TOKEN * (height / TOKEN), s->value);
    return finish(s, out, e);
}

graft_status graft_sigmas_ideogram4(int64_t steps, int64_t width, int64_t height, double mu,
                                    double std, graft_sigmas **out, graft_err *e)
{
    enum { SIDE = 512 };
    graft_sigmas *s = NULL;
    *out = NULL;
    if (width < 1 || height < 1 || width > INT32_MAX || height > INT32_MAX)
        return graft_fail(e, GRAFT_E_ARG, "a picture of %lldx%lld pixels", (long long)width,
                          (long long)height);
    if (!isfinite(mu) || !(std > 0 && std <= 1000))
        return graft_fail(e, GRAFT_E_ARG, "a distribution of mean %g and deviation %g", mu, std);
    graft_status st = begin(steps, &s, e);
    if (st) return st;
    mu += log((double)width * (double)height / SIDE / SIDE) / 2;
    graft_schedule_ideogram4((int)steps, mu, std, s->value);
    return finish(s, out, e);
}

/* What the authors of "Align Your Steps" found for ten steps, on their page
 * research.nvidia.com/labs/toronto-ai/AlignYourSteps/howto.html. */
#define ALIGNED 11
static const struct aligned {
    const char *kind;
    double level[ALIGNED];
} aligned[] = {
    {"SD1", {14.615, 6.475, 3.861, 2.697, 1.886, 1.396, 0.963, 0.652, 0.399, 0.152, 0.029}},
    {"SDXL", {14.615, 6.315, 3.771, 2.181, 1.342, 0.862, 0.555, 0.380, 0.234, 0.113, 0.029}},
};

static graft_status find_aligned(const char *kind, const double **level, graft_err *e)
{
    for (size_t i = 0; i < sizeof aligned / sizeof *aligned; i++)
        if (strcmp(kind, aligned[i].kind) == 0) {
            *level = aligned[i].level;
            return GRAFT_OK;
        }
    return graft_fail(e, GRAFT_E_UNSUPPORTED, "no sigmas are known for models of kind \"%.40s\"",
                      kind);
}

graft_status graft_sigmas_align_your_steps(const char *kind, int64_t steps, double denoise,
                                           graft_sigmas **out, graft_err *e)
{
    const double *level = NULL;
    graft_sigmas *all = NULL, *high = NULL;
    graft_status st = find_aligned(kind, &level, e);
    *out = NULL;
    if (!st && !(denoise >= 0 && denoise <= 1))
        st = graft_fail(e, GRAFT_E_ARG, "denoise %g is not between 0 and 1", denoise);
    if (!st) st = begin(steps, &all, e);
    if (st) return st;
    graft_schedule_aligned(level, ALIGNED, (int)steps, all->value);
    if (denoise > 0)
        st = graft_sigmas_split_denoise(all, denoise, &high, out, e);
    else
        st = create(0, out, e);
    graft_sigmas_release(high);
    graft_sigmas_release(all);
    return st;
}

/* ------------------------------------------------------------------ parts */

/* The first n_high sigmas, and the last n_low. */
static graft_status cut(const graft_sigmas *s, size_t n_high, size_t n_low, graft_sigmas **high,
                        graft_sigmas **low, graft_err *e)
{
    *low = NULL;
    graft_status st = graft_sigmas_from_data(s->value, n_high, high, e);
    if (!st) st = graft_sigmas_from_data(s->value + s->n - n_low, n_low, low, e);
    if (st) {
        graft_sigmas_release(*high);
        *high = NULL;
    }
    return st;
}

graft_status graft_sigmas_split(const graft_sigmas *s, int64_t step, graft_sigmas **high,
                                graft_sigmas **low, graft_err *e)
{
    *high = *low = NULL;
    if (step < 0) return graft_fail(e, GRAFT_E_ARG, "step %lld is negative", (long long)step);
    size_t at = (uint64_t)step < s->n ? (size_t)step : s->n;
    return cut(s, at < s->n ? at + 1 : s->n, s->n - at, high, low, e);
}

graft_status graft_sigmas_split_denoise(const graft_sigmas *s, double denoise, graft_sigmas **high,
                                        graft_sigmas **low, graft_err *e)
{
    *high = *low = NULL;
    if (!(denoise >= 0 && denoise <= 1))
        return graft_fail(e, GRAFT_E_ARG, "denoise %g is not between 0 and 1", denoise);
    size_t steps = s->n ? s->n - 1 : 0;
    return graft_sigmas_split(s, (int64_t)(steps - (size_t)rint((double)steps * denoise)), high,
                              low, e);
}

graft_status graft_sigmas_flip(const graft_sigmas *s, graft_sigmas **out, graft_err *e)
{
    graft_sigmas *f;
    graft_status st = create(s->n, &f, e);
    *out = NULL;
    if (st) return st;
    for (size_t i = 0; i < s->n; i++) f->value[i] = s->value[s->n - 1 - i];
    if (f->n && f->value[0] == 0) f->value[0] = 0.0001f; /* samplers divide by it */
    *out = f;
    return GRAFT_OK;
}

graft_status graft_sigmas_set_first(const graft_sigmas *s, double sigma, graft_sigmas **out,
                                    graft_err *e)
{
    graft_sigmas *n;
    graft_status st = create(s->n, &n, e);
    *out = NULL;
    if (st) return st;
    if (n->n) memcpy(n->value, s->value, n->n * sizeof *n->value);
    if (n->n) n->value[0] = (float)sigma;
    return finish(n, out, e);
}
