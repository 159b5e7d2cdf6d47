/* SCALE */
#include "kernels/cpu/cpu.h"

static graft_status check(graft_device *d, const graft_op_desc *op, graft_err *e)
{
    graft_status st;
    (void)d;
    GRAFT_TRY(graft_cpu_check_float(&op->in[0], 0, "scale: x", e));
    GRAFT_TRY(graft_cpu_check_float(&op->out, 0, "scale: output", e));
    GRAFT_TRY(graft_cpu_check_same(&op->in[0], &op->out, "scale: x and output", e));
    GRAFT_TRY(graft_cpu_check_absent(op, 1, e));
out:
    return st;
}

static graft_status init(graft_kernel *k, int32_t variant, graft_err *e)
{
    (void)variant;
    (void)e;
    graft_cpu_pack_as(k, 0, k->op.out.dtype);
    return GRAFT_OK;
}

typedef struct job {
    const graft_kernel *k;
    const void *x;
    void *y;
} job;

static void piece(void *ctx, const int64_t *offset, int64_t n)
{
    const job *j = ctx;
    const graft_op_desc *op = &j->k->op;
    j->k->d->simd->scale(graft_cpu_at(j->x, op->in[0].dtype, offset[0]), op->in[0].dtype,
                         graft_cpu_at_mut(j->y, op->out.dtype, offset[1]), op->out.dtype, (size_t)n,
                         op->attrs.scale, op->attrs.shift);
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, void *workspace)
{
    const graft_tensor_desc *tensor[] = {&k->op.in[0], &k->op.out};
    graft_cpu_walk w;
    job j = {k, in[0], out};
    (void)workspace;
    graft_cpu_walk_init(&w, &k->op.out, tensor, 2);
    graft_cpu_walk_run(&w, k->d, piece, &j);
    return GRAFT_OK;
}

static int32_t inplace(const graft_kernel *k, int32_t input)
{
    return input == 0 && !k->op.in[0].constant && k->op.in[0].dtype == k->op.out.dtype &&
           graft_cpu_is_dense(&k->op.in[0]) && graft_cpu_is_dense(&k->op.out);
}

const graft_cpu_op graft_cpu_op_scale = {check, init, NULL, NULL, launch, inplace};
