/* RMS_NORM over each head of the last dimension. */
#include "kernels/cpu/norm_rows.h"

static graft_status check(graft_device *d, const graft_op_desc *op, graft_err *e)
{
    graft_status st;
    const graft_tensor_desc *x = &op->in[GRAFT_NORM_X], *y = &op->out;
    int64_t heads = op->attrs.heads;
    (void)d;
    GRAFT_TRY(graft_cpu_check_float(x, 0, "rms_norm: x", e));
    GRAFT_TRY(graft_cpu_check_float(y, 0, "rms_norm: output", e));
    GRAFT_TRY(graft_cpu_check_same(x, y, "rms_norm: x and output", e));
    int64_t n = x->dim[x->rank - 1];
    if (heads < 1 || n % heads)
        return graft_fail(e, GRAFT_E_ARG, "rms_norm: width %lld in %d heads", (long long)n,
                          (int)heads);
    GRAFT_TRY(
        graft_cpu_check_vector(&op->in[GRAFT_NORM_GAMMA], n / heads, 0, "rms_norm: gamma", e));
    GRAFT_TRY(graft_cpu_check_absent(op, GRAFT_NORM_GAMMA + 1, e));
    if (x->constant) st = graft_fail(e, GRAFT_E_UNSUPPORTED, "rms_norm: x is constant");
out:
    return st;
}

static graft_status init(graft_kernel *k, int32_t variant, graft_err *e)
{
    (void)variant;
    (void)e;
    graft_cpu_pack_as(k, GRAFT_NORM_GAMMA, GRAFT_F32);
    graft_cpu_norm_rows_init(k);
    return GRAFT_OK;
}

static void norm(const graft_kernel *k, const void *const *in, int64_t row, const void *x, void *y)
{
    const graft_tensor_desc *d = &k->op.in[GRAFT_NORM_X];
    size_t heads = (size_t)k->op.attrs.heads;
    (void)row;
    k->d->simd->rms_norm(x, d->dtype, in[GRAFT_NORM_GAMMA], y, k->op.out.dtype, heads,
                         (size_t)d->dim[d->rank - 1] / heads, k->op.attrs.eps);
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, void *workspace)
{
    return graft_cpu_norm_rows(k, in, out, workspace, norm);
}

const graft_cpu_op graft_cpu_op_rms_norm = {check, init,   NULL,
                                            NULL,  launch, graft_cpu_norm_rows_inplace};
