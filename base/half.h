/* Conversions between float32 and the narrow floating-point formats, one value and whole arrays.
 *
 * f16: IEEE 754 binary16; bf16: the upper half of float32; f8: E4M3FN and E5M2 of OCP OFP8. To
 * narrower: round to nearest, ties to even; overflow gives infinity, which E4M3FN lacks: there it
 * gives 448. Any thread. */
#ifndef GRAFT_BASE_HALF_H
#define GRAFT_BASE_HALF_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/e4m3.h"

static inline float graft_bf16_to_f32(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}
static inline uint16_t graft_f32_to_bf16(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(u >> 16 | 0x40); /* quiet NaN */
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}
float graft_f16_to_f32(uint16_t h);
uint16_t graft_f32_to_f16(float f);
static inline float graft_f8_e4m3_to_f32(uint8_t v)
{
    uint32_t u = graft_e4m3_to_bits(v);
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}
static inline uint8_t graft_f32_to_f8_e4m3(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return graft_e4m3_from_bits(u);
}
float graft_f8_e5m2_to_f32(uint8_t v);

/* Arrays; src and dst need not be aligned and do not overlap. Uses F16C where the CPU has it. */
void graft_f16_to_f32_array(const void *src, float *dst, size_t n);
void graft_f32_to_f16_array(const float *src, void *dst, size_t n);
void graft_bf16_to_f32_array(const void *src, float *dst, size_t n);
void graft_f32_to_bf16_array(const float *src, void *dst, size_t n);
#endif
