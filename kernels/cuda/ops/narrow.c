/* LINEAR in float32 with weights that need 16 bits only, which is what text encoders are made of:
 * they stay so on the device, and each launch writes them out as float32 into the workspace, which
 * all operators share, for the ordinary kernel. No bit of a result differs. */
#include "kernels/cuda/ops/quant.h"

bool graft_cuda_is_narrow(const graft_op_desc *op)
{
    const graft_tensor_desc *w = &op->in[GRAFT_LINEAR_W];
    return op->op == GRAFT_OP_LINEAR && w->constant &&
           (w->dtype == GRAFT_F16 || w->dtype == GRAFT_BF16) && op->out.dtype == GRAFT_F32 &&
           !op->attrs.quant;
}

static graft_status check(const graft_op_desc *op, graft_err *e)
{
    return graft_cuda_op_linear.check(op, e);
}

static graft_status init(graft_kernel *k, int32_t variant, graft_err *e)
{
    graft_status st = graft_cuda_op_linear.init(k, variant, e);
    if (st) return st;
    graft_cuda_layout l = k->layout[GRAFT_LINEAR_W];
    uint64_t end = 0;
    graft_cuda_reserve(&end, k->info.workspace_bytes);
    k->at.weight = graft_cuda_reserve(&end, (uint64_t)l.rows * l.ldw * graft_dtype_size(l.to));
    k->info.workspace_bytes = end;
    l.to = k->op.in[GRAFT_LINEAR_W].dtype;
    graft_cuda_pack_as(k, GRAFT_LINEAR_W, l);
    return GRAFT_OK;
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, char *ws)
{
    const graft_cuda_layout *l = &k->layout[GRAFT_LINEAR_W];
    const void *wide[GRAFT_MAX_INPUTS];
    uint32_t eights = l->rows * (l->ldw / 8);
    graft_cuda_widen p = {in[GRAFT_LINEAR_W], (float *)(void *)(ws + k->at.weight), eights};
    graft_status st = graft_cuda_launch(
        k->d, l->to == GRAFT_F16 ? GRAFT_CUDA_FN_graft_widen_f16 : GRAFT_CUDA_FN_graft_widen_bf16,
        graft_cuda_blocks(eights, GRAFT_CUDA_THREADS), 1, 1, &p);
    for (int i = 0; i < GRAFT_MAX_INPUTS; i++) wide[i] = in[i];
    wide[GRAFT_LINEAR_W] = p.dst;
    return st ? st : graft_cuda_op_linear.launch(k, wide, out, ws);
}

const graft_cuda_op graft_cuda_op_narrow = {.check = check, .init = init, .launch = launch};
