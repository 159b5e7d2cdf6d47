/* Weights from a dense checkpoint tensor to the blocked layout that oneDNN chose.
 *
 * A blocked layout places element (o, i, y, x) at a sum of one term per index, so three small
 * tables of offsets replace the general reorder, which would want a float32 copy of the source
 * first. Layouts of another kind (Winograd's) do go through oneDNN's reorder. Everything here runs
 * on the calling thread: the engine packs several weights at once. */
#include <stdbool.h>
#include <string.h>

#include "base/half.h"
#include "base/hash.h"
#include "kernels/cpu/primitive.h"

uint64_t graft_cpu_packing_weights(const dnnl_memory_desc_t *md, int output_dim)
{
    /* Field by field: the unused tails of the arrays hold anything. */
    int64_t f[8 * DNNL_MAX_NDIMS + 32];
    int n = 0;
    f[n++] = 1; /* version of this file's layouts */
    f[n++] = md->ndims;
    f[n++] = output_dim;
    f[n++] = (int64_t)md->data_type;
    f[n++] = (int64_t)md->format_kind;
    f[n++] = (int64_t)md->extra.flags;
    for (int i = 0; i < md->ndims; i++) {
        f[n++] = md->dims[i];
        f[n++] = md->padded_dims[i];
    }
    if (md->format_kind == dnnl_blocked) {
        const dnnl_blocking_desc_t *b = &md->format_desc.blocking;
        for (int i = 0; i < md->ndims; i++) f[n++] = b->strides[i];
        f[n++] = b->inner_nblks;
        for (int i = 0; i < b->inner_nblks; i++) {
            f[n++] = b->inner_blks[i];
            f[n++] = b->inner_idxs[i];
        }
    } else if (md->format_kind == dnnl_format_kind_wino) {
        const dnnl_wino_desc_t *w = &md->format_desc.wino_desc;
        const int64_t all[] = {(int64_t)w->wino_format,
                               w->r,
                               w->alpha,
                               w->ic,
                               w->oc,
                               w->ic_block,
                               w->oc_block,
                               w->ic2_block,
                               w->oc2_block,
                               (int64_t)w->size};
        memcpy(f + n, all, sizeof all);
        n += (int)(sizeof all / sizeof all[0]);
    }
    return graft_hash64(f, (size_t)n * sizeof f[0]) | 1;
}

int64_t graft_cpu_layout_offsets(const dnnl_memory_desc_t *md, int dim, int64_t begin, int64_t n,
                                 int64_t size, int64_t *out)
{
    const dnnl_blocking_desc_t *b = &md->format_desc.blocking;
    int64_t block = 1;
    for (int i = 0; i < b->inner_nblks; i++)
        if (b->inner_idxs[i] == dim) block *= b->inner_blks[i];
    for (int64_t k = 0; k < n; k++) {
        if (k >= block) {
            out[k] = out[k - block] + b->strides[dim] * size;
            continue;
        }
        int64_t v = begin + k, at = v / block * b->strides[dim], rest = v % block, weight = 1;
        for (int i = b->inner_nblks - 1; i >= 0; i--) {
            if (b->inner_idxs[i] == dim) {
                at += rest % b->inner_blks[i] * weight;
                rest /= b->inner_blks[i];
            }
            weight *= b->inner_blks[i];
        }
        out[k] = at * size;
    }
    return block < n ? block : n;
}

#define MAX_ROWS   16  /* outputs that stand in one line */
#define GROUP      64  /* outputs of the widest blocks */
#define TILE_UNITS 288 /* of one output: sixteen lines in the first-level cache */

typedef struct job {
    const graft_cpu_simd *simd;
    graft_dtype from;
    const char *src; /* of the first output of the call */
    char *dst;
    int64_t size;                  /* bytes of a packed value: 4 or 2 */
    int64_t outputs, inputs, taps; /* of the call; I; kh * kw */
    int64_t *at_o, *at_i, *at_t;   /* in bytes */
    int64_t block_o, block_i;      /* values after which at_o and at_i repeat */
    int64_t unit;                  /* inputs in four bytes: 1, or 2 in bfloat16 */
    int64_t rows;                  /* outputs in a line: 16, 8, or 0 where there are no lines */
    bool apart; /* a line has the first input of all its outputs, then the second */
    int64_t tile_inputs;
    int64_t stride;   /* units from row to row of the tile */
    int64_t *place;   /* of each line of the tile, bytes */
    char *tile;       /* rows in units */
    uint16_t *narrow; /* one row of it, in values */
} job;

/* Whether the layout consists of lines: four bytes of each of `rows` neighbouring outputs. Most
 * that oneDNN chooses for large weights on x86 do. */
static bool has_lines(const job *j, int64_t rows, bool apart)
{
    int64_t line = 4 * rows, unit = j->unit;
    int64_t next_o = apart ? 2 : 4, next_i = apart ? 2 * rows : j->size;
    /* A number of values after which both layout and lines repeat. */
    int64_t o = j->block_o % rows ? j->block_o * rows : j->block_o;
    int64_t i = j->block_i % unit ? j->block_i * unit : j->block_i;
    if ((uintptr_t)j->dst % (uintptr_t)line) return false;
    if (o < j->outputs && (j->at_o[o] - j->at_o[0]) % line) return false;
    if (i < j->inputs && (j->at_i[i] - j->at_i[0]) % line) return false;
    if (o > j->outputs) o = j->outputs / rows * rows;
    if (i > j->inputs) i = j->inputs / unit * unit;
    for (int64_t k = 0; k < o; k++) {
        int64_t begin = j->at_o[k / rows * rows];
        if (begin % line || j->at_o[k] - begin != k % rows * next_o) return false;
    }
    for (int64_t k = 0; k < i; k++) {
        int64_t begin = j->at_i[k / unit * unit];
        if (begin % line || j->at_i[k] - begin != k % unit * next_i) return false;
    }
    for (int64_t t = 0; t < j->taps; t++)
        if (j->at_t[t] % line) return false;
    return true;
}

/* Whether an output's values lie as they do in the source. */
static bool has_rows(const job *j)
{
    for (int64_t i = 0; i < j->inputs; i++)
        if (j->at_i[i] != i * j->taps * j->size) return false;
    for (int64_t t = 0; t < j->taps; t++)
        if (j->at_t[t] != t * j->size) return false;
    return true;
}

/* `n` values from the given place of the source in the packed dtype. */
static void narrow(const job *j, int64_t first, uint16_t *out, int64_t n)
{
    float slice[256];
    if (j->from == GRAFT_F16 || j->from == GRAFT_F32) {
        j->simd->narrow(graft_cpu_at(j->src, j->from, first), j->from, out, (size_t)n);
        return;
    }
    for (int64_t i = 0; i < n; i += 256) {
        int64_t count = n - i < 256 ? n - i : 256;
        graft_cpu_to_f32(j->from, j->src, first + i, slice, count);
        j->simd->narrow(slice, GRAFT_F32, out + i, (size_t)count);
    }
}

/* Inputs i … i + n of the outputs of a line from o on, as rows of units; where the source is one
 * already, nothing is copied. */
static const char *tile_rows(const job *j, int64_t o, int64_t i, int64_t n, size_t *stride)
{
    bool paired = j->unit == 2 && j->taps > 1, plain = (j->size == 4) == (j->from == GRAFT_F32);
    if (!paired && plain && (j->from == GRAFT_F32 || j->from == GRAFT_BF16)) {
        *stride = (size_t)(j->inputs * j->taps * j->size);
        return graft_cpu_at(j->src, j->from, (o * j->inputs + i) * j->taps);
    }
    *stride = (size_t)j->stride * 4;
    for (int64_t r = 0; r < j->rows; r++) {
        int64_t first = ((o + r) * j->inputs + i) * j->taps;
        char *row = j->tile + r * j->stride * 4;
        if (j->size == 4) {
            graft_cpu_to_f32(j->from, j->src, first, (float *)(void *)row, n * j->taps);
        } else if (!paired) {
            narrow(j, first, (uint16_t *)(void *)row, n);
        } else {
            const void *words = j->narrow;
            if (j->from == GRAFT_BF16)
                memcpy(j->narrow, graft_cpu_at(j->src, j->from, first), (size_t)(n * j->taps) * 2);
            else
                narrow(j, first, j->narrow, n * j->taps);
            j->simd->pair(words, (uint32_t *)(void *)row, (size_t)n / 2, (size_t)j->taps);
        }
    }
    return j->tile;
}

/* Whole lines: outputs o … o + count (a multiple of a line's), inputs 0 … inputs (a multiple of the
 * unit). */
static void pack_lines(const job *j, int64_t o, int64_t count, int64_t inputs)
{
    for (int64_t i = 0; i < inputs; i += j->tile_inputs) {
        int64_t n = inputs - i < j->tile_inputs ? inputs - i : j->tile_inputs, units = 0;
        for (int64_t k = 0; k < n; k += j->unit, units += j->taps)
            for (int64_t t = 0; t < j->taps; t++) j->place[units + t] = j->at_i[i + k] + j->at_t[t];
        for (int64_t g = 0; g < count; g += j->rows) {
            size_t stride;
            const char *rows = tile_rows(j, o + g, i, n, &stride);
            j->simd->lines(rows, stride, (size_t)j->rows, j->apart, (size_t)units, j->place,
                           j->dst + j->at_o[o + g]);
        }
    }
}

/* Values that lie as in the source, or (inputs i and on) anywhere. */
static void pack_row(const job *j, int64_t o)
{
    int64_t n = j->inputs * j->taps;
    char *to = j->dst + j->at_o[o];
    if (j->size == 4)
        graft_cpu_to_f32(j->from, j->src, o * n, (float *)(void *)to, n);
    else
        narrow(j, o * n, (uint16_t *)(void *)to, n);
}

static void pack_values(const job *j, int64_t o, int64_t i)
{
    for (; i < j->inputs; i++) {
        int64_t first = (o * j->inputs + i) * j->taps, at = j->at_o[o] + j->at_i[i];
        float value[16];
        for (int64_t t = 0; t < j->taps; t++) {
            if (t % 16 == 0)
                graft_cpu_to_f32(j->from, j->src, first + t, value,
                                 j->taps - t < 16 ? j->taps - t : 16);
            uint16_t half = graft_f32_to_bf16(value[t % 16]);
            char *to = j->dst + at + j->at_t[t];
            if (j->size == 4)
                memcpy(to, &value[t % 16], 4);
            else
                memcpy(to, &half, 2);
        }
    }
}

static void pack_all(const job *j)
{
    int64_t lines = j->rows ? j->outputs / j->rows * j->rows : 0;
    int64_t inputs = j->inputs / j->unit * j->unit;
    for (int64_t o = 0; o < lines; o += GROUP)
        pack_lines(j, o, lines - o < GROUP ? lines - o : GROUP, inputs);
    bool dense = !j->rows && has_rows(j);
    for (int64_t o = 0; o < j->outputs; o++) {
        if (dense)
            pack_row(j, o);
        else if (o >= lines || inputs < j->inputs)
            pack_values(j, o, o < lines ? inputs : 0);
    }
    j->simd->drain();
}

static bool is_padded(const dnnl_memory_desc_t *md)
{
    for (int i = 0; i < md->ndims; i++)
        if (md->padded_dims[i] != md->dims[i]) return true;
    return false;
}

static graft_status pack_blocked(graft_device *d, const dnnl_memory_desc_t *md, int output_dim,
                                 graft_dtype from, const void *src, void *dst, int64_t first,
                                 int64_t outputs)
{
    int64_t size = md->data_type == dnnl_f32 ? 4 : 2;
    int64_t height = md->ndims == 4 ? md->dims[2] : 1, width = md->ndims == 4 ? md->dims[3] : 1;
    job j = {.simd = d->simd,
             .from = from,
             .src = src,
             .dst = (char *)dst + md->offset0 * size,
             .size = size,
             .outputs = outputs,
             .inputs = md->dims[1 - output_dim],
             .taps = height * width,
             .unit = 4 / size};
    int64_t pairs = j.taps < TILE_UNITS ? TILE_UNITS / j.taps : 1;
    j.stride = pairs * j.taps;
    size_t numbers = (size_t)(outputs + j.inputs + j.taps + height + width + j.stride);
    size_t tile = (size_t)(MAX_ROWS * j.stride + j.stride) * 4;
    int64_t *table = graft_cpu_calloc(d, numbers * sizeof *table + tile);
    if (!table) return GRAFT_E_NOMEM;
    j.at_o = table;
    j.at_i = j.at_o + outputs;
    j.at_t = j.at_i + j.inputs;
    j.place = j.at_t + j.taps;
    int64_t *at_y = j.place + j.stride, *at_x = at_y + height;
    j.tile = (char *)(at_x + width);
    j.narrow = (uint16_t *)(void *)(j.tile + MAX_ROWS * j.stride * 4);
    j.block_o = graft_cpu_layout_offsets(md, output_dim, first, outputs, size, j.at_o);
    j.block_i = graft_cpu_layout_offsets(md, 1 - output_dim, 0, j.inputs, size, j.at_i);
    if (md->ndims == 4) {
        graft_cpu_layout_offsets(md, 2, 0, height, size, at_y);
        graft_cpu_layout_offsets(md, 3, 0, width, size, at_x);
    }
    for (int64_t t = 0; t < j.taps; t++) j.at_t[t] = at_y[t / width] + at_x[t % width];
    j.tile_inputs = pairs * j.unit;
    j.apart = size == 2 && has_lines(&j, MAX_ROWS, true);
    j.rows = j.apart || has_lines(&j, MAX_ROWS, false) ? MAX_ROWS : has_lines(&j, 8, false) ? 8 : 0;
    if (first == 0 && is_padded(md)) memset(dst, 0, dnnl_memory_desc_get_size(md));
    pack_all(&j);
    graft_cpu_free(d, table);
    return GRAFT_OK;
}

static graft_status pack_reorder(graft_device *d, const dnnl_memory_desc_t *md, int output_dim,
                                 const float *src, void *dst)
{
    dnnl_memory_desc_t dense;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_t reorder = NULL;
    dnnl_memory_t from = NULL, to = NULL;
    dnnl_stream_t stream = NULL;
    dnnl_status_t st = dnnl_memory_desc_init_by_tag(&dense, md->ndims, md->dims, dnnl_f32,
                                                    md->ndims == 4 ? dnnl_oihw
                                                    : output_dim   ? dnnl_ba
                                                                   : dnnl_ab);
    union {
        const float *in;
        void *out;
    } handle = {src}; /* oneDNN takes sources through a plain pointer too */
    if (!st) st = dnnl_reorder_primitive_desc_create(&pd, &dense, d->engine, md, d->engine, NULL);
    if (!st) st = dnnl_primitive_create(&reorder, pd);
    if (!st) st = dnnl_memory_create(&from, &dense, d->engine, handle.out);
    if (!st) st = dnnl_memory_create(&to, md, d->engine, dst);
    if (!st) st = dnnl_stream_create(&stream, d->engine, dnnl_stream_default_flags);
    dnnl_exec_arg_t args[2] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    if (!st) st = dnnl_primitive_execute(reorder, stream, 2, args);
    if (!st) st = dnnl_stream_wait(stream);
    if (stream) dnnl_stream_destroy(stream);
    if (to) dnnl_memory_destroy(to);
    if (from) dnnl_memory_destroy(from);
    if (reorder) dnnl_primitive_destroy(reorder);
    if (pd) dnnl_primitive_desc_destroy(pd);
    return graft_cpu_dnnl_fail(st, "reorder", NULL);
}

static bool is_blocked(const dnnl_memory_desc_t *md)
{
    return md->format_kind == dnnl_blocked && md->extra.flags == 0 &&
           (md->ndims == 2 || md->ndims == 4) &&
           (md->data_type == dnnl_f32 || md->data_type == dnnl_bf16);
}

graft_status graft_cpu_pack_weight_rows(graft_device *d, const dnnl_memory_desc_t *md,
                                        int output_dim, graft_dtype from, const void *src,
                                        void *dst, int64_t first, int64_t rows)
{
    if (!graft_cpu_is_float(from) || !is_blocked(md)) return GRAFT_E_UNSUPPORTED;
    return pack_blocked(d, md, output_dim, from, src, dst, first, rows);
}

graft_status graft_cpu_pack_weights(graft_device *d, const dnnl_memory_desc_t *md, int output_dim,
                                    graft_dtype from, const void *src, void *dst)
{
    if (!graft_cpu_is_float(from)) return GRAFT_E_UNSUPPORTED;
    if (is_blocked(md))
        return pack_blocked(d, md, output_dim, from, src, dst, 0, md->dims[output_dim]);
    int64_t n = 1;
    for (int i = 0; i < md->ndims; i++) n *= md->dims[i];
    float *dense = graft_cpu_calloc(d, (size_t)n * sizeof(float));
    if (!dense) return GRAFT_E_NOMEM;
    graft_status st = graft_cpu_pack_dense(d, from, src, GRAFT_F32, dense, n);
    if (!st) st = pack_reorder(d, md, output_dim, dense, dst);
    graft_cpu_free(d, dense);
    return st;
}
