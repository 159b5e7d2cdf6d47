#include "engine/denoise/third.h"

/* How much of P - T there is in N - T, of one picture; nothing where P is T. */
static double share(const float *p, const float *n, const float *t, size_t per)
{
    double dot = 0, square = 0;
    for (size_t i = 0; i < per; i++) {
        double a = (double)p[i] - (double)t[i];
        dot += a * ((double)n[i] - (double)t[i]);
        square += a * a;
    }
    return square > 0 ? dot / square : 0;
}

static void perpendicular(const graft_third *t, double cfg, float *const d[GRAFT_SIDES], size_t n,
                          size_t per, float *out)
{
    const float *pos = d[GRAFT_POSITIVE], *neg = d[GRAFT_NEGATIVE], *none = d[GRAFT_THIRD];
    for (size_t first = 0; first < n; first += per) {
        double along = share(pos + first, neg + first, none + first, per);
        for (size_t i = first; i < first + per; i++) {
            double p = (double)pos[i] - (double)none[i], q = (double)neg[i] - (double)none[i];
            out[i] = (float)(none[i] + cfg * (p - t->scale * (q - along * p)));
        }
    }
}

void graft_third_guide(const graft_third *t, double cfg, float *const d[GRAFT_SIDES], size_t n,
                       size_t per, float *out)
{
    const float *pos = d[GRAFT_POSITIVE], *neg = d[GRAFT_NEGATIVE], *mid = d[GRAFT_THIRD];
    if (t->way == GRAFT_THIRD_PERPENDICULAR) {
        perpendicular(t, cfg, d, n, per, out);
        return;
    }
    double outer = t->way == GRAFT_THIRD_NESTED ? t->scale * cfg : cfg;
    for (size_t i = 0; i < n; i++)
        out[i] = (float)(neg[i] + t->scale * ((double)mid[i] - (double)neg[i]) +
                         outer * ((double)pos[i] - (double)mid[i]));
}
