#include "kernels/ref/ref.h"

static graft_status check(const graft_op_desc *d, graft_err *e)
{
    const graft_tensor_desc *x = &d->in[0], *out = &d->out;
    graft_status st = graft_ref_check_f32(x, "x", e);
    if (!st) st = graft_ref_check_f32(out, "out", e);
    if (!st) st = graft_ref_check_rank(out, x->rank, "out", e);
    int last = x->rank - 1;
    for (int i = 0; !st && i < last; i++)
        st = graft_ref_check_dim(out->dim[i], x->dim[i], "a leading dimension of out", e);
    if (!st)
        st = graft_ref_check_dim(x->dim[last], 2 * out->dim[last], "the last dimension of x", e);
    return st;
}

static void run(const graft_op_desc *d, const void *const *in, void *out, float *workspace)
{
    (void)workspace;
    int64_t rows = graft_ref_rows(&d->out), n = graft_ref_row_len(&d->out);
    for (int64_t r = 0; r < rows; r++) {
        const float *x = (const float *)in[0] + graft_ref_row_at(&d->in[0], r);
        float *y = (float *)out + graft_ref_row_at(&d->out, r);
        for (int64_t i = 0; i < n; i++) y[i] = x[i] * graft_ref_act(GRAFT_ACT_GELU, x[n + i]);
    }
}

const graft_ref_op graft_ref_op_GEGLU = {.check = check, .run = GRAFT_REF_CODE(run), .inputs = 1};
