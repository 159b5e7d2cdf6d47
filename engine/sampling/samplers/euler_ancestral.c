/* Euler steps to a lower sigma than wanted, then noise up to the wanted one. */
#include "engine/sampling/walk.h"

graft_status graft_sample_euler_ancestral(graft_walk *w, graft_err *e)
{
    const graft_sampler_numbers *k = w->numbers;
    float *d = w->buf[0];
    for (size_t i = 0; i < w->steps; i++) {
        double s = w->sigma[i], t = w->sigma[i + 1], down, up;
        GRAFT_WALK(graft_walk_denoise(w, w->x, s, d, e));
        graft_walk_ancestral_step(w, s, t, k->eta, &down, &up);
        if (down == 0)
            graft_walk_land(w, d);
        else
            graft_mix2(w, w->x, down / s, w->x, 1 - down / s, d);
        if (t > 0) GRAFT_WALK(graft_walk_add_noise(w, s, t, up * k->s_noise, w->buf[1], e));
        graft_walk_report(w, i, d);
    }
    return GRAFT_OK;
}
