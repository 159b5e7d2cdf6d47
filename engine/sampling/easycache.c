#include "engine/sampling/easycache.h"

#include <math.h>

void graft_easycache_begin(graft_easycache_state *s)
{
    s->rate = NAN;
    s->change = 0;
}

double graft_easycache_distance(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += fabs((double)a[i] - (b ? (double)b[i] : 0));
    return sum / (double)n;
}

bool graft_easycache_enough(graft_easycache_state *s, double threshold, double moved, double size)
{
    s->change += s->rate * moved / size;
    return s->change < threshold; /* false for NaN */
}

void graft_easycache_evaluated(graft_easycache_state *s, double changed, double moved)
{
    s->change = 0;
    if (moved == 0 && isfinite(changed)) return; /* nothing to learn */
    s->rate = changed / moved;
    if (!isfinite(s->rate)) s->rate = NAN;
}
