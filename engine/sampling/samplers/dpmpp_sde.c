/* DPM-Solver++ for the SDE, single step: an ancestral step to the middle in log sigma, then a whole
 * one with what is predicted there. */
#include <math.h>

#include "engine/sampling/walk.h"

graft_status graft_sample_dpmpp_sde(graft_walk *w, graft_err *e)
{
    float *d = w->buf[0], *x2 = w->buf[1], *d2 = w->buf[2], *noise = w->buf[3];
    for (size_t i = 0; i < w->steps; i++) {
        double s = w->sigma[i], t = w->sigma[i + 1], down, up;
        GRAFT_WALK(graft_walk_denoise(w, w->x, s, d, e));
        if (t == 0) {
            graft_walk_land(w, d);
        } else {
            double middle = sqrt(s * t);
            graft_ancestral_step(s, middle, &down, &up);
            GRAFT_WALK(graft_walk_noise(w, s, middle, noise, e));
            graft_mix3(w, x2, down / s, w->x, 1 - down / s, d, up, noise);
            GRAFT_WALK(graft_walk_denoise(w, x2, middle, d2, e));
            graft_ancestral_step(s, t, &down, &up);
            graft_mix2(w, w->x, down / s, w->x, 1 - down / s, d2);
            GRAFT_WALK(graft_walk_add_noise(w, s, t, up, noise, e));
        }
        graft_walk_report(w, i, d);
    }
    return GRAFT_OK;
}
