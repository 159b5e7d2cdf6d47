/* SEEDS (arXiv:2305.14267), data prediction, eta = 1, with two and three stages. The noise of a
 * stage decays into the next, where the draw of its own segment joins it. */
#include <math.h>
#include <stdbool.h>

#include "engine/sampling/walk.h"

/* Carries `noise`, for sigma 1 at the segment's start, over a segment h long in lambda. */
static graft_status carry_noise(const graft_walk *w, double from, double to, double h, bool first,
                                float *noise, float *scratch, graft_err *e)
{
    GRAFT_WALK(graft_walk_noise(w, from, to, scratch, e));
    double fresh = sqrt(-expm1(-2 * h));
    if (first)
        graft_mix1(w, noise, fresh, scratch);
    else
        graft_mix2(w, noise, exp(-h), noise, fresh, scratch);
    return GRAFT_OK;
}

/* What is left of x at sigma t, h in lambda further on. */
static double decay(double s, double t, double h)
{
    return t / s * exp(-h);
}

static double phi_2(double h)
{
    return (expm1(h) - h) / h;
}

graft_status graft_sample_seeds_2(graft_walk *w, graft_err *e)
{
    float *d = w->buf[0], *x2 = w->buf[1], *d2 = w->buf[2], *noise = w->buf[3];
    for (size_t i = 0; i < w->steps; i++) {
        double s = w->sigma[i], t = w->sigma[i + 1];
        GRAFT_WALK(graft_walk_denoise(w, w->x, s, d, e));
        if (t == 0) {
            graft_walk_land(w, d);
        } else {
            double h = log(s / t), middle = s * exp(-h / 2);
            GRAFT_WALK(carry_noise(w, s, middle, h / 2, true, noise, x2, e));
            graft_mix3(w, x2, decay(s, middle, h / 2), w->x, -expm1(-h), d, middle, noise);
            GRAFT_WALK(graft_walk_denoise(w, x2, middle, d2, e));
            GRAFT_WALK(carry_noise(w, middle, t, h / 2, false, noise, x2, e));
            graft_mix3(w, w->x, decay(s, t, h), w->x, -expm1(-2 * h), d2, t, noise);
        }
        graft_walk_report(w, i, d);
    }
    return GRAFT_OK;
}

graft_status graft_sample_seeds_3(graft_walk *w, graft_err *e)
{
    float *d = w->buf[0], *x2 = w->buf[1], *d2 = w->buf[2], *noise = w->buf[3];
    const double r1 = 1 / 3., r2 = 2 / 3.;
    for (size_t i = 0; i < w->steps; i++) {
        double s = w->sigma[i], t = w->sigma[i + 1];
        GRAFT_WALK(graft_walk_denoise(w, w->x, s, d, e));
        if (t == 0) {
            graft_walk_land(w, d);
            graft_walk_report(w, i, d);
            continue;
        }
        double h = log(s / t), s1 = s * exp(-r1 * h), s2 = s * exp(-r2 * h);
        GRAFT_WALK(carry_noise(w, s, s1, r1 * h, true, noise, x2, e));
        graft_mix3(w, x2, decay(s, s1, r1 * h), w->x, -expm1(-2 * r1 * h), d, s1, noise);
        GRAFT_WALK(graft_walk_denoise(w, x2, s1, d2, e));

        double a2 = r2 / r1 * phi_2(-2 * r2 * h), a1 = expm1(-2 * r2 * h) - a2;
        GRAFT_WALK(carry_noise(w, s1, s2, (r2 - r1) * h, false, noise, x2, e));
        graft_mix4(w, x2, decay(s, s2, r2 * h), w->x, -a1, d, -a2, d2, s2, noise);
        GRAFT_WALK(graft_walk_denoise(w, x2, s2, d2, e));

        double b3 = phi_2(-2 * h) / r2, b1 = expm1(-2 * h) - b3;
        GRAFT_WALK(carry_noise(w, s2, t, (1 - r2) * h, false, noise, x2, e));
        graft_mix4(w, w->x, decay(s, t, h), w->x, -b1, d, -b3, d2, t, noise);
        graft_walk_report(w, i, d);
    }
    return GRAFT_OK;
}
