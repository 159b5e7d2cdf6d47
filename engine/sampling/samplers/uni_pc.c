/* UniPC (arXiv:2302.04867), order up to 3, predicting the denoised latent, with B(h) = h or
 * e^h - 1. */
#include <math.h>
#include <stdbool.h>

#include "engine/sampling/walk.h"

#define ORDER 3

/* log(1 / alpha) and lambda of the variance-preserving process at a sigma, in float32 as ComfyUI
 * computes them: near its stand-in for sigma 0 the rounding is larger than the tolerance. */
typedef struct vp_point {
    double ratio; /* sigma as float32 gives it back */
    double lambda;
} vp_point;

static vp_point vp_at(float sigma)
{
    float log_alpha = 0.5f * (float)log(1.0f / (sigma * sigma + 1.0f));
    float variance = 1.0f - (float)exp(2.0f * log_alpha);
    float lambda = log_alpha - 0.5f * (float)log(variance);
    return (vp_point){sqrtf(variance) / (float)exp(log_alpha), lambda};
}

/* Solves the k by k system sum_j r[j]^i * c[j] = b[i], i from 0, by elimination. */
static void solve_powers(int k, const double *r, const double *b, double *c)
{
    double m[ORDER][ORDER + 1];
    for (int i = 0; i < k; i++) {
        for (int j = 0; j < k; j++) m[i][j] = i == 0 ? 1 : m[i - 1][j] * r[j];
        m[i][k] = b[i];
    }
    for (int i = 0; i < k; i++)
        for (int row = 0; row < k; row++) {
            if (row == i) continue;
            double f = m[row][i] / m[i][i];
            for (int j = i; j <= k; j++) m[row][j] -= f * m[i][j];
        }
    for (int i = 0; i < k; i++) c[i] = m[i][k] / m[i][i];
}

typedef struct uni_step {
    double keep, gain, scale; /* x' = keep x - gain m0 - scale * (weighted differences) */
    double r[ORDER];          /* places of the older predictions, then 1 */
    double predict[ORDER], correct[ORDER];
} uni_step;

/* past[k]: the point of the k-th last prediction. */
static uni_step weigh(const vp_point *past, vp_point to, int order, bool bh2)
{
    uni_step u = {.keep = to.ratio / past[0].ratio};
    double h = to.lambda - past[0].lambda, b[ORDER], factorial = 1;
    u.gain = expm1(-h);
    u.scale = bh2 ? u.gain : -h;
    double phi = u.gain / -h - 1;
    for (int i = 0; i < order; i++) {
        u.r[i] = i + 1 < order ? (past[i + 1].lambda - past[0].lambda) / h : 1;
        b[i] = phi * factorial / u.scale;
        factorial *= i + 2;
        phi = phi / -h - 1 / factorial;
    }
    if (order == 2)
        u.predict[0] = 0.5;
    else
        solve_powers(order - 1, u.r, b, u.predict);
    if (order == 1)
        u.correct[0] = 0.5;
    else
        solve_powers(order, u.r, b, u.correct);
    return u;
}

/* out = keep x - gain m[0] - scale * (sum of weight[k] (m[k + 1] - m[0]) / r[k] + last (now -
 * m[0]))
 */
static void move(const graft_walk *w, const uni_step *u, int order, const double *weight,
                 const float *now, double last, float *out)
{
    double first = -u->gain, k[ORDER] = {0};
    for (int i = 0; i + 1 < order; i++) {
        k[i] = -u->scale * weight[i] / u->r[i];
        first -= k[i];
    }
    double newest = -u->scale * last;
    graft_mix3(w, out, u->keep, w->x, first - newest, w->buf[0], newest, now);
    for (int i = 0; i + 1 < order; i++) graft_mix2(w, out, 1, out, k[i], w->buf[i + 1]);
}

graft_status graft_sample_uni_pc(graft_walk *w, graft_err *e)
{
    float *guess = w->buf[ORDER], **m = w->buf;
    bool to_zero = w->sigma[w->steps] == 0, bh2 = w->variant & GRAFT_BH2;
    size_t most = w->steps - 1 < ORDER ? w->steps - 1 : ORDER;
    vp_point past[ORDER] = {vp_at(w->sigma[0])};
    GRAFT_WALK(graft_walk_denoise(w, w->x, w->sigma[0], m[0], e));
    graft_walk_report(w, 0, m[0]);
    if (most == 0) return GRAFT_OK;
    for (size_t i = 1; i <= w->steps; i++) {
        bool last = i == w->steps;
        float sigma = last && to_zero ? 0.001f : w->sigma[i];
        vp_point to = vp_at(sigma);
        size_t order = i < most ? i : most;
        if (order > w->steps + 1 - i) order = w->steps + 1 - i;
        uni_step u = weigh(past, to, (int)order, bh2);
        move(w, &u, (int)order, u.predict, m[0], 0, guess);
        if (last) {
            graft_walk_land(w, guess);
        } else {
            float *now = w->buf[ORDER + 1];
            GRAFT_WALK(graft_walk_denoise(w, guess, sigma, now, e));
            move(w, &u, (int)order, u.correct, now, u.correct[order - 1], w->x);
            for (int k = ORDER - 1; k > 0; k--) past[k] = past[k - 1];
            past[0] = to;
            w->buf[ORDER + 1] = m[ORDER - 1];
            for (int k = ORDER - 1; k > 0; k--) m[k] = m[k - 1];
            m[0] = now;
            if (i + 1 < w->steps) graft_walk_report(w, i, m[0]);
        }
    }
    graft_walk_report(w, w->steps - 1, m[0]);
    return GRAFT_OK;
}
