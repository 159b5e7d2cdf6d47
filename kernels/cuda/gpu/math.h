/* Arithmetic of the device kernels on single values; bit-equal wherever expf and its like are. */
#ifndef GRAFT_KERNELS_CUDA_MATH_H
#define GRAFT_KERNELS_CUDA_MATH_H
#include "base/e4m3.h"
#include "kernels/cuda/gpu/device.h"
#include "kernels/cuda/gpu/params.h"
#include "kernels/op_desc.h"

enum { GRAFT_QUANT_GROUP = 64 }; /* as in kernels/quant.h */

GRAFT_DEVICE float graft_bits_float(uint32_t u)
{
    union {
        uint32_t u;
        float f;
    } x;
    x.u = u;
    return x.f;
}

GRAFT_DEVICE uint32_t graft_float_bits(float f)
{
    union {
        float f;
        uint32_t u;
    } x;
    x.f = f;
    return x.u;
}

GRAFT_DEVICE float graft_bf16_load(uint16_t h)
{
    return graft_bits_float((uint32_t)h << 16);
}

GRAFT_DEVICE uint16_t graft_bf16_store(float f)
{
    uint32_t u = graft_float_bits(f);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

GRAFT_DEVICE float graft_f32_load(float f)
{
    return f;
}

GRAFT_DEVICE float graft_f32_store(float f)
{
    return f;
}

/* E4M3FN and E5M2 of OCP OFP8. */
GRAFT_DEVICE float graft_f8_load(uint8_t v, int exponent_bits)
{
    int mantissa_bits = 7 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = (v & 0x7f) >> mantissa_bits, mantissa = v & ((1 << mantissa_bits) - 1);
    float sign = v & 0x80 ? -1.0f : 1.0f;
    int top = (1 << exponent_bits) - 1;
    if (exponent_bits == 4 && (v & 0x7f) == 0x7f) return graft_bits_float(0x7fc00000u);
    if (exponent_bits == 5 && exponent == top)
        return mantissa ? graft_bits_float(0x7fc00000u) : sign * graft_bits_float(0x7f800000u);
    if (exponent == 0) return sign * ldexpf((float)mantissa, 1 - bias - mantissa_bits);
    return sign * ldexpf((float)(mantissa | 1 << mantissa_bits), exponent - bias - mantissa_bits);
}

/* Two of four E4M3, the lower or the upper ones, as f16 of 2^-8 of their values: the fields move,
 * nothing is computed, and NaN stays. */
GRAFT_DEVICE uint32_t graft_e4m3_pair(uint32_t four, int upper)
{
    uint32_t v = four >> (upper ? 16 : 0), two = (v & 0xffu) | (v & 0xff00u) << 8;
    uint32_t m = (two & 0x007f007fu) << 7;
    m |= (m + 0x00800080u) & 0x40004000u; /* 0x7f alone carries so far */
    return m | (two & 0x00800080u) << 8;
}

GRAFT_DEVICE float graft_gelu(float x)
{
    return 0.5f * x * erfcf(-x * 0.70710678118654752f);
}

/* x * sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)), which is gelu by tanh. */
GRAFT_DEVICE float graft_gelu_tanh(float x)
{
    return x / (1.0f + expf(-1.5957691216f * (x + 0.044715f * x * x * x)));
}

GRAFT_DEVICE float graft_act_of(int32_t act, float x)
{
    switch (act) {
    case GRAFT_ACT_SILU:
        return x / (1.0f + expf(-x));
    case GRAFT_ACT_GELU:
        return graft_gelu(x);
    case GRAFT_ACT_QUICK_GELU:
        return x / (1.0f + expf(-1.702f * x));
    case GRAFT_ACT_LEAKY:
        return x < 0 ? 0.2f * x : x;
    case GRAFT_ACT_RELU:
        return x < 0 ? 0.0f : x; /* NaN passes through */
    case GRAFT_ACT_GELU_TANH:
        return graft_gelu_tanh(x);
    case GRAFT_ACT_TANH:
        return tanhf(x);
    default:
        return x;
    }
}

/* ------------------------------------------------------------------ for results in 16 bits
 *
 * A dozen instructions or less; tests/cuda/math.c says how far they are off. What is no number and
 * what is infinite gives the same as above. */

/* x * sigmoid(u) */
GRAFT_DEVICE float graft_times_sigmoid_16(float x, float u)
{
    return x * graft_inverse_near(1.0f + graft_exp2_near(-1.4426950408889634f * u));
}

/* max(x, 0) - |x| Q(|x|), where Q is the tail of the normal distribution: log2 Q is nearly a
 * parabola, here of degree 6 with the least largest error of the result in [0, 6]. Beyond that at
 * most 6e-9 is left of it. */
GRAFT_DEVICE float graft_gelu_16(float x)
{
    float half = 0.5f * x, t = fminf(fabsf(x), 6.0f);
    float q = 3.5591178e-5f * t - 7.87401022e-4f;
    q = q * t + 8.12260595e-3f;
    q = q * t - 5.34367732e-2f;
    q = q * t - 4.5879479e-1f;
    q = q * t - 1.15117585f;
    q = q * t - 9.9999774e-1f;
    return half + fabsf(half) - t * graft_exp2_near(q); /* NaN stays, which fminf() would drop */
}

/* 1 - 2 / (e^2x + 1), and where that would cancel the first terms of its series. */
GRAFT_DEVICE float graft_tanh_16(float x)
{
    float s = x * x, e2x = graft_exp2_near(2.885390082f * x);
    float far = 1.0f - 2.0f * graft_inverse_near(1.0f + e2x);
    float near = x - x * s * (0.33333333f - s * (0.13333333f - 0.053968254f * s));
    return s < 0.0625f ? near : far;
}

GRAFT_DEVICE float graft_act_of_16(int32_t act, float x)
{
    switch (act) {
    case GRAFT_ACT_SILU:
        return graft_times_sigmoid_16(x, x);
    case GRAFT_ACT_GELU:
        return graft_gelu_16(x);
    case GRAFT_ACT_QUICK_GELU:
        return graft_times_sigmoid_16(x, 1.702f * x);
    case GRAFT_ACT_LEAKY:
        return x < 0 ? 0.2f * x : x;
    case GRAFT_ACT_RELU:
        return x < 0 ? 0.0f : x;
    case GRAFT_ACT_GELU_TANH:
        return graft_times_sigmoid_16(x, 1.5957691216f * (x + 0.044715f * x * x * x));
    case GRAFT_ACT_TANH:
        return graft_tanh_16(x);
    default:
        return x;
    }
}

GRAFT_DEVICE uint32_t graft_dtype_bytes(int32_t t)
{
    if (t == GRAFT_I64 || t == GRAFT_F64) return 8;
    if (t == GRAFT_F32 || t == GRAFT_I32) return 4;
    return t == GRAFT_F16 || t == GRAFT_BF16 ? 2 : 1;
}

/* Element i of an array of any dtype, and the same written; whole numbers as COPY rounds them. */
GRAFT_DEVICE double graft_load_any(int32_t dtype, const void *p, int64_t i)
{
    switch (dtype) {
    case GRAFT_F32:
        return ((const float *)p)[i];
    case GRAFT_F16:
        return graft_f16_load(((const uint16_t *)p)[i]);
    case GRAFT_BF16:
        return graft_bf16_load(((const uint16_t *)p)[i]);
    case GRAFT_F64:
        return ((const double *)p)[i];
    case GRAFT_F8_E4M3:
        return graft_f8_load(((const uint8_t *)p)[i], 4);
    case GRAFT_F8_E5M2:
        return graft_f8_load(((const uint8_t *)p)[i], 5);
    case GRAFT_I8:
        return ((const int8_t *)p)[i];
    case GRAFT_U8:
        return ((const uint8_t *)p)[i];
    case GRAFT_BOOL8:
        return ((const uint8_t *)p)[i] != 0;
    case GRAFT_I32:
        return ((const int32_t *)p)[i];
    case GRAFT_I64:
        return (double)((const int64_t *)p)[i];
    default:
        return 0;
    }
}

GRAFT_DEVICE int64_t graft_whole(double v, double low, double high)
{
    if (v != v) return 0;
    v = rint(v);
    return (int64_t)(v < low ? low : v > high ? high : v);
}

GRAFT_DEVICE void graft_store_any(int32_t dtype, void *p, int64_t i, double v)
{
    switch (dtype) {
    case GRAFT_F32:
        ((float *)p)[i] = (float)v;
        break;
    case GRAFT_F16:
        ((uint16_t *)p)[i] = graft_f16_store((float)v);
        break;
    case GRAFT_BF16:
        ((uint16_t *)p)[i] = graft_bf16_store((float)v);
        break;
    case GRAFT_F64:
        ((double *)p)[i] = v;
        break;
    case GRAFT_I8:
        ((int8_t *)p)[i] = (int8_t)graft_whole(v, -128, 127);
        break;
    case GRAFT_U8:
        ((uint8_t *)p)[i] = (uint8_t)graft_whole(v, 0, 255);
        break;
    case GRAFT_BOOL8:
        ((uint8_t *)p)[i] = v != 0;
        break;
    case GRAFT_I32:
        ((int32_t *)p)[i] = (int32_t)graft_whole(v, -2147483648.0, 2147483647.0);
        break;
    case GRAFT_I64: /* the largest double below 2^63 */
        ((int64_t *)p)[i] = graft_whole(v, -9223372036854775808.0, 9223372036854774784.0);
        break;
    default:
        break;
    }
}

/* The statistics of two sets of values, put together (Chan, Golub, LeVeque 1979). */
GRAFT_DEVICE graft_cuda_stat graft_stat_merge(graft_cuda_stat a, graft_cuda_stat b)
{
    graft_cuda_stat s;
    s.count = a.count + b.count;
    if (a.count <= 0) return b; /* infinity times 0, where b's mean is huge */
    if (b.count <= 0) return a;
    float delta = b.mean - a.mean, share = b.count / s.count;
    s.mean = a.mean + delta * share;
    s.m2 = a.m2 + b.m2 + delta * delta * a.count * share;
    return s;
}

/* The first place of a row, one of all those of a shape, as four indices. */
GRAFT_DEVICE void graft_row_indices(uint32_t row, const uint32_t *dim, uint32_t *at)
{
    at[3] = 0;
    at[2] = row % dim[2];
    row /= dim[2];
    at[1] = row % dim[1];
    at[0] = row / dim[1];
}

/* Place i of a shape as four indices. */
GRAFT_DEVICE void graft_indices(uint32_t i, const uint32_t *dim, uint32_t *at)
{
    graft_row_indices(i / dim[3], dim, at);
    at[3] = i % dim[3];
}

/* Which tile of a product block number `block` computes: eight rows of tiles at a time, column by
 * column, so that blocks that run together read the same parts of both operands. */
GRAFT_DEVICE void graft_tile_of(int32_t block, int32_t tiles_m, int32_t tiles_n, int32_t *m,
                                int32_t *n)
{
    int32_t first = block / (8 * tiles_n) * 8, rest = block - first * tiles_n;
    int32_t rows = tiles_m - first < 8 ? tiles_m - first : 8;
    *n = rest / rows;
    *m = first + rest - *n * rows;
}

/* Eight results of a warp of wgmma.inc, number i of its rows of `eights`: 16, and 16 from 64 on. */
typedef struct graft_place {
    int32_t row, column;
} graft_place;

GRAFT_DEVICE graft_place graft_place_of(int32_t i, int32_t eights)
{
    graft_place at;
    at.row = i / eights;
    at.column = (i - at.row * eights) * 8;
    at.row = at.row / 16 * 64 + at.row % 16;
    return at;
}

/* Whether rows of the result are of whole eights that are accessed at once, and an activation is
 * not asked for but GEGLU: what is added is fetched ahead then. */
GRAFT_DEVICE int graft_by_eights(const graft_cuda_wgmma *p)
{
    return p->vec && p->n % 8 == 0 && p->act == GRAFT_ACT_NONE;
}

/* Of these, row m of `of`, whose rows are ld apart; zeros unless `there`. */
GRAFT_DEVICE graft_vec graft_eight(const graft_cuda_wgmma *p, const void *of, int64_t ld, int32_t m,
                                   int32_t n, int there)
{
    graft_vec v;
    v.u[0] = v.u[1] = v.u[2] = v.u[3] = 0;
    if (!of || !there || m >= p->m || n >= p->n) return v;
    return *(const graft_vec *)(const void *)((const uint16_t *)of + m * ld + n);
}

/* 0 where there are no such values. */
GRAFT_DEVICE float graft_float_at(const float *of, int32_t i, int32_t n)
{
    return of && i < n ? of[i] : 0;
}

/* A sum of products of levels; of: scale and bias of column 0, then those of column 1. */
GRAFT_DEVICE float graft_scaled(float sum, float row, graft_vec of, int column)
{
    return sum * (row * graft_bits_float(of.u[2 * column])) +
           graft_bits_float(of.u[2 * column + 1]);
}

GRAFT_DEVICE int64_t graft_offset(const uint32_t *at, const int64_t *stride)
{
    return at[0] * stride[0] + at[1] * stride[1] + at[2] * stride[2] + at[3] * stride[3];
}
#endif
