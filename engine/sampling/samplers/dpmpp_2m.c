/* DPM-Solver++(2M) (arXiv:2211.01095): second order from the last two predictions. */
#include <math.h>

#include "engine/sampling/walk.h"

graft_status graft_sample_dpmpp_2m(graft_walk *w, graft_err *e)
{
    for (size_t i = 0; i < w->steps; i++) {
        double s = w->sigma[i], t = w->sigma[i + 1], rest = 1 - t / s;
        float *d = w->buf[0], *old = w->buf[1];
        GRAFT_WALK(graft_walk_denoise(w, w->x, s, d, e));
        if (i == 0 || t == 0) {
            graft_mix2(w, w->x, t / s, w->x, rest, d);
        } else {
            double r = log(w->sigma[i - 1] / s) / log(s / t);
            graft_mix3(w, w->x, t / s, w->x, rest * (1 + 0.5 / r), d, rest * -0.5 / r, old);
        }
        graft_walk_report(w, i, d);
        graft_swap(&w->buf[0], &w->buf[1]);
    }
    return GRAFT_OK;
}
