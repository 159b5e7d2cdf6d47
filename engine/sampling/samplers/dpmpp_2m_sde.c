/* DPM-Solver++(2M) for the SDE: midpoint form, or Heun's. */
#include <math.h>

#include "engine/sampling/walk.h"

graft_status graft_sample_dpmpp_2m_sde(graft_walk *w, graft_err *e)
{
    const double eta = w->numbers->eta, s_noise = w->numbers->s_noise;
    double h_last = 0;
    for (size_t i = 0; i < w->steps; i++) {
        double s = w->sigma[i], t = w->sigma[i + 1];
        float *d = w->buf[0], *old = w->buf[1];
        GRAFT_WALK(graft_walk_denoise(w, w->x, s, d, e));
        if (t == 0) {
            graft_walk_land(w, d);
        } else {
            double h = log(s / t), both = h + eta * h, gain = -expm1(-both), second = 0;
            if (i > 0) {
                second = w->variant & GRAFT_HEUN ? 1 - gain / both : 0.5 * gain;
                second *= h / h_last;
            }
            double keep = t / s * exp(-eta * h);
            if (i == 0)
                graft_mix2(w, w->x, keep, w->x, gain, d);
            else
                graft_mix3(w, w->x, keep, w->x, gain + second, d, -second, old);
            GRAFT_WALK(graft_walk_add_noise(w, s, t, t * sqrt(-expm1(-2 * (eta * h))) * s_noise,
                                            w->buf[2], e));
            h_last = h;
        }
        graft_walk_report(w, i, d);
        graft_swap(&w->buf[0], &w->buf[1]);
    }
    return GRAFT_OK;
}
