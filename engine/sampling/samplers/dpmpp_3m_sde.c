/* DPM-Solver++(3M) for the SDE: first and second differences of the predictions. */
#include <math.h>

#include "engine/sampling/walk.h"

graft_status graft_sample_dpmpp_3m_sde(graft_walk *w, graft_err *e)
{
    const double eta = w->numbers->eta, s_noise = w->numbers->s_noise;
    double h1 = 0, h2 = 0; /* of the last two steps */
    for (size_t i = 0; i < w->steps; i++) {
        double s = w->sigma[i], t = w->sigma[i + 1];
        float *d = w->buf[0], *d1 = w->buf[1], *d2 = w->buf[2];
        GRAFT_WALK(graft_walk_denoise(w, w->x, s, d, e));
        if (t == 0) {
            graft_walk_land(w, d);
        } else {
            double h = log(s / t), both = h + eta * h;
            double gain = -expm1(-both), keep = t / s * exp(-eta * h);
            double phi2 = 1 - gain / both, phi3 = phi2 / both - 0.5;
            if (i == 0) {
                graft_mix2(w, w->x, keep, w->x, gain, d);
            } else if (i == 1) {
                double k = phi2 * h / h1;
                graft_mix3(w, w->x, keep, w->x, gain + k, d, -k, d1);
            } else {
                double r0 = h1 / h, r1 = h2 / h;
                /* Weights of the slopes (d - d1) / r0 and (d1 - d2) / r1. */
                double near = phi2 * (1 + r0 / (r0 + r1)) - phi3 / (r0 + r1);
                double far = phi2 * r0 / (r0 + r1) - phi3 / (r0 + r1);
                near /= r0, far /= r1;
                graft_mix4(w, w->x, keep, w->x, gain + near, d, -near - far, d1, far, d2);
            }
            GRAFT_WALK(graft_walk_add_noise(w, s, t, t * sqrt(-expm1(-2 * (eta * h))) * s_noise,
                                            w->buf[3], e));
            h2 = h1, h1 = h;
        }
        graft_walk_report(w, i, d);
        graft_swap(&w->buf[1], &w->buf[2]);
        graft_swap(&w->buf[0], &w->buf[1]);
    }
    return GRAFT_OK;
}
