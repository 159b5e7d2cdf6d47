/* Linear multistep: the last four slopes through one polynomial in sigma, integrated exactly. */
#include <math.h>

#include "engine/sampling/walk.h"

#define ORDER GRAFT_LMS_ORDER

/* Integral over the step of the Lagrange basis polynomial of the slope `back` steps ago, among
 * `order`. Two Gauss points are exact up to degree three. */
static double coefficient(const float *sigma, size_t i, int order, int back)
{
    double middle = 0.5 * ((double)sigma[i + 1] + sigma[i]);
    double half = 0.5 * ((double)sigma[i + 1] - sigma[i]), sum = 0;
    for (int side = -1; side <= 1; side += 2) {
        double at = middle + side * half / sqrt(3), basis = 1;
        for (int k = 0; k < order; k++)
            if (k != back) basis *= (at - sigma[i - k]) / ((double)sigma[i - back] - sigma[i - k]);
        sum += half * basis;
    }
    return sum;
}

graft_status graft_sample_lms(graft_walk *w, graft_err *e)
{
    const size_t most = (size_t)w->numbers->order;
    float *d = w->buf[4];
    for (size_t i = 0; i < w->steps; i++) {
        float **slope = w->buf, *oldest = slope[ORDER - 1];
        double s = w->sigma[i], t = w->sigma[i + 1];
        GRAFT_WALK(graft_walk_denoise(w, w->x, s, d, e));
        for (int k = ORDER - 1; k > 0; k--) slope[k] = slope[k - 1];
        slope[0] = oldest;
        graft_mix2(w, slope[0], 1 / s, w->x, -1 / s, d);
        if (t == 0) {
            graft_walk_land(w, d);
        } else {
            int order = i + 1 < most ? (int)i + 1 : (int)most;
            for (int k = 0; k < order; k++)
                graft_mix2(w, w->x, 1, w->x, coefficient(w->sigma, i, order, k), slope[k]);
        }
        graft_walk_report(w, i, d);
    }
    return GRAFT_OK;
}
