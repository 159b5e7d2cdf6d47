/* Single values of the dtypes that the made-up libraries compute with. */
#ifndef GRAFT_TESTS_CUDA_FAKE_VALUE_H
#define GRAFT_TESTS_CUDA_FAKE_VALUE_H
#include "base/half.h"
#include "kernels/op_desc.h"

static inline float fake_load(graft_dtype t, const void *p, int64_t i)
{
    if (t == GRAFT_F32) return ((const float *)p)[i];
    if (t == GRAFT_I8) return ((const int8_t *)p)[i];
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
#endif
