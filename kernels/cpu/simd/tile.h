/* What int8.c and product.c share: tiles of sums that stay in registers over all inputs, and what
 * goes on beside their products, which keep one pipe busy in every cycle. */
#ifndef GRAFT_KERNELS_CPU_SIMD_TILE_H
#define GRAFT_KERNELS_CPU_SIMD_TILE_H
#include "kernels/cpu/simd/functions.h"

/* A piece of memory that is needed soon, a few lines at each of some steps. It may be asked for a
 * little more than there is. */
typedef struct stream {
    uintptr_t at; /* 0: none */
    int64_t lines;
} stream;

INLINE void fetch(stream *s)
{
    for (int64_t i = 0; i < s->lines; i++, s->at += 64)
        __builtin_prefetch((const void *)s->at, 0, 2);
}

static inline stream stream_of(const void *p, int64_t bytes, int64_t steps)
{
    return (stream){(uintptr_t)p, p ? (bytes / 64 + steps - 1) / steps : 0};
}

/* Up to VL of the `left` results that a row still takes, from `at` on. */
INLINE void put(void *out, graft_dtype t, int64_t at, int64_t left, vf x)
{
    if (left >= VL)
        vf_put(out, t, (size_t)at, x);
    else if (left > 0)
        vf_put_tail(out, t, (size_t)at, (size_t)left, x);
}

/* `n` floats from `at` on, filled up with zeros to a vector. */
INLINE void fill(float *to, const float *from, int64_t at, int64_t n)
{
    for (int64_t i = 0; i < VL; i++) to[i] = from && i < n ? from[at + i] : 0;
}

#if GRAFT_ISA_LEVEL >= 3
/* max(x, 0) - t 2^(p + 3.68). The polynomial is 2^(r + 3.68) for r of [0, 1), scaled so that its
 * first coefficient is 1. */
INLINE vf less_tail(vf x, vf t, vf p)
{
    vf r = (vf)_mm512_reduce_ps((__m512)p, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    vf z = (r + vf_set(2.89738595f)) * (r * r + vf_set(8.91813903f)) + vf_set(-13.0237657f);
    return vf_max(vf_set(0), x) - t * (vf)_mm512_scalef_ps((__m512)z, (__m512)p);
}

/* gelu(x) = max(x, 0) - |x| Q(|x|), where Q is the tail of the normal distribution and log2 Q
 * nearly a parabola. For results in bf16: the error is below 2e-5, and below a thousandth of the
 * result for |x| < 4. Of the products' pipe it takes ten cycles for sixteen values. */
INLINE vf gelu_bf16(vf x)
{
    vf t = vf_min(vf_set(6.0f), vf_abs(x));
    vf p = t * vf_set(-0.000292793299f) + vf_set(0.00564058586f);
    p = p * t + vf_set(-0.0478618253f);
    p = p * t + vf_set(-0.464568362f);
    p = p * t + vf_set(-1.14865667f);
    p = p * t + vf_set(-1.00033436f - 3.67992856f);
    return less_tail(x, t, p);
}

/* The same with tanh, whose tail is 1 / (1 + e^u) for the u of vf_gelu_tanh(): the polynomial is
 * that of its logarithm with the least largest error, and one degree higher for as good a fit. */
INLINE vf gelu_tanh_bf16(vf x)
{
    vf t = vf_min(vf_set(6.0f), vf_abs(x));
    vf p = t * vf_set(0.000456682253f) + vf_set(-0.00593482253f);
    p = p * t + vf_set(0.0215925474f);
    p = p * t + vf_set(-0.0670731718f);
    p = p * t + vf_set(-0.450888356f);
    p = p * t + vf_set(-1.15290507f);
    p = p * t + vf_set(-0.999914681f - 3.67992856f);
    return less_tail(x, t, p);
}
#endif
#endif
