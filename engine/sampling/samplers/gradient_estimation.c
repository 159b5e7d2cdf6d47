/* Gradient estimation (arXiv:2306.04848), gamma = 2: Euler steps along the slope extrapolated from
 * the last two; with CFG++ the slope is the unconditional one's. */
#include <stdbool.h>
#include "engine/sampling/walk.h"

graft_status graft_sample_gradient_estimation(graft_walk *w, graft_err *e)
{
    bool cfg_pp = w->variant & GRAFT_CFG_PP;
    float *d = w->buf[0], *u = cfg_pp ? w->buf[3] : d;
    for (size_t i = 0; i < w->steps; i++) {
        double s = w->sigma[i], t = w->sigma[i + 1];
        float *slope = w->buf[1], *old = w->buf[2];
        if (cfg_pp)
            GRAFT_WALK(graft_walk_denoise_pair(w, w->x, s, d, u, e));
        else
            GRAFT_WALK(graft_walk_denoise(w, w->x, s, d, e));
        graft_mix2(w, slope, 1 / s, w->x, -1 / s, u);
        if (t == 0) {
            graft_walk_land(w, d);
        } else {
            if (i == 0)
                graft_mix2(w, w->x, 1, d, t, slope);
            else
                graft_mix3(w, w->x, 1, d, 2 * t - s, slope, s - t, old);
        }
        graft_walk_report(w, i, d);
        graft_swap(&w->buf[1], &w->buf[2]);
    }
    return GRAFT_OK;
}
