/* ROPE. */
#include "kernels/cuda/backend.h"

static graft_status check(const graft_op_desc *op, graft_err *e)
{
    if (op->in[0].constant) return graft_fail(e, GRAFT_E_UNSUPPORTED, "x must vary");
    return GRAFT_OK;
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, char *workspace)
{
    (void)workspace;
    const graft_tensor_desc *x = &k->op.in[0], *y = &k->op.out;
    const graft_attrs *a = &k->op.attrs;
    const int64_t step = 16 / (int64_t)graft_dtype_size(k->t);
    graft_cuda_rope p = {.x = in[0],
                         .out = out,
                         .sx = {x->stride[0], x->stride[1]},
                         .so = {y->stride[0], y->stride[1]},
                         .tokens = (uint32_t)x->dim[1],
                         .before = (uint32_t)(x->dim[1] - (int64_t)a->up_h * a->up_w),
                         .columns = (uint32_t)a->up_w,
                         .channels = (uint32_t)x->dim[2],
                         .width = (uint32_t)(x->dim[2] / a->heads),
                         .of_row = (uint32_t)(a->kernel_h / 2),
                         .of_column = (uint32_t)(a->kernel_w / 2)};
    p.vec = graft_cuda_aligned(in, 1, out) && p.channels % 8 == 0;
    for (int i = 0; i < 2; i++)
        p.vec = p.vec && (x->dim[i] == 1 || (p.sx[i] % step == 0 && p.so[i] % step == 0));
    return graft_cuda_launch(k->d, graft_cuda_typed(GRAFT_CUDA_FN_graft_rope, k->t),
                             (uint32_t)(x->dim[0] * x->dim[1]), 1, 1, &p);
}

const graft_cuda_op graft_cuda_op_rope = {.check = check, .launch = launch, .inplace = true};
