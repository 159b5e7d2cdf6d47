/* SA-Solver (arXiv:2309.05019): stochastic Adams, predictor of order 3 and corrector of order 4,
 * with noise between two sigmas; PECE also evaluates the corrected state. */
#include <math.h>
#include <stdbool.h>

#include "engine/sampling/walk.h"

#define PREDICT 3
#define CORRECT 4

/* Weights of the predictions at lambda[0 .. order) (newest last) for the step from `from` to `to`:
 * integrals of (1 + tau^2) exp((1 + tau^2)(x - to)) times the Lagrange basis. */
static void weigh(const double *lambda, int order, double from, double to, double tau,
                  double *weight)
{
    /* Moments about `to`, where the step's end makes them well conditioned. */
    double rate = 1 + tau * tau, h = to - from, fade = exp(-rate * h), moment[CORRECT];
    double m[CORRECT][CORRECT + 1];
    for (int p = 0; p < order; p++) {
        double edge = (p == 0) - pow(-h, p) * fade;
        moment[p] = edge - (p > 0 ? p / rate * moment[p - 1] : 0);
    }
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

typedef struct sa_step {
    size_t from, to; /* indices of sigmas */
    size_t newest;   /* index of the newest prediction's sigma */
    int order;
    double tau;
} sa_step;

/* out = decayed x + weighted predictions; w->buf[k] is the prediction k steps before the newest. */
static void advance(const graft_walk *w, const sa_step *step, float *out)
{
    double s = w->sigma[step->from], t = w->sigma[step->to], lambda[CORRECT], weight[CORRECT];
    for (int k = 0; k < step->order; k++)
        lambda[k] = -log(w->sigma[step->newest - (size_t)(step->order - 1 - k)]);
    weigh(lambda, step->order, -log(s), -log(t), step->tau, weight);
    double keep = t / s * exp(-step->tau * step->tau * log(s / t));
    graft_mix2(w, out, keep, w->x, weight[step->order - 1], w->buf[0]);
    for (int k = 1; k < step->order; k++)
        graft_mix2(w, out, 1, out, weight[step->order - 1 - k], w->buf[k]);
}

static int least(size_t a, size_t b, size_t c)
{
    size_t ab = a < b ? a : b;
    return (int)(ab < c ? ab : c);
}

graft_status graft_sample_sa_solver(graft_walk *w, graft_err *e)
{
    float **past = w->buf, *ahead = w->buf[CORRECT], *noise = w->buf[CORRECT + 1];
    bool pece = w->variant & GRAFT_PECE, to_zero = w->sigma[w->steps] == 0;
    double tau = 0, amount = 0;
    graft_walk_copy(w, ahead, w->x);
    for (size_t i = 0; i < w->steps; i++) {
        double s = w->sigma[i], t = w->sigma[i + 1];
        for (int k = CORRECT - 1; k > 0; k--) graft_swap(&past[k], &past[k - 1]);
        GRAFT_WALK(graft_walk_denoise(w, ahead, s, past[0], e));
        size_t left = to_zero ? w->steps - i : CORRECT + 1;
        int predict = least(PREDICT, i + 1, left - 1), correct = least(CORRECT, i + 1, left);
        if (i == 0 || (t == 0 && !pece)) {
            graft_walk_land(w, ahead);
        } else {
            advance(w, &(sa_step){i - 1, i, i, correct, tau}, w->x);
            if (tau > 0) graft_mix2(w, w->x, 1, w->x, amount, noise);
            if (pece) GRAFT_WALK(graft_walk_denoise(w, w->x, s, past[0], e));
        }
        if (t == 0) {
            graft_walk_land(w, past[0]);
        } else {
            tau = w->run->noise_from_sigma >= t && t >= w->run->noise_to_sigma ? 1 : 0;
            advance(w, &(sa_step){i, i + 1, i, predict, tau}, ahead);
            if (tau > 0) {
                amount = t * sqrt(-expm1(-2 * log(s / t)));
                GRAFT_WALK(graft_walk_noise(w, s, t, noise, e));
                graft_mix2(w, ahead, 1, ahead, amount, noise);
            }
            if (i + 1 == w->steps) graft_walk_land(w, ahead);
        }
        graft_walk_report(w, i, past[0]);
    }
    return GRAFT_OK;
}
