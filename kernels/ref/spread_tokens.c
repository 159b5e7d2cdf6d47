#include <string.h>

#include "kernels/ref/ref.h"

static graft_status check(const graft_op_desc *d, graft_err *e)
{
    graft_status st = graft_ref_check_table(d, e);
    if (!st) st = graft_ref_check_dim(d->out.dim[1], d->in[1].dim[1], "tokens of out", e);
    return st;
}

static void run(const graft_op_desc *d, const void *const *in, void *out, float *workspace)
{
    const graft_tensor_desc *x = &d->in[0];
    const size_t bytes = (size_t)x->dim[2] * sizeof(float);
    (void)workspace;
    for (int64_t b = 0; b < d->out.dim[0]; b++)
        for (int64_t i = 0; i < d->out.dim[1]; i++) {
            const int64_t row = ((const int32_t *)in[1])[b * d->in[1].stride[0] + i];
            float *y = (float *)out + b * d->out.stride[0] + i * d->out.stride[1];
            if (row >= 0 && row < x->dim[1])
                memcpy(y, (const float *)in[0] + b * x->stride[0] + row * x->stride[1], bytes);
            else
                memset(y, 0, bytes);
        }
}

const graft_ref_op graft_ref_op_SPREAD_TOKENS = {
    .check = check, .run = GRAFT_REF_CODE(run), .inputs = 2};
