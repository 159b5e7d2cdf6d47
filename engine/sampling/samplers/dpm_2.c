/* DPM-Solver-2 (arXiv:2206.00927): a whole step with the slope at the middle in log sigma. */
#include <math.h>

#include "engine/sampling/walk.h"

graft_status graft_sample_dpm_2(graft_walk *w, graft_err *e)
{
    float *d = w->buf[0], *x2 = w->buf[1], *d2 = w->buf[2];
    for (size_t i = 0; i < w->steps; i++) {
        double s = w->sigma[i], t = w->sigma[i + 1], down = t, up = 0;
        GRAFT_WALK(graft_walk_denoise(w, w->x, s, d, e));
        if (w->variant & GRAFT_ANCESTRAL) graft_walk_ancestral_step(w, s, t, 1, &down, &up);
        if (down == 0) {
            graft_walk_land(w, d);
        } else {
            double middle = sqrt(s * down), dt = down - s;
            graft_mix2(w, x2, middle / s, w->x, 1 - middle / s, d);
            GRAFT_WALK(graft_walk_denoise(w, x2, middle, d2, e));
            graft_mix3(w, w->x, 1, w->x, dt / middle, x2, -dt / middle, d2);
            if (w->variant & GRAFT_ANCESTRAL) GRAFT_WALK(graft_walk_add_noise(w, s, t, up, x2, e));
        }
        graft_walk_report(w, i, d);
    }
    return GRAFT_OK;
}
