/* Weights in floats of 8 and 4 bits, as files of diffusion models have them: of OCP's 8-bit
 * Floating Point Specification 1.0 (E4M3FN, E5M2) and its Microscaling Formats 1.0 (MXFP8, E2M1),
 * NVIDIA's NVFP4, and NF4 (Dettmers et al. 2023, arXiv:2305.14314) and FP4 as bitsandbytes
 * (https://github.com/bitsandbytes-foundation/bitsandbytes) has them.
 *
 *   E4M3, E5M2   a byte a value
 *   MXFP8        for 32 values a byte, a power of two with 127 added (255: not a number), then an
 *                E4M3 each
 *   NVFP4        for 16 values a scale in E4M3, then two E2M1 a byte, the first in the high half
 *   NF4, FP4     for 64 values a float32, the largest magnitude among them, little-endian, then two
 *                codes a byte, the first in the high half: places in a table of what they are worth
 *
 * A row's values count times a float32 besides, the row's scale: of a file that has one for a whole
 * tensor all are that one, of a file that has none all are 1. It is multiplied with the scale of a
 * block first, and the product with each value, in float32: a value has the same bits whoever
 * computes it.
 *
 * Loops have no branches, so that compilers make vectors of them. Neither blocks nor results need
 * any alignment, and they do not overlap. */
#ifndef GRAFT_KERNELS_FLOAT_BLOCKS_H
#define GRAFT_KERNELS_FLOAT_BLOCKS_H
#include <stdint.h>
#include <string.h>

#include "base/half.h"

#define GRAFT_FLOAT_E4M3        224
#define GRAFT_FLOAT_E5M2        225
#define GRAFT_FLOAT_MXFP8       226
#define GRAFT_FLOAT_NVFP4       227
#define GRAFT_FLOAT_NF4         228
#define GRAFT_FLOAT_FP4         229
#define GRAFT_FLOAT_MXFP8_BLOCK 32 /* values */
#define GRAFT_FLOAT_NVFP4_BLOCK 16
#define GRAFT_FLOAT_CODES_BLOCK 64 /* of NF4 and FP4, and the most */
#define GRAFT_FLOAT_CODES_SIZE  36 /* bytes */

static inline float graft_float_of_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static inline void graft_float_decode_e4m3(const uint8_t *x, float scale, float *restrict out,
                                           int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const uint32_t code = x[i] & 0x7fu, sign = (uint32_t)(x[i] & 0x80u) << 24;
        const float tiny = (float)(int32_t)code * 0x1p-9f;
        const uint32_t bits = code == 0x7f ? 0x7fc00000u : (code << 20) + 0x3c000000u;
        const float v = code < 8 ? tiny : graft_float_of_bits(bits);
        out[i] = (sign ? -v : v) * scale;
    }
}

/* The upper half of a float16. */
static inline void graft_float_decode_e5m2(const uint8_t *x, float scale, float *restrict out,
                                           int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const uint32_t code = x[i] & 0x7fu, sign = (uint32_t)(x[i] & 0x80u) << 24;
        const float tiny = (float)(int32_t)code * 0x1p-16f;
        const uint32_t beyond = code >= 0x7c ? 112u << 23 : 0; /* infinity, not a number */
        const float v = code < 4 ? tiny : graft_float_of_bits((code << 21) + (112u << 23) + beyond);
        out[i] = (sign ? -v : v) * scale;
    }
}

static inline float graft_float_power(uint8_t code)
{
    const uint32_t bits = code == 255 ? 0x7fc00000u : (uint32_t)code << 23;
    return code ? graft_float_of_bits(bits) : 0x1p-127f;
}

static inline void graft_float_decode_mxfp8(const uint8_t *b, float scale, float *restrict out)
{
    graft_float_decode_e4m3(b + 1, graft_float_power(b[0]) * scale, out, GRAFT_FLOAT_MXFP8_BLOCK);
}

/* What E2M1's codes are worth. */
static const float graft_float_e2m1[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                           -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

/* Two loops: of one compilers make no vectors. */
static inline void graft_float_decode_nvfp4(const uint8_t *b, float scale, float *restrict out)
{
    const float s = graft_f8_e4m3_to_f32(b[0]) * scale;
    uint8_t code[GRAFT_FLOAT_NVFP4_BLOCK];
    for (int i = 0; i < GRAFT_FLOAT_NVFP4_BLOCK / 2; i++) {
        code[2 * i] = b[1 + i] >> 4;
        code[2 * i + 1] = b[1 + i] & 15;
    }
    for (int i = 0; i < GRAFT_FLOAT_NVFP4_BLOCK; i++) out[i] = graft_float_e2m1[code[i]] * s;
}

/* What codes are worth. NF4's are quantiles of the normal distribution, and 0; FP4's a sign, then
 * of twelfths 0, 1/16, 8, 12, 4, 6, 2 and 3. Both in the bits that bitsandbytes' kernels have. */
static const float graft_float_nf4[16] = {-1.0f,
                                          -0.6961928009986877f,
                                          -0.5250730514526367f,
                                          -0.39491748809814453f,
                                          -0.28444138169288635f,
                                          -0.18477343022823334f,
                                          -0.09105003625154495f,
                                          0.0f,
                                          0.07958029955625534f,
                                          0.16093020141124725f,
                                          0.24611230194568634f,
                                          0.33791524171829224f,
                                          0.44070982933044434f,
                                          0.5626170039176941f,
                                          0.7229568362236023f,
                                          1.0f};
static const float graft_float_fp4[16] = {
    0.0f,  0.0625f / 12,  8.0f / 12,  1.0f,  4.0f / 12,  0.5f,  2.0f / 12,  0.25f,
    -0.0f, -0.0625f / 12, -8.0f / 12, -1.0f, -4.0f / 12, -0.5f, -2.0f / 12, -0.25f};

/* Two loops: of one compilers make no vectors. */
static inline void graft_float_decode_codes(const float *worth, const uint8_t *b, float scale,
                                            float *restrict out)
{
    uint8_t code[GRAFT_FLOAT_CODES_BLOCK];
    float s;
    memcpy(&s, b, sizeof s);
    s *= scale;
    for (int i = 0; i < GRAFT_FLOAT_CODES_BLOCK / 2; i++) {
        code[2 * i] = b[4 + i] >> 4;
        code[2 * i + 1] = b[4 + i] & 15;
    }
    for (int i = 0; i < GRAFT_FLOAT_CODES_BLOCK; i++) out[i] = worth[code[i]] * s;
}

static inline void graft_float_decode_nf4(const uint8_t *b, float scale, float *restrict out)
{
    graft_float_decode_codes(graft_float_nf4, b, scale, out);
}

static inline void graft_float_decode_fp4(const uint8_t *b, float scale, float *restrict out)
{
    graft_float_decode_codes(graft_float_fp4, b, scale, out);
}
#endif
