#include "kernels/ref/ref.h"

static graft_status check(const graft_op_desc *d, graft_err *e)
{
    const graft_tensor_desc *x = &d->in[GRAFT_NORM_X];
    int64_t width = graft_ref_row_len(x), heads = d->attrs.heads;
    graft_status st = graft_ref_check_f32(x, "x", e);
    if (!st) st = graft_ref_check_f32(&d->out, "out", e);
    if (!st) st = graft_ref_check_same_shape(x, &d->out, "x and out", e);
    if (!st && (heads < 1 || width % heads))
        st = graft_fail(e, GRAFT_E_ARG, "%d heads do not divide %lld channels", (int)heads,
                        (long long)width);
    if (!st) st = graft_ref_check_vector(&d->in[GRAFT_NORM_GAMMA], width / heads, "gamma", e);
    return st ? st : graft_ref_check_eps(d->attrs.eps, e);
}

static void normalize(const float *x, const float *gamma, float eps, float *y, int64_t n)
{
    double squares = 0;
    for (int64_t i = 0; i < n; i++) squares += (double)x[i] * (double)x[i];
    double inverse = 1.0 / sqrt(squares / (double)n + (double)eps);
    for (int64_t i = 0; i < n; i++) y[i] = (float)((double)x[i] * inverse) * gamma[i];
}

static void run(const graft_op_desc *d, const void *const *in, void *out, float *workspace)
{
    (void)workspace;
    const graft_tensor_desc *x = &d->in[GRAFT_NORM_X];
    int64_t rows = graft_ref_rows(x), heads = d->attrs.heads, n = graft_ref_row_len(x) / heads;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t h = 0; h < heads; h++)
            normalize((const float *)in[GRAFT_NORM_X] + graft_ref_row_at(x, r) + h * n,
                      in[GRAFT_NORM_GAMMA], d->attrs.eps,
                      (float *)out + graft_ref_row_at(&d->out, r) + h * n, n);
}

const graft_ref_op graft_ref_op_RMS_NORM = {
    .check = check, .run = GRAFT_REF_CODE(run), .inputs = 2, .inplace = true};
