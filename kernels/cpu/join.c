/* JOIN: one input's tokens behind the other's, entry by entry of the batch. */
#include <string.h>

#include "kernels/cpu/cpu.h"

static graft_status check(graft_device *d, const graft_op_desc *op, graft_err *e)
{
    graft_status st;
    const graft_tensor_desc *a = &op->in[0], *b = &op->in[1], *y = &op->out;
    (void)d;
    GRAFT_TRY(graft_cpu_check_float(a, 3, "join: a", e));
    GRAFT_TRY(graft_cpu_check_float(b, 3, "join: b", e));
    GRAFT_TRY(graft_cpu_check_float(y, 3, "join: output", e));
    GRAFT_TRY(graft_cpu_check_absent(op, 2, e));
    bool fits = a->dim[0] == b->dim[0] && a->dim[0] == y->dim[0] && a->dim[2] == b->dim[2] &&
                a->dim[2] == y->dim[2] && a->dim[1] + b->dim[1] == y->dim[1];
    if (!fits) st = graft_fail(e, GRAFT_E_ARG, "join: the shapes do not join");
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
    int64_t at = 0;
    (void)workspace;
    for (int i = 0; i < 2; i++) {
        const graft_tensor_desc *x = &k->op.in[i];
        graft_tensor_desc part = k->op.out;
        part.dim[1] = x->dim[1];
        const graft_tensor_desc *tensor[] = {x, &part};
        job j = {k->d->simd, in[i], graft_cpu_at_mut(out, part.dtype, at), x->dtype, part.dtype};
        graft_cpu_walk w;
        graft_cpu_walk_init(&w, &part, tensor, 2);
        graft_cpu_walk_run(&w, k->d, piece, &j);
        at += x->dim[1] * part.stride[1];
    }
    return GRAFT_OK;
}

const graft_cpu_op graft_cpu_op_join = {check, init, NULL, NULL, launch, NULL};
