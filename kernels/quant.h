/* How CONV2D, LINEAR and ATTENTION quantize, in one place for all kernel libraries: symmetric,
 * round to nearest even, no zero points.
 *
 * GRAFT_QUANT_INT8: weights to -127 … 127 with a scale per output, activations likewise with a
 * scale per row (LINEAR) or per picture (CONV2D), found when they are there. Integers are
 * multiplied and summed exactly; scales, bias, residual and act come after. GRAFT_QUANT_FP8: the
 * same with E4M3 (base/e4m3.h) for the integers, of -448 … 448, scales that are powers of two,
 * which costs floats no precision and leaves values exact in 16 bits, and sums in float32 or as
 * close to it as a device's instructions add. GRAFT_QUANT_INT4: weights to -7 … 7 with a scale per
 * 64 consecutive values of an output's row (O, I...), activations as they are. In memory 4-bit
 * weights are rows of groups, 32 bytes each, then a float32 scale for every group in the same
 * order: 4.5 bits a weight. Byte i of a group holds value i in its low and value i + 32 in its high
 * half, each with 8 added; a row's last group is filled up with zeros.
 *
 * GRAFT_QUANT_BLOCKS + a type (blocks.h), LINEAR only: weights are blocks of that type, of which
 * there is a whole number. Activations as they are. The dtype of such weights has the same number.
 * pack() takes them as they are; of floats it makes ggml's Q8_0, as ggml does, and no other type.
 *
 * Weights may come quantized, at any alignment: GRAFT_Q4 is what 4-bit weights are in memory,
 * GRAFT_Q8 is one signed byte a value in the weight's order, then a float32 scale per output;
 * GRAFT_QF8 the same of E4M3.
 *
 * ATTENTION knows GRAFT_QUANT_INT8 alone, and as a permission: a library without such a kernel, and
 * every library where attention is causal, computes it as it is. Each query's row in a head, and
 * each key's row in a head less the mean of all keys of that head, which softmax does not see,
 * become -127 … 127 with a scale of their own. Values become -127 … 127 with a scale per column of
 * the head; a library may find it for each block of neighbouring keys. Softmax's weights, relative
 * to the largest of the query (or the largest in a block of neighbouring keys), become multiples of
 * 1/255, and are divided by the sum of what they became. */
#ifndef GRAFT_KERNELS_QUANT_H
#define GRAFT_KERNELS_QUANT_H
#include <math.h>
#include <stdint.h>

#include "base/half.h"
#include "kernels/blocks.h"
#include "kernels/op_desc.h"

#define GRAFT_QUANT_GROUP         64
#define GRAFT_QUANT_GROUP_BYTES   32
#define GRAFT_QUANT_WEIGHT_LEVELS 255.0f /* of softmax's weights, from 0 */

static inline float graft_quant_absmax(const float *x, int64_t n)
{
    enum { LANES = 16 }; /* independent maxima, of which compilers make vectors */
    float lane[LANES] = {0}, most = 0;
    int64_t whole = n / LANES * LANES;
    for (int64_t i = 0; i < whole; i += LANES)
        for (int k = 0; k < LANES; k++) {
            float v = fabsf(x[i + k]);
            lane[k] = v > lane[k] ? v : lane[k];
        }
    for (int k = 0; k < LANES; k++) most = lane[k] > most ? lane[k] : most;
    for (int64_t i = whole; i < n; i++) most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    return most;
}

/* What a quantum of -`levels` … `levels` is worth; 0 for rows of zeros. */
static inline float graft_quant_scale(float absmax, float levels)
{
    return absmax / levels;
}

static inline float graft_quant_round(float x, float inverse, float levels)
{
    float v = rintf(x * inverse);
    v = v > -levels ? v : -levels; /* NaN, too */
    return v < levels ? v : levels;
}

static inline float graft_quant_inverse(float scale)
{
    return scale > 0 ? 1.0f / scale : 0.0f;
}

/* 8 bits, integers or floats: what a level of 1 is worth. Rows too small for a scale with an
 * inverse become zeros, where a float's level would be no number. */
static inline float graft_quant8_scale(graft_quant q, float absmax)
{
    float scale = absmax / GRAFT_E4M3_MOST;
    uint32_t u;
    if (q != GRAFT_QUANT_FP8) return graft_quant_scale(absmax, 127.0f);
    if (absmax < 0x1p-100f) return 0.0f;
    memcpy(&u, &scale, sizeof u);
    u = (u + 0x7fffffu) & 0x7f800000u; /* the next power of two */
    memcpy(&scale, &u, sizeof scale);
    return scale;
}

/* x to the nearest E4M3, ties to even: graft_f32_to_f8_e4m3() and back, of which compilers make
 * vectors. What is added has the value's last bit that is to stay for its own last. */
static inline float graft_quant_e4m3(float x)
{
    float a = fabsf(x), big;
    a = a > GRAFT_E4M3_MOST ? GRAFT_E4M3_MOST : a;
    uint32_t u;
    memcpy(&u, &a, sizeof u);
    u &= 0x7f800000u;
    u = (u > 0x3c800000u ? u : 0x3c800000u) + (20u << 23); /* not below 2^-6 */
    memcpy(&big, &u, sizeof big);
    return copysignf((a + big) - big, x);
}

/* y[i]: what the level of x[i] is worth; y may be x. Returns the scale. */
static inline float graft_quant8_snap(graft_quant q, const float *x, float *y, int64_t n,
                                      float absmax)
{
    float scale = graft_quant8_scale(q, absmax), inverse = graft_quant_inverse(scale);
    if (q == GRAFT_QUANT_FP8)
        for (int64_t i = 0; i < n; i++) y[i] = graft_quant_e4m3(x[i] * inverse) * scale;
    else
        for (int64_t i = 0; i < n; i++) y[i] = graft_quant_round(x[i], inverse, 127.0f) * scale;
    return scale;
}

/* Levels in memory are bytes. */
static inline uint8_t graft_quant8_level(graft_quant q, float x, float inverse)
{
    if (q == GRAFT_QUANT_FP8) return graft_f32_to_f8_e4m3(x * inverse);
    return (uint8_t)(int8_t)graft_quant_round(x, inverse, 127.0f);
}

static inline float graft_quant8_value(graft_quant q, uint8_t level)
{
    return q == GRAFT_QUANT_FP8 ? graft_f8_e4m3_to_f32(level) : (float)(int8_t)level;
}

/* y[i]: what level[i] is worth. */
static inline void graft_quant8_values(graft_quant q, const uint8_t *level, float scale, float *y,
                                       int64_t n)
{
    if (q != GRAFT_QUANT_FP8) {
        for (int64_t i = 0; i < n; i++) y[i] = (float)(int8_t)level[i] * scale;
        return;
    }
    graft_float_decode_e4m3(level, scale, y, n);
}

/* Whether activations are quantized, too; the other quantizations are of weights alone. */
static inline int graft_quant_is_8(graft_quant q)
{
    return q == GRAFT_QUANT_INT8 || q == GRAFT_QUANT_FP8;
}

/* The type that weights are blocks of; 0: they are none, or of no known type. */
static inline int32_t graft_quant_blocks(graft_quant q)
{
    return q > GRAFT_QUANT_BLOCKS && graft_blocks_values(q - GRAFT_QUANT_BLOCKS)
               ? q - GRAFT_QUANT_BLOCKS
               : 0;
}

/* What weights are that come quantized for q. */
static inline graft_dtype graft_quant_dtype(graft_quant q)
{
    return q == GRAFT_QUANT_INT8   ? GRAFT_Q8
           : q == GRAFT_QUANT_INT4 ? GRAFT_Q4
           : q == GRAFT_QUANT_FP8  ? GRAFT_QF8
           : graft_quant_blocks(q) ? q
                                   : GRAFT_DTYPE_NONE;
}

/* The other way; GRAFT_QUANT_NONE for what is not quantized. */
static inline graft_quant graft_quant_of_dtype(graft_dtype t)
{
    return t == GRAFT_Q8           ? GRAFT_QUANT_INT8
           : t == GRAFT_Q4         ? GRAFT_QUANT_INT4
           : t == GRAFT_QF8        ? GRAFT_QUANT_FP8
           : graft_quant_blocks(t) ? t
                                   : GRAFT_QUANT_NONE;
}

/* Groups in a row of n values. */
static inline int64_t graft_quant4_groups(int64_t n)
{
    return (n + GRAFT_QUANT_GROUP - 1) / GRAFT_QUANT_GROUP;
}

/* Of `outputs` rows of n values. */
static inline uint64_t graft_quant4_bytes(int64_t outputs, int64_t n)
{
    return (uint64_t)(outputs * graft_quant4_groups(n)) * (GRAFT_QUANT_GROUP_BYTES + sizeof(float));
}

/* The scales behind the rows. */
static inline const float *graft_quant4_scales(const void *packed, int64_t outputs, int64_t n)
{
    return (const float *)(const void *)((const uint8_t *)packed + outputs *
                                                                       graft_quant4_groups(n) *
                                                                       GRAFT_QUANT_GROUP_BYTES);
}

/* One group of up to 64 values; returns its scale. */
static inline float graft_quant4_pack(const float *x, int64_t n, uint8_t *out)
{
    float scale = graft_quant_scale(graft_quant_absmax(x, n), 7.0f);
    float inverse = graft_quant_inverse(scale);
    for (int64_t i = 0; i < GRAFT_QUANT_GROUP_BYTES; i++) {
        float low = i < n ? x[i] : 0, high = i + 32 < n ? x[i + 32] : 0;
        int a = (int)graft_quant_round(low, inverse, 7.0f) + 8;
        int b = (int)graft_quant_round(high, inverse, 7.0f) + 8;
        out[i] = (uint8_t)(a | b << 4);
    }
    return scale;
}

static inline void graft_quant4_unpack(const uint8_t *group, float scale, float *out)
{
    for (int i = 0; i < GRAFT_QUANT_GROUP_BYTES; i++) {
        out[i] = (float)((group[i] & 15) - 8) * scale;
        out[i + GRAFT_QUANT_GROUP_BYTES] = (float)((group[i] >> 4) - 8) * scale;
    }
}

/* Rows first … first + count of (rows, n) values; `out` holds all rows, `in` only those. */
static inline void graft_quant4_pack_rows(const float *in, int64_t first, int64_t count,
                                          int64_t rows, int64_t n, void *out)
{
    int64_t groups = graft_quant4_groups(n);
    uint8_t *level = (uint8_t *)out + first * groups * GRAFT_QUANT_GROUP_BYTES;
    float *scale = (float *)(void *)((uint8_t *)out + rows * groups * GRAFT_QUANT_GROUP_BYTES);
    scale += first * groups;
    for (int64_t r = 0; r < count; r++)
        for (int64_t i = 0; i < n; i += GRAFT_QUANT_GROUP, level += GRAFT_QUANT_GROUP_BYTES) {
            int64_t left = n - i < GRAFT_QUANT_GROUP ? n - i : GRAFT_QUANT_GROUP;
            *scale++ = graft_quant4_pack(in + r * n + i, left, level);
        }
}
#endif
