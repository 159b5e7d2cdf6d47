#include "engine/weights/slot_data.h"

#include <string.h>

#include "base/alloc.h"
#include "engine/weights/coded.h"
#include "engine/weights/packed.h"
#include "engine/weights/quantized.h"
#include "kernels/hadamard.h"
#include "kernels/quant.h"

#define ROWS ((size_t)512 << 10) /* bytes; read again by packing while they are in the cache */

static int64_t count_of(const graft_gslot *s)
{
    int64_t n = 1;
    for (int i = 0; i < s->rank; i++) n *= s->dim[i];
    return n;
}

static graft_status find(const graft_weights *w, const graft_gslot *s, size_t k,
                         graft_slot_source *out, graft_err *e)
{
    return graft_weights_source(w, s, k, false, out, e);
}

/* Elements of all its sources: of those made of a part more than the slot has. */
static int64_t stored_count(const graft_gslot *s)
{
    return count_of(s) * (s->kind == GRAFT_SLOT_LAST || graft_gslot_part(s) ? s->rows[0] : 1);
}

/* Elements of a source. */
static int64_t source_count(const graft_gslot *s, const graft_slot_source *from)
{
    return s->rank ? stored_count(s) / s->dim[0] * from->rows : 1;
}

/* ------------------------------------------------------------------ as a whole */

/* Joins quantized sources: the values of all, then the scales of all. */
static void join_quantized(const graft_weights *w, const graft_gslot *s, graft_dtype dtype,
                           uint8_t *to)
{
    graft_slot_source from;
    int64_t n = stored_count(s) / s->dim[0];
    uint8_t *scale = to + graft_quantized_level_bytes(dtype, s->dim[0], n);
    for (size_t k = 0; k < s->n_sources; k++) {
        find(w, s, k, &from, NULL); /* was there before */
        const uint8_t *data = from.tensor->data;
        size_t all = (size_t)from.tensor->bytes;
        size_t level = (size_t)graft_quantized_level_bytes(dtype, from.rows, n);
        memcpy(to, data, level);
        memcpy(scale, data + level, all - level);
        to += level;
        scale += all - level;
    }
}

static void join_plain(const graft_weights *w, const graft_gslot *s, uint8_t *to)
{
    graft_slot_source from;
    for (size_t k = 0; k < s->n_sources; k++) {
        find(w, s, k, &from, NULL);
        memcpy(to, from.tensor->data, (size_t)from.tensor->bytes);
        to += from.tensor->bytes;
    }
}

/* A source that is a tensor of levels for such rows, alone and as the file has it; NULL: it is
 * none.
 */
static const graft_st_tensor *levels_of(const graft_weights *w, const graft_gslot *s, size_t k)
{
    graft_weight_term t;
    return graft_weights_only(w, s->source[k], &t) && t.tensor->coded &&
                   graft_coded_has_levels(t.tensor->coded, s->hadamard)
               ? t.tensor
               : NULL;
}

/* Whether another program made integers of all of it. */
static bool is_of_levels(const graft_weights *w, const graft_gslot *s)
{
    if (s->rank < 2 || !graft_gslot_rows(s)) return false;
    for (size_t k = 0; k < s->n_sources; k++)
        if (!levels_of(w, s, k)) return false;
    return true;
}

/* One block of them: the levels of all sources, then the scales of all. */
static graft_status load_levels(const graft_weights *w, const graft_gslot *s, graft_slot_data *out,
                                graft_err *e)
{
    const int64_t n = stored_count(s) / s->dim[0];
    uint8_t *p = graft_malloc_aligned(64, (size_t)graft_quantized_bytes(GRAFT_Q8, s->dim[0], n));
    float *scales = graft_malloc_array((size_t)s->dim[0], sizeof *scales), *scale = scales;
    if (!p || !scales) {
        graft_free(p);
        graft_free(scales);
        return graft_fail_nomem(e, "weights");
    }
    int8_t *level = (int8_t *)p;
    for (size_t k = 0; k < s->n_sources; k++) {
        const graft_st_tensor *t = levels_of(w, s, k);
        graft_coded_levels(t->coded, t->data, level, scale);
        level += t->coded->rows * n;
        scale += t->coded->rows;
    }
    memcpy(level, scales, (size_t)s->dim[0] * sizeof *scales); /* at any alignment */
    graft_free(scales);
    *out = (graft_slot_data){.dtype = GRAFT_Q8, .data = p, .owned = p};
    return GRAFT_OK;
}

/* Joins sources of one dtype byte by byte; sets *done to false when that cannot be. */
static graft_status load_joined(const graft_weights *w, const graft_gslot *s, graft_slot_data *out,
                                bool *done, graft_err *e)
{
    size_t total = 0;
    graft_slot_source from = {0};
    *done = false;
    out->dtype = GRAFT_DTYPE_NONE;
    if (graft_weights_slot_derived(w, s)) return GRAFT_OK;
    for (size_t k = 0; k < s->n_sources; k++) {
        graft_status st = find(w, s, k, &from, e);
        if (st) return st;
        if (k && from.tensor->dtype != out->dtype) return GRAFT_OK;
        out->dtype = from.tensor->dtype;
        total += (size_t)from.tensor->bytes;
    }
    bool quantized = graft_is_quantized(out->dtype);
    if (quantized && s->kind == GRAFT_SLOT_TRANSPOSE) return GRAFT_OK;
    *done = true;
    if (s->n_sources == 1 &&
        (quantized || (uintptr_t)from.tensor->data % graft_dtype_size(out->dtype) == 0)) {
        out->data = from.tensor->data;
        return GRAFT_OK;
    }
    uint8_t *p = graft_malloc_aligned(64, total);
    if (!p) return graft_fail_nomem(e, "weights");
    out->data = out->owned = p;
    if (quantized) {
        join_quantized(w, s, out->dtype, p);
    } else {
        join_plain(w, s, p);
    }
    return GRAFT_OK;
}

static graft_status load_as_f32(const graft_weights *w, const graft_gslot *s, graft_slot_data *out,
                                graft_err *e)
{
    float *p = graft_malloc_aligned(64, (size_t)stored_count(s) * sizeof *p);
    if (!p) return graft_fail_nomem(e, "weights");
    out->dtype = GRAFT_F32;
    out->data = out->owned = p;
    for (size_t k = 0; k < s->n_sources; k++) {
        graft_slot_source from;
        graft_status st = find(w, s, k, &from, e);
        if (!st)
            st = graft_weights_patched_values(w, s->source[k], from.tensor, source_count(s, &from),
                                              p, e);
        if (st) return st;
        p += source_count(s, &from);
    }
    return GRAFT_OK;
}

/* Rows that the operator wants turned. */
static graft_status load_turned(const graft_weights *w, const graft_gslot *s, graft_slot_data *out,
                                graft_err *e)
{
    graft_status st = load_as_f32(w, s, out, e);
    if (!st) graft_hadamard(out->owned, stored_count(s), s->hadamard);
    return st;
}

static graft_status transpose(const graft_gslot *s, graft_slot_data *d, graft_err *e)
{
    size_t rows = (size_t)s->dim[0], cols = (size_t)s->dim[1], size = graft_dtype_size(d->dtype);
    uint8_t *p = graft_malloc_aligned(64, rows * cols * size);
    if (!p) return graft_fail_nomem(e, "weights");
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < cols; k++)
            memcpy(p + (i * cols + k) * size, (const uint8_t *)d->data + (k * rows + i) * size,
                   size);
    graft_free(d->owned);
    d->data = d->owned = p;
    return GRAFT_OK;
}

/* As the file has it, or in float32. */
static graft_status load_stored(const graft_weights *w, const graft_gslot *slot,
                                graft_slot_data *out, graft_err *e)
{
    bool done;
    if (is_of_levels(w, slot)) return load_levels(w, slot, out, e);
    if (slot->hadamard) return load_turned(w, slot, out, e);
    graft_status st = load_joined(w, slot, out, &done, e);
    return st || done ? st : load_as_f32(w, slot, out, e);
}

/* n values in so many rows; what is not quantized stays as it is. */
static graft_status to_float(graft_slot_data *d, int64_t rows, int64_t n, graft_err *e)
{
    if (!graft_is_quantized(d->dtype)) return GRAFT_OK;
    float *p = graft_malloc_aligned(64, (size_t)n * sizeof *p);
    if (!p) return graft_fail_nomem(e, "weights");
    graft_quantized_to_f32(d->dtype, d->data, rows, n / rows, p);
    graft_free(d->owned);
    d->dtype = GRAFT_F32;
    d->data = d->owned = p;
    return GRAFT_OK;
}

/* The middle of a square of cells. */
static graft_status load_crop(const graft_weights *w, const graft_gslot *s, graft_slot_data *out,
                              graft_err *e)
{
    const int64_t side = s->rows[0], h = s->dim[1], width = s->dim[2], c = s->dim[3];
    const int64_t later = s->kind == GRAFT_SLOT_LATER;
    int64_t all = side * side;
    graft_slot_data whole = {0};
    graft_gslot stored = *s;
    stored.kind = GRAFT_SLOT_PLAIN;
    stored.rank = 2;
    stored.dim[0] = all;
    stored.dim[1] = c;
    stored.rows = &all;
    graft_status st = load_stored(w, &stored, &whole, e);
    if (!st) st = graft_slot_data_float(&whole, &stored, e);
    size_t cell = (size_t)c * graft_dtype_size(whole.dtype), row = (size_t)width * cell;
    uint8_t *p = st ? NULL : graft_malloc_aligned(64, (size_t)h * row);
    if (!st && !p) st = graft_fail_nomem(e, "weights");
    for (int64_t i = 0; i < h && !st; i++) {
        int64_t from = ((side - h + later) / 2 + i) * side + (side - width + later) / 2;
        memcpy(p + (size_t)i * row, (const uint8_t *)whole.data + (size_t)from * cell, row);
    }
    out->dtype = whole.dtype;
    out->data = out->owned = p;
    graft_slot_data_finish(&whole);
    return st;
}

/* Of each matrix of filters the last slice. */
static graft_status load_last(const graft_weights *w, const graft_gslot *s, graft_slot_data *out,
                              graft_err *e)
{
    graft_slot_data whole = {0};
    graft_status st = load_stored(w, s, &whole, e);
    if (!st) st = to_float(&whole, s->dim[0], stored_count(s), e);
    const size_t size = graft_dtype_size(whole.dtype), n = (size_t)(s->dim[0] * s->dim[1]);
    const size_t slice = (size_t)(s->dim[2] * s->dim[3]) * size, all = (size_t)s->rows[0] * slice;
    uint8_t *p = st ? NULL : graft_malloc_aligned(64, n * slice);
    if (!st && !p) st = graft_fail_nomem(e, "weights");
    for (size_t i = 0; i < n && !st; i++)
        memcpy(p + i * slice, (const uint8_t *)whole.data + (i + 1) * all - slice, slice);
    out->dtype = whole.dtype;
    out->data = out->owned = p;
    graft_slot_data_finish(&whole);
    return st;
}

/* out[i] of each of n rows: the sum of what its m parts have there. */
static void add_parts(const float *in, size_t n, size_t m, size_t part, float *out)
{
    for (size_t k = 0; k < n; k++, in += m * part, out += part) {
        memcpy(out, in, part * sizeof *out);
        for (size_t j = 1; j < m; j++)
            for (size_t i = 0; i < part; i++) out[i] += in[j * part + i];
    }
}

static graft_status load_sum(const graft_weights *w, const graft_gslot *s, graft_slot_data *out,
                             graft_err *e)
{
    graft_slot_data whole = {0};
    const size_t n = (size_t)s->dim[0], part = (size_t)count_of(s) / n;
    graft_status st = load_as_f32(w, s, &whole, e);
    float *p = st ? NULL : graft_malloc_aligned(64, n * part * sizeof *p);
    if (!st && !p) st = graft_fail_nomem(e, "weights");
    if (!st) add_parts(whole.data, n, (size_t)s->rows[0], part, p);
    out->dtype = GRAFT_F32;
    out->data = out->owned = p;
    graft_slot_data_finish(&whole);
    return st;
}

/* Of each row the first part, or the last rows. */
static graft_status load_part(const graft_weights *w, const graft_gslot *s, graft_slot_data *out,
                              graft_err *e)
{
    const bool bottom = s->kind == GRAFT_SLOT_BOTTOM;
    const int64_t rows = bottom ? s->rows[0] * s->dim[0] : s->dim[0];
    graft_slot_data whole = {0};
    graft_status st = load_stored(w, s, &whole, e);
    if (!st) st = to_float(&whole, rows, stored_count(s), e);
    const size_t bytes = (size_t)count_of(s) * graft_dtype_size(whole.dtype);
    const size_t n = bottom ? 1 : (size_t)rows, part = bytes / n, all = part * (size_t)s->rows[0];
    uint8_t *p = st ? NULL : graft_malloc_aligned(64, bytes);
    if (!st && !p) st = graft_fail_nomem(e, "weights");
    for (size_t i = 0; i < n && !st; i++)
        memcpy(p + i * part, (const uint8_t *)whole.data + i * all + (bottom ? all - part : 0),
               part);
    out->dtype = whole.dtype;
    out->data = out->owned = p;
    graft_slot_data_finish(&whole);
    return st;
}

static graft_status load_more(const graft_weights *w, const graft_gslot *s, graft_slot_data *out,
                              graft_err *e)
{
    graft_status st = load_as_f32(w, s, out, e);
    float *v = out->owned;
    for (int64_t i = 0, n = st ? 0 : count_of(s); i < n; i++) v[i] += 1;
    return st;
}

graft_status graft_slot_data_load(const graft_weights *w, const graft_gslot *slot,
                                  graft_slot_data *out, graft_err *e)
{
    *out = (graft_slot_data){0};
    graft_status st = graft_gslot_crop(slot)          ? load_crop(w, slot, out, e)
                      : slot->kind == GRAFT_SLOT_LAST ? load_last(w, slot, out, e)
                      : slot->kind == GRAFT_SLOT_MORE ? load_more(w, slot, out, e)
                      : slot->kind == GRAFT_SLOT_SUM  ? load_sum(w, slot, out, e)
                      : graft_gslot_part(slot)        ? load_part(w, slot, out, e)
                                                      : load_stored(w, slot, out, e);
    if (!st && slot->kind == GRAFT_SLOT_TRANSPOSE) st = transpose(slot, out, e);
    if (st) graft_slot_data_finish(out);
    return st;
}

/* A source that is of such blocks, as the file has it; NULL: it is none. */
static const graft_st_tensor *blocks_of(const graft_weights *w, const graft_gslot *s, size_t k,
                                        graft_dtype dtype)
{
    graft_weight_term t;
    return graft_weights_packed(w, s->source[k], &t) &&
                   GRAFT_BLOCKS + graft_packed_type(t.tensor) == dtype
               ? t.tensor
               : NULL;
}

graft_status graft_slot_data_blocks(const graft_weights *w, const graft_gslot *slot,
                                    graft_dtype dtype, graft_slot_data *out, graft_err *e)
{
    const int32_t type = graft_quant_blocks(graft_quant_of_dtype(dtype));
    graft_slot_source from;
    *out = (graft_slot_data){0};
    if (slot->rank != 2 || !graft_gslot_plain(slot)) return GRAFT_OK;
    for (size_t k = 0; k < slot->n_sources; k++) {
        const graft_st_tensor *t = blocks_of(w, slot, k, dtype);
        if (!t) return GRAFT_OK;
        graft_status st = find(w, slot, k, &from, e); /* checks its shape */
        if (st) return st;
    }
    out->dtype = dtype;
    if (slot->n_sources == 1 && !graft_blocks_scaled(type)) {
        out->data = blocks_of(w, slot, 0, dtype)->data;
        return GRAFT_OK;
    }
    uint8_t *p =
        graft_malloc_aligned(64, (size_t)graft_blocks_bytes(type, slot->dim[0], slot->dim[1]));
    if (!p) return graft_fail_nomem(e, "weights");
    out->data = out->owned = p;
    uint8_t *scales = p + graft_blocks_level_bytes(type, count_of(slot));
    for (size_t k = 0; k < slot->n_sources; k++) {
        find(w, slot, k, &from, NULL); /* was there before */
        graft_packed_copy(from.tensor, p, scales);
        p += graft_blocks_level_bytes(type, source_count(slot, &from));
        scales += from.rows * (int64_t)sizeof(float);
    }
    return GRAFT_OK;
}

graft_status graft_slot_data_wanted(const graft_weights *w, const graft_gslot *slot,
                                    graft_dtype dtype, graft_slot_data *out, graft_err *e)
{
    graft_status st = GRAFT_OK;
    *out = (graft_slot_data){0};
    if (dtype) st = graft_slot_data_blocks(w, slot, dtype, out, e);
    return st || out->data ? st : graft_slot_data_load(w, slot, out, e);
}

graft_status graft_slot_data_float(graft_slot_data *d, const graft_gslot *s, graft_err *e)
{
    return to_float(d, s->dim[0], count_of(s), e);
}

void graft_slot_data_finish(graft_slot_data *d)
{
    graft_free(d->owned);
    *d = (graft_slot_data){0};
}

/* ------------------------------------------------------------------ in one pass */

struct graft_slot_reader {
    const graft_weights *w;
    const graft_gslot *slot;
    size_t source;
    int64_t row; /* of the source */
    float *sum;  /* rows that are computed; NULL: all are stored */
    graft_tensor_scan scan;
};

/* The number of rows that are read together. */
static int64_t rows_of(size_t row_bytes, int64_t step, int64_t left)
{
    int64_t n = (int64_t)(ROWS / (row_bytes * (size_t)step + 1) + 1) * step;
    return n < left ? n : left;
}

/* Bytes of a row of float32. */
static size_t row_as_f32(const graft_gslot *s)
{
    return (size_t)(count_of(s) / s->dim[0]) * sizeof(float);
}

/* Whether each term's values can be had from any row on. */
static bool has_rows(const graft_weights *w, const char *name)
{
    graft_weight_term t;
    for (size_t at = 0; graft_weights_next_term(w, name, &at, &t);)
        if (graft_is_quantized(t.tensor->dtype)) return false;
    return true;
}

/* Whether the sources' bytes are the slot's, or sums of such, and begin where the caller may ask
 * for a row. */
static graft_status readable(const graft_weights *w, const graft_gslot *s, int64_t step, bool *yes,
                             bool *sums, graft_err *e)
{
    graft_slot_source from;
    *yes = graft_gslot_plain(s) && s->rank > 0 && !graft_weights_slot_patched(w, s) &&
           !is_of_levels(w, s);
    for (size_t k = 0; k < s->n_sources && *yes; k++) {
        graft_status st = find(w, s, k, &from, e);
        if (st) return st;
        const graft_st_tensor *t = from.tensor;
        *yes = (from.sum ? has_rows(w, s->source[k])
                         : !graft_is_quantized(t->dtype) &&
                               (uintptr_t)t->data % graft_dtype_size(t->dtype) == 0) &&
               (k + 1 == s->n_sources || s->rows[k] % step == 0);
        *sums |= from.sum;
    }
    return GRAFT_OK;
}

graft_status graft_slot_reader_create(const graft_weights *w, const graft_gslot *slot, int64_t step,
                                      graft_slot_reader **out, graft_err *e)
{
    bool yes, sums = false;
    *out = NULL;
    graft_status st = readable(w, slot, step, &yes, &sums, e);
    if (st || !yes) return st;
    graft_slot_reader *r = graft_malloc_aligned(64, sizeof *r);
    if (!r) return graft_fail_nomem(e, "reading weights");
    r->w = w;
    r->slot = slot;
    r->source = 0;
    r->row = 0;
    r->sum = NULL;
    if (sums) {
        size_t row = row_as_f32(slot);
        r->sum = graft_malloc_aligned(64, row * (size_t)rows_of(row, step, slot->dim[0]));
        if (!r->sum) {
            graft_slot_reader_destroy(r);
            return graft_fail_nomem(e, "merging weights");
        }
    }
    *out = r;
    return GRAFT_OK;
}

/* The next n rows of source k, which is a sum. */
static const void *sum_rows(graft_slot_reader *r, int64_t n)
{
    int64_t values = count_of(r->slot) / r->slot->dim[0];
    graft_weights_values(r->w, r->slot->source[r->source], r->row * values, n * values, r->sum,
                         NULL); /* takes memory for quantized tensors only */
    return r->sum;
}

int64_t graft_slot_reader_next(graft_slot_reader *r, int64_t step, graft_dtype *dtype,
                               const void **data)
{
    const graft_gslot *s = r->slot;
    if (r->source == s->n_sources) return 0;
    graft_slot_source from;
    find(r->w, s, r->source, &from, NULL); /* create() saw all of them */
    const graft_st_tensor *t = from.tensor;
    int64_t all = from.rows;
    size_t row_bytes = from.sum ? row_as_f32(s) : (size_t)t->bytes / (size_t)all;
    int64_t n = rows_of(row_bytes, step, all - r->row);
    if (from.sum) {
        *dtype = GRAFT_F32;
        *data = sum_rows(r, n);
        r->row += n;
    } else {
        if (!r->row) graft_tensor_scan_begin(&r->scan, from.state, t);
        *dtype = t->dtype;
        *data = (const uint8_t *)t->data + (size_t)r->row * row_bytes;
        r->row += n;
        graft_tensor_scan_to(&r->scan, (size_t)r->row * row_bytes);
        if (r->row == all) graft_tensor_scan_end(&r->scan);
    }
    if (r->row == all) {
        r->source++;
        r->row = 0;
    }
    return n;
}

void graft_slot_reader_destroy(graft_slot_reader *r)
{
    if (r) graft_free(r->sum);
    graft_free(r);
}
