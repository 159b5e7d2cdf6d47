/* Latent consistency models (arXiv:2310.04378): predict the end, add noise back, repeat. */
#include "engine/sampling/walk.h"

graft_status graft_sample_lcm(graft_walk *w, graft_err *e)
{
    float *d = w->buf[0];
    for (size_t i = 0; i < w->steps; i++) {
        double s = w->sigma[i], t = w->sigma[i + 1];
        GRAFT_WALK(graft_walk_denoise(w, w->x, s, d, e));
        graft_walk_land(w, d);
        if (t > 0) GRAFT_WALK(graft_walk_add_noise(w, s, t, t, w->buf[1], e));
        graft_walk_report(w, i, d);
    }
    return GRAFT_OK;
}
