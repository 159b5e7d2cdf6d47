/* Heun++: three slopes, weighted by their sigmas over that of the start; two near the end, one in
 * the last step. */
#include <stdbool.h>

#include "engine/sampling/walk.h"

graft_status graft_sample_heunpp2(graft_walk *w, graft_err *e)
{
    float *d = w->buf[0], *x2 = w->buf[1], *d2 = w->buf[2], *x3 = w->buf[3], *d3 = w->buf[4];
    double first = w->sigma[0], end = w->sigma[w->steps];
    for (size_t i = 0; i < w->steps; i++) {
        double s = w->sigma[i], t = w->sigma[i + 1];
        GRAFT_WALK(graft_walk_denoise(w, w->x, s, d, e));
        if (t == end) {
            graft_mix2(w, w->x, t / s, w->x, 1 - t / s, d);
            graft_walk_report(w, i, d);
            continue;
        }
        double t2 = w->sigma[i + 2], dt = t - s;
        bool three = t2 != end;
        graft_mix2(w, x2, t / s, w->x, 1 - t / s, d);
        GRAFT_WALK(graft_walk_denoise(w, x2, t, d2, e));
        double w2 = t / ((three ? 3 : 2) * first), w3 = three ? t2 / (3 * first) : 0;
        double k1 = dt * (1 - w2 - w3) / s, k2 = dt * w2 / t;
        if (three) {
            double k3 = dt * w3 / t2;
            graft_mix2(w, x3, t2 / t, x2, 1 - t2 / t, d2);
            GRAFT_WALK(graft_walk_denoise(w, x3, t2, d3, e));
            graft_mix4(w, w->x, 1 + k1, w->x, -k1, d, k2, x2, -k2, d2);
            graft_mix3(w, w->x, 1, w->x, k3, x3, -k3, d3);
        } else {
            graft_mix4(w, w->x, 1 + k1, w->x, -k1, d, k2, x2, -k2, d2);
        }
        graft_walk_report(w, i, d);
    }
    return GRAFT_OK;
}
