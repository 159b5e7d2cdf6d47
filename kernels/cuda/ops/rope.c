/* ROPE. */
#include "kernels/cuda/ops/op.h"
#include "kernels/rope.h"

static graft_status check(const graft_op_desc *op, graft_err *e)
{
    const graft_tensor_desc *x = &op->in[0];
    graft_rope r;
    if (x->constant) return graft_fail(e, GRAFT_E_UNSUPPORTED, "x must vary");
    if (!graft_rope_of(&op->attrs, x->dim[1], x->dim[2], &r))
        return graft_fail(e, GRAFT_E_ARG, "the grid or what is turned of a head does not fit");
    return GRAFT_OK;
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, char *workspace)
{
    (void)workspace;
    const graft_tensor_desc *x = &k->op.in[0], *y = &k->op.out;
    const graft_attrs *a = &k->op.attrs;
    graft_rope r;
    if (!graft_rope_of(a, x->dim[1], x->dim[2], &r)) return GRAFT_E_INTERNAL;
    const int64_t step = 16 / (int64_t)graft_dtype_size(k->t);
    graft_cuda_rope p = {
        .x = in[0],
        .out = out,
        .sx = {x->stride[0], x->stride[1]},
        .so = {y->stride[0], y->stride[1]},
        .tokens = (uint32_t)x->dim[1],
        .before = (uint32_t)r.before,
        .cells = (uint32_t)r.cells,
        .columns = (uint32_t)a->up_w,
        .channels = (uint32_t)x->dim[2],
        .width = (uint32_t)(x->dim[2] / a->heads),
        .last = (uint32_t)r.last,
        .place = {(uint32_t)a->groups, (uint32_t)a->pad_top, (uint32_t)a->pad_left},
        .pairs = {(uint32_t)(r.of_frame / 2), (uint32_t)(r.of_row / 2),
                  (uint32_t)(r.of_column / 2)},
        .mixed = r.mixed,
        .down = r.row_step < 0,
        .base = r.base};
    p.vec = graft_cuda_aligned(in, 1, out) && p.channels % 8 == 0;
    for (int i = 0; i < 2; i++)
        p.vec = p.vec && (x->dim[i] == 1 || (p.sx[i] % step == 0 && p.so[i] % step == 0));
    return graft_cuda_launch(k->d, graft_cuda_typed(GRAFT_CUDA_FN_graft_rope, k->t),
                             (uint32_t)(x->dim[0] * x->dim[1]), 1, 1, &p);
}

const graft_cuda_op graft_cuda_op_rope = {.check = check, .launch = launch, .inplace = true};
