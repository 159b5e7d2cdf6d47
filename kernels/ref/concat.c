#include <string.h>

#include "kernels/ref/ref.h"

static graft_status check(const graft_op_desc *d, graft_err *e)
{
    const graft_tensor_desc *a = &d->in[0], *b = &d->in[1], *out = &d->out;
    graft_status st = graft_ref_check_f32(a, "a", e);
    if (!st) st = graft_ref_check_f32(b, "b", e);
    if (!st) st = graft_ref_check_f32(out, "out", e);
    if (!st) st = graft_ref_check_rank(b, a->rank, "b", e);
    if (!st) st = graft_ref_check_rank(out, a->rank, "out", e);
    int last = a->rank - 1;
    for (int i = 0; !st && i < last; i++) {
        st = graft_ref_check_dim(b->dim[i], a->dim[i], "a leading dimension of b", e);
        if (!st) st = graft_ref_check_dim(out->dim[i], a->dim[i], "a leading dimension of out", e);
    }
    if (!st)
        st = graft_ref_check_dim(out->dim[last], a->dim[last] + b->dim[last],
                                 "the last dimension of out", e);
    return st;
}

static void run(const graft_op_desc *d, const void *const *in, void *out, float *workspace)
{
    (void)workspace;
    int64_t rows = graft_ref_rows(&d->out);
    size_t na = (size_t)graft_ref_row_len(&d->in[0]), nb = (size_t)graft_ref_row_len(&d->in[1]);
    for (int64_t r = 0; r < rows; r++) {
        const float *a = (const float *)in[0] + graft_ref_row_at(&d->in[0], r);
        const float *b = (const float *)in[1] + graft_ref_row_at(&d->in[1], r);
        float *y = (float *)out + graft_ref_row_at(&d->out, r);
        memcpy(y, a, na * sizeof *y);
        memcpy(y + na, b, nb * sizeof *y);
    }
}

const graft_ref_op graft_ref_op_CONCAT = {.check = check, .run = GRAFT_REF_CODE(run), .inputs = 2};
