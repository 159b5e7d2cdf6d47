/* DPM-Solver++(2M) for the SDE with eta = 1: midpoint form, or Heun's. */
#include <math.h>

#include "engine/sampling/walk.h"

graft_status graft_sample_dpmpp_2m_sde(graft_walk *w, graft_err *e)
{
    double h_last = 0;
    for (size_t i = 0; i < w->steps; i++) {
        double s = w->sigma[i], t = w->sigma[i + 1];
        float *d = w->buf[0], *old = w->buf[1];
        GRAFT_WALK(graft_walk_denoise(w, w->x, s, d, e));
        if (t == 0) {
            graft_walk_land(w, d);
        } else {
            double h = log(s / t), gain = -expm1(-2 * h), second = 0;
            if (i > 0) {
                second = w->variant & GRAFT_HEUN ? 1 - gain / (2 * h) : 0.5 * gain;
                second *= h / h_last;
            }
            double keep = t / s * exp(-h);
            if (i == 0)
                graft_mix2(w, w->x, keep, w->x, gain, d);
            else
                graft_mix3(w, w->x, keep, w->x, gain + second, d, -second, old);
            GRAFT_WALK(graft_walk_add_noise(w, s, t, t * sqrt(gain), w->buf[2], e));
            h_last = h;
        }
        graft_walk_report(w, i, d);
        graft_swap(&w->buf[0], &w->buf[1]);
    }
    return GRAFT_OK;
}
