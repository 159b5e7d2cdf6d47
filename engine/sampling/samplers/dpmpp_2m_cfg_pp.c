/* DPM-Solver++(2M) with CFG++ (arXiv:2406.08070). */
#include <math.h>

#include "engine/sampling/walk.h"

graft_status graft_sample_dpmpp_2m_cfg_pp(graft_walk *w, graft_err *e)
{
    float *d = w->buf[0];
    for (size_t i = 0; i < w->steps; i++) {
        double s = w->sigma[i], t = w->sigma[i + 1], left = t / s;
        float *u = w->buf[1], *old_u = w->buf[2];
        GRAFT_WALK(graft_walk_denoise_pair(w, w->x, s, d, u, e));
        if (i == 0 || t == 0) {
            graft_mix3(w, w->x, left, w->x, 1, d, -left, u);
        } else {
            double r = log(w->sigma[i - 1] / s) / log(s / t), k = (1 - left) * 0.5 / r;
            graft_mix4(w, w->x, left, w->x, 1 + k, d, -left, u, -k, old_u);
        }
        graft_walk_report(w, i, d);
        graft_swap(&w->buf[1], &w->buf[2]);
    }
    return GRAFT_OK;
}
