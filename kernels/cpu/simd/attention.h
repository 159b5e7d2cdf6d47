/* What both ways of attention share: panels of queries, transposed (attention.c). */
#ifndef GRAFT_KERNELS_CPU_SIMD_ATTENTION_H
#define GRAFT_KERNELS_CPU_SIMD_ATTENTION_H
#include "kernels/cpu/simd/functions.h"

#define NV     (VL == 16 ? 4 : 2)
#define QB     (NV * VL) /* queries of a panel */
#define MASKED (-3.0e38f)
#define LOWEST (-1.0e30f)
#define LOG2E  1.4426950408889634

#if GRAFT_ISA_LEVEL >= 3
/* As the functions of attention.c, for bfloat16 and a scale above 0. */
int32_t graft_cpu_attention_pairs_group(int32_t head_dim, int64_t keys);
size_t graft_cpu_attention_pairs_scratch(int32_t head_dim, int64_t keys, int32_t panels);
void graft_cpu_attention_pairs(const graft_cpu_attention *a, int64_t queries, int64_t first,
                               int32_t panels, void *memory);
#endif

INLINE float *attention_carve(char **at, size_t floats)
{
    float *p = (float *)(void *)*at;
    *at += (floats * sizeof(float) + 63) & ~(size_t)63;
    return p;
}

#if VL == 16
INLINE void attention_transpose(vf r[16])
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

/* n rows of a panel of results over their sums. */
INLINE void attention_store(const graft_cpu_attention *a, int64_t first, int n, const float *o,
                            const float *sum)
{
    for (int j = 0; j < n; j += VL) {
        vf inverse = 1.0f / vf_load(sum + j);
        for (int i = 0; i < a->head_dim; i += VL) {
            int left = a->head_dim - i;
            vf r[VL];
            for (int k = 0; k < VL; k++)
                r[k] = k < left ? vf_load(o + (i + k) * QB + j) * inverse : (vf){0};
            attention_transpose(r);
            for (int k = 0; k < VL && j + k < n; k++) {
                size_t at = (size_t)((first + j + k) * a->out_stride + i);
                if (left >= VL) {
                    vf_put(a->out, a->dtype, at, r[k]);
                } else {
                    vf_put_tail(a->out, a->dtype, at, (size_t)left, r[k]);
                }
            }
        }
    }
}
#else
INLINE void attention_store(const graft_cpu_attention *a, int64_t first, int n, const float *o,
                            const float *sum)
{
    for (int j = 0; j < n; j++) {
        int64_t at = (first + j) * a->out_stride;
        float r = 1.0f / sum[j];
        for (int i = 0; i < a->head_dim; i++) {
            float v = o[i * QB + j] * r;
            if (a->dtype == GRAFT_F32) {
                ((float *)a->out)[at + i] = v;
            } else {
                ((uint16_t *)a->out)[at + i] = graft_f32_to_bf16(v);
            }
        }
    }
}
#endif
#endif
