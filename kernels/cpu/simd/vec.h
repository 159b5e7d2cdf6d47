/* A vector of float32 as wide as the instruction set allows, and the few functions on it. Included
 * by the sources that are compiled once per instruction set:
 *
 *   GRAFT_ISA_LEVEL  0 whatever the compiler has, 1 AVX2 and FMA, 2 AVX-512, 3 with BF16
 *   GRAFT_ISA_NEON   1: AArch64's vectors, at level 0; else 0
 *   GRAFT_ISA_NAME   the suffix of the functions: plain, neon, avx2, avx512, avx512_bf16 */
#ifndef GRAFT_KERNELS_CPU_SIMD_VEC_H
#define GRAFT_KERNELS_CPU_SIMD_VEC_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifndef GRAFT_ISA_NEON
#define GRAFT_ISA_NEON 0
#endif
#if GRAFT_ISA_LEVEL > 0
#include <immintrin.h>
#endif
#if GRAFT_ISA_NEON
#include <arm_neon.h>
#endif

#include "base/half.h"
#include "kernels/op_desc.h"

#define GRAFT_SIMD_PASTE2(a, b) graft_cpu_##a##__##b
#define GRAFT_SIMD_PASTE(a, b)  GRAFT_SIMD_PASTE2(a, b)
#define SIMD(name)              GRAFT_SIMD_PASTE(name, GRAFT_ISA_NAME)

#if GRAFT_ISA_LEVEL >= 2
#define VL 16
#elif GRAFT_ISA_LEVEL == 1
#define VL 8
#else
#define VL 4
#endif
/* Vector registers: what a tile of sums may fill. */
#define REGISTERS (GRAFT_ISA_LEVEL >= 2 || GRAFT_ISA_NEON ? 32 : 16)
/* Whether sums of products are better made here than by oneDNN, which has vectors for them where
 * the compiler may not use any. */
#define HAS_PRODUCT (GRAFT_ISA_LEVEL >= 1 || GRAFT_ISA_NEON)
#define INLINE      static inline __attribute__((always_inline))

typedef float vf __attribute__((vector_size(4 * VL)));
typedef int32_t vi __attribute__((vector_size(4 * VL)));
typedef uint32_t vu __attribute__((vector_size(4 * VL)));
typedef uint16_t vh __attribute__((vector_size(2 * VL)));

INLINE vf vf_set(float x)
{
#if GRAFT_ISA_LEVEL >= 2
    return (vf)_mm512_set1_ps(x);
#elif GRAFT_ISA_LEVEL == 1
    return (vf)_mm256_set1_ps(x);
#else
    return (vf){x, x, x, x};
#endif
}

INLINE vf vf_load(const float *p)
{
    vf v;
    memcpy(&v, p, sizeof v);
    return v;
}

INLINE void vf_store(float *p, vf v)
{
    memcpy(p, &v, sizeof v);
}

/* In halves: many whole stores in a row hold up the products that follow them. */
INLINE void vf_store_halves(float *p, vf v)
{
#if GRAFT_ISA_LEVEL >= 2
    _mm256_store_ps(p, _mm512_castps512_ps256((__m512)v));
    _mm256_store_ps(p + VL / 2, _mm512_extractf32x8_ps((__m512)v, 1));
#else
    vf_store(p, v);
#endif
}

/* The larger one; b when either is not a number. */
INLINE vf vf_max(vf a, vf b)
{
#if GRAFT_ISA_LEVEL >= 2
    return (vf)_mm512_max_ps((__m512)a, (__m512)b);
#elif GRAFT_ISA_LEVEL == 1
    return (vf)_mm256_max_ps((__m256)a, (__m256)b);
#else
    vi m = a > b;
    return (vf)(((vi)a & m) | ((vi)b & ~m));
#endif
}

/* The smaller one; likewise. */
INLINE vf vf_min(vf a, vf b)
{
#if GRAFT_ISA_LEVEL >= 2
    return (vf)_mm512_min_ps((__m512)a, (__m512)b);
#elif GRAFT_ISA_LEVEL == 1
    return (vf)_mm256_min_ps((__m256)a, (__m256)b);
#else
    vi m = a < b;
    return (vf)(((vi)a & m) | ((vi)b & ~m));
#endif
}

/* Each pair of lanes exchanged. */
INLINE vf vf_exchange(vf a)
{
#if GRAFT_ISA_LEVEL >= 2
    return (vf)_mm512_permute_ps((__m512)a, 0xb1);
#elif GRAFT_ISA_LEVEL == 1
    return (vf)_mm256_permute_ps((__m256)a, 0xb1);
#else
    return (vf){a[1], a[0], a[3], a[2]};
#endif
}

INLINE vf vf_abs(vf a)
{
    return (vf)((vi)a & 0x7fffffff);
}

INLINE float vf_sum(vf a)
{
    float s[VL], t = 0;
    vf_store(s, a);
    for (int i = 0; i < VL; i++) t += s[i];
    return t;
}

/* VL rows become as many columns. */
#if VL == 16
#define HAS_TRANSPOSE 1
INLINE void vf_transpose(vf r[VL])
{
    __m512 t[16], u[16];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        t[2 * i] = _mm512_unpacklo_ps((__m512)r[2 * i], (__m512)r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_ps((__m512)r[2 * i], (__m512)r[2 * i + 1]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 4)
        for (int j = 0; j < 2; j++) {
            __m512d a = _mm512_castps_pd(t[i + j]), b = _mm512_castps_pd(t[i + j + 2]);
            u[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
            u[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
        }
#pragma GCC unroll 8
    for (int c = 0; c < 4; c++) {
        __m512 a = _mm512_shuffle_f32x4(u[c], u[4 + c], 0x88);
        __m512 b = _mm512_shuffle_f32x4(u[8 + c], u[12 + c], 0x88);
        __m512 d = _mm512_shuffle_f32x4(u[c], u[4 + c], 0xdd);
        __m512 e = _mm512_shuffle_f32x4(u[8 + c], u[12 + c], 0xdd);
        r[c] = (vf)_mm512_shuffle_f32x4(a, b, 0x88);
        r[4 + c] = (vf)_mm512_shuffle_f32x4(d, e, 0x88);
        r[8 + c] = (vf)_mm512_shuffle_f32x4(a, b, 0xdd);
        r[12 + c] = (vf)_mm512_shuffle_f32x4(d, e, 0xdd);
    }
}
#elif GRAFT_ISA_NEON
#define HAS_TRANSPOSE 1
INLINE void vf_transpose(vf r[VL])
{
    float64x2_t t[4]; /* pairs of one column, of columns 0 and 2, and of 1 and 3 */
#pragma GCC unroll 2
    for (int i = 0; i < 4; i += 2) {
        float32x4_t a = (float32x4_t)r[i], b = (float32x4_t)r[i + 1];
        t[i] = vreinterpretq_f64_f32(vtrn1q_f32(a, b));
        t[i + 1] = vreinterpretq_f64_f32(vtrn2q_f32(a, b));
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        r[i] = (vf)vtrn1q_f64(t[i], t[i + 2]);
        r[i + 2] = (vf)vtrn2q_f64(t[i], t[i + 2]);
    }
}
#else
#define HAS_TRANSPOSE 0
#endif

INLINE vf vf_from_bf16(vh h)
{
    return (vf)(__builtin_convertvector(h, vu) << 16);
}

INLINE vh vf_to_bf16(vf v)
{
#if GRAFT_ISA_LEVEL >= 3
    return (vh)_mm512_cvtneps_pbh((__m512)v);
#elif GRAFT_ISA_LEVEL == 1
    /* Compilers take each lane out for the conversion below. */
    vu u = (vu)v, rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    vu whole = (vu)_mm256_blendv_ps((__m256)rounded, (__m256)(u >> 16 | 0x40),
                                    _mm256_cmp_ps((__m256)v, (__m256)v, _CMP_UNORD_Q));
    return (vh)_mm_packus_epi32(_mm256_castsi256_si128((__m256i)whole),
                                _mm256_extracti128_si256((__m256i)whole, 1));
#else
    vu u = (vu)v;
    vu nan = (vu)(v != v);
    vu rounded = u + 0x7fff + (u >> 16 & 1);
    return __builtin_convertvector(((rounded & ~nan) | ((u | 0x400000) & nan)) >> 16, vh);
#endif
}

/* Elements i .. i+VL-1 of a row of dtype t. */
INLINE vf vf_get(const void *p, graft_dtype t, size_t i)
{
    if (t == GRAFT_F32) return vf_load((const float *)p + i);
    vh h;
    memcpy(&h, (const uint16_t *)p + i, sizeof h);
    return vf_from_bf16(h);
}

INLINE void vf_put(void *p, graft_dtype t, size_t i, vf v)
{
    if (t == GRAFT_F32) {
        vf_store((float *)p + i, v);
    } else {
        vh h = vf_to_bf16(v);
        memcpy((uint16_t *)p + i, &h, sizeof h);
    }
}

/* The same for the last n < VL elements; the others read as 0. */
INLINE vf vf_get_tail(const void *p, graft_dtype t, size_t i, size_t n)
{
#if GRAFT_ISA_LEVEL >= 2
    __mmask16 m = (__mmask16)((1u << n) - 1);
    if (t == GRAFT_F32) return (vf)_mm512_maskz_loadu_ps(m, (const float *)p + i);
    return vf_from_bf16((vh)_mm256_maskz_loadu_epi16(m, (const uint16_t *)p + i));
#else
    if (t == GRAFT_F32) {
        vf v = {0};
        memcpy(&v, (const float *)p + i, n * 4);
        return v;
    }
    vh h = {0};
    memcpy(&h, (const uint16_t *)p + i, n * 2);
    return vf_from_bf16(h);
#endif
}

INLINE void vf_put_tail(void *p, graft_dtype t, size_t i, size_t n, vf v)
{
#if GRAFT_ISA_LEVEL >= 2
    __mmask16 m = (__mmask16)((1u << n) - 1);
    if (t == GRAFT_F32) {
        _mm512_mask_storeu_ps((float *)p + i, m, (__m512)v);
    } else {
        _mm256_mask_storeu_epi16((uint16_t *)p + i, m, (__m256i)vf_to_bf16(v));
    }
#else
    if (t == GRAFT_F32) {
        memcpy((float *)p + i, &v, n * 4);
    } else {
        vh h = vf_to_bf16(v);
        memcpy((uint16_t *)p + i, &h, n * 2);
    }
#endif
}

/* 1.5 * 2^23: adding it rounds a float32 to an integer, which then stands in the low bits. */
#define VF_ROUND 12582912.0f

/* e^x; arguments below -87.3 give about 1e-38, above 88.3 about 2e38. The polynomial interpolates
 * exp at Chebyshev nodes of [-ln 2 / 2, ln 2 / 2]. */
INLINE vf vf_exp(vf x)
{
    x = vf_min(vf_set(88.3f), vf_max(vf_set(-87.3f), x));
    vf t = x * vf_set(1.44269504f) + vf_set(VF_ROUND);
    vf n = t - vf_set(VF_ROUND);
    vf r = x - n * vf_set(0.693359375f);
    r = r + n * vf_set(2.12194440e-4f);
    vf p = r * vf_set(0.00139412131f) + vf_set(0.0083752102f);
    p = p * r + vf_set(0.0416663516f);
    p = p * r + vf_set(0.166664145f);
    p = p * r + vf_set(0.500000005f);
    p = p * r + vf_set(1.00000004f);
    p = p * r + vf_set(1.0f);
    return (vf)((vi)p + ((vi)t << 23));
}

/* 2^x for x <= 0, as a softmax needs it: arguments below -126 give 1e-38 at most. */
INLINE vf vf_exp2_neg(vf x)
{
#if GRAFT_ISA_LEVEL >= 2
    /* Both have a pipe of their own on Zen 4, where additions would wait for each other. */
    vf r = (vf)_mm512_reduce_ps((__m512)x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    vf p = r * vf_set(0.000218657848f) + vf_set(0.00123913318f);
    p = p * r + vf_set(0.00968418631f);
    p = p * r + vf_set(0.0554806302f);
    p = p * r + vf_set(0.240230454f);
    p = p * r + vf_set(0.693146933f);
    p = p * r + vf_set(1.0f);
    return (vf)_mm512_scalef_ps((__m512)p, (__m512)x);
#else
    x = vf_max(vf_set(-126.0f), x);
    vf t = x + vf_set(VF_ROUND);
    vf r = x - (t - vf_set(VF_ROUND));
    vf p = r * vf_set(0.000154614447f) + vf_set(0.00134004282f);
    p = p * r + vf_set(0.00961805668f);
    p = p * r + vf_set(0.0555032723f);
    p = p * r + vf_set(0.240226509f);
    p = p * r + vf_set(0.693147207f);
    p = p * r + vf_set(1.0f);
    return (vf)((vi)p + ((vi)t << 23));
#endif
}

/* x * sigmoid(a x) */
INLINE vf vf_swish(vf x, float a)
{
    return x / (vf_exp(x * vf_set(-a)) + 1.0f);
}

/* Exact gelu as max(x, 0) - |x|/2 * erfc(|x| / sqrt 2), which cancels nothing on either side of 0.
 * erfc(t / sqrt 2) = exp(-t P(t)) with P interpolating -ln(erfc(t / sqrt 2)) / t at Chebyshev nodes
 * of [0, 7]; what is cut off beyond 7 is below 1e-11. The error is at most 3e-8. */
INLINE vf vf_gelu(vf x)
{
    vf a = vf_abs(x);
    vf t = vf_min(vf_set(7.0f), a);
    vf p = t * vf_set(1.31763965e-10f) + vf_set(-6.21401635e-9f);
    p = p * t + vf_set(1.31525267e-7f);
    p = p * t + vf_set(-1.64708448e-6f);
    p = p * t + vf_set(1.34591967e-5f);
    p = p * t + vf_set(-7.31559969e-5f);
    p = p * t + vf_set(0.000237022627f);
    p = p * t + vf_set(-5.61990077e-5f);
    p = p * t + vf_set(-0.00477320702f);
    p = p * t + vf_set(0.0363333741f);
    p = p * t + vf_set(0.31831013f);
    p = p * t + vf_set(0.797884555f);
    return vf_max(vf_set(0.0f), x) - a * 0.5f * vf_exp(-(t * p));
}

/* Gelu by tanh as x * sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)), which is the same. */
INLINE vf vf_gelu_tanh(vf x)
{
    vf u = x * (x * x * vf_set(-0.0713548163f) + vf_set(-1.59576912f));
    return x / (vf_exp(u) + 1.0f);
}

/* 1 - 2 / (e^2x + 1), which of small values has their absolute accuracy only. */
INLINE vf vf_tanh(vf x)
{
    return vf_set(1.0f) - vf_set(2.0f) / (vf_exp(x * 2.0f) + 1.0f);
}

INLINE vf vf_act(graft_act act, vf x)
{
    switch (act) {
    case GRAFT_ACT_SILU:
        return vf_swish(x, 1.0f);
    case GRAFT_ACT_GELU:
        return vf_gelu(x);
    case GRAFT_ACT_QUICK_GELU:
        return vf_swish(x, 1.702f);
    case GRAFT_ACT_LEAKY:
        return vf_max(x * 0.2f, x);
    case GRAFT_ACT_RELU:
        return vf_max(vf_set(0.0f), x); /* in this order NaN passes through */
    case GRAFT_ACT_GELU_TANH:
        return vf_gelu_tanh(x);
    case GRAFT_ACT_TANH:
        return vf_tanh(x);
    default:
        return x;
    }
}
#endif
