/* CONV2D and LINEAR with weights of 4 bits: they stay packed on the device, and each launch writes
 * them out as floats into the workspace, which all operators share, for the kernel of floats. */
#include "kernels/cuda/ops/quant.h"
#include "kernels/quant.h"

static const graft_cuda_op *floats(const graft_op_desc *op)
{
    return op->op == GRAFT_OP_CONV2D ? &graft_cuda_op_conv2d : &graft_cuda_op_linear;
}

static graft_status check(const graft_op_desc *op, graft_err *e)
{
    return floats(op)->check(op, e);
}

static graft_status init(graft_kernel *k, int32_t variant, graft_err *e)
{
    graft_status st = floats(&k->op)->init(k, variant, e);
    if (st) return st;
    graft_cuda_layout *l = &k->layout[1];
    uint64_t end = 0;
    graft_cuda_reserve(&end, k->info.workspace_bytes);
    k->at.weight = graft_cuda_reserve(&end, (uint64_t)l->rows * l->ldw * graft_dtype_size(l->to));
    k->info.workspace_bytes = end;
    l->int4 = true;
    /* What it is unpacked to makes no difference to the bytes. */
    k->info.packed_bytes[1] = graft_quant4_bytes(l->rows, (int64_t)l->channels * l->taps);
    k->info.packing[1] = GRAFT_Q4;
    return GRAFT_OK;
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, char *ws)
{
    const graft_cuda_layout *l = &k->layout[1];
    const void *unpacked[GRAFT_MAX_INPUTS];
    graft_cuda_quant4 p = {.src = in[1],
                           .dst = ws + k->at.weight,
                           .pairs = l->pairs,
                           .rows = l->rows,
                           .channels = l->channels,
                           .taps = l->taps,
                           .ldw = l->ldw,
                           .groups = (uint32_t)graft_quant4_groups((int64_t)l->channels * l->taps)};
    graft_status st = graft_cuda_launch(
        k->d, graft_cuda_typed(GRAFT_CUDA_FN_graft_quant4_unpack, l->to),
        graft_cuda_blocks((uint64_t)l->rows * l->ldw / 8, GRAFT_CUDA_THREADS), 1, 1, &p);
    for (int i = 0; i < GRAFT_MAX_INPUTS; i++) unpacked[i] = in[i];
    unpacked[1] = p.dst;
    return st ? st : floats(&k->op)->launch(k, unpacked, out, ws);
}

const graft_cuda_op graft_cuda_op_int4 = {.check = check, .init = init, .launch = launch};
