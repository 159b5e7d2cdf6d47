/* Weights into their layouts: they come as their file has them, and kernels on the device convert,
 * rearrange and add what LoRAs change. */
#include "kernels/cuda/device/stage.h"
#include "kernels/cuda/ops/op.h"
#include "kernels/cuda/ops/quant.h"
#include "kernels/quant.h"

static bool is_float(graft_dtype t)
{
    return t == GRAFT_F32 || t == GRAFT_F16 || t == GRAFT_BF16 || t == GRAFT_F64 ||
           t == GRAFT_F8_E4M3 || t == GRAFT_F8_E5M2;
}

/* Whether floats can become what it stays in. */
static bool takes_floats(const graft_cuda_layout *l)
{
    return !l->blocks || l->blocks == GRAFT_GGML_Q8_0;
}

/* And whether it is what weights are that come quantized as `from`. */
static bool is_ready(const graft_cuda_layout *l, graft_dtype from)
{
    return from == GRAFT_Q8    ? l->to == GRAFT_I8
           : from == GRAFT_QF8 ? l->to == GRAFT_F8_E4M3
           : from == GRAFT_Q4  ? l->int4
                               : l->blocks && from == GRAFT_BLOCKS + (graft_dtype)l->blocks;
}

/* From dense values in the device's memory. */
static graft_status arrange(graft_device *d, const graft_cuda_layout *l, graft_dtype from,
                            const void *raw, void *dst)
{
    if (graft_cuda_is_quantized(l)) return graft_cuda_quant_pack(d, l, from, raw, dst);
    graft_cuda_pack p = {.src = raw,
                         .dst = dst,
                         .from = from,
                         .to = l->to,
                         .rows = l->rows,
                         .channels = l->channels,
                         .taps = l->taps,
                         .ldw = l->ldw,
                         .pairs = l->pairs};
    return graft_cuda_launch(
        d, l->corners ? GRAFT_CUDA_FN_graft_pack_corners : GRAFT_CUDA_FN_graft_pack,
        graft_cuda_blocks((uint64_t)l->rows * l->ldw, GRAFT_CUDA_THREADS), 1, 1, &p);
}

static graft_status pack_locked(graft_device *d, const graft_cuda_layout *l, graft_dtype from,
                                const void *src, void *dst)
{
    uint64_t bytes = graft_cuda_source_bytes(l, from);
    graft_status st = d->lost[0] ? GRAFT_E_DEVICE : GRAFT_OK;
    if (!st && (from == GRAFT_Q4 || graft_quant_blocks(graft_quant_of_dtype(from))))
        return graft_cuda_send(d, dst, src, bytes);
    if (!st) st = graft_cuda_scratch(d, &d->raw, &d->raw_bytes, bytes);
    if (!st) st = graft_cuda_send(d, (void *)(uintptr_t)d->raw, src, bytes);
    return st ? st : arrange(d, l, from, (const void *)(uintptr_t)d->raw, dst);
}

static const graft_cuda_layout *layout_of(const graft_kernel *k, int32_t input)
{
    bool known = input >= 0 && input < GRAFT_MAX_INPUTS && k->layout[input].rows;
    return known ? &k->layout[input] : NULL;
}

graft_status graft_cuda_pack_weight(graft_kernel *k, int32_t input, graft_dtype from,
                                    const void *src, void *dst)
{
    const graft_cuda_layout *l = layout_of(k, input);
    if (!l || !src || !dst) return GRAFT_E_ARG;
    if (!is_ready(l, from) && !(is_float(from) && takes_floats(l))) return GRAFT_E_UNSUPPORTED;
    graft_cuda_lock(k->d);
    graft_status st = pack_locked(k->d, l, from, src, dst);
    graft_cuda_unlock(k->d);
    return st;
}

/* ------------------------------------------------------------------ LoRAs */

/* Rows of the part as float32. */
static graft_status widen(graft_device *d, const graft_weight_part *part, uint32_t columns,
                          float *sum)
{
    uint32_t rows = (uint32_t)part->rows;
    graft_cuda_move p = {.src = part->src,
                         .dst = sum,
                         .ss = {0, 0, columns, 1},
                         .sd = {0, 0, columns, 1},
                         .dim = {1, 1, rows, columns},
                         .count = rows * columns,
                         .from = part->dtype,
                         .to = GRAFT_F32};
    return graft_cuda_move_run(d, &p);
}

static graft_status add_term(graft_device *d, const graft_low_rank *t, uint32_t columns, float *sum)
{
    uint64_t up = (uint64_t)t->rows * (uint64_t)t->rank * graft_dtype_size(t->up_dtype);
    uint64_t down = (uint64_t)t->rank * columns * graft_dtype_size(t->down_dtype);
    uint64_t at = (up + GRAFT_CUDA_ALIGN - 1) / GRAFT_CUDA_ALIGN * GRAFT_CUDA_ALIGN;
    graft_status st = graft_cuda_scratch(d, &d->term, &d->term_bytes, at + down);
    char *factors = (char *)(uintptr_t)d->term;
    if (!st) st = graft_cuda_send(d, factors, t->up, up);
    if (!st) st = graft_cuda_send(d, factors + at, t->down, down);
    if (st) return st;
    graft_cuda_merge p = {.up = factors,
                          .down = factors + at,
                          .sum = sum + t->first * columns,
                          .rows = (uint32_t)t->rows,
                          .columns = columns,
                          .rank = (uint32_t)t->rank,
                          .blocks = graft_cuda_blocks(columns, GRAFT_CUDA_THREADS),
                          .up_dtype = t->up_dtype,
                          .down_dtype = t->down_dtype,
                          .factor = t->factor};
    return graft_cuda_launch(d, GRAFT_CUDA_FN_graft_merge,
                             p.blocks * graft_cuda_blocks(p.rows, GRAFT_CUDA_MERGE_ROWS), 1, 1, &p);
}

static bool term_fits(const graft_low_rank *t, const graft_weight_part *part, uint64_t columns)
{
    return t->up && t->down && is_float(t->up_dtype) && is_float(t->down_dtype) && t->first >= 0 &&
           t->rows > 0 && t->rank > 0 && t->first <= part->rows &&
           t->rows <= part->rows - t->first && (uint64_t)t->rank <= INT32_MAX / columns &&
           t->rank <= INT32_MAX / t->rows;
}

static graft_status parts_fit(const graft_cuda_layout *l, const graft_weight_part *part, uint32_t n)
{
    uint64_t columns = (uint64_t)l->channels * l->taps;
    int64_t rows = 0;
    if ((uint64_t)l->rows * columns > INT32_MAX || !takes_floats(l)) return GRAFT_E_UNSUPPORTED;
    for (uint32_t i = 0; i < n; i++) {
        if (!is_float(part[i].dtype)) return GRAFT_E_UNSUPPORTED;
        if (!part[i].src || part[i].rows < 1 || part[i].rows > (int64_t)l->rows - rows)
            return GRAFT_E_ARG;
        for (uint32_t k = 0; k < part[i].n_terms; k++)
            if (!term_fits(&part[i].term[k], &part[i], columns)) return GRAFT_E_UNSUPPORTED;
        rows += part[i].rows;
    }
    return rows == (int64_t)l->rows ? GRAFT_OK : GRAFT_E_ARG;
}

static graft_status merge_locked(graft_device *d, const graft_cuda_layout *l,
                                 const graft_weight_part *part, uint32_t n, void *dst)
{
    uint32_t columns = l->channels * l->taps;
    graft_status st = d->lost[0] ? GRAFT_E_DEVICE : GRAFT_OK;
    if (!st)
        st = graft_cuda_scratch(d, &d->raw, &d->raw_bytes,
                                (uint64_t)l->rows * columns * sizeof(float));
    float *sum = (float *)(uintptr_t)d->raw;
    for (uint32_t i = 0; i < n && !st; i++) {
        st = widen(d, &part[i], columns, sum);
        for (uint32_t k = 0; k < part[i].n_terms && !st; k++)
            st = add_term(d, &part[i].term[k], columns, sum);
        sum += part[i].rows * columns;
    }
    return st ? st : arrange(d, l, GRAFT_F32, (const void *)(uintptr_t)d->raw, dst);
}

graft_status graft_cuda_pack_merged(graft_kernel *k, int32_t input, const graft_weight_part *part,
                                    uint32_t n_parts, void *dst)
{
    const graft_cuda_layout *l = layout_of(k, input);
    if (!l || !part || !n_parts || !dst) return GRAFT_E_ARG;
    graft_status st = parts_fit(l, part, n_parts);
    if (st) return st;
    graft_cuda_lock(k->d);
    st = merge_locked(k->d, l, part, n_parts, dst);
    graft_cuda_unlock(k->d);
    return st;
}
