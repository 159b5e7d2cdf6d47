/* SA-Solver (arXiv:2309.05019): stochastic Adams, a predictor and a corrector, usually of orders 3
 * and 4, with noise between two sigmas; PECE also evaluates the corrected state. */
#include <math.h>
#include <stdbool.h>

#include "engine/sampling/walk.h"

#define ORDER GRAFT_SA_ORDER

/* Integrals over a step of length h of rate exp(rate (x - to)) (x - to)^p, p from 0. */
static void moments(double rate, double h, int order, double *moment)
{
    double fade = exp(-rate * h), power = rate * h;
    for (int p = 0; p < order; p++, power *= -h) {
        double edge = (p == 0) - pow(-h, p) * fade, term = power, sum = 0;
        if (!(fabs(rate * h) < 2)) {
            moment[p] = edge - (p > 0 ? p / rate * moment[p - 1] : 0);
            continue;
        }
        /* Of a short step hardly anything would be left in that difference. */
        for (int k = 0; k < 40; k++) {
            sum += term / (p + 1 + k);
            term *= -rate * h / (k + 1);
        }
        moment[p] = sum;
    }
}

/* Weights of the predictions at lambda[0 .. order) (newest last) for the step from `from` to `to`:
 * integrals of (1 + tau^2) exp((1 + tau^2)(x - to)) times the Lagrange basis. */
static void weigh(const double *lambda, int order, double from, double to, double tau,
                  double *weight)
{
    /* Moments about `to`, where the step's end makes them well conditioned. */
    double moment[ORDER], m[ORDER][ORDER + 1];
    moments(1 + tau * tau, to - from, order, moment);
    for (int p = 0; p < order; p++) {
        for (int j = 0; j < order; j++) m[p][j] = pow(lambda[j] - to, p);
        m[p][order] = moment[p];
    }
    for (int i = 0; i < order; i++) {
        int best = i;
        for (int row = i; row < order; row++)
            if (fabs(m[row][i]) > fabs(m[best][i])) best = row;
        for (int j = 0; j <= order; j++) {
            double t = m[i][j];
            m[i][j] = m[best][j], m[best][j] = t;
        }
        for (int row = 0; row < order; row++) {
            double f = m[row][i] / m[i][i];
            for (int j = i; row != i && j <= order; j++) m[row][j] -= f * m[i][j];
        }
    }
    for (int i = 0; i < order; i++) weight[i] = m[i][order] / m[i][i];
}

/* The same of order 2 with the first moment about `from` as if the exponential were 1. One of the
 * predictions is at `from`, number `other` is not. */
static void weigh_simply(const double *lambda, int other, double from, double to, double tau,
                         double *weight)
{
    double rate = 1 + tau * tau, h = to - from;
    weight[other] = rate * h * h / 2 / (lambda[other] - from);
    weight[1 - other] = -expm1(-rate * h) - weight[other];
}

typedef struct sa_step {
    size_t from, to; /* indices of sigmas */
    size_t newest;   /* index of the newest prediction's sigma */
    int order;
    double tau;
} sa_step;

/* out = decayed x + weighted predictions; w->buf[k] is the prediction k steps before the newest. */
static void advance(const graft_walk *w, const sa_step *step, float *out)
{
    double s = w->sigma[step->from], t = w->sigma[step->to], lambda[ORDER], weight[ORDER];
    for (int k = 0; k < step->order; k++)
        lambda[k] = -log(w->sigma[step->newest - (size_t)(step->order - 1 - k)]);
    if (w->numbers->sa.simple && step->order == 2)
        weigh_simply(lambda, step->newest == step->to, -log(s), -log(t), step->tau, weight);
    else
        weigh(lambda, step->order, -log(s), -log(t), step->tau, weight);
    double keep = t / s * exp(-step->tau * step->tau * log(s / t));
    graft_mix2(w, out, keep, w->x, weight[step->order - 1], w->buf[0]);
    for (int k = 1; k < step->order; k++)
        graft_mix2(w, out, 1, out, weight[step->order - 1 - k], w->buf[k]);
}

static int least(int order, size_t b, size_t c)
{
    size_t a = (size_t)order, ab = a < b ? a : b;
    return (int)(ab < c ? ab : c);
}

static graft_status check_orders(const graft_sa_options *k, graft_err *e)
{
    if (k->predictor >= 1 && k->predictor <= ORDER && k->corrector >= 0 && k->corrector <= ORDER)
        return GRAFT_OK;
    return graft_fail(e, GRAFT_E_ARG,
                      "sa_solver with a predictor of order %d and a corrector of order %d: 1 to %d "
                      "and 0 to %d are there",
                      k->predictor, k->corrector, ORDER, ORDER);
}

graft_status graft_sample_sa_solver(graft_walk *w, graft_err *e)
{
    const graft_sa_options *k = &w->numbers->sa;
    float **past = w->buf, *ahead = w->buf[ORDER], *noise = w->buf[ORDER + 1];
    bool pece = w->variant & GRAFT_PECE || k->pece, to_zero = w->sigma[w->steps] == 0;
    double tau = 0, amount = 0;
    GRAFT_WALK(check_orders(k, e));
    graft_walk_copy(w, ahead, w->x);
    for (size_t i = 0; i < w->steps; i++) {
        double s = w->sigma[i], t = w->sigma[i + 1];
        for (int p = ORDER - 1; p > 0; p--) graft_swap(&past[p], &past[p - 1]);
        GRAFT_WALK(graft_walk_denoise(w, ahead, s, past[0], e));
        size_t left = to_zero ? w->steps - i : ORDER + 1;
        int predict = least(k->predictor, i + 1, left - 1);
        int correct = least(k->corrector, i + 1, left);
        if (i == 0 || correct == 0 || (t == 0 && !pece)) {
            graft_walk_land(w, ahead);
        } else {
            advance(w, &(sa_step){i - 1, i, i, correct, tau}, w->x);
            if (tau > 0) graft_mix2(w, w->x, 1, w->x, amount, noise);
            if (pece) GRAFT_WALK(graft_walk_denoise(w, w->x, s, past[0], e));
        }
        if (t == 0) {
            graft_walk_land(w, past[0]);
        } else {
            bool noisy = w->run->noise_from_sigma >= t && t >= w->run->noise_to_sigma;
            tau = noisy ? w->numbers->eta : 0;
            advance(w, &(sa_step){i, i + 1, i, predict, tau}, ahead);
            if (tau > 0) {
                amount = w->numbers->s_noise * t * sqrt(-expm1(-2 * tau * tau * log(s / t)));
                GRAFT_WALK(graft_walk_noise(w, s, t, noise, e));
                graft_mix2(w, ahead, 1, ahead, amount, noise);
            }
            if (i + 1 == w->steps) graft_walk_land(w, ahead);
        }
        graft_walk_report(w, i, past[0]);
    }
    return GRAFT_OK;
}
