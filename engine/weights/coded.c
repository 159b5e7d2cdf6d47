#include "engine/weights/coded.h"

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "engine/weights/values.h"
#include "kernels/hadamard.h"
#include "kernels/quant.h"

enum { MX_BLOCK = 32, NV_BLOCK = 16, TILE_ROWS = 128, TILE_BLOCKS = 4 };

/* ------------------------------------------------------------------ scales */

static float row_scale(const graft_coded *c, int64_t row)
{
    float v;
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

/* ------------------------------------------------------------------ values */

static int8_t level_of_4(const uint8_t *data, int64_t i)
{
    int v = data[i / 2] >> 4 * (i % 2) & 15;
    return (int8_t)(v < 8 ? v : v - 16);
}

static void e5m2_values(const uint8_t *x, float scale, float *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++) out[i] = graft_f8_e5m2_to_f32(x[i]) * scale;
}

static void e2m1_values(const uint8_t *data, int64_t first, float scale, float *out, int64_t n)
{
    static const float value[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                    -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
    for (int64_t i = first; i < first + n; i++)
        *out++ = value[data[i / 2] >> 4 * (1 - i % 2) & 15] * scale;
}

/* n values of one row from `column` on, in blocks of `size`. */
static void block_values(const graft_coded *c, const uint8_t *data, int64_t row, int64_t column,
                         int64_t n, float *out)
{
    const bool nv = c->form == GRAFT_CODED_NVFP4;
    const int64_t size = nv ? NV_BLOCK : MX_BLOCK, blocks = c->columns / size;
    for (int64_t end = column + n, count; column < end; column += count, out += count) {
        uint8_t scale = block_scale(c, row, column / size, blocks);
        int64_t first = row * c->columns + column;
        count = size - column % size < end - column ? size - column % size : end - column;
        if (nv)
            e2m1_values(data, first, graft_f8_e4m3_to_f32(scale) * c->whole, out, count);
        else
            graft_quant8_values(GRAFT_QUANT_FP8, data + first,
                                scale < 255 ? ldexpf(1.0f, scale - 127) : NAN, out, count);
    }
}

/* The same as they lie: rows that are turned stay so. */
static void stored_values(const graft_coded *c, const uint8_t *data, int64_t row, int64_t column,
                          int64_t n, float *out)
{
    const int64_t first = row * c->columns + column;
    const float scale = c->scales ? row_scale(c, row) : 0;
    switch (c->form) {
    case GRAFT_CODED_INT8:
        graft_quant8_values(GRAFT_QUANT_INT8, data + first, scale, out, n);
        break;
    case GRAFT_CODED_INT4:
        for (int64_t i = 0; i < n; i++) out[i] = (float)level_of_4(data, first + i) * scale;
        break;
    case GRAFT_CODED_FP8:
        if (c->dtype == GRAFT_F8_E5M2)
            e5m2_values(data + first, scale, out, n);
        else
            graft_quant8_values(GRAFT_QUANT_FP8, data + first, scale, out, n);
        break;
    case GRAFT_CODED_MXFP8:
    case GRAFT_CODED_NVFP4:
        block_values(c, data, row, column, n, out);
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
    for (int64_t r = 0; r < c->rows; r++) scale[r] = row_scale(c, r);
}

graft_hash graft_coded_mix(graft_hash h, const graft_coded *c, bool few)
{
    enum { FEW = 256 };
    const int64_t of[] = {c->form, c->dtype, c->scale_dtype, c->scales, c->hadamard};
    const size_t n = few && c->scale_bytes > FEW ? FEW : (size_t)c->scale_bytes;
    const graft_hash scales = graft_hash128(c->scale, n);
    h = graft_hash_mix(h, of, sizeof of);
    h = graft_hash_mix(h, &c->whole, sizeof c->whole);
    return graft_hash_mix(h, &scales, sizeof scales);
}
