/* Weights of LINEAR that stay as files pack them and become floats ahead of each product
 * (GRAFT_QUANT_BLOCKS, quant.h): ggml's blocks (ggml_blocks.h) by ggml's numbers, and floats of few
 * bits (float_blocks.h) by numbers above those that ggml has.
 *
 * In memory a weight (O,I) is its blocks, one behind the other in that order. Blocks of ggml may go
 * on into the next row. Those of floats do not, and behind all of them is a float32 for each of the
 * O rows, at any alignment: its scale. */
#ifndef GRAFT_KERNELS_BLOCKS_H
#define GRAFT_KERNELS_BLOCKS_H
#include "kernels/float_blocks.h"
#include "kernels/ggml_blocks.h"

#define GRAFT_BLOCKS_MOST 255 /* no type has a larger number */

/* GRAFT_FLOAT_TYPE(number, name, values and bytes of a block) */
#define GRAFT_FLOAT_TYPES                                                                          \
    GRAFT_FLOAT_TYPE(GRAFT_FLOAT_E4M3, "E4M3", 1, 1)                                               \
    GRAFT_FLOAT_TYPE(GRAFT_FLOAT_E5M2, "E5M2", 1, 1)                                               \
    GRAFT_FLOAT_TYPE(GRAFT_FLOAT_MXFP8, "MXFP8", GRAFT_FLOAT_MXFP8_BLOCK, 33)                      \
    GRAFT_FLOAT_TYPE(GRAFT_FLOAT_NVFP4, "NVFP4", GRAFT_FLOAT_NVFP4_BLOCK, 9)                       \
    GRAFT_FLOAT_TYPE(GRAFT_FLOAT_NF4, "NF4", GRAFT_FLOAT_CODES_BLOCK, GRAFT_FLOAT_CODES_SIZE)      \
    GRAFT_FLOAT_TYPE(GRAFT_FLOAT_FP4, "FP4", GRAFT_FLOAT_CODES_BLOCK, GRAFT_FLOAT_CODES_SIZE)

/* Whether rows have scales, and end where a block does. */
static inline int graft_blocks_scaled(int32_t type)
{
    return type >= GRAFT_FLOAT_E4M3 && type <= GRAFT_FLOAT_FP4;
}

/* Values of a block; 0: no type, or one that is not read. */
static inline int64_t graft_blocks_values(int32_t type)
{
    switch (type) {
#define GRAFT_FLOAT_TYPE(number, name, values, bytes)                                              \
    case number:                                                                                   \
        return values;
        GRAFT_FLOAT_TYPES
#undef GRAFT_FLOAT_TYPE
    default:
        return graft_ggml_values(type);
    }
}

/* "" for what is no type. */
static inline const char *graft_blocks_name(int32_t type)
{
    switch (type) {
#define GRAFT_FLOAT_TYPE(number, name, values, bytes)                                              \
    case number:                                                                                   \
        return name;
        GRAFT_FLOAT_TYPES
#undef GRAFT_FLOAT_TYPE
    default:
        return graft_ggml_name(type);
    }
}

/* Whether a weight (outputs, n) can be of such blocks. */
static inline int graft_blocks_fit(int32_t type, int64_t outputs, int64_t n)
{
    const int64_t values = graft_blocks_values(type);
    return values && (graft_blocks_scaled(type) ? n : outputs * n) % values == 0;
}

/* Of n values, without the scales of rows. */
static inline int64_t graft_blocks_level_bytes(int32_t type, int64_t n)
{
    switch (type) {
#define GRAFT_FLOAT_TYPE(number, name, values, bytes)                                              \
    case number:                                                                                   \
        return n / (values) * (bytes);
        GRAFT_FLOAT_TYPES
#undef GRAFT_FLOAT_TYPE
    default:
        return graft_ggml_bytes(type, n);
    }
}

/* All bytes of a weight (outputs, n), which fits. */
static inline int64_t graft_blocks_bytes(int32_t type, int64_t outputs, int64_t n)
{
    const int64_t scales = graft_blocks_scaled(type) ? outputs * (int64_t)sizeof(float) : 0;
    return graft_blocks_level_bytes(type, outputs * n) + scales;
}

/* A block of more than one value. */
static inline void graft_float_decode_block(int32_t type, const uint8_t *block, float scale,
                                            float *restrict out)
{
    if (type == GRAFT_FLOAT_MXFP8)
        graft_float_decode_mxfp8(block, scale, out);
    else if (type == GRAFT_FLOAT_NVFP4)
        graft_float_decode_nvfp4(block, scale, out);
    else if (type == GRAFT_FLOAT_NF4)
        graft_float_decode_nf4(block, scale, out);
    else
        graft_float_decode_fp4(block, scale, out);
}

/* The same from one of its values on. */
static inline void graft_float_decode_part(int32_t type, const uint8_t *block, float scale,
                                           int64_t skip, int64_t n, float *out)
{
    float whole[GRAFT_FLOAT_CODES_BLOCK];
    graft_float_decode_block(type, block, scale, whole);
    memcpy(out, whole + skip, (size_t)n * sizeof *out);
}

/* Values first .. first + n of one row, whose blocks begin at `row`. */
static inline void graft_float_to_f32(int32_t type, const uint8_t *row, float scale, int64_t first,
                                      int64_t n, float *out)
{
    if (type == GRAFT_FLOAT_E4M3) {
        graft_float_decode_e4m3(row + first, scale, out, n);
        return;
    }
    if (type == GRAFT_FLOAT_E5M2) {
        graft_float_decode_e5m2(row + first, scale, out, n);
        return;
    }
    const int64_t each = graft_blocks_values(type), bytes = graft_blocks_level_bytes(type, each);
    const uint8_t *block = row + first / each * bytes;
    for (int64_t skip = first % each, m; n > 0; skip = 0, n -= m, out += m, block += bytes) {
        m = n < each - skip ? n : each - skip;
        if (m < each)
            graft_float_decode_part(type, block, scale, skip, m, out);
        else
            graft_float_decode_block(type, block, scale, out);
    }
}

typedef struct graft_blocks_weight {
    int32_t type;
    const void *data;
    int64_t outputs, columns;
} graft_blocks_weight;
/* Values first .. first + n of a row. */
static inline void graft_blocks_to_f32(const graft_blocks_weight *w, int64_t row, int64_t first,
                                       int64_t n, float *out)
{
    const uint8_t *levels = (const uint8_t *)w->data;
    float scale;
    if (!graft_blocks_scaled(w->type)) {
        graft_ggml_to_f32(w->type, levels, row * w->columns + first, n, out);
        return;
    }
    const int64_t scales = graft_blocks_level_bytes(w->type, w->outputs * w->columns);
    memcpy(&scale, levels + scales + row * (int64_t)sizeof scale, sizeof scale);
    graft_float_to_f32(w->type, levels + graft_blocks_level_bytes(w->type, row * w->columns), scale,
                       first, n, out);
}
#endif
