#include <string.h>

#include "kernels/ref/ref.h"

static graft_status check(const graft_op_desc *d, graft_err *e)
{
    const graft_tensor_desc *a = &d->in[0], *b = &d->in[1], *out = &d->out;
    graft_status st = graft_ref_check_f32(a, "a", e);
    if (!st) st = graft_ref_check_f32(b, "b", e);
    if (!st) st = graft_ref_check_f32(out, "out", e);
    if (!st) st = graft_ref_check_rank(a, 3, "a", e);
    if (!st) st = graft_ref_check_rank(b, 3, "b", e);
    if (!st) st = graft_ref_check_rank(out, 3, "out", e);
    for (int i = 0; !st && i < 3; i += 2) {
        st = graft_ref_check_dim(b->dim[i], a->dim[i], "batch or channels of b", e);
        if (!st) st = graft_ref_check_dim(out->dim[i], a->dim[i], "batch or channels of out", e);
    }
    if (!st) st = graft_ref_check_dim(out->dim[1], a->dim[1] + b->dim[1], "rows of out", e);
    return st;
}

static void run(const graft_op_desc *d, const void *const *in, void *out, float *workspace)
{
    (void)workspace;
    size_t bytes = (size_t)d->out.dim[2] * sizeof(float);
    for (int64_t n = 0; n < d->out.dim[0]; n++)
        for (int64_t t = 0; t < d->out.dim[1]; t++) {
            int64_t before = d->in[0].dim[1];
            const graft_tensor_desc *x = &d->in[t >= before];
            int64_t row = t >= before ? t - before : t;
            memcpy((float *)out + n * d->out.stride[0] + t * d->out.stride[1],
                   (const float *)in[t >= before] + n * x->stride[0] + row * x->stride[1], bytes);
        }
}

const graft_ref_op graft_ref_op_JOIN = {.check = check, .run = GRAFT_REF_CODE(run), .inputs = 2};
