/* ER-SDE-Solver-1 to -3 (arXiv:2309.06169) with the noise scale x (exp(x^0.3) + 10), or that of
 * reverse-time SDEs, x^(eta + 1), which with eta = 0 is the ODE's. */
#include <math.h>

#include "engine/sampling/walk.h"

#define POINTS 200

static double noise_scale(const graft_sampler_numbers *k, double x)
{
    return k->reverse ? pow(x, k->eta + 1) : x * (exp(pow(x, 0.3)) + 10);
}

graft_status graft_sample_er_sde(graft_walk *w, graft_err *e)
{
    const graft_sampler_numbers *k = w->numbers;
    for (size_t i = 0; i < w->steps; i++) {
        double s = w->sigma[i], t = w->sigma[i + 1];
        float *d = w->buf[0], *old = w->buf[1], *slope = w->buf[2], *old_slope = w->buf[3];
        GRAFT_WALK(graft_walk_denoise(w, w->x, s, d, e));
        if (t == 0) {
            graft_walk_land(w, d);
            graft_walk_report(w, i, d);
            continue;
        }
        double scale = noise_scale(k, t), r = scale / noise_scale(k, s);
        graft_mix2(w, w->x, r, w->x, 1 - r, d);
        if (i > 0 && k->order > 1) {
            double dt = t - s, step = -dt / POINTS, sum = 0, moment = 0;
            for (int p = 0; p < POINTS; p++) {
                double at = t + p * step, inverse = 1 / noise_scale(k, at);
                sum += inverse * step;
                moment += (at - s) * inverse * step;
            }
            double per = 1 / (s - w->sigma[i - 1]);
            graft_mix2(w, slope, per, d, -per, old);
            graft_mix2(w, w->x, 1, w->x, dt + sum * scale, slope);
            if (i > 1 && k->order > 2) {
                double curve = (dt * dt / 2 + moment * scale) * 2 / (s - w->sigma[i - 2]);
                graft_mix3(w, w->x, 1, w->x, curve, slope, -curve, old_slope);
            }
        }
        double amount = sqrt(fmax(t * t - s * s * r * r, 0));
        GRAFT_WALK(graft_walk_add_noise(w, s, t, amount * k->s_noise, w->buf[4], e));
        graft_walk_report(w, i, d);
        graft_swap(&w->buf[0], &w->buf[1]);
        graft_swap(&w->buf[2], &w->buf[3]);
    }
    return GRAFT_OK;
}
