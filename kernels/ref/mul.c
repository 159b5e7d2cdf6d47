#include "kernels/ref/ref.h"

static void run(const graft_op_desc *d, const void *const *in, void *out, float *workspace)
{
    (void)workspace;
    graft_tensor_desc b_view = d->out;
    graft_ref_broadcast(&d->in[1], &d->out, &b_view, NULL); /* check() made sure that it can */
    int64_t rows = graft_ref_rows(&d->out), n = graft_ref_row_len(&d->out);
    int64_t step = b_view.stride[b_view.rank - 1];
    for (int64_t r = 0; r < rows; r++) {
        const float *a = (const float *)in[0] + graft_ref_row_at(&d->in[0], r);
        const float *b = (const float *)in[1] + graft_ref_row_at(&b_view, r);
        float *y = (float *)out + graft_ref_row_at(&d->out, r);
        for (int64_t i = 0; i < n; i++) y[i] = a[i] * b[i * step];
    }
}

const graft_ref_op graft_ref_op_MUL = {
    .check = graft_ref_check_binary, .run = GRAFT_REF_CODE(run), .inputs = 2, .inplace = true};
