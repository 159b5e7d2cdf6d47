/* Ancestral sampling of the original DDPM (arXiv:2006.11239), in sigma's terms. */
#include <math.h>

#include "engine/sampling/walk.h"

graft_status graft_sample_ddpm(graft_walk *w, graft_err *e)
{
    float *d = w->buf[0];
    for (size_t i = 0; i < w->steps; i++) {
        float s = w->sigma[i], t = w->sigma[i + 1];
        GRAFT_WALK(graft_walk_denoise(w, w->x, s, d, e));
        /* In float32, as ComfyUI: 1 - alpha_bar loses most of its digits at small sigmas. */
        float alpha_bar = 1 / (s * s + 1), alpha_bar_next = 1 / (t * t + 1);
        float alpha = alpha_bar / alpha_bar_next, beta = 1 - alpha, variance = 1 - alpha_bar;
        double scale = sqrtf(1 / alpha) * (t > 0 ? sqrtf(1 + t * t) : 1);
        /* The mean: (x / sqrt(1 + s^2) - beta / sqrt(1 - alpha_bar) * eps) / sqrt(alpha), with
         * eps = (x - d) / s. */
        double eps = beta / (sqrtf(variance) * s);
        graft_mix2(w, w->x, scale * (1 / sqrt(1 + (double)s * s) - eps), w->x, scale * eps, d);
        if (t > 0) {
            double spread = sqrtf(beta * (1 - alpha_bar_next) / variance) * sqrtf(1 + t * t);
            GRAFT_WALK(graft_walk_add_noise(w, s, t, spread, w->buf[1], e));
        }
        graft_walk_report(w, i, d);
    }
    return GRAFT_OK;
}
