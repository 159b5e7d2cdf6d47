/* CONCAT and JOIN: each input goes to its part of the output's rows, or of its tokens. */
#include <string.h>

#include "kernels/cpu/cpu.h"

/* The dimension in which the inputs stand behind each other. */
static int axis_of(const graft_op_desc *op)
{
    return op->op == GRAFT_OP_JOIN ? 1 : op->out.rank - 1;
}

static graft_status check(graft_device *d, const graft_op_desc *op, graft_err *e)
{
    graft_status st;
    const graft_tensor_desc *a = &op->in[0], *b = &op->in[1], *y = &op->out;
    (void)d;
    GRAFT_TRY(graft_cpu_check_float(y, op->op == GRAFT_OP_JOIN ? 3 : 0, "output", e));
    GRAFT_TRY(graft_cpu_check_float(a, y->rank, "a", e));
    GRAFT_TRY(graft_cpu_check_float(b, y->rank, "b", e));
    GRAFT_TRY(graft_cpu_check_absent(op, 2, e));
    int axis = axis_of(op), fits = a->dim[axis] + b->dim[axis] == y->dim[axis];
    for (int i = 0; i < y->rank; i++)
        fits = fits && (i == axis || (a->dim[i] == y->dim[i] && b->dim[i] == y->dim[i]));
    if (!fits) st = graft_fail(e, GRAFT_E_ARG, "the shapes do not join");
out:
    return st;
}

static graft_status init(graft_kernel *k, int32_t variant, graft_err *e)
{
    (void)variant;
    (void)e;
    graft_cpu_pack_as(k, 0, k->op.out.dtype);
    graft_cpu_pack_as(k, 1, k->op.out.dtype);
    return GRAFT_OK;
}

typedef struct job {
    const graft_cpu_simd *simd;
    const void *x;
    void *y;
    graft_dtype xt, yt;
} job;

static void piece(void *ctx, const int64_t *offset, int64_t n)
{
    const job *j = ctx;
    const void *x = graft_cpu_at(j->x, j->xt, offset[0]);
    void *y = graft_cpu_at_mut(j->y, j->yt, offset[1]);
    if (j->xt == j->yt)
        memcpy(y, x, (size_t)n * graft_dtype_size(j->yt));
    else
        j->simd->act(GRAFT_ACT_NONE, x, j->xt, y, j->yt, (size_t)n);
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, void *workspace)
{
    int axis = axis_of(&k->op);
    int64_t at = 0;
    (void)workspace;
    for (int i = 0; i < 2; i++) {
        const graft_tensor_desc *x = &k->op.in[i];
        graft_tensor_desc part = k->op.out;
        part.dim[axis] = x->dim[axis];
        const graft_tensor_desc *tensor[] = {x, &part};
        job j = {k->d->simd, in[i], graft_cpu_at_mut(out, part.dtype, at), x->dtype, part.dtype};
        graft_cpu_walk w;
        graft_cpu_walk_init(&w, &part, tensor, 2);
        graft_cpu_walk_run(&w, k->d, piece, &j);
        at += x->dim[axis] * part.stride[axis];
    }
    return GRAFT_OK;
}

const graft_cpu_op graft_cpu_op_concat = {check, init, NULL, NULL, launch, NULL};
const graft_cpu_op graft_cpu_op_join = {check, init, NULL, NULL, launch, NULL};
