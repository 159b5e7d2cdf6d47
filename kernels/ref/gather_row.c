#include <string.h>

#include "kernels/ref/ref.h"

static graft_status check(const graft_op_desc *d, graft_err *e)
{
    const graft_tensor_desc *x = &d->in[0], *row = &d->in[1], *out = &d->out;
    graft_status st = graft_ref_check_f32(x, "x", e);
    if (!st) st = graft_ref_check_ids(row, "row", e);
    if (!st) st = graft_ref_check_f32(out, "out", e);
    if (!st) st = graft_ref_check_rank(x, 3, "x", e);
    if (!st) st = graft_ref_check_rank(row, 1, "row", e);
    if (!st) st = graft_ref_check_rank(out, 2, "out", e);
    if (!st) st = graft_ref_check_dim(row->dim[0], x->dim[0], "count of row", e);
    if (!st) st = graft_ref_check_dim(out->dim[0], x->dim[0], "batch of out", e);
    if (!st) st = graft_ref_check_dim(out->dim[1], x->dim[2], "channels of out", e);
    return st;
}

/* Rows outside x give zeros, as in EMBEDDING. */
static void run(const graft_op_desc *d, const void *const *in, void *out, float *workspace)
{
    (void)workspace;
    const graft_tensor_desc *x = &d->in[0];
    size_t bytes = (size_t)x->dim[2] * sizeof(float);
    for (int64_t n = 0; n < x->dim[0]; n++) {
        int64_t t = graft_ref_id_at(&d->in[1], in[1], n);
        float *y = (float *)out + n * d->out.stride[0];
        if (t >= 0 && t < x->dim[1])
            memcpy(y, (const float *)in[0] + n * x->stride[0] + t * x->stride[1], bytes);
        else
            memset(y, 0, bytes);
    }
}

const graft_ref_op graft_ref_op_GATHER_ROW = {
    .check = check, .run = GRAFT_REF_CODE(run), .inputs = 2};
