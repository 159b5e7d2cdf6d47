/* Euler steps with CFG++ (arXiv:2406.08070): the guided prediction is where the step goes, the
 * unconditional one gives the noise that is left. */
#include "engine/sampling/walk.h"

graft_status graft_sample_euler_cfg_pp(graft_walk *w, graft_err *e)
{
    const graft_sampler_numbers *k = w->numbers;
    float *d = w->buf[0], *u = w->buf[1];
    for (size_t i = 0; i < w->steps; i++) {
        double s = w->sigma[i], t = w->sigma[i + 1], down = t, up = 0;
        GRAFT_WALK(graft_walk_denoise_pair(w, w->x, s, d, u, e));
        if (w->variant & GRAFT_ANCESTRAL) graft_ancestral_step_of(s, t, k->eta, &down, &up);
        if (t == 0) {
            graft_walk_land(w, d);
        } else {
            graft_mix3(w, w->x, 1, d, down / s, w->x, -down / s, u);
            if (w->variant & GRAFT_ANCESTRAL)
                GRAFT_WALK(graft_walk_add_noise(w, s, t, up * k->s_noise, w->buf[2], e));
        }
        graft_walk_report(w, i, d);
    }
    return GRAFT_OK;
}
