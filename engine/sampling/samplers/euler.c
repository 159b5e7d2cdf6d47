/* Euler steps along the probability-flow ODE (Karras et al. 2022, algorithm 1). With the same
 * sigmas, DDIM (arXiv:2010.02502, eta = 0) is the same sampler. */
#include "engine/sampling/walk.h"

graft_status graft_sample_euler(graft_walk *w, graft_err *e)
{
    float *d = w->buf[0];
    for (size_t i = 0; i < w->steps; i++) {
        double s = w->sigma[i], t = w->sigma[i + 1];
        GRAFT_WALK(graft_walk_denoise(w, w->x, s, d, e));
        graft_mix2(w, w->x, t / s, w->x, 1 - t / s, d);
        graft_walk_report(w, i, d);
    }
    return GRAFT_OK;
}
