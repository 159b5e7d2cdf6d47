#include "engine/weights/coded.h"

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "engine/weights/values.h"
#include "kernels/hadamard.h"
#include "kernels/quant.h"

enum { TILE_ROWS = 128, TILE_BLOCKS = 4 };

/* ------------------------------------------------------------------ scales */

float graft_coded_row_scale(const graft_coded *c, int64_t row)
{
    float v;
    if (!c->scales || c->block) return c->whole;
    int64_t at = c->scales == 1 ? 0 : row;
    graft_to_f32(c->scale_dtype,
                 (const uint8_t *)c->scale + at * (int64_t)graft_dtype_size(c->scale_dtype), &v, 1);
    return v;
}

/* The byte that is the scale of a row's block, of which a row has `blocks`. */
static uint8_t block_scale(const graft_coded *c, int64_t row, int64_t block, int64_t blocks)
{
    int64_t tiles = (blocks + TILE_BLOCKS - 1) / TILE_BLOCKS, r = row % TILE_ROWS;
    int64_t tile = row / TILE_ROWS * tiles + block / TILE_BLOCKS;
    int64_t at = r % 32 * 16 + r / 32 * 4 + block % TILE_BLOCKS;
    return ((const uint8_t *)c->scale)[tile * TILE_ROWS * TILE_BLOCKS + at];
}

static float float_at(const void *array, int64_t i)
{
    float v;
    memcpy(&v, (const uint8_t *)array + i * (int64_t)sizeof v, sizeof v);
    return v;
}

/* Of a block of NF4 or FP4. */
static float codes_scale(const graft_coded *c, int64_t i)
{
    float v;
    const uint8_t *at = (const uint8_t *)c->scale + i * (int64_t)graft_dtype_size(c->scale_dtype);
    if (c->nested)
        return float_at(c->map, *at) * float_at(c->nested, i / c->nested_block) + c->offset;
    graft_to_f32(c->scale_dtype, at, &v, 1);
    return v;
}

void graft_coded_scales(const graft_coded *c, float *out)
{
    for (int64_t i = 0; i < c->scales; i++) out[i] = codes_scale(c, i);
}

bool graft_coded_non_finite(const graft_coded *c)
{
    bool any = false;
    for (int64_t i = 0; c->block && i < c->scales; i++) any |= !isfinite(codes_scale(c, i));
    return any;
}

/* ------------------------------------------------------------------ values */

static int8_t level_of_4(const uint8_t *data, int64_t i)
{
    int v = data[i / 2] >> 4 * (i % 2) & 15;
    return (int8_t)(v < 8 ? v : v - 16);
}

/* Of MXFP8 and NVFP4: a block's values, and the bytes of them. */
static int64_t values_of_block(const graft_coded *c)
{
    return c->form == GRAFT_CODED_NVFP4 ? GRAFT_FLOAT_NVFP4_BLOCK : GRAFT_FLOAT_MXFP8_BLOCK;
}

static int64_t bytes_of_block(const graft_coded *c)
{
    return c->form == GRAFT_CODED_NVFP4 ? GRAFT_FLOAT_NVFP4_BLOCK / 2 : GRAFT_FLOAT_MXFP8_BLOCK;
}

static bool has_blocks(const graft_coded *c)
{
    return c->form == GRAFT_CODED_NVFP4 || c->form == GRAFT_CODED_MXFP8;
}

/* One block of a row as kernels/blocks.h has it. */
static void put_block(const graft_coded *c, const uint8_t *data, int64_t row, int64_t block,
                      uint8_t *out)
{
    const int64_t blocks = c->columns / values_of_block(c), bytes = bytes_of_block(c);
    out[0] = block_scale(c, row, block, blocks);
    memcpy(out + 1, data + (row * blocks + block) * bytes, (size_t)bytes);
}

/* n values of one row from `column` on. */
static void block_values(const graft_coded *c, const uint8_t *data, int64_t row, int64_t column,
                         int64_t n, float *out)
{
    const int64_t size = values_of_block(c);
    uint8_t block[1 + GRAFT_FLOAT_MXFP8_BLOCK];
    float value[GRAFT_FLOAT_MXFP8_BLOCK];
    for (int64_t end = column + n, count; column < end; column += count, out += count) {
        const int64_t skip = column % size;
        count = size - skip < end - column ? size - skip : end - column;
        put_block(c, data, row, column / size, block);
        if (c->form == GRAFT_CODED_NVFP4)
            graft_float_decode_nvfp4(block, c->whole, value);
        else
            graft_float_decode_mxfp8(block, c->whole, value);
        memcpy(out, value + skip, (size_t)count * sizeof *out);
    }
}

/* What the codes of NF4 or FP4 are worth. */
static const float *worth_of(const graft_coded *c)
{
    return c->form == GRAFT_CODED_NF4 ? graft_float_nf4 : graft_float_fp4;
}

/* n values of NF4 or FP4 from one on, which may be in any row. */
static void codes_values(const graft_coded *c, const uint8_t *data, int64_t first, int64_t n,
                         float *out)
{
    const float *worth = worth_of(c);
    for (int64_t end = first + n, stop; first < end;) {
        const int64_t block = first / c->block;
        const float scale = codes_scale(c, block);
        stop = (block + 1) * c->block < end ? (block + 1) * c->block : end;
        for (; first < stop; first++)
            *out++ = worth[data[first / 2] >> (first % 2 ? 0 : 4) & 15] * scale;
    }
}

/* All of them as kernels/blocks.h has them; rows are whole blocks of 64 values. */
static void put_codes(const graft_coded *c, const uint8_t *data, uint8_t *out)
{
    enum { BYTES = GRAFT_FLOAT_CODES_BLOCK / 2 };
    const int64_t n = c->rows * c->columns / GRAFT_FLOAT_CODES_BLOCK;
    for (int64_t i = 0; i < n; i++, out += GRAFT_FLOAT_CODES_SIZE) {
        const float scale = codes_scale(c, i * GRAFT_FLOAT_CODES_BLOCK / c->block);
        memcpy(out, &scale, sizeof scale);
        memcpy(out + sizeof scale, data + i * BYTES, BYTES);
    }
}

/* The same as they lie: rows that are turned stay so. */
static void stored_values(const graft_coded *c, const uint8_t *data, int64_t row, int64_t column,
                          int64_t n, float *out)
{
    const int64_t first = row * c->columns + column;
    const float scale = graft_coded_row_scale(c, row);
    switch (c->form) {
    case GRAFT_CODED_INT8:
        graft_quant8_values(GRAFT_QUANT_INT8, data + first, scale, out, n);
        break;
    case GRAFT_CODED_INT4:
        for (int64_t i = 0; i < n; i++) out[i] = (float)level_of_4(data, first + i) * scale;
        break;
    case GRAFT_CODED_FP8:
        if (c->dtype == GRAFT_F8_E5M2)
            graft_float_decode_e5m2(data + first, scale, out, n);
        else
            graft_float_decode_e4m3(data + first, scale, out, n);
        break;
    case GRAFT_CODED_MXFP8:
    case GRAFT_CODED_NVFP4:
        block_values(c, data, row, column, n, out);
        break;
    case GRAFT_CODED_NF4:
    case GRAFT_CODED_FP4:
        codes_values(c, data, first, n, out);
        break;
    }
}

/* n values of one row, turned back. */
static void row_values(const graft_coded *c, const uint8_t *data, int64_t row, int64_t column,
                       int64_t n, float *out)
{
    float part[GRAFT_HADAMARD_MOST];
    const int64_t group = c->hadamard;
    if (!group) {
        stored_values(c, data, row, column, n, out);
        return;
    }
    for (int64_t end = column + n, count; column < end; column += count, out += count) {
        int64_t skip = column % group;
        count = group - skip < end - column ? group - skip : end - column;
        stored_values(c, data, row, column - skip, group, part);
        graft_hadamard(part, group, group);
        memcpy(out, part + skip, (size_t)count * sizeof *out);
    }
}

void graft_coded_to_f32(const graft_coded *c, const void *data, int64_t first, int64_t n,
                        float *out)
{
    for (int64_t end = first + n, count; first < end; first += count, out += count) {
        int64_t column = first % c->columns;
        count = c->columns - column < end - first ? c->columns - column : end - first;
        row_values(c, data, first / c->columns, column, count, out);
    }
}

bool graft_coded_has_levels(const graft_coded *c, int32_t hadamard)
{
    return (c->form == GRAFT_CODED_INT8 || c->form == GRAFT_CODED_INT4) && c->hadamard == hadamard;
}

void graft_coded_levels(const graft_coded *c, const void *data, int8_t *level, float *scale)
{
    const int64_t all = c->rows * c->columns;
    if (c->form == GRAFT_CODED_INT8)
        memcpy(level, data, (size_t)all);
    else
        for (int64_t i = 0; i < all; i++) level[i] = level_of_4(data, i);
    for (int64_t r = 0; r < c->rows; r++) scale[r] = graft_coded_row_scale(c, r);
}

bool graft_coded_has_blocks(const graft_coded *c)
{
    if (c->block)
        return c->columns % GRAFT_FLOAT_CODES_BLOCK == 0 && c->block % GRAFT_FLOAT_CODES_BLOCK == 0;
    return c->form != GRAFT_CODED_INT8 && c->form != GRAFT_CODED_INT4;
}

void graft_coded_blocks(const graft_coded *c, const void *data, uint8_t *blocks)
{
    if (c->block) {
        put_codes(c, data, blocks);
        return;
    }
    if (!has_blocks(c)) {
        memcpy(blocks, data, (size_t)(c->rows * c->columns));
        return;
    }
    const int64_t each = bytes_of_block(c) + 1;
    for (int64_t row = 0; row < c->rows; row++)
        for (int64_t b = 0; b < c->columns / values_of_block(c); b++, blocks += each)
            put_block(c, data, row, b, blocks);
}

/* What NF4 and FP4 have besides. */
static graft_hash mix_codes(graft_hash h, const graft_coded *c)
{
    const int64_t of[] = {c->block, c->nested ? c->nested_block : 0};
    h = graft_hash_mix(h, of, sizeof of);
    if (!c->nested) return h;
    const graft_hash nested = graft_hash128(c->nested, (size_t)c->nested_scales * sizeof(float));
    const graft_hash map = graft_hash128(c->map, GRAFT_CODED_MAP * sizeof(float));
    h = graft_hash_mix(h, &c->offset, sizeof c->offset);
    h = graft_hash_mix(h, &nested, sizeof nested);
    return graft_hash_mix(h, &map, sizeof map);
}

graft_hash graft_coded_mix(graft_hash h, const graft_coded *c, bool few)
{
    enum { FEW = 256 };
    const int64_t of[] = {c->form, c->dtype, c->scale_dtype, c->scales, c->hadamard};
    const size_t n = few && c->scale_bytes > FEW ? FEW : (size_t)c->scale_bytes;
    const graft_hash scales = graft_hash128(c->scale, n);
    h = graft_hash_mix(h, of, sizeof of);
    h = graft_hash_mix(h, &c->whole, sizeof c->whole);
    if (c->block) h = mix_codes(h, c);
    return graft_hash_mix(h, &scales, sizeof scales);
}
