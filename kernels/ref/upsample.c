#include <string.h>

#include "kernels/ref/ref.h"

static graft_status check(const graft_op_desc *d, graft_err *e)
{
    const graft_tensor_desc *x = &d->in[0], *out = &d->out;
    graft_status st = graft_ref_check_f32(x, "x", e);
    if (!st) st = graft_ref_check_f32(out, "out", e);
    if (!st) st = graft_ref_check_rank(x, 4, "x", e);
    if (!st) st = graft_ref_check_rank(out, 4, "out", e);
    if (!st) st = graft_ref_check_dim(out->dim[0], x->dim[0], "batch of out", e);
    if (!st) st = graft_ref_check_dim(out->dim[1], d->attrs.up_h, "height of out", e);
    if (!st) st = graft_ref_check_dim(out->dim[2], d->attrs.up_w, "width of out", e);
    if (!st) st = graft_ref_check_dim(out->dim[3], x->dim[3], "channels of out", e);
    return st;
}

static void run(const graft_op_desc *d, const void *const *in, void *out, float *workspace)
{
    (void)workspace;
    const graft_tensor_desc *x = &d->in[0], *y = &d->out;
    size_t bytes = (size_t)x->dim[3] * sizeof(float);
    for (int64_t n = 0; n < y->dim[0]; n++)
        for (int64_t r = 0; r < y->dim[1]; r++)
            for (int64_t c = 0; c < y->dim[2]; c++) {
                int64_t from_r = r * x->dim[1] / y->dim[1], from_c = c * x->dim[2] / y->dim[2];
                memcpy((float *)out + n * y->stride[0] + r * y->stride[1] + c * y->stride[2],
                       (const float *)in[0] + n * x->stride[0] + from_r * x->stride[1] +
                           from_c * x->stride[2],
                       bytes);
            }
}

const graft_ref_op graft_ref_op_UPSAMPLE = {
    .check = check, .run = GRAFT_REF_CODE(run), .inputs = 1};
