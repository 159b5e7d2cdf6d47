/* Pictures with noise. */
#include <math.h>

#include "engine/image/image.h"
#include "engine/sampling/noise.h"

graft_status graft_image_noise(const graft_image *i, uint64_t seed, double strength,
                               graft_image **out, graft_err *e)
{
    int64_t s[4];
    const float *from = graft_image_data(i, s);
    const float k = (float)strength;
    graft_image *r;
    graft_rng rng;
    *out = NULL;
    if (!isfinite(strength)) return graft_fail(e, GRAFT_E_ARG, "noise of strength %g", strength);
    graft_status st = graft_image_create(s, graft_image_is_mask(i), &r, e);
    if (st) return st;
    size_t n = (size_t)(s[0] * s[1] * s[2] * s[3]);
    float *v = graft_image_writable(r);
    graft_rng_seed(&rng, seed);
    graft_rng_randn(&rng, v, n);
    for (size_t at = 0; at < n; at++)
        v[at] =
            s[3] == 4 && at % 4 == 3 ? from[at] : fminf(fmaxf(from[at] + k * v[at], 0.0f), 1.0f);
    *out = r;
    return GRAFT_OK;
}
