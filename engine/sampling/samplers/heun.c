/* Heun's second-order steps (Karras et al. 2022, algorithm 1 with its correction). */
#include "engine/sampling/walk.h"

graft_status graft_sample_heun(graft_walk *w, graft_err *e)
{
    float *d = w->buf[0], *x2 = w->buf[1], *d2 = w->buf[2];
    for (size_t i = 0; i < w->steps; i++) {
        double s = w->sigma[i], t = w->sigma[i + 1];
        GRAFT_WALK(graft_walk_denoise(w, w->x, s, d, e));
        if (t == 0) {
            graft_walk_land(w, d);
        } else {
            double half = (t - s) / 2;
            graft_mix2(w, x2, t / s, w->x, 1 - t / s, d);
            GRAFT_WALK(graft_walk_denoise(w, x2, t, d2, e));
            /* x + half * ((x - d) / s + (x2 - d2) / t) */
            graft_mix4(w, w->x, 1 + half / s, w->x, -half / s, d, half / t, x2, -half / t, d2);
        }
        graft_walk_report(w, i, d);
    }
    return GRAFT_OK;
}
