/* DPM-Solver-2 (arXiv:2206.00927): a whole step with the slope at the middle in log sigma. Of a
 * flow it is the flow's sigma and the flow's slope: in terms of s / (1 - s), which is thousands at
 * first, the step would be that much too long for a slope so far down. */
#include <math.h>

#include "engine/sampling/walk.h"

/* The middle, and what the difference of the two predictions counts at the end. */
static void middle_of(const graft_walk *w, double from, double to, double *middle, double *weight)
{
    *middle = sqrt(from * to);
    *weight = (to - from) / *middle;
    if (!w->run->flow) return;
    const double s = from / (1 + from), t = to / (1 + to), m = sqrt(s * t);
    *middle = m / (1 - m);
    *weight = (t - s) / (m * (1 - t));
}

graft_status graft_sample_dpm_2(graft_walk *w, graft_err *e)
{
    float *d = w->buf[0], *x2 = w->buf[1], *d2 = w->buf[2];
    for (size_t i = 0; i < w->steps; i++) {
        double s = w->sigma[i], t = w->sigma[i + 1], down = t, up = 0;
        GRAFT_WALK(graft_walk_denoise(w, w->x, s, d, e));
        if (w->variant & GRAFT_ANCESTRAL) graft_walk_ancestral_step(w, s, t, 1, &down, &up);
        if (down == 0) {
            graft_walk_land(w, d);
        } else {
            double middle, k;
            middle_of(w, s, down, &middle, &k);
            graft_mix2(w, x2, middle / s, w->x, 1 - middle / s, d);
            GRAFT_WALK(graft_walk_denoise(w, x2, middle, d2, e));
            if (w->run->flow)
                graft_mix3(w, w->x, down / s, w->x, 1 - down / s + k, d, -k, d2);
            else
                graft_mix3(w, w->x, 1, w->x, k, x2, -k, d2);
            if (w->variant & GRAFT_ANCESTRAL) GRAFT_WALK(graft_walk_add_noise(w, s, t, up, x2, e));
        }
        graft_walk_report(w, i, d);
    }
    return GRAFT_OK;
}
