/* DPM-Solver (arXiv:2206.00927) in lambda = -log sigma: "fast" with a given number of evaluations,
 * and order 3 with a step size from the difference to order 2. */
#include <math.h>

#include "engine/sampling/walk.h"

#define SHORTEST 1e-7 /* step of dpm_adaptive */
#define PATIENCE 1000 /* refused steps in a row */

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
static double error_of(const graft_walk *w, const graft_adaptive_options *k)
{
    const float *low = w->buf[LOW], *high = w->buf[HIGH], *previous = w->buf[PREVIOUS];
    double sum = 0;
    for (size_t i = 0; i < w->n; i++) {
        double size = fmax(fabs(low[i]), fabs(previous[i])), error = (double)low[i] - high[i];
        error /= fmax(k->atol, k->rtol * size);
        sum += error * error;
    }
    return sqrt(sum / (double)w->n);
}

/* The length of the next step, by the errors of this one and of two before (sampler_options.h). */
typedef struct controller {
    double h, power[3], inverse[3], safety;
    int refused; /* in a row */
} controller;

static controller begin(const graft_sampler_numbers *n)
{
    const graft_adaptive_options *k = &n->adaptive;
    double order = n->eta > 0 ? 1.5 : n->order == 2 ? 2 : 3;
    return (controller){.h = k->h_init,
                        .power = {(k->pcoeff + k->icoeff + k->dcoeff) / order,
                                  -(k->pcoeff + 2 * k->dcoeff) / order, k->dcoeff / order},
                        .safety = k->accept_safety};
}

/* Whether the step is to be taken. */
static bool judge(controller *c, double error)
{
    double now = 1 / (error + 1e-8), factor = 1;
    if (c->inverse[1] == 0) c->inverse[1] = c->inverse[2] = now;
    c->inverse[0] = now;
    for (int i = 0; i < 3; i++) factor *= pow(c->inverse[i], c->power[i]);
    factor = 1 + atan(factor - 1);
    c->h *= factor;
    if (factor < c->safety) return false; /* a state that is no number goes on */
    c->inverse[2] = c->inverse[1];
    c->inverse[1] = now;
    return true;
}

/* After a step: whether it is taken. Where no length is short enough, a state that is finite ends
 * the run, another one goes on. */
static graft_status decide(controller *c, const graft_walk *w, const graft_adaptive_options *k,
                           bool *taken, graft_err *e)
{
    const double error = error_of(w, k);
    *taken = judge(c, error);
    if (!*taken && !(c->h > SHORTEST && ++c->refused < PATIENCE)) {
        if (isfinite(error))
            return graft_fail(e, GRAFT_E_ARG,
                              "dpm_adaptive finds no step that is exact enough for rtol %g, atol "
                              "%g and accept_safety %g",
                              k->rtol, k->atol, k->accept_safety);
        *taken = true;
    }
    if (*taken) c->refused = 0;
    if (*taken && !(c->h > SHORTEST)) c->h = k->h_init;
    return GRAFT_OK;
}

static graft_status check_adaptive(const graft_adaptive_options *k, graft_err *e)
{
    const double number[] = {k->rtol, k->atol, k->pcoeff, k->icoeff, k->dcoeff, k->accept_safety};
    bool fine = k->h_init >= 1e-6 && k->h_init <= 1e6 && (k->rtol > 0 || k->atol > 0) &&
                k->accept_safety < 1 + acos(0);
    for (size_t i = 0; i < sizeof number / sizeof *number; i++)
        fine = fine && number[i] >= 0 && number[i] <= 1e6;
    if (fine) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_ARG,
                      "dpm_adaptive with rtol %g, atol %g, h_init %g, coefficients %g, %g, %g and "
                      "accept_safety %g: none may be below 0, rtol and atol not both 0, h_init "
                      "must be at least 0.000001, and accept_safety below 2.57",
                      k->rtol, k->atol, k->h_init, k->pcoeff, k->icoeff, k->dcoeff,
                      k->accept_safety);
}

/* The step to `to`, in two orders; with eta, so far beyond that `up` of noise leads back to it. */
static graft_status both_orders(const graft_walk *w, const graft_sampler_numbers *k, double lambda,
                                double end, double to, double *up, graft_err *e)
{
    double target = to;
    *up = 0;
    if (k->eta > 0) {
        double t = exp(-to), down;
        graft_walk_ancestral_step(w, exp(-lambda), t, k->eta, &down, up);
        target = fmin(end, -log(down));
        *up = sqrt(fmax(t * t - exp(-2 * target), 0));
    }
    const double h = target - lambda;
    GRAFT_WALK(predict(w, w->x, lambda, w->buf[EPS], e));
    if (k->order == 2) {
        graft_mix2(w, w->buf[LOW], 1, w->x, -exp(-target) * expm1(h), w->buf[EPS]);
        return step_2(w, lambda, h, 0.5, w->buf[HIGH], e);
    }
    GRAFT_WALK(step_2(w, lambda, h, 1 / 3., w->buf[LOW], e));
    return finish_3(w, lambda, h, w->buf[HIGH], e);
}

graft_status graft_sample_dpm_adaptive(graft_walk *w, graft_err *e)
{
    static const graft_sampler_numbers usual = {
        .s_noise = 1,
        .order = 3,
        .adaptive = {
            .rtol = 0.05, .atol = 0.0078, .h_init = 0.05, .icoeff = 1, .accept_safety = 0.81}};
    const graft_sampler_numbers *k = w->run->numbers ? w->numbers : &usual;
    double lambda = 0, end = 0;
    GRAFT_WALK(check_adaptive(&k->adaptive, e));
    GRAFT_WALK(ends(w, &lambda, &end, e));
    controller control = begin(k);
    graft_walk_copy(w, w->buf[PREVIOUS], w->x);
    for (size_t i = 0; lambda < end - 1e-5; i++) {
        double next = fmin(end, lambda + control.h), up;
        bool taken;
        GRAFT_WALK(both_orders(w, k, lambda, end, next, &up, e));
        GRAFT_WALK(decide(&control, w, &k->adaptive, &taken, e));
        if (taken) {
            graft_walk_land(w, w->buf[HIGH]);
            graft_swap(&w->buf[PREVIOUS], &w->buf[LOW]);
            if (k->eta > 0)
                GRAFT_WALK(graft_walk_add_noise(w, exp(-lambda), exp(-next), up * k->s_noise,
                                                w->buf[EPS_1], e));
            lambda = next;
        }
        graft_walk_report(w, i, w->buf[DENOISED]);
    }
    return GRAFT_OK;
}
