/* DPM-Solver++(2S) (arXiv:2211.01095), ancestral; with CFG++ the guidance is added to the state and
 * the noise that is left is the unconditional one's. */
#include <math.h>
#include <stdbool.h>

#include "engine/sampling/walk.h"

graft_status graft_sample_dpmpp_2s_ancestral(graft_walk *w, graft_err *e)
{
    float *d = w->buf[0], *x2 = w->buf[1], *d2 = w->buf[2], *u = w->buf[3];
    const graft_sampler_numbers *k = w->numbers;
    bool cfg_pp = w->variant & GRAFT_CFG_PP;
    for (size_t i = 0; i < w->steps; i++) {
        double s = w->sigma[i], t = w->sigma[i + 1], down, up;
        if (cfg_pp)
            GRAFT_WALK(graft_walk_denoise_pair(w, w->x, s, d, u, e));
        else
            GRAFT_WALK(graft_walk_denoise(w, w->x, s, d, e));
        graft_walk_ancestral_step(w, s, t, k->eta, &down, &up);
        if (down == 0) {
            graft_walk_land(w, d);
        } else {
            double middle = sqrt(s * down);
            if (cfg_pp) graft_mix3(w, w->x, 1, w->x, 1, d, -1, u);
            graft_mix2(w, x2, middle / s, w->x, 1 - middle / s, d);
            if (cfg_pp)
                GRAFT_WALK(graft_walk_denoise_pair(w, x2, middle, d2, u, e));
            else
                GRAFT_WALK(graft_walk_denoise(w, x2, middle, d2, e));
            graft_mix2(w, w->x, down / s, w->x, 1 - down / s, d2);
        }
        if (t > 0) GRAFT_WALK(graft_walk_add_noise(w, s, t, up * k->s_noise, x2, e));
        graft_walk_report(w, i, d);
    }
    return GRAFT_OK;
}
