/* Values as ggml packs them (https://github.com/ggml-org/ggml): blocks of 32 or 256 values, each
 * with scales of its own. Types, their numbers and layouts are ggml's; all numbers little-endian.
 * Value for value what ggml's own decoders give: float32 products and differences in their order,
 * nothing fused, so whoever compiles this must not contract them.
 *
 * Loops go over bytes in the order in which compilers make vectors of them; neither blocks nor
 * results need any alignment, and they do not overlap. */
#ifndef GRAFT_KERNELS_GGML_BLOCKS_H
#define GRAFT_KERNELS_GGML_BLOCKS_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/half.h"

#define GRAFT_GGML_SMALL     32  /* values of a block, by type */
#define GRAFT_GGML_LARGE     256 /* likewise, and the most */
#define GRAFT_GGML_Q8_0      8
#define GRAFT_GGML_Q8_0_SIZE 34 /* bytes of a block */

static inline float graft_ggml_half(const uint8_t *p)
{
    return graft_f16_to_f32((uint16_t)(p[0] | p[1] << 8));
}

/* ------------------------------------------------------------------ 32 values */

/* Two loops of 16: of one loop for both halves compilers make worse vectors. */
static inline void graft_ggml_decode_q4_0(const uint8_t *b, float *restrict out)
{
    const float d = graft_ggml_half(b);
    const uint8_t *q = b + 2;
    for (int i = 0; i < 16; i++) out[i] = (float)((q[i] & 15) - 8) * d;
    for (int i = 0; i < 16; i++) out[i + 16] = (float)((q[i] >> 4) - 8) * d;
}

static inline void graft_ggml_decode_q4_1(const uint8_t *b, float *restrict out)
{
    const float d = graft_ggml_half(b), least = graft_ggml_half(b + 2);
    const uint8_t *q = b + 4;
    for (int i = 0; i < 16; i++) out[i] = (float)(q[i] & 15) * d + least;
    for (int i = 0; i < 16; i++) out[i + 16] = (float)(q[i] >> 4) * d + least;
}

/* Levels of five bits: four in half a byte, the fifth one of each in a row of 32 bits. */
static inline uint32_t graft_ggml_fifths(const uint8_t *high)
{
    return high[0] | high[1] << 8 | high[2] << 16 | (uint32_t)high[3] << 24;
}

static inline void graft_ggml_decode_q5_0(const uint8_t *b, float *restrict out)
{
    const float d = graft_ggml_half(b);
    const uint32_t fifth = graft_ggml_fifths(b + 2), later = fifth >> 16;
    const uint8_t *q = b + 6;
    for (int i = 0; i < 16; i++)
        out[i] = (float)(((q[i] & 15) | (int32_t)(fifth >> i & 1) << 4) - 16) * d;
    for (int i = 0; i < 16; i++)
        out[i + 16] = (float)((q[i] >> 4 | (int32_t)(later >> i & 1) << 4) - 16) * d;
}

static inline void graft_ggml_decode_q5_1(const uint8_t *b, float *restrict out)
{
    const float d = graft_ggml_half(b), least = graft_ggml_half(b + 2);
    const uint32_t fifth = graft_ggml_fifths(b + 4), later = fifth >> 16;
    const uint8_t *q = b + 8;
    for (int i = 0; i < 16; i++)
        out[i] = (float)((q[i] & 15) | (int32_t)(fifth >> i & 1) << 4) * d + least;
    for (int i = 0; i < 16; i++)
        out[i + 16] = (float)(q[i] >> 4 | (int32_t)(later >> i & 1) << 4) * d + least;
}

static inline void graft_ggml_decode_q8_0(const uint8_t *b, float *restrict out)
{
    const float d = graft_ggml_half(b);
    const int8_t *q = (const int8_t *)b + 2;
    for (int i = 0; i < GRAFT_GGML_SMALL; i++) out[i] = (float)q[i] * d;
}

/* The levels of types "IQ4": closer together where most values are. */
static const float graft_ggml_uneven[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                            1,    13,   25,  38,  53,  69,  89,  113};

/* 32 of them: the low halves of 16 bytes, then the high ones. */
static inline void graft_ggml_decode_uneven(const uint8_t *q, float d, float *restrict out)
{
    for (int i = 0; i < 16; i++) out[i] = d * graft_ggml_uneven[q[i] & 15];
    for (int i = 0; i < 16; i++) out[i + 16] = d * graft_ggml_uneven[q[i] >> 4];
}

static inline void graft_ggml_decode_iq4_nl(const uint8_t *b, float *restrict out)
{
    graft_ggml_decode_uneven(b + 2, graft_ggml_half(b), out);
}

/* ------------------------------------------------------------------ 256 values */

/* Groups of 16, four levels a byte: those 32 bytes apart share their bits' places. */
static inline void graft_ggml_decode_q2_k(const uint8_t *b, float *restrict out)
{
    const uint8_t *scale = b, *q = b + 16;
    const float d = graft_ggml_half(b + 80), least = graft_ggml_half(b + 82);
    for (int g = 0; g < 16; g++) {
        const uint8_t *at = q + g / 8 * 32 + g % 2 * 16;
        const int shift = g % 8 / 2 * 2;
        const float s = d * (float)(scale[g] & 15), from = least * (float)(scale[g] >> 4);
        for (int i = 0; i < 16; i++) out[g * 16 + i] = s * (float)(at[i] >> shift & 3) - from;
    }
}

/* The same with a third bit, which is there where nothing is to be taken off. */
static inline void graft_ggml_decode_q3_k(const uint8_t *b, float *restrict out)
{
    const uint8_t *high = b, *q = b + 32, *packed = b + 96;
    const float d = graft_ggml_half(b + 108);
    for (int g = 0; g < 16; g++) {
        const uint8_t *at = q + g / 8 * 32 + g % 2 * 16, *third = high + g % 2 * 16;
        const int shift = g % 8 / 2 * 2, bit = g / 2;
        const int scale = (packed[g % 8] >> g / 8 * 4 & 15) | (packed[8 + g % 4] >> g / 4 * 2 & 3)
                                                                  << 4;
        const float s = d * (float)(scale - 32);
        for (int i = 0; i < 16; i++)
            out[g * 16 + i] = s * (float)((at[i] >> shift & 3) - 4 + (third[i] >> bit & 1) * 4);
    }
}

/* The scales and least values of 8 groups of 32, six bits each in twelve bytes. */
static inline void graft_ggml_scales_of_8(const uint8_t *p, float d, float least, float *scale,
                                          float *from)
{
    for (int i = 0; i < 8; i++) {
        int s = i < 4 ? p[i] & 63 : (p[i + 4] & 15) | p[i - 4] >> 6 << 4;
        int m = i < 4 ? p[i + 4] & 63 : p[i + 4] >> 4 | p[i] >> 6 << 4;
        scale[i] = d * (float)s;
        from[i] = least * (float)m;
    }
}

static inline void graft_ggml_decode_q4_k(const uint8_t *b, float *restrict out)
{
    float scale[8], from[8];
    graft_ggml_scales_of_8(b + 4, graft_ggml_half(b), graft_ggml_half(b + 2), scale, from);
    for (int g = 0; g < 8; g += 2) {
        const uint8_t *q = b + 16 + g * 16;
        for (int i = 0; i < 32; i++) {
            out[g * 32 + i] = scale[g] * (float)(q[i] & 15) - from[g];
            out[g * 32 + i + 32] = scale[g + 1] * (float)(q[i] >> 4) - from[g + 1];
        }
    }
}

static inline void graft_ggml_decode_q5_k(const uint8_t *b, float *restrict out)
{
    const uint8_t *high = b + 16;
    float scale[8], from[8];
    graft_ggml_scales_of_8(b + 4, graft_ggml_half(b), graft_ggml_half(b + 2), scale, from);
    for (int g = 0; g < 8; g += 2) {
        const uint8_t *q = b + 48 + g * 16;
        for (int i = 0; i < 32; i++) {
            const int low = (q[i] & 15) | (high[i] >> g & 1) << 4;
            const int up = q[i] >> 4 | (high[i] >> (g + 1) & 1) << 4;
            out[g * 32 + i] = scale[g] * (float)low - from[g];
            out[g * 32 + i + 32] = scale[g + 1] * (float)up - from[g + 1];
        }
    }
}

/* Two halves of 128: four groups of 32, which share the 64 bytes of low bits two by two and each
 * byte of high bits. */
static inline void graft_ggml_decode_q6_k(const uint8_t *b, float *restrict out)
{
    const float d = graft_ggml_half(b + 208);
    for (int g = 0; g < 16; g++) {
        const int half = g / 8, part = g % 8 / 2, k = g % 2 * 16;
        const uint8_t *low = b + half * 64 + part % 2 * 32 + k, *high = b + 128 + half * 32 + k;
        const int shift = part / 2 * 4, bits = part * 2;
        const float s = d * (float)(int8_t)b[192 + g];
        for (int i = 0; i < 16; i++)
            out[g * 16 + i] =
                s * (float)(((low[i] >> shift & 15) | (high[i] >> bits & 3) << 4) - 32);
    }
}

static inline void graft_ggml_decode_iq4_xs(const uint8_t *b, float *restrict out)
{
    const float d = graft_ggml_half(b);
    const int high = b[2] | b[3] << 8;
    for (int g = 0; g < 8; g++) {
        const int s = (b[4 + g / 2] >> g % 2 * 4 & 15) | (high >> 2 * g & 3) << 4;
        graft_ggml_decode_uneven(b + 8 + g * 16, d * (float)(s - 32), out + g * 32);
    }
}

/* ------------------------------------------------------------------ types */

/* GRAFT_GGML_TYPE(ggml's number, name, function, values and bytes of a block): all that are read */
#define GRAFT_GGML_TYPES                                                                           \
    GRAFT_GGML_TYPE(2, "Q4_0", q4_0, 32, 18)                                                       \
    GRAFT_GGML_TYPE(3, "Q4_1", q4_1, 32, 20)                                                       \
    GRAFT_GGML_TYPE(6, "Q5_0", q5_0, 32, 22)                                                       \
    GRAFT_GGML_TYPE(7, "Q5_1", q5_1, 32, 24)                                                       \
    GRAFT_GGML_TYPE(8, "Q8_0", q8_0, 32, 34)                                                       \
    GRAFT_GGML_TYPE(10, "Q2_K", q2_k, 256, 84)                                                     \
    GRAFT_GGML_TYPE(11, "Q3_K", q3_k, 256, 110)                                                    \
    GRAFT_GGML_TYPE(12, "Q4_K", q4_k, 256, 144)                                                    \
    GRAFT_GGML_TYPE(13, "Q5_K", q5_k, 256, 176)                                                    \
    GRAFT_GGML_TYPE(14, "Q6_K", q6_k, 256, 210)                                                    \
    GRAFT_GGML_TYPE(20, "IQ4_NL", iq4_nl, 32, 18)                                                  \
    GRAFT_GGML_TYPE(23, "IQ4_XS", iq4_xs, 256, 136)

/* Values of a block; 0: no type of blocks, or one that is not read. */
static inline int64_t graft_ggml_values(int32_t type)
{
    switch (type) {
#define GRAFT_GGML_TYPE(number, name, function, values, bytes)                                     \
    case number:                                                                                   \
        return values;
        GRAFT_GGML_TYPES
#undef GRAFT_GGML_TYPE
    default:
        return 0;
    }
}

/* Bytes of n values, which are whole blocks of one of these types. */
static inline int64_t graft_ggml_bytes(int32_t type, int64_t n)
{
    switch (type) {
#define GRAFT_GGML_TYPE(number, name, function, values, bytes)                                     \
    case number:                                                                                   \
        return n / (values) * (bytes);
        GRAFT_GGML_TYPES
#undef GRAFT_GGML_TYPE
    default:
        return 0;
    }
}

/* ggml's name; "" for others. */
static inline const char *graft_ggml_name(int32_t type)
{
    switch (type) {
#define GRAFT_GGML_TYPE(number, name, function, values, bytes)                                     \
    case number:                                                                                   \
        return name;
        GRAFT_GGML_TYPES
#undef GRAFT_GGML_TYPE
    default:
        return "";
    }
}

/* So many blocks. */
static inline void graft_ggml_decode(int32_t type, const uint8_t *block, int64_t count, float *out)
{
    switch (type) {
#define GRAFT_GGML_TYPE(number, name, function, values, bytes)                                     \
    case number:                                                                                   \
        for (int64_t i = 0; i < count; i++)                                                        \
            graft_ggml_decode_##function(block + i * (bytes), out + i * (values));                 \
        break;
        GRAFT_GGML_TYPES
#undef GRAFT_GGML_TYPE
    default:
        break;
    }
}

/* Values first .. first + n of those that `blocks` hold; neither needs to be the edge of a block.
 */
static inline void graft_ggml_to_f32(int32_t type, const void *blocks, int64_t first, int64_t n,
                                     float *out)
{
    const int64_t each = graft_ggml_values(type), bytes = graft_ggml_bytes(type, each);
    const uint8_t *block = (const uint8_t *)blocks + first / each * bytes;
    float whole[GRAFT_GGML_LARGE];
    for (int64_t skip = first % each, m; n > 0; skip = 0, n -= m, out += m) {
        const int64_t count = skip ? 0 : n / each;
        m = count * each;
        if (count) {
            graft_ggml_decode(type, block, count, out);
            block += count * bytes;
            continue;
        }
        m = n < each - skip ? n : each - skip;
        graft_ggml_decode(type, block, 1, whole);
        memcpy(out, whole + skip, (size_t)m * sizeof *out);
        block += bytes;
    }
}

/* ------------------------------------------------------------------ packing */

/* n values, whole blocks, as Q8_0 like ggml's reference: a block's largest magnitude is 127 levels,
 * and the scale that is kept of that is float16; levels are rounded, halves away from zero, by the
 * scale before that. Of values that are no numbers, or too large for float16, the scale is none
 * either. */
static inline void graft_ggml_pack_q8_0(const float *x, int64_t n, uint8_t *out)
{
    for (int64_t at = 0; at < n; at += GRAFT_GGML_SMALL, out += GRAFT_GGML_Q8_0_SIZE) {
        float most = 0;
        for (int i = 0; i < GRAFT_GGML_SMALL; i++) {
            const float v = x[at + i] < 0 ? -x[at + i] : x[at + i];
            most = v <= most || most != most ? most : v; /* NaN stays */
        }
        const float d = most / 127.0f, inverse = d != 0 ? 1.0f / d : 0.0f;
        const uint16_t half = graft_f32_to_f16(d);
        out[0] = (uint8_t)half;
        out[1] = (uint8_t)(half >> 8);
        for (int i = 0; i < GRAFT_GGML_SMALL; i++) {
            float v = x[at + i] * inverse;
            v = v > -127.0f ? v : -127.0f; /* NaN, too */
            v = v < 127.0f ? v : 127.0f;
            const int32_t whole = (int32_t)v; /* towards zero; what is left is exact */
            const float left = v - (float)whole;
            out[2 + i] = (uint8_t)(int8_t)(whole + (left >= 0.5f) - (left <= -0.5f));
        }
    }
}
#endif
