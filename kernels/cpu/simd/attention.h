/* What both ways of attention share: panels of queries, transposed (attention.c). */
#ifndef GRAFT_KERNELS_CPU_SIMD_ATTENTION_H
#define GRAFT_KERNELS_CPU_SIMD_ATTENTION_H
#include "kernels/cpu/simd/functions.h"

#define NV     (REGISTERS / 8)
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

#if HAS_TRANSPOSE
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
            vf_transpose(r);
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
