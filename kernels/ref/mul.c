#include "kernels/ref/ref.h"

static graft_status check(const graft_op_desc *d, graft_err *e)
{
    const graft_tensor_desc *a = &d->in[GRAFT_MUL_A], *residual = &d->in[GRAFT_MUL_RESIDUAL];
    if (!graft_ref_present(residual)) return graft_ref_check_binary(d, e);
    graft_status st = graft_ref_check_f32(a, "a", e);
    if (!st) st = graft_ref_check_f32(residual, "residual", e);
    if (!st) st = graft_ref_check_f32(&d->out, "out", e);
    if (!st) st = graft_ref_check_row_each(&d->in[GRAFT_MUL_B], a, "b", e);
    if (!st) st = graft_ref_check_same_shape(a, residual, "a and residual", e);
    return st ? st : graft_ref_check_same_shape(a, &d->out, "a and out", e);
}

static void run(const graft_op_desc *d, const void *const *in, void *out, float *workspace)
{
    (void)workspace;
    const graft_tensor_desc *dr = &d->in[GRAFT_MUL_RESIDUAL];
    graft_tensor_desc b_view = d->out;
    graft_ref_broadcast(&d->in[1], &d->out, &b_view, NULL); /* check() made sure that it can */
    int64_t rows = graft_ref_rows(&d->out), n = graft_ref_row_len(&d->out);
    int64_t step = b_view.stride[b_view.rank - 1];
    for (int64_t r = 0; r < rows; r++) {
        const float *a = (const float *)in[0] + graft_ref_row_at(&d->in[0], r);
        const float *b = (const float *)in[1] + graft_ref_row_at(&b_view, r);
        const float *c = NULL;
        float *y = (float *)out + graft_ref_row_at(&d->out, r);
        if (graft_ref_present(dr)) c = (const float *)in[2] + graft_ref_row_at(dr, r);
        for (int64_t i = 0; i < n; i++) {
            float v = a[i] * b[i * step];
            y[i] = c ? c[i] + v : v;
        }
    }
}

const graft_ref_op graft_ref_op_MUL = {.check = check,
                                       .run = GRAFT_REF_CODE(run),
                                       .inputs = 3,
                                       .optional = 1u << GRAFT_MUL_RESIDUAL,
                                       .inplace = true};
