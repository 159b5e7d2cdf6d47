/* PRELU: a slope for each channel where x is negative. */
#include "kernels/cpu/cpu.h"

static graft_status check(graft_device *d, const graft_op_desc *op, graft_err *e)
{
    const graft_tensor_desc *x = &op->in[GRAFT_PRELU_X], *y = &op->out;
    (void)d;
    graft_status st = graft_cpu_check_float(x, 0, "x", e);
    if (!st) st = graft_cpu_check_float(y, 0, "output", e);
    if (!st) st = graft_cpu_check_same(x, y, "x and output", e);
    if (!st)
        st = graft_cpu_check_vector(&op->in[GRAFT_PRELU_SLOPE], y->dim[y->rank - 1], 0, "slope", e);
    return st ? st : graft_cpu_check_absent(op, 2, e);
}

static graft_status init(graft_kernel *k, int32_t variant, graft_err *e)
{
    (void)variant;
    (void)e;
    graft_cpu_pack_as(k, GRAFT_PRELU_X, GRAFT_F32);
    graft_cpu_pack_as(k, GRAFT_PRELU_SLOPE, GRAFT_F32);
    return GRAFT_OK;
}

typedef struct job {
    const graft_kernel *k;
    graft_cpu_walk w;
    const void *x;
    const float *slope;
    void *y;
} job;

static void piece(void *ctx, const int64_t *offset, int64_t n)
{
    const job *j = ctx;
    graft_dtype xt = j->k->op.in[GRAFT_PRELU_X].dtype, yt = j->k->op.out.dtype;
    const void *x = graft_cpu_at(j->x, xt, offset[0]);
    const float *slope = j->slope + offset[1];
    void *y = graft_cpu_at_mut(j->y, yt, offset[2]);
    if (j->w.stride[1][GRAFT_MAX_RANK - 1] == 1) {
        j->k->d->simd->prelu(x, xt, slope, y, yt, (size_t)n);
        return;
    }
    for (int64_t i = 0; i < n; i++) /* one channel: the row runs along pixels */
        j->k->d->simd->prelu(graft_cpu_at(x, xt, i), xt, slope, graft_cpu_at_mut(y, yt, i), yt, 1);
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, void *workspace)
{
    const graft_tensor_desc *tensor[] = {&k->op.in[0], &k->op.in[1], &k->op.out};
    job j = {k, {0}, in[0], in[1], out};
    (void)workspace;
    graft_cpu_walk_init(&j.w, &k->op.out, tensor, 3);
    graft_cpu_walk_run(&j.w, k->d, piece, &j);
    return GRAFT_OK;
}

static int32_t inplace(const graft_kernel *k, int32_t input)
{
    const graft_tensor_desc *x = &k->op.in[GRAFT_PRELU_X];
    return input == GRAFT_PRELU_X && !x->constant && x->dtype == k->op.out.dtype &&
           graft_cpu_is_dense(x) && graft_cpu_is_dense(&k->op.out);
}

const graft_cpu_op graft_cpu_op_prelu = {check, init, NULL, NULL, launch, inplace};
