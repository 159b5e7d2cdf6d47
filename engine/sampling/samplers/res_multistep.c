/* RES, the refined exponential solver (arXiv:2308.02157), second-order multistep; ancestral, and
 * with CFG++. */
#include <math.h>
#include <stdbool.h>

#include "engine/sampling/walk.h"

static double number_or_zero(double v)
{
    return isnan(v) ? 0 : v;
}

graft_status graft_sample_res_multistep(graft_walk *w, graft_err *e)
{
    bool cfg_pp = w->variant & GRAFT_CFG_PP, ancestral = w->variant & GRAFT_ANCESTRAL;
    float *guided = w->buf[2], *noise = w->buf[cfg_pp ? 3 : 2];
    double old_down = 0;
    for (size_t i = 0; i < w->steps; i++) {
        double s = w->sigma[i], t = w->sigma[i + 1], down = t, up = 0;
        /* p: what the steps extrapolate, the unconditional prediction with CFG++. */
        float *p = w->buf[0], *old = w->buf[1], *d = cfg_pp ? guided : p;
        if (cfg_pp)
            GRAFT_WALK(graft_walk_denoise_pair(w, w->x, s, d, p, e));
        else
            GRAFT_WALK(graft_walk_denoise(w, w->x, s, d, e));
        if (ancestral) graft_ancestral_step(s, t, &down, &up);
        if (down == 0 || i == 0) {
            graft_mix3(w, w->x, down / s, w->x, 1, d, -down / s, p);
        } else {
            if (cfg_pp) graft_mix3(w, w->x, 1, w->x, 1, d, -1, p);
            double h = log(s / down), c2 = log(old_down / w->sigma[i - 1]) / h;
            double phi1 = expm1(-h) / -h, phi2 = (phi1 - 1) / -h;
            double b1 = number_or_zero(phi1 - phi2 / c2), b2 = number_or_zero(phi2 / c2);
            graft_mix3(w, w->x, down / s, w->x, h * b1, p, h * b2, old);
        }
        if (ancestral && t > 0) GRAFT_WALK(graft_walk_add_noise(w, s, t, up, noise, e));
        graft_walk_report(w, i, d);
        graft_swap(&w->buf[0], &w->buf[1]);
        old_down = down;
    }
    return GRAFT_OK;
}
