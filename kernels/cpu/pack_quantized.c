/* Quantized weights in the blocked layouts that oneDNN chose: levels of 8 bits when a weight is
 * packed, floats out of 4, 8 or 16 bits, or of blocks, ahead of a launch. Offsets are as in
 * pack_weights.c, a table for each dimension. */
#include <stdbool.h>
#include <string.h>

#include "base/half.h"
#include "kernels/cpu/dequantized.h"
#include "kernels/quant.h"

/* Outputs are handled sixteen at a time: that is how oneDNN's layouts run, so that what is written
 * lies together, and a tile of sources stays in the second-level cache. */
#define TILE_OUTPUTS 16
#define TILE_VALUES  2048               /* of one output */
#define TILE_STRIDE  (TILE_VALUES + 16) /* rows that do not fall on the same cache sets */

typedef struct job {
    const dnnl_memory_desc_t *md;
    const int8_t *level; /* of int8: the source */
    void *dst;
    int64_t outputs, inputs, taps; /* O, I, kh * kw */
    const int64_t *at_o, *at_i, *at_t;
    float *tile;         /* per thread TILE_OUTPUTS rows */
    int64_t columns;     /* inputs in a tile */
    int64_t stride;      /* of a row of the tile */
    const int64_t *quad; /* of int8: where four inputs of a tap lie, see in_quads(); or NULL */
    const graft_cpu_simd *simd;
    int32_t *sum;               /* of int8: of each output's values; or NULL */
    graft_cpu_expand_rows rows; /* of floats: the source */
} job;

/* Places `count` outputs from o on of the tile's inputs i0 … i0 + columns. T is the element. */
#define DEFINE_PLACE(name, T)                                                                      \
    static void name(const job *j, const T *tile, int64_t o, int64_t count, int64_t i0,            \
                     int64_t columns)                                                              \
    {                                                                                              \
        T *to = (T *)j->dst + j->md->offset0;                                                      \
        int64_t step = count > 1 ? j->at_o[o + 1] - j->at_o[o] : 1;                                \
        bool even = count == TILE_OUTPUTS;                                                         \
        for (int64_t k = 1; k < count; k++)                                                        \
            even = even && j->at_o[o + k] - j->at_o[o] == k * step;                                \
        for (int64_t i = 0; i < columns; i++)                                                      \
            for (int64_t t = 0; t < j->taps; t++) {                                                \
                T *at = to + j->at_i[i0 + i] + j->at_t[t];                                         \
                const T *from = tile + i * j->taps + t;                                            \
                if (even)                                                                          \
                    for (int64_t k = 0; k < TILE_OUTPUTS; k++)                                     \
                        at[j->at_o[o] + k * step] = from[k * j->stride];                           \
                else                                                                               \
                    for (int64_t k = 0; k < count; k++) at[j->at_o[o + k]] = from[k * j->stride];  \
            }                                                                                      \
    }
DEFINE_PLACE(place_f32, float)
DEFINE_PLACE(place_bf16, uint16_t)
DEFINE_PLACE(place_s8, int8_t)

/* n values of output o from `first` on, which begins a group of 4 bits; the row takes whole groups
 * of those. */
static void read_row(const job *j, int64_t o, int64_t first, float *row, int64_t n)
{
    const graft_cpu_expand_rows *r = &j->rows;
    int64_t g = o < r->count ? r->first + o : r->second + o - r->count;
    if (r->quant == GRAFT_QUANT_NONE) {
        const uint16_t *value = (const uint16_t *)r->level + g * j->inputs * j->taps + first;
        graft_bf16_to_f32_array(value, row, (size_t)n);
        return;
    }
    if (graft_quant_is_8(r->quant)) {
        const uint8_t *level = (const uint8_t *)r->level + g * j->inputs * j->taps + first;
        graft_quant8_values(r->quant, level, r->scale[g], row, n);
        return;
    }
    const uint8_t *packed = r->level;
    const int32_t type = graft_quant_blocks(r->quant);
    if (type) {
        const graft_blocks_weight w = {type, packed, r->outputs, j->inputs};
        j->simd->blocks(&w, g, first, n, row);
        for (int64_t i = 0; i < n && r->narrow; i++)
            row[i] = graft_bf16_to_f32(graft_f32_to_bf16(row[i]));
        return;
    }
    g = g * graft_quant4_groups(j->inputs * j->taps) + first / GRAFT_QUANT_GROUP;
    for (int64_t i = 0; i < n; i += GRAFT_QUANT_GROUP, g++)
        graft_quant4_unpack(packed + g * GRAFT_QUANT_GROUP_BYTES, r->scale[g], row + i);
}

static void pack_tile(const job *j, float *tile, int64_t o, int64_t count, int64_t i0)
{
    int64_t columns = j->inputs - i0 < j->columns ? j->inputs - i0 : j->columns;
    int64_t n = columns * j->taps;
    uint16_t *narrow = (uint16_t *)(void *)(tile + TILE_OUTPUTS * j->stride);
    for (int64_t k = 0; k < count; k++) {
        float *row = tile + k * j->stride;
        read_row(j, o + k, i0 * j->taps, row, n);
        if (j->md->data_type != dnnl_f32)
            graft_f32_to_bf16_array(row, narrow + k * j->stride, (size_t)n);
    }
    if (j->md->data_type == dnnl_f32)
        place_f32(j, tile, o, count, i0, columns);
    else
        place_bf16(j, narrow, o, count, i0, columns);
}

/* Floats of one thread's tile: the rows, and behind them the same rows in bf16. */
static int64_t tile_floats(const job *j)
{
    return TILE_OUTPUTS * j->stride * 3 / 2;
}

static void pack_part(void *p, int part, int parts)
{
    const job *j = p;
    float *tile = j->tile + tile_floats(j) * part;
    /* Whole blocks of 64 outputs, so that no two threads write to one cache line. */
    int64_t blocks = (j->outputs + 63) / 64, end = blocks * (part + 1) / parts * 64;
    if (end > j->outputs) end = j->outputs;
    for (int64_t o = blocks * part / parts * 64; o < end; o += TILE_OUTPUTS) {
        int64_t count = end - o < TILE_OUTPUTS ? end - o : TILE_OUTPUTS;
        for (int64_t i = 0; i < j->inputs; i += j->columns) pack_tile(j, tile, o, count, i);
    }
}

/* Fills the job's shape and tables; *extra: `bytes` more behind them. NULL when memory is short,
 * else what is to be freed. */
static void *begin(job *j, graft_device *d, int output_dim, size_t bytes, void **extra)
{
    const dnnl_memory_desc_t *md = j->md;
    int64_t height = 1, width = 1;
    j->outputs = md->dims[output_dim];
    j->inputs = md->dims[1 - output_dim];
    if (md->ndims == 4) {
        height = md->dims[2];
        width = md->dims[3];
    }
    j->taps = height * width;
    size_t tables = (size_t)(j->outputs + j->inputs + j->taps + height + width) * sizeof(int64_t);
    int64_t *table = graft_cpu_calloc(d, tables + bytes);
    if (!table) return NULL;
    int64_t *at_o = table, *at_i = at_o + j->outputs, *at_t = at_i + j->inputs;
    int64_t *at_y = at_t + j->taps, *at_x = at_y + height;
    graft_cpu_layout_offsets(md, output_dim, 0, j->outputs, 1, at_o);
    graft_cpu_layout_offsets(md, 1 - output_dim, 0, j->inputs, 1, at_i);
    if (md->ndims == 4) {
        graft_cpu_layout_offsets(md, 2, 0, height, 1, at_y);
        graft_cpu_layout_offsets(md, 3, 0, width, 1, at_x);
    }
    for (int64_t t = 0; t < j->taps; t++) at_t[t] = at_y[t / width] + at_x[t % width];
    j->at_o = at_o;
    j->at_i = at_i;
    j->at_t = at_t;
    *extra = at_x + width;
    return table;
}

static void clear_padding(const job *j)
{
    for (int i = 0; i < j->md->ndims; i++) {
        if (j->md->padded_dims[i] == j->md->dims[i]) continue;
        memset(j->dst, 0, dnnl_memory_desc_get_size(j->md));
        return;
    }
}

/* ------------------------------------------------------------------ int8 */

#define QUAD_TILE 2048 /* bytes of an output that are placed at a time */

/* Whether four inputs of each of sixteen outputs lie as a line of 64 bytes, as VNNI wants it. */
static bool in_quads(const job *j)
{
    bool quads = j->inputs % 4 == 0 && j->outputs % TILE_OUTPUTS == 0 && j->taps <= 64 &&
                 (uintptr_t)j->dst % 64 == 0;
    for (int64_t i = 0; i < j->inputs && quads; i++)
        quads = j->at_i[i / 4 * 4] % 64 == 0 && j->at_i[i] - j->at_i[i / 4 * 4] == i % 4;
    for (int64_t o = 0; o < j->outputs && quads; o++) {
        int64_t first = j->at_o[o / TILE_OUTPUTS * TILE_OUTPUTS];
        quads = first % 64 == 0 && j->at_o[o] - first == 4 * (o % TILE_OUTPUTS);
    }
    for (int64_t t = 0; t < j->taps && quads; t++) quads = j->at_t[t] % 64 == 0;
    return quads;
}

/* place_s8() for sixteen outputs from o on of such a layout. */
static void place_quads(const job *j, const int8_t *level, int64_t o)
{
    uint32_t tile[TILE_OUTPUTS][QUAD_TILE / 4 + 16];
    int64_t taps = j->taps, quads = j->inputs / 4, most = QUAD_TILE / 4 / taps / 16 * 16;
    if (most == 0) most = QUAD_TILE / 4 / taps;
    int8_t *to = (int8_t *)j->dst + j->at_o[o];
    if (taps == 1) {
        j->simd->lines(level, (size_t)j->stride, TILE_OUTPUTS, false, (size_t)quads, j->quad, to);
        return;
    }
    for (int64_t q = 0; q < quads; q += most) {
        int64_t n = quads - q < most ? quads - q : most;
        for (int64_t k = 0; k < TILE_OUTPUTS; k++)
            j->simd->quad(level + k * j->stride + 4 * q * taps, tile[k], (size_t)n, (size_t)taps);
        j->simd->lines(tile, sizeof tile[0], TILE_OUTPUTS, false, (size_t)(n * taps),
                       j->quad + q * taps, to);
    }
}

/* oneDNN multiplies int8 by int8 as uint8 by int8, with 128 added on one side; what that adds to
 * each output is kept behind the values. */
static void place_levels_part(void *p, int part, int parts)
{
    const job *j = p;
    const int8_t *level = j->level;
    int64_t blocks = (j->outputs + 63) / 64, end = blocks * (part + 1) / parts * 64;
    if (end > j->outputs) end = j->outputs;
    for (int64_t o = blocks * part / parts * 64; o < end; o += TILE_OUTPUTS) {
        int64_t count = end - o < TILE_OUTPUTS ? end - o : TILE_OUTPUTS;
        if (j->quad)
            place_quads(j, level + o * j->stride, o);
        else
            place_s8(j, level + o * j->stride, o, count, 0, j->inputs);
        for (int64_t k = o; j->sum && k < o + count; k++)
            j->sum[k] = -128 * j->simd->sum_s8(level + k * j->stride, (size_t)j->stride);
    }
    j->simd->drain();
}

bool graft_cpu_place_int8(graft_device *d, const dnnl_memory_desc_t *md, int output_dim,
                          const int8_t *level, void *dst, graft_status *st)
{
    uint64_t known =
        dnnl_memory_extra_flag_compensation_conv_s8s8 | dnnl_memory_extra_flag_scale_adjust;
    bool sums = md->extra.flags & dnnl_memory_extra_flag_compensation_conv_s8s8;
    if (md->format_kind != dnnl_blocked || (md->ndims != 2 && md->ndims != 4) ||
        (md->extra.flags & ~known) || (sums && md->extra.compensation_mask != 1 << output_dim) ||
        ((md->extra.flags & dnnl_memory_extra_flag_scale_adjust) && md->extra.scale_adjust != 1) ||
        md->offset0)
        return false;
    job j = {.md = md, .level = level, .dst = dst, .stride = 1, .simd = d->simd};
    for (int i = 0; i < md->ndims; i++)
        if (i != output_dim) j.stride *= md->dims[i];
    void *extra;
    void *table = begin(&j, d, output_dim, (size_t)(j.stride / 4) * sizeof(int64_t), &extra);
    *st = table ? GRAFT_OK : GRAFT_E_NOMEM;
    if (!table) return true;
    if (in_quads(&j)) {
        int64_t *quad = extra;
        for (int64_t q = 0; q < j.stride / 4; q++)
            quad[q] = j.at_i[q / j.taps * 4] + j.at_t[q % j.taps];
        j.quad = quad;
    }
    clear_padding(&j);
    size_t values = 1;
    for (int i = 0; i < md->ndims; i++) values *= (size_t)md->padded_dims[i];
    memset((char *)dst + values, 0, dnnl_memory_desc_get_size(md) - values);
    if (sums) j.sum = (int32_t *)(void *)((char *)dst + values);
    graft_cpu_parallel(graft_cpu_threads(d, j.outputs * j.stride), place_levels_part, &j);
    graft_cpu_free(d, table);
    return true;
}

/* ------------------------------------------------------------------ floats */

struct graft_cpu_expand {
    dnnl_memory_desc_t md;
    job job;
    void *table;
};

graft_status graft_cpu_expand_create(graft_device *d, const dnnl_memory_desc_t *md, int output_dim,
                                     graft_cpu_expand **out)
{
    void *extra;
    bool known = md->format_kind == dnnl_blocked && md->extra.flags == 0 && !md->offset0 &&
                 (md->ndims == 2 || md->ndims == 4) &&
                 (md->data_type == dnnl_f32 || md->data_type == dnnl_bf16);
    if (!known) return GRAFT_E_UNSUPPORTED;
    graft_cpu_expand *p = graft_cpu_calloc(d, sizeof *p);
    if (!p) return GRAFT_E_NOMEM;
    p->md = *md;
    p->job.md = &p->md;
    p->table = begin(&p->job, d, output_dim, 0, &extra);
    if (!p->table) {
        graft_cpu_free(d, p);
        return GRAFT_E_NOMEM;
    }
    /* Tiles begin with a group. */
    p->job.columns = TILE_VALUES / p->job.taps / GRAFT_QUANT_GROUP * GRAFT_QUANT_GROUP;
    if (!p->job.columns) p->job.columns = GRAFT_QUANT_GROUP;
    p->job.stride = p->job.columns * p->job.taps + TILE_STRIDE - TILE_VALUES;
    p->job.simd = d->simd;
    *out = p;
    return GRAFT_OK;
}

void graft_cpu_expand_destroy(graft_device *d, graft_cpu_expand *p)
{
    if (p) graft_cpu_free(d, p->table);
    graft_cpu_free(d, p);
}

size_t graft_cpu_expand_workspace(const graft_device *d, const graft_cpu_expand *p)
{
    return (size_t)d->host.threads * (size_t)tile_floats(&p->job) * sizeof(float);
}

void graft_cpu_expand_run(const graft_device *d, const graft_cpu_expand *p,
                          const graft_cpu_expand_rows *rows, void *dst, void *workspace)
{
    job j = p->job;
    j.rows = *rows;
    j.dst = dst;
    j.tile = workspace;
    clear_padding(&j);
    graft_cpu_parallel(graft_cpu_threads(d, j.outputs * j.inputs * j.taps), pack_part, &j);
}
