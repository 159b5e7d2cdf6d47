/* Single values of the dtypes that the made-up libraries compute with. */
#ifndef GRAFT_TESTS_CUDA_FAKE_VALUE_H
#define GRAFT_TESTS_CUDA_FAKE_VALUE_H
#include <stdlib.h>

#include "base/half.h"
#include "kernels/op_desc.h"
#include "tests/cuda/fake_fast.h"

static inline float fake_load(graft_dtype t, const void *p, int64_t i)
{
    if (t == GRAFT_F32) return ((const float *)p)[i];
    if (t == GRAFT_I8) return ((const int8_t *)p)[i];
    if (t == GRAFT_F8_E4M3) return graft_f8_e4m3_to_f32(((const uint8_t *)p)[i]);
    uint16_t v = ((const uint16_t *)p)[i];
    return t == GRAFT_F16 ? graft_f16_to_f32(v) : graft_bf16_to_f32(v);
}

static inline void fake_store(graft_dtype t, void *p, int64_t i, float v)
{
    if (t == GRAFT_F32)
        ((float *)p)[i] = v;
    else
        ((uint16_t *)p)[i] = t == GRAFT_F16 ? graft_f32_to_f16(v) : graft_f32_to_bf16(v);
}

static inline void *fake_alloc(int64_t n, size_t size)
{
    void *p = calloc((size_t)n, size);
    if (!p) abort();
    return p;
}

/* sum[i] = sum over k of rows[k * n + i] * factor[k], added in the order of k. */
FAKE_FAST static void fake_sum_rows(float *restrict sum, const float *restrict rows,
                                    const float *restrict factor, int64_t n, int64_t count)
{
    for (int64_t i = 0; i < n; i++) sum[i] = 0;
    for (int64_t k = 0; k < count; k++)
        for (int64_t i = 0; i < n; i++) sum[i] += rows[k * n + i] * factor[k];
}
#endif
