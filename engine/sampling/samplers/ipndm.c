/* Improved pseudo linear multistep up to order 4 (arXiv:2204.13902): Adams-Bashforth on the slopes,
 * with fixed weights or with weights for unequal steps. */
#include "engine/sampling/walk.h"

#define ORDER 4

static const double fixed_weight[ORDER][ORDER] = {
    {1},
    {3 / 2., -1 / 2.},
    {23 / 12., -16 / 12., 5 / 12.},
    {55 / 24., -59 / 24., 37 / 24., -9 / 24.},
};

/* Weights for the steps h[0] (the coming one), h[1], ... before it, newest slope first. */
static void variable_weight(int order, const double *h, double *weight)
{
    double r1 = h[0] / h[1], k2 = 0, k3 = 0, r2 = 0, a = 0, r3 = 0;
    weight[0] = 1, weight[1] = weight[2] = weight[3] = 0;
    if (order == 1) return;
    if (order > 2) {
        double sum = h[0] + h[1];
        r2 = h[1] / h[2];
        k2 = (1 - h[0] / (3 * sum) * (h[0] * sum) / (h[1] * (h[1] + h[2]))) / 2;
    }
    if (order > 3) {
        double sum = h[0] + h[1], all = sum + h[2];
        r3 = h[2] / h[3];
        a = h[1] * (h[1] + h[2]) / (h[2] * (h[2] + h[3]));
        k3 = (1 - h[0] / (3 * sum)) / 2 + (1 - h[0] / (2 * sum)) * h[0] / (6 * all);
        k3 *= h[0] * sum * all / (h[1] * (h[1] + h[2]) * (h[1] + h[2] + h[3]));
    }
    weight[0] = (2 + r1) / 2 + k2 + k3;
    weight[1] = -r1 / 2 - (1 + r2) * k2 - (1 + r2 + a) * k3;
    weight[2] = k2 * r2 + (r2 + a * (1 + r3)) * k3;
    weight[3] = -k3 * a * r2;
}

graft_status graft_sample_ipndm(graft_walk *w, graft_err *e)
{
    float *d = w->buf[ORDER], **slope = w->buf;
    for (size_t i = 0; i < w->steps; i++) {
        double s = w->sigma[i], t = w->sigma[i + 1], h[ORDER] = {1, 1, 1, 1}, weight[ORDER];
        GRAFT_WALK(graft_walk_denoise(w, w->x, s, d, e));
        for (int k = ORDER - 1; k > 0; k--) graft_swap(&slope[k], &slope[k - 1]);
        graft_mix2(w, slope[0], 1 / s, w->x, -1 / s, d);
        int order = i + 1 < ORDER ? (int)i + 1 : ORDER;
        if (t == 0) {
            graft_walk_land(w, d);
            graft_walk_report(w, i, d);
            continue;
        }
        for (int k = 0; k < order; k++) h[k] = (double)w->sigma[i + 1 - k] - w->sigma[i - k];
        variable_weight(order, h, weight);
        for (int k = 0; k < order; k++) {
            double c = w->variant & GRAFT_VARIABLE_STEP ? weight[k] : fixed_weight[order - 1][k];
            graft_mix2(w, w->x, 1, w->x, h[0] * c, slope[k]);
        }
        graft_walk_report(w, i, d);
    }
    return GRAFT_OK;
}
