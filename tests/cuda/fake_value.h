/* Single values of the dtypes that the made-up libraries compute with. */
#ifndef GRAFT_TESTS_CUDA_FAKE_VALUE_H
#define GRAFT_TESTS_CUDA_FAKE_VALUE_H
#include <stdlib.h>

#include "base/half.h"
#include "kernels/op_desc.h"

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

/* Most of what the networks of the tests cost. It reads copies that the libraries made of a
 * device's memory, where each element was looked at by the sanitizers. */
#define FAKE_UNCHECKED __attribute__((no_sanitize("address"), no_sanitize("undefined")))
#endif
