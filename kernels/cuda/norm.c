/* LAYER_NORM and GROUP_NORM. */
#include "kernels/cuda/backend.h"

static graft_status init_layer(graft_kernel *k, int32_t variant, graft_err *e)
{
    (void)variant, (void)e;
    graft_cuda_pack_plain(k, GRAFT_NORM_GAMMA, GRAFT_F32);
    graft_cuda_pack_plain(k, GRAFT_NORM_BETA, GRAFT_F32);
    return GRAFT_OK;
}

static graft_status check_constants(const graft_op_desc *op, graft_err *e)
{
    if (op->in[GRAFT_NORM_X].constant || !op->in[GRAFT_NORM_GAMMA].constant ||
        !op->in[GRAFT_NORM_BETA].constant)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "x must vary, gamma and beta be constant");
    return GRAFT_OK;
}

static graft_status launch_layer(graft_kernel *k, const void *const *in, void *out, char *workspace)
{
    (void)workspace;
    graft_cuda_layer_norm p = {.x = in[GRAFT_NORM_X],
                               .gamma = in[GRAFT_NORM_GAMMA],
                               .beta = in[GRAFT_NORM_BETA],
                               .out = out,
                               .eps = k->op.attrs.eps};
    graft_cuda_shape(&k->op.in[0], p.dim, p.sx);
    graft_cuda_shape(&k->op.out, NULL, p.so);
    uint32_t rows = (uint32_t)(graft_ref_elements(&k->op.out) / p.dim[3]);
    return graft_cuda_launch(k->d, graft_cuda_typed(GRAFT_CUDA_FN_graft_layer_norm, k->t), rows, 1,
                             1, &p);
}

static graft_status check_group(const graft_op_desc *op, graft_err *e)
{
    if (op->attrs.groups > GRAFT_CUDA_MAX_GROUPS || op->out.dim[0] > 65535)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "%d groups of %lld pictures",
                          (int)op->attrs.groups, (long long)op->out.dim[0]);
    const graft_tensor_desc *m = &op->in[GRAFT_NORM_MOMENTS];
    if (graft_cuda_present(m) && (m->constant || !graft_ref_is_dense(m)))
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "moments must vary and be dense");
    if (op->in[GRAFT_NORM_CHANNEL_ADD].constant)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "channel_add must vary");
    return check_constants(op, e);
}

/* Pixels that one block reads for statistics. */
enum { STAT_PIXELS = 512 };

static uint32_t splits_of(const graft_op_desc *op)
{
    int64_t n = op->out.dim[1] * op->out.dim[2] / STAT_PIXELS;
    return n < 1 ? 1 : n > GRAFT_CUDA_STAT_SPLITS ? GRAFT_CUDA_STAT_SPLITS : (uint32_t)n;
}

static graft_status init_group(graft_kernel *k, int32_t variant, graft_err *e)
{
    k->info.workspace_bytes = (uint64_t)k->op.out.dim[0] * (uint64_t)k->op.attrs.groups *
                              splits_of(&k->op) * sizeof(graft_cuda_stat);
    return init_layer(k, variant, e);
}

static graft_status launch_group(graft_kernel *k, const void *const *in, void *out, char *workspace)
{
    const graft_tensor_desc *x = &k->op.in[GRAFT_NORM_X];
    graft_cuda_group_norm p = {.x = in[GRAFT_NORM_X],
                               .gamma = in[GRAFT_NORM_GAMMA],
                               .beta = in[GRAFT_NORM_BETA],
                               .out = out,
                               .moments = in[GRAFT_NORM_MOMENTS],
                               .add = in[GRAFT_NORM_CHANNEL_ADD],
                               .sadd = k->op.in[GRAFT_NORM_CHANNEL_ADD].stride[0],
                               .stat = (graft_cuda_stat *)(void *)workspace,
                               .height = (uint32_t)x->dim[1],
                               .width = (uint32_t)x->dim[2],
                               .channels = (uint32_t)x->dim[3],
                               .groups = (uint32_t)k->op.attrs.groups,
                               .splits = splits_of(&k->op),
                               .act = k->op.attrs.act,
                               .eps = k->op.attrs.eps};
    uint32_t pixels = p.height * p.width, batch = (uint32_t)x->dim[0];
    p.chunk = 8192 / p.channels + 1;
    for (int i = 0; i < 3; i++) {
        p.sx[i] = x->stride[i];
        p.so[i] = k->op.out.stride[i];
    }
    graft_status st = GRAFT_OK;
    if (!p.moments)
        st = graft_cuda_launch(k->d, graft_cuda_typed(GRAFT_CUDA_FN_graft_group_stat, k->t),
                               p.splits, p.groups, batch, &p);
    if (st) return st;
    return graft_cuda_launch(k->d, graft_cuda_typed(GRAFT_CUDA_FN_graft_group_norm, k->t),
                             graft_cuda_blocks(pixels, p.chunk), batch, 1, &p);
}

const graft_cuda_op graft_cuda_op_layer_norm = {
    .check = check_constants, .init = init_layer, .launch = launch_layer};
const graft_cuda_op graft_cuda_op_group_norm = {
    .check = check_group, .init = init_group, .launch = launch_group};
