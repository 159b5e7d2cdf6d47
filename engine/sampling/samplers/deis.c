/* DEIS (arXiv:2204.13902), order 3, "tab": the slopes through a polynomial in the time of a
 * variance-preserving SDE, integrated numerically. */
#include <math.h>

#include "engine/sampling/walk.h"

#define ORDER  3
#define POINTS 10000

/* The SDE that has sigma 0.002 at time 0.001 and 80 at time 1; in float32, as ComfyUI, which moves
 * beta_range by percents. */
typedef struct vp_sde {
    float beta_min, beta_range;
} vp_sde;

static vp_sde make_sde(void)
{
    float low = (float)log(0.002f * 0.002f + 1), high = (float)log(80.0f * 80.0f + 1);
    vp_sde sde;
    sde.beta_range = 2 * (low / 0.001f - high) / (float)(0.001 - 1);
    sde.beta_min = high - 0.5f * sde.beta_range;
    return sde;
}

static float time_of(const vp_sde *sde, float sigma)
{
    float b = sde->beta_min, log_part = (float)log(sigma * sigma + 1);
    return (sqrtf(b * b + 2 * sde->beta_range * log_part) - b) / sde->beta_range;
}

/* Weights of the last `order` slopes for the step from time[0] to `next`; time[k]: k steps ago. A
 * sum over points that include both ends, each for (next - time[0]) / POINTS. */
static void weigh(const vp_sde *sde, const double *time, double next, int order, double *weight)
{
    for (int j = 0; j < order; j++) weight[j] = 0;
    for (int p = 0; p < POINTS; p++) {
        double tau = time[0] + (next - time[0]) * p / (POINTS - 1);
        double alpha = exp(-0.5 * tau * tau * sde->beta_range - tau * sde->beta_min);
        double rate = 0.5 * (tau * sde->beta_range + sde->beta_min) / sqrt(alpha * (1 - alpha));
        for (int j = 0; j < order; j++) {
            double basis = 1;
            for (int k = 0; k < order; k++)
                if (k != j) basis *= (tau - time[k]) / (time[j] - time[k]);
            weight[j] += rate * basis;
        }
    }
    for (int j = 0; j < order; j++) weight[j] *= (next - time[0]) / POINTS;
}

graft_status graft_sample_deis(graft_walk *w, graft_err *e)
{
    float *d = w->buf[ORDER], **slope = w->buf;
    vp_sde sde = make_sde();
    for (size_t i = 0; i < w->steps; i++) {
        double s = w->sigma[i], t = w->sigma[i + 1], time[ORDER] = {0}, weight[ORDER];
        GRAFT_WALK(graft_walk_denoise(w, w->x, s, d, e));
        for (int k = ORDER - 1; k > 0; k--) graft_swap(&slope[k], &slope[k - 1]);
        graft_mix2(w, slope[0], 1 / s, w->x, -1 / s, d);
        int order = i + 1 < ORDER ? (int)i + 1 : ORDER;
        if (order == 1 || t <= 0) {
            graft_mix2(w, w->x, t / s, w->x, 1 - t / s, d);
        } else {
            for (int k = 0; k < order; k++) time[k] = time_of(&sde, w->sigma[i - k]);
            weigh(&sde, time, time_of(&sde, w->sigma[i + 1]), order, weight);
            for (int k = 0; k < order; k++) graft_mix2(w, w->x, 1, w->x, weight[k], slope[k]);
        }
        graft_walk_report(w, i, d);
    }
    return GRAFT_OK;
}
