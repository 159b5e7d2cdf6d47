#include "kernels/ref/ref.h"

static graft_status check(const graft_op_desc *d, graft_err *e)
{
    graft_status st = graft_ref_check_f32(&d->in[GRAFT_PRELU_X], "x", e);
    if (!st) st = graft_ref_check_f32(&d->out, "out", e);
    if (!st) st = graft_ref_check_same_shape(&d->in[GRAFT_PRELU_X], &d->out, "x and out", e);
    if (!st)
        st = graft_ref_check_vector(&d->in[GRAFT_PRELU_SLOPE], graft_ref_row_len(&d->out), "slope",
                                    e);
    return st;
}

static void run(const graft_op_desc *d, const void *const *in, void *out, float *workspace)
{
    (void)workspace;
    const float *slope = in[GRAFT_PRELU_SLOPE];
    int64_t rows = graft_ref_rows(&d->out), n = graft_ref_row_len(&d->out);
    for (int64_t r = 0; r < rows; r++) {
        const float *x = (const float *)in[0] + graft_ref_row_at(&d->in[0], r);
        float *y = (float *)out + graft_ref_row_at(&d->out, r);
        for (int64_t i = 0; i < n; i++) y[i] = x[i] < 0 ? x[i] * slope[i] : x[i];
    }
}

const graft_ref_op graft_ref_op_PRELU = {
    .check = check, .run = GRAFT_REF_CODE(run), .inputs = 2, .inplace = true};
