#include "engine/sampling/deepcache.h"

#include <math.h>
#include <string.h>

static const double center_share = 0.3, power = 1.4;

/* The window's refreshes, `n` of its `length` steps; two that round to one step are put side by
 * side. */
static void quadratic(uint8_t *step, int64_t length, int64_t n)
{
    double center = center_share * (double)length;
    double low = -pow(center, 1.0 / power), high = pow((double)length - center, 1.0 / power);
    int64_t next = 0;
    for (int64_t k = 0; k < n; k++) {
        double u = low + (high - low) * (double)k / (double)n;
        int64_t at = (int64_t)floor(center + copysign(pow(fabs(u), power), u) + 1e-9);
        int64_t last = length - (n - k); /* leaves places for those that follow */
        if (at < next) at = next;
        if (at > last) at = last;
        if (k == 0) at = 0;
        step[at] = GRAFT_STEP_REFRESH;
        next = at + 1;
    }
}

void graft_deepcache_plan(const graft_deepcache *d, size_t total, uint8_t *step)
{
    memset(step, GRAFT_STEP_FULL, total);
    int64_t end = d->end < (int64_t)total ? d->end : (int64_t)total, length = end - d->start;
    if (d->interval <= 1 || length <= 0) return;
    step += d->start;
    memset(step, GRAFT_STEP_FAST, (size_t)length);
    if (d->quadratic) {
        quadratic(step, length, (length - 1) / d->interval + 1);
        return;
    }
    for (int64_t i = 0; i < length; i += d->interval) step[i] = GRAFT_STEP_REFRESH;
}
