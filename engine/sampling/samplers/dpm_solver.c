/* DPM-Solver (arXiv:2206.00927) in lambda = -log sigma: "fast" with a given number of evaluations,
 * and order 3 with a step size from the difference to order 2. */
#include <math.h>

#include "engine/sampling/walk.h"

enum { EPS, EPS_1, EPS_2, STATE, DENOISED, LOW, HIGH, PREVIOUS };

/* Predicted noise at lambda into `eps`; w->buf[DENOISED] keeps what was predicted. */
static graft_status predict(const graft_walk *w, const float *x, double lambda, float *eps,
                            graft_err *e)
{
    double sigma = exp(-lambda);
    GRAFT_WALK(graft_walk_denoise(w, x, sigma, eps, e));
    if (x == w->x) graft_walk_copy(w, w->buf[DENOISED], eps);
    graft_mix2(w, eps, 1 / sigma, x, -1 / sigma, eps);
    return GRAFT_OK;
}

/* Second order with its inner point at r1, from buf[EPS]; leaves the inner noise in buf[EPS_1]. */
static graft_status step_2(const graft_walk *w, double lambda, double h, double r1, float *out,
                           graft_err *e)
{
    float *state = w->buf[STATE], *eps = w->buf[EPS], *eps_1 = w->buf[EPS_1];
    double inner = lambda + r1 * h, gain = exp(-lambda - h) * expm1(h);
    graft_mix2(w, state, 1, w->x, -exp(-inner) * expm1(r1 * h), eps);
    GRAFT_WALK(predict(w, state, inner, eps_1, e));
    double k = gain / (2 * r1);
    graft_mix3(w, out, 1, w->x, k - gain, eps, -k, eps_1);
    return GRAFT_OK;
}

/* The rest of third order after step_2 with r1 = 1/3, whose inner noise it uses. */
static graft_status finish_3(const graft_walk *w, double lambda, double h, float *out, graft_err *e)
{
    const double r1 = 1 / 3., r2 = 2 / 3.;
    float *state = w->buf[STATE], *eps = w->buf[EPS], *eps_2 = w->buf[EPS_2];
    double inner = lambda + r2 * h, sigma = exp(-inner), gain = expm1(r2 * h);
    double k = sigma * (r2 / r1) * (gain / (r2 * h) - 1);
    graft_mix3(w, state, 1, w->x, k - sigma * gain, eps, -k, w->buf[EPS_1]);
    GRAFT_WALK(predict(w, state, inner, eps_2, e));
    double end = exp(-lambda - h), k3 = end / r2 * (expm1(h) / h - 1);
    graft_mix3(w, out, 1, w->x, k3 - end * expm1(h), eps, -k3, eps_2);
    return GRAFT_OK;
}

/* From the first sigma to the last that is not 0. */
static graft_status ends(const graft_walk *w, double *from, double *to, graft_err *e)
{
    float low = w->sigma[w->steps];
    if (low == 0) low = w->sigma[w->steps - 1];
    if (!(low > 0 && isfinite(low)) || !(w->sigma[0] > 0 && isfinite(w->sigma[0])))
        return graft_fail(e, GRAFT_E_ARG, "DPM-Solver needs finite sigmas above 0, not %g to %g",
                          w->sigma[0], low);
    *from = -log(w->sigma[0]);
    *to = -log(low);
    return GRAFT_OK;
}

graft_status graft_sample_dpm_fast(graft_walk *w, graft_err *e)
{
    double from = 0, to = 0;
    GRAFT_WALK(ends(w, &from, &to, e));
    size_t pieces = w->steps / 3 + 1;
    for (size_t i = 0; i < pieces; i++) {
        double lambda = from + (to - from) * (double)i / (double)pieces;
        double h = (to - from) / (double)pieces;
        /* All of order 3 but the last, or the last two: together as many evaluations as steps. */
        size_t order = 3;
        if (i + 1 == pieces) order = w->steps % 3 ? w->steps % 3 : 1;
        if (i + 2 == pieces && w->steps % 3 == 0) order = 2;
        GRAFT_WALK(predict(w, w->x, lambda, w->buf[EPS], e));
        if (order == 1) {
            graft_mix2(w, w->x, 1, w->x, -exp(-lambda - h) * expm1(h), w->buf[EPS]);
        } else if (order == 2) {
            GRAFT_WALK(step_2(w, lambda, h, 0.5, w->x, e));
        } else {
            GRAFT_WALK(step_2(w, lambda, h, 1 / 3., w->buf[LOW], e));
            GRAFT_WALK(finish_3(w, lambda, h, w->x, e));
        }
        graft_walk_report(w, i, w->buf[DENOISED]);
    }
    return GRAFT_OK;
}

/* Root mean square of (low - high) over the tolerance, which grows with the state. */
static double error_of(const graft_walk *w)
{
    const float *low = w->buf[LOW], *high = w->buf[HIGH], *previous = w->buf[PREVIOUS];
    double sum = 0;
    for (size_t i = 0; i < w->n; i++) {
        double size = fmax(fabs(low[i]), fabs(previous[i])), error = (double)low[i] - high[i];
        error /= fmax(0.0078, 0.05 * size);
        sum += error * error;
    }
    return sqrt(sum / (double)w->n);
}

graft_status graft_sample_dpm_adaptive(graft_walk *w, graft_err *e)
{
    double lambda = 0, end = 0, step = 0.05;
    GRAFT_WALK(ends(w, &lambda, &end, e));
    graft_walk_copy(w, w->buf[PREVIOUS], w->x);
    for (size_t i = 0; lambda < end - 1e-5; i++) {
        double next = fmin(end, lambda + step), h = next - lambda;
        GRAFT_WALK(predict(w, w->x, lambda, w->buf[EPS], e));
        GRAFT_WALK(step_2(w, lambda, h, 1 / 3., w->buf[LOW], e));
        GRAFT_WALK(finish_3(w, lambda, h, w->buf[HIGH], e));
        double factor = pow(1 / (error_of(w) + 1e-8), 1 / 3.);
        factor = 1 + atan(factor - 1);
        step *= factor;
        /* A state that is no number any more satisfies no step size: go on with what there is. */
        if (!(factor < 0.81) || !(step > 1e-7)) {
            graft_walk_land(w, w->buf[HIGH]);
            graft_swap(&w->buf[PREVIOUS], &w->buf[LOW]);
            lambda = next;
            if (!(step > 1e-7)) step = 0.05;
        }
        graft_walk_report(w, i, w->buf[DENOISED]);
    }
    return GRAFT_OK;
}
