/* LAYER_NORM over the last dimension; gamma and beta may differ from one entry of the batch to the
 * next. */
#include "kernels/cpu/norm_rows.h"

static graft_status check(graft_device *d, const graft_op_desc *op, graft_err *e)
{
    graft_status st;
    const graft_tensor_desc *x = &op->in[GRAFT_NORM_X], *y = &op->out;
    (void)d;
    GRAFT_TRY(graft_cpu_check_float(x, 0, "layer_norm: x", e));
    GRAFT_TRY(graft_cpu_check_float(y, 0, "layer_norm: output", e));
    GRAFT_TRY(graft_cpu_check_same(x, y, "layer_norm: x and output", e));
    int64_t n = x->dim[x->rank - 1];
    bool each = op->in[GRAFT_NORM_GAMMA].rank == 3;
    for (int i = GRAFT_NORM_GAMMA; i <= GRAFT_NORM_BETA; i++) {
        const char *what = i == GRAFT_NORM_GAMMA ? "layer_norm: gamma" : "layer_norm: beta";
        GRAFT_TRY(each ? graft_cpu_check_row_each(&op->in[i], x, what, e)
                       : graft_cpu_check_vector(&op->in[i], n, 0, what, e));
    }
    GRAFT_TRY(graft_cpu_check_absent(op, GRAFT_NORM_BETA + 1, e));
    if (x->constant) st = graft_fail(e, GRAFT_E_UNSUPPORTED, "layer_norm: x is constant");
out:
    return st;
}

static graft_status init(graft_kernel *k, int32_t variant, graft_err *e)
{
    (void)variant;
    (void)e;
    graft_cpu_pack_as(k, GRAFT_NORM_GAMMA, GRAFT_F32);
    graft_cpu_pack_as(k, GRAFT_NORM_BETA, GRAFT_F32);
    graft_cpu_norm_rows_init(k);
    return GRAFT_OK;
}

/* gamma or beta of a row of x. */
static const float *vector_of(const graft_kernel *k, const void *const *in, int input, int64_t row)
{
    const graft_tensor_desc *t = &k->op.in[input];
    int64_t entry = t->rank == 3 ? row / k->op.out.dim[1] : 0;
    return (const float *)in[input] + entry * t->stride[0];
}

static void norm(const graft_kernel *k, const void *const *in, int64_t row, const void *x, void *y)
{
    const graft_tensor_desc *d = &k->op.in[GRAFT_NORM_X];
    k->d->simd->layer_norm(x, d->dtype, vector_of(k, in, GRAFT_NORM_GAMMA, row),
                           vector_of(k, in, GRAFT_NORM_BETA, row), y, k->op.out.dtype,
                           (size_t)d->dim[d->rank - 1], k->op.attrs.eps);
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, void *workspace)
{
    return graft_cpu_norm_rows(k, in, out, workspace, norm);
}

const graft_cpu_op graft_cpu_op_layer_norm = {check, init,   NULL,
                                              NULL,  launch, graft_cpu_norm_rows_inplace};
