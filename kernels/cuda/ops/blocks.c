/* LINEAR with weights in blocks of ggml: they stay so on the device, as their file has them, and
 * each launch writes them out as floats into the workspace, which all operators share, for the
 * kernel of floats. */
#include "kernels/cuda/ops/quant.h"
#include "kernels/quant.h"

static graft_status check(const graft_op_desc *op, graft_err *e)
{
    const int32_t type = graft_quant_blocks(op->attrs.quant);
    if (graft_blocks_scaled(type))
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "linear: blocks of %s", graft_blocks_name(type));
    return graft_cuda_op_linear.check(op, e);
}

static graft_status init(graft_kernel *k, int32_t variant, graft_err *e)
{
    graft_status st = graft_cuda_op_linear.init(k, variant, e);
    if (st) return st;
    graft_cuda_layout *l = &k->layout[GRAFT_LINEAR_W];
    uint64_t end = 0;
    graft_cuda_reserve(&end, k->info.workspace_bytes);
    k->at.weight = graft_cuda_reserve(&end, (uint64_t)l->rows * l->ldw * graft_dtype_size(l->to));
    k->info.workspace_bytes = end;
    l->blocks = graft_quant_blocks(k->op.attrs.quant);
    /* What they are unpacked to makes no difference to the bytes. */
    k->info.packed_bytes[GRAFT_LINEAR_W] =
        graft_cuda_source_bytes(l, GRAFT_BLOCKS + (graft_dtype)l->blocks);
    k->info.packing[GRAFT_LINEAR_W] = (uint64_t)l->blocks << 16;
    return GRAFT_OK;
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, char *ws)
{
    const graft_cuda_layout *l = &k->layout[GRAFT_LINEAR_W];
    const void *unpacked[GRAFT_MAX_INPUTS];
    graft_cuda_ggml p = {.src = in[GRAFT_LINEAR_W],
                         .dst = ws + k->at.weight,
                         .pairs = l->pairs,
                         .type = l->blocks,
                         .rows = l->rows,
                         .columns = l->channels,
                         .ldw = l->ldw,
                         .count = l->rows};
    graft_status st = graft_cuda_launch(
        k->d, graft_cuda_typed(GRAFT_CUDA_FN_graft_ggml_unpack, l->to),
        graft_cuda_blocks((uint64_t)l->rows * l->ldw / 8, GRAFT_CUDA_THREADS), 1, 1, &p);
    for (int i = 0; i < GRAFT_MAX_INPUTS; i++) unpacked[i] = in[i];
    unpacked[GRAFT_LINEAR_W] = p.dst;
    return st ? st : graft_cuda_op_linear.launch(k, unpacked, out, ws);
}

const graft_cuda_op graft_cuda_op_blocks = {.check = check, .init = init, .launch = launch};
