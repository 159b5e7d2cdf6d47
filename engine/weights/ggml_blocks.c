#include "engine/weights/ggml_blocks.h"

#include <string.h>

#include "base/half.h"

static float half_at(const uint8_t *p)
{
    return graft_f16_to_f32((uint16_t)(p[0] | p[1] << 8));
}

/* ------------------------------------------------------------------ 32 values */

enum { SMALL = 32 };

static void decode_q4_0(const uint8_t *b, float *out)
{
    const float d = half_at(b);
    const uint8_t *q = b + 2;
    for (int i = 0; i < SMALL / 2; i++) {
        out[i] = (float)((q[i] & 15) - 8) * d;
        out[i + SMALL / 2] = (float)((q[i] >> 4) - 8) * d;
    }
}

static void decode_q4_1(const uint8_t *b, float *out)
{
    const float d = half_at(b), least = half_at(b + 2);
    const uint8_t *q = b + 4;
    for (int i = 0; i < SMALL / 2; i++) {
        out[i] = (float)(q[i] & 15) * d + least;
        out[i + SMALL / 2] = (float)(q[i] >> 4) * d + least;
    }
}

/* Levels of five bits: four in `low`, the fifth one of each in a row of 32 bits. */
static void levels_of_5(const uint8_t *high, const uint8_t *low, int *out)
{
    const uint32_t fifth = high[0] | high[1] << 8 | high[2] << 16 | (uint32_t)high[3] << 24;
    for (int i = 0; i < SMALL / 2; i++) {
        out[i] = (low[i] & 15) | (int)(fifth >> i & 1) << 4;
        out[i + SMALL / 2] = low[i] >> 4 | (int)(fifth >> (i + SMALL / 2) & 1) << 4;
    }
}

static void decode_q5_0(const uint8_t *b, float *out)
{
    const float d = half_at(b);
    int level[SMALL];
    levels_of_5(b + 2, b + 6, level);
    for (int i = 0; i < SMALL; i++) out[i] = (float)(level[i] - 16) * d;
}

static void decode_q5_1(const uint8_t *b, float *out)
{
    const float d = half_at(b), least = half_at(b + 2);
    int level[SMALL];
    levels_of_5(b + 4, b + 8, level);
    for (int i = 0; i < SMALL; i++) out[i] = (float)level[i] * d + least;
}

static void decode_q8_0(const uint8_t *b, float *out)
{
    const float d = half_at(b);
    for (int i = 0; i < SMALL; i++) out[i] = (float)(int8_t)b[2 + i] * d;
}

/* The levels of types "IQ4": closer together where most values are. */
static const int8_t uneven[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                  1,    13,   25,  38,  53,  69,  89,  113};

static void decode_iq4_nl(const uint8_t *b, float *out)
{
    const float d = half_at(b);
    const uint8_t *q = b + 2;
    for (int i = 0; i < SMALL / 2; i++) {
        out[i] = d * uneven[q[i] & 15];
        out[i + SMALL / 2] = d * uneven[q[i] >> 4];
    }
}

/* ------------------------------------------------------------------ 256 values */

enum { LARGE = 256 };

/* Groups of 16, four levels a byte: those 32 bytes apart share their bits' places. */
static void decode_q2_k(const uint8_t *b, float *out)
{
    const uint8_t *scale = b, *q = b + 16;
    const float d = half_at(b + 80), least = half_at(b + 82);
    for (int g = 0; g < LARGE / 16; g++) {
        const uint8_t *at = q + g / 8 * 32 + g % 2 * 16;
        const int shift = g % 8 / 2 * 2;
        const float s = d * (float)(scale[g] & 15), from = least * (float)(scale[g] >> 4);
        for (int i = 0; i < 16; i++) out[g * 16 + i] = s * (float)(at[i] >> shift & 3) - from;
    }
}

/* The same with a third bit, which is there where nothing is to be taken off. */
static void decode_q3_k(const uint8_t *b, float *out)
{
    const uint8_t *high = b, *q = b + 32, *packed = b + 96;
    const float d = half_at(b + 108);
    int scale[LARGE / 16];
    for (int i = 0; i < LARGE / 16; i++)
        scale[i] = (packed[i % 8] >> i / 8 * 4 & 15) | (packed[8 + i % 4] >> i / 4 * 2 & 3) << 4;
    for (int g = 0; g < LARGE / 16; g++) {
        const uint8_t *at = q + g / 8 * 32 + g % 2 * 16, *third = high + g % 2 * 16;
        const int shift = g % 8 / 2 * 2, bit = g / 2;
        const float s = d * (float)(scale[g] - 32);
        for (int i = 0; i < 16; i++)
            out[g * 16 + i] = s * (float)((at[i] >> shift & 3) - 4 + (third[i] >> bit & 1) * 4);
    }
}

/* The scales and least values of 8 groups of 32, six bits each in twelve bytes. */
static void scales_of_8(const uint8_t *p, float d, float least, float *scale, float *from)
{
    for (int i = 0; i < 8; i++) {
        int s = i < 4 ? p[i] & 63 : (p[i + 4] & 15) | p[i - 4] >> 6 << 4;
        int m = i < 4 ? p[i + 4] & 63 : p[i + 4] >> 4 | p[i] >> 6 << 4;
        scale[i] = d * (float)s;
        from[i] = least * (float)m;
    }
}

static void decode_q4_k(const uint8_t *b, float *out)
{
    const uint8_t *q = b + 16;
    float scale[8], from[8];
    scales_of_8(b + 4, half_at(b), half_at(b + 2), scale, from);
    for (int g = 0; g < 8; g++)
        for (int i = 0; i < 32; i++) {
            int level = q[g / 2 * 32 + i] >> g % 2 * 4 & 15;
            out[g * 32 + i] = scale[g] * (float)level - from[g];
        }
}

static void decode_q5_k(const uint8_t *b, float *out)
{
    const uint8_t *high = b + 16, *q = b + 48;
    float scale[8], from[8];
    scales_of_8(b + 4, half_at(b), half_at(b + 2), scale, from);
    for (int g = 0; g < 8; g++)
        for (int i = 0; i < 32; i++) {
            int level = (q[g / 2 * 32 + i] >> g % 2 * 4 & 15) | (high[i] >> g & 1) << 4;
            out[g * 32 + i] = scale[g] * (float)level - from[g];
        }
}

/* Two halves of 128: four groups of 32, which share the 64 bytes of low bits two by two and each
 * byte of high bits. */
static void decode_q6_k(const uint8_t *b, float *out)
{
    const float d = half_at(b + 208);
    for (int g = 0; g < LARGE / 16; g++) {
        const int half = g / 8, part = g % 8 / 2, k = g % 2 * 16;
        const uint8_t *low = b + half * 64 + part % 2 * 32 + k, *high = b + 128 + half * 32 + k;
        const int shift = part / 2 * 4, bits = part * 2;
        const float s = d * (float)(int8_t)b[192 + g];
        for (int i = 0; i < 16; i++)
            out[g * 16 + i] =
                s * (float)(((low[i] >> shift & 15) | (high[i] >> bits & 3) << 4) - 32);
    }
}

static void decode_iq4_xs(const uint8_t *b, float *out)
{
    const uint8_t *q = b + 8;
    const float d = half_at(b);
    const int high = b[2] | b[3] << 8;
    for (int g = 0; g < 8; g++) {
        int s = (b[4 + g / 2] >> g % 2 * 4 & 15) | (high >> 2 * g & 3) << 4;
        const float scale = d * (float)(s - 32);
        for (int i = 0; i < 16; i++) {
            out[g * 32 + i] = scale * uneven[q[g * 16 + i] & 15];
            out[g * 32 + i + 16] = scale * uneven[q[g * 16 + i] >> 4];
        }
    }
}

/* ------------------------------------------------------------------ types */

static const graft_ggml_blocks types[] = {
    {2, "Q4_0", SMALL, 18, decode_q4_0},      {3, "Q4_1", SMALL, 20, decode_q4_1},
    {6, "Q5_0", SMALL, 22, decode_q5_0},      {7, "Q5_1", SMALL, 24, decode_q5_1},
    {8, "Q8_0", SMALL, 34, decode_q8_0},      {10, "Q2_K", LARGE, 84, decode_q2_k},
    {11, "Q3_K", LARGE, 110, decode_q3_k},    {12, "Q4_K", LARGE, 144, decode_q4_k},
    {13, "Q5_K", LARGE, 176, decode_q5_k},    {14, "Q6_K", LARGE, 210, decode_q6_k},
    {20, "IQ4_NL", SMALL, 18, decode_iq4_nl}, {23, "IQ4_XS", LARGE, 136, decode_iq4_xs},
};
#define N_TYPES (sizeof types / sizeof *types)

const graft_ggml_blocks *graft_ggml_blocks_find(uint32_t id)
{
    for (size_t i = 0; i < N_TYPES; i++)
        if (types[i].id == id) return &types[i];
    return NULL;
}

const char *graft_ggml_type_name(uint32_t id)
{
    static const char *const name[] = {
        "F32",     "F16",    "Q4_0",    "Q4_1",  NULL,     NULL,    "Q5_0",  "Q5_1",
        "Q8_0",    "Q8_1",   "Q2_K",    "Q3_K",  "Q4_K",   "Q5_K",  "Q6_K",  "Q8_K",
        "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS",
        "I8",      "I16",    "I32",     "I64",   "F64",    "IQ1_M", "BF16",  NULL,
        NULL,      NULL,     "TQ1_0",   "TQ2_0", NULL,     NULL,    NULL,    "MXFP4",
    };
    return id < sizeof name / sizeof *name ? name[id] : NULL;
}

void graft_ggml_blocks_to_f32(const graft_ggml_blocks *type, const void *data, int64_t first,
                              int64_t n, float *out)
{
    const int64_t each = type->values;
    const uint8_t *block = (const uint8_t *)data + first / each * type->bytes;
    float whole[GRAFT_GGML_MAX_BLOCK];
    for (int64_t skip = first % each, m; n > 0; skip = 0, n -= m, out += m, block += type->bytes) {
        m = n < each - skip ? n : each - skip;
        if (m == each) {
            type->decode(block, out);
            continue;
        }
        type->decode(block, whole);
        memcpy(out, whole + skip, (size_t)m * sizeof *out);
    }
}
