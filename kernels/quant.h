/* How CONV2D and LINEAR quantize, in one place for all kernel libraries: symmetric, round to
 * nearest even, no zero points.
 *
 * GRAFT_QUANT_INT8: weights to -127 … 127 with a scale per output, activations likewise with a
 * scale per row (LINEAR) or per picture (CONV2D), found when they are there. Integers are
 * multiplied and summed exactly; scales, bias, residual and act come after. GRAFT_QUANT_INT4:
 * weights to -7 … 7 with a scale per 64 consecutive values of an output's row (O, I...),
 * activations as they are. */
#ifndef GRAFT_KERNELS_QUANT_H
#define GRAFT_KERNELS_QUANT_H
#include <math.h>
#include <stdint.h>

#define GRAFT_QUANT_GROUP 64

static inline float graft_quant_absmax(const float *x, int64_t n)
{
    float most = 0;
    for (int64_t i = 0; i < n; i++) most = fmaxf(most, fabsf(x[i]));
    return most;
}

/* What a quantum of -`levels` … `levels` is worth; 0 for rows of zeros. */
static inline float graft_quant_scale(float absmax, float levels)
{
    return absmax / levels;
}

static inline float graft_quant_round(float x, float inverse, float levels)
{
    return fminf(fmaxf(rintf(x * inverse), -levels), levels);
}

static inline float graft_quant_inverse(float scale)
{
    return scale > 0 ? 1.0f / scale : 0.0f;
}

/* y[i]: x[i] to a multiple of the scale, which is returned; y may be x. */
static inline float graft_quant_snap(const float *x, float *y, int64_t n, float absmax,
                                     float levels)
{
    float scale = graft_quant_scale(absmax, levels), inverse = graft_quant_inverse(scale);
    for (int64_t i = 0; i < n; i++) y[i] = graft_quant_round(x[i], inverse, levels) * scale;
    return scale;
}

/* One output's row of weights, in place, as GRAFT_QUANT_INT4 sees it. */
static inline void graft_quant_snap4(float *w, int64_t n)
{
    for (int64_t i = 0; i < n; i += GRAFT_QUANT_GROUP) {
        int64_t count = n - i < GRAFT_QUANT_GROUP ? n - i : GRAFT_QUANT_GROUP;
        graft_quant_snap(w + i, w + i, count, graft_quant_absmax(w + i, count), 7.0f);
    }
}
#endif
