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

#if GRAFT_ISA_LEVEL >= 3
/* gelu(x) = max(x, 0) - |x| Q(|x|), where Q is the tail of the normal distribution and log2 Q
 * nearly a parabola. For results in bf16: the error is below 2e-5, and below a thousandth of the
 * result for |x| < 4. Of the products' pipe it takes ten cycles for sixteen values. The second
 * polynomial is 2^(r + 3.68) for r of [0, 1), scaled so that its first coefficient is 1. */
INLINE vf gelu_bf16(vf x)
{
    vf t = vf_min(vf_set(6.0f), vf_abs(x));
    vf p = t * vf_set(-0.000292793299f) + vf_set(0.00564058586f);
    p = p * t + vf_set(-0.0478618253f);
    p = p * t + vf_set(-0.464568362f);
    p = p * t + vf_set(-1.14865667f);
    p = p * t + vf_set(-1.00033436f - 3.67992856f);
    vf r = (vf)_mm512_reduce_ps((__m512)p, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    vf z = (r + vf_set(2.89738595f)) * (r * r + vf_set(8.91813903f)) + vf_set(-13.0237657f);
    return vf_max(vf_set(0), x) - t * (vf)_mm512_scalef_ps((__m512)z, (__m512)p);
}
#endif
#endif
