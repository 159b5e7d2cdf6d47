/* ROUTE. */
#include "kernels/cuda/ops/op.h"

static graft_status check(const graft_op_desc *op, graft_err *e)
{
    return op->in[0].constant ? graft_fail(e, GRAFT_E_UNSUPPORTED, "x is constant") : GRAFT_OK;
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, char *workspace)
{
    (void)workspace;
    graft_cuda_route p = {.x = in[0], .out = out, .taken = (uint32_t)k->op.attrs.groups};
    graft_cuda_shape(&k->op.out, p.dim, p.so);
    graft_cuda_shape(&k->op.in[0], NULL, p.sx);
    p.choices = p.dim[GRAFT_MAX_RANK - 1];
    p.dim[GRAFT_MAX_RANK - 1] = 1; /* rows are counted */
    p.rows = (uint32_t)(graft_ref_elements(&k->op.out) / p.choices);
    return graft_cuda_launch(k->d, graft_cuda_typed(GRAFT_CUDA_FN_graft_route, k->t),
                             graft_cuda_blocks(p.rows, GRAFT_CUDA_THREADS), 1, 1, &p);
}

const graft_cuda_op graft_cuda_op_route = {.check = check, .launch = launch};
