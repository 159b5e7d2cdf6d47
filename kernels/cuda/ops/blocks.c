/* LINEAR with packed weights (kernels/blocks.h): they stay so on the device, as their file has
 * them, and each launch writes them out as floats into the workspace, which all operators share,
 * for the kernel of floats.
 *
 * A large layer is done some outputs at a time: floats of all of its weights would take as much of
 * the workspace as 126 MiB (21504 outputs of 3072 values, as FLUX.1 has), on cards whose memory is
 * why weights are in blocks; and of what was just written less has to leave the cache. Pieces are
 * all alike, so that one kernel, with one choice among variants, does them. */
#include <string.h>

#include "kernels/cuda/ops/matmul.h"
#include "kernels/cuda/ops/quant.h"
#include "kernels/quant.h"

enum { UNIT = 64, MOST_PIECES = 64 }; /* outputs in a piece are a multiple of the former */

static graft_status check(const graft_op_desc *op, graft_err *e)
{
    return graft_cuda_op_linear.check(op, e);
}

static int64_t outputs_of(const graft_op_desc *op)
{
    return op->out.dim[op->out.rank - 1];
}

static uint64_t floats_bytes(const graft_kernel *k)
{
    const graft_cuda_layout *l = &k->layout[GRAFT_LINEAR_W];
    return (uint64_t)l->rows * l->ldw * graft_dtype_size(k->t);
}

/* 1 where no number of such pieces is small enough. */
static int64_t pieces_of(const graft_kernel *k)
{
    const int64_t all = outputs_of(&k->op);
    const uint64_t bytes = floats_bytes(k), limit = k->d->piece_bytes;
    for (int64_t n = 2; n <= MOST_PIECES && limit && bytes > limit; n++)
        if (all % (n * UNIT) == 0 && bytes / (uint64_t)n <= limit) return n;
    return 1;
}

/* The operator of floats that makes one of so many pieces: what it reads and writes is the
 * caller's to find. */
static graft_op_desc piece_of(const graft_op_desc *op, int64_t pieces)
{
    graft_op_desc d = *op;
    graft_tensor_desc *residual = &d.in[GRAFT_LINEAR_RESIDUAL];
    d.attrs.quant = GRAFT_QUANT_NONE;
    d.out.dim[d.out.rank - 1] /= pieces;
    d.in[GRAFT_LINEAR_W].dim[0] /= pieces;
    if (graft_cuda_present(&d.in[GRAFT_LINEAR_BIAS])) d.in[GRAFT_LINEAR_BIAS].dim[0] /= pieces;
    if (graft_cuda_present(residual)) residual->dim[residual->rank - 1] /= pieces;
    return d;
}

/* Makes k->piece and k->pieces; the layouts of k are there. */
static graft_status init_piece(graft_kernel *k, int32_t variant, graft_err *e)
{
    graft_kernel *piece = k->piece = k->d->host.alloc(GRAFT_CUDA_ALIGN, sizeof *piece);
    if (!piece) return graft_fail_nomem(e, "a piece of a kernel");
    memset(piece, 0, sizeof *piece);
    k->pieces = pieces_of(k);
    piece->d = k->d;
    piece->type = &graft_cuda_op_linear;
    piece->op = piece_of(&k->op, k->pieces);
    piece->t = k->t;
    return piece->type->init(piece, variant, e);
}

static graft_status init(graft_kernel *k, int32_t variant, graft_err *e)
{
    graft_cuda_layout *l = &k->layout[GRAFT_LINEAR_W];
    const graft_act act = k->op.attrs.act;
    uint64_t end = 0;
    graft_cuda_matmul_layout(k, act == GRAFT_ACT_GEGLU);
    graft_status st = init_piece(k, variant, e);
    if (st) return st;
    graft_kernel *piece = k->piece;
    memcpy(k->info.variant, piece->info.variant, sizeof k->info.variant);
    k->info.variant_index = piece->info.variant_index;
    k->info.variant_count = piece->info.variant_count;
    graft_cuda_reserve(&end, piece->info.workspace_bytes);
    k->at.weight = graft_cuda_reserve(&end, floats_bytes(k) / (uint64_t)k->pieces);
    k->info.workspace_bytes = end;
    /* A library's product has its activation in one more pass, which is a fast one where what it
     * goes over is dense: it goes over the whole result then. */
    if (k->pieces > 1 && piece->lt && !piece->wgmma && graft_act_is_pointwise(act)) {
        k->after = act;
        piece->op.attrs.act = GRAFT_ACT_NONE;
    }
    l->blocks = graft_quant_blocks(k->op.attrs.quant);
    /* What they are unpacked to makes no difference to the bytes. */
    k->info.packed_bytes[GRAFT_LINEAR_W] =
        graft_cuda_source_bytes(l, GRAFT_BLOCKS + (graft_dtype)l->blocks);
    k->info.packing[GRAFT_LINEAR_W] = (uint64_t)l->blocks << 16;
    return GRAFT_OK;
}

static graft_status unpack(const graft_kernel *k, const void *blocks, uint32_t first,
                           uint32_t count, void *to)
{
    const graft_cuda_layout *l = &k->layout[GRAFT_LINEAR_W];
    const int64_t levels = graft_blocks_level_bytes(l->blocks, (int64_t)l->rows * l->channels);
    const bool scaled = graft_blocks_scaled(l->blocks);
    graft_cuda_block p = {.src = blocks,
                          .dst = to,
                          .scales = scaled ? (const uint8_t *)blocks + levels : NULL,
                          .pairs = l->pairs,
                          .type = l->blocks,
                          .rows = l->rows,
                          .columns = l->channels,
                          .ldw = l->ldw,
                          .first = first,
                          .count = count};
    return graft_cuda_launch(k->d, graft_cuda_typed(GRAFT_CUDA_FN_graft_block_unpack, k->t),
                             graft_cuda_blocks((uint64_t)count * (l->ldw / 8), GRAFT_CUDA_THREADS),
                             1, 1, &p);
}

static const void *moved(const void *p, uint64_t elements, graft_dtype dtype)
{
    return p ? (const char *)p + elements * graft_dtype_size(dtype) : NULL;
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, char *ws)
{
    const uint32_t rows = k->layout[GRAFT_LINEAR_W].rows / (uint32_t)k->pieces;
    const uint64_t outputs = (uint64_t)(outputs_of(&k->op) / k->pieces);
    const void *from[GRAFT_MAX_INPUTS];
    graft_status st = GRAFT_OK;
    for (int i = 0; i < GRAFT_MAX_INPUTS; i++) from[i] = in[i];
    from[GRAFT_LINEAR_W] = ws + k->at.weight;
    for (uint32_t i = 0; i < (uint32_t)k->pieces && !st; i++) {
        from[GRAFT_LINEAR_BIAS] = moved(in[GRAFT_LINEAR_BIAS], (uint64_t)i * rows, k->t);
        from[GRAFT_LINEAR_RESIDUAL] = moved(in[GRAFT_LINEAR_RESIDUAL], i * outputs, k->t);
        st = unpack(k, in[GRAFT_LINEAR_W], i * rows, rows, ws + k->at.weight);
        if (!st)
            st = k->piece->type->launch(k->piece, from,
                                        (char *)out + i * outputs * graft_dtype_size(k->t), ws);
    }
    if (st || k->after == GRAFT_ACT_NONE) return st;
    return graft_cuda_finish(k, out, k->after, 0, NULL, 0, NULL);
}

const graft_cuda_op graft_cuda_op_blocks = {.check = check, .init = init, .launch = launch};
