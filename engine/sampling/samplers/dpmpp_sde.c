/* DPM-Solver++ for the SDE, single step: an ancestral step to the place r of the way in log sigma,
 * in the middle usually, then a whole one with what is predicted there: with r = 1/2 that alone,
 * else 1 / (2r) of it and the rest of what was predicted first. */
#include <math.h>

#include "engine/sampling/walk.h"

graft_status graft_sample_dpmpp_sde(graft_walk *w, graft_err *e)
{
    const graft_sampler_numbers *k = w->numbers;
    const double share = 1 / (2 * k->r);
    float *d = w->buf[0], *x2 = w->buf[1], *d2 = w->buf[2], *noise = w->buf[3];
    for (size_t i = 0; i < w->steps; i++) {
        double s = w->sigma[i], t = w->sigma[i + 1], down, up;
        GRAFT_WALK(graft_walk_denoise(w, w->x, s, d, e));
        if (t == 0) {
            graft_walk_land(w, d);
        } else {
            double middle = k->r == 0.5 ? sqrt(s * t) : s * pow(t / s, k->r);
            graft_ancestral_step_of(s, middle, k->eta, &down, &up);
            GRAFT_WALK(graft_walk_noise(w, s, middle, noise, e));
            graft_mix3(w, x2, down / s, w->x, 1 - down / s, d, up * k->s_noise, noise);
            GRAFT_WALK(graft_walk_denoise(w, x2, middle, d2, e));
            graft_ancestral_step_of(s, t, k->eta, &down, &up);
            if (share != 1) graft_mix2(w, d2, share, d2, 1 - share, d);
            graft_mix2(w, w->x, down / s, w->x, 1 - down / s, d2);
            GRAFT_WALK(graft_walk_add_noise(w, s, t, up * k->s_noise, noise, e));
        }
        graft_walk_report(w, i, d);
    }
    return GRAFT_OK;
}
