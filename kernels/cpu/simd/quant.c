/* Rows to and from whole numbers. Plain loops, of which the compiler makes vectors, but for maxima
 * of floats, whose order it may not change. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/simd/functions.h"

typedef float __attribute__((may_alias)) loose_float;

INLINE float from_bf16(uint16_t v)
{
    uint32_t u = (uint32_t)v << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

float SIMD(absmax)(const void *x, graft_dtype xt, size_t n)
{
    float most = 0;
    const float *f = x;
    const uint16_t *h = x;
    size_t i = 0;
    if (xt == GRAFT_BF16) {
        uint16_t bits = 0; /* without the sign, bf16 has the order of whole numbers */
        for (; i < n; i++) {
            uint16_t v = h[i] & 0x7fff;
            bits = v > bits ? v : bits;
        }
        return from_bf16(bits);
    }
    vf lane[4] = {{0}};
    for (; i + 4 * VL <= n; i += 4 * VL)
        for (size_t k = 0; k < 4; k++) lane[k] = vf_max(vf_abs(vf_load(f + i + k * VL)), lane[k]);
    lane[0] = vf_max(vf_max(lane[0], lane[1]), vf_max(lane[2], lane[3]));
    for (size_t k = 0; k < VL; k++) most = lane[0][k] > most ? lane[0][k] : most;
    for (; i < n; i++) {
        float v = fabsf(f[i]);
        most = v > most ? v : most;
    }
    return most;
}

INLINE int8_t to_level(float x, float inverse)
{
    float v = rintf(x * inverse);
    v = v > -127.0f ? v : -127.0f; /* NaN, too */
    v = v < 127.0f ? v : 127.0f;
    return (int8_t)(int32_t)v;
}

void SIMD(to_s8)(const void *x, graft_dtype xt, float inverse, int8_t *y, size_t n)
{
    const float *f = x;
    const uint16_t *h = x;
    if (xt == GRAFT_BF16)
        for (size_t i = 0; i < n; i++) y[i] = to_level(from_bf16(h[i]), inverse);
    else
        for (size_t i = 0; i < n; i++) y[i] = to_level(f[i], inverse);
}

void SIMD(from_s32)(void *row, const float *scale, float factor, const float *bias, size_t n)
{
    const int32_t *acc = row;
    loose_float *y = row;
    if (bias)
        for (size_t i = 0; i < n; i++) y[i] = (float)acc[i] * (scale[i] * factor) + bias[i];
    else
        for (size_t i = 0; i < n; i++) y[i] = (float)acc[i] * (scale[i] * factor);
}
