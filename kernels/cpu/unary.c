/* ACT, SCALE and GEGLU, which is the first half of each row times gelu of the second: one input,
 * and a function of simd/ for pieces of rows. */
#include "kernels/cpu/cpu.h"

static graft_status check_one(const graft_op_desc *op, graft_err *e)
{
    graft_status st;
    GRAFT_TRY(graft_cpu_check_float(&op->in[0], 0, "x", e));
    GRAFT_TRY(graft_cpu_check_float(&op->out, 0, "output", e));
    GRAFT_TRY(graft_cpu_check_absent(op, 1, e));
out:
    return st;
}

static graft_status check_scale(graft_device *d, const graft_op_desc *op, graft_err *e)
{
    (void)d;
    graft_status st = check_one(op, e);
    return st ? st : graft_cpu_check_same(&op->in[0], &op->out, "x and output", e);
}

static graft_status check_act(graft_device *d, const graft_op_desc *op, graft_err *e)
{
    graft_status st = check_scale(d, op, e);
    if (!st && !graft_act_is_pointwise(op->attrs.act))
        st = graft_fail(e, GRAFT_E_UNSUPPORTED, "act: act %d", (int)op->attrs.act);
    return st;
}

static graft_status check_geglu(graft_device *d, const graft_op_desc *op, graft_err *e)
{
    const graft_tensor_desc *x = &op->in[0], *y = &op->out;
    (void)d;
    graft_status st = check_one(op, e);
    if (st) return st;
    int last = x->rank - 1, fits = y->rank == x->rank && x->dim[last] == 2 * y->dim[last];
    for (int i = 0; i < last && fits; i++) fits = x->dim[i] == y->dim[i];
    return fits ? GRAFT_OK
                : graft_fail(e, GRAFT_E_ARG, "geglu: the output's rows must be half as long");
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
    const graft_cpu_simd *simd = j->k->d->simd;
    graft_dtype xt = op->in[0].dtype, yt = op->out.dtype;
    const void *x = graft_cpu_at(j->x, xt, offset[0]);
    void *y = graft_cpu_at_mut(j->y, yt, offset[1]);
    if (op->op == GRAFT_OP_ACT)
        simd->act(op->attrs.act, x, xt, y, yt, (size_t)n);
    else if (op->op == GRAFT_OP_SCALE)
        simd->scale(x, xt, y, yt, (size_t)n, op->attrs.scale, op->attrs.shift);
    else
        simd->geglu(x, graft_cpu_at(x, xt, op->out.dim[op->out.rank - 1]), xt, y, yt, (size_t)n);
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, void *workspace)
{
    graft_tensor_desc x = k->op.in[0];
    if (k->op.op == GRAFT_OP_GEGLU) x.dim[x.rank - 1] /= 2;
    const graft_tensor_desc *tensor[] = {&x, &k->op.out};
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

const graft_cpu_op graft_cpu_op_act = {check_act, init, NULL, NULL, launch, inplace};
const graft_cpu_op graft_cpu_op_scale = {check_scale, init, NULL, NULL, launch, inplace};
const graft_cpu_op graft_cpu_op_geglu = {check_geglu, init, NULL, NULL, launch, NULL};
