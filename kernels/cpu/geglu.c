/* GEGLU: the first half of each row times gelu of the second. */
#include "kernels/cpu/cpu.h"

static graft_status check(graft_device *d, const graft_op_desc *op, graft_err *e)
{
    graft_status st;
    const graft_tensor_desc *x = &op->in[0], *y = &op->out;
    (void)d;
    GRAFT_TRY(graft_cpu_check_float(x, 0, "geglu: x", e));
    GRAFT_TRY(graft_cpu_check_float(y, x->rank, "geglu: output", e));
    GRAFT_TRY(graft_cpu_check_absent(op, 1, e));
    int fits = x->dim[x->rank - 1] == 2 * y->dim[x->rank - 1];
    for (int i = 0; i < x->rank - 1; i++) fits = fits && x->dim[i] == y->dim[i];
    if (!fits) st = graft_fail(e, GRAFT_E_ARG, "geglu: the output's rows must be half as long");
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
    const graft_tensor_desc *x = &j->k->op.in[0], *y = &j->k->op.out;
    j->k->d->simd->geglu(graft_cpu_at(j->x, x->dtype, offset[0]),
                         graft_cpu_at(j->x, x->dtype, offset[0] + y->dim[y->rank - 1]), x->dtype,
                         graft_cpu_at_mut(j->y, y->dtype, offset[1]), y->dtype, (size_t)n);
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, void *workspace)
{
    graft_tensor_desc half = k->op.in[0];
    half.dim[half.rank - 1] /= 2;
    const graft_tensor_desc *tensor[] = {&half, &k->op.out};
    graft_cpu_walk w;
    job j = {k, in[0], out};
    (void)workspace;
    graft_cpu_walk_init(&w, &k->op.out, tensor, 2);
    graft_cpu_walk_run(&w, k->d, piece, &j);
    return GRAFT_OK;
}

const graft_cpu_op graft_cpu_op_geglu = {check, init, NULL, NULL, launch, NULL};
