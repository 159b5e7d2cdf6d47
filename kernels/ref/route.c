#include "kernels/ref/ref.h"

static graft_status check(const graft_op_desc *d, graft_err *e)
{
    graft_status st = graft_ref_check_f32(&d->in[0], "x", e);
    if (!st) st = graft_ref_check_f32(&d->out, "out", e);
    if (!st) st = graft_ref_check_same_shape(&d->in[0], &d->out, "x and out", e);
    if (!st && (d->attrs.groups < 1 || d->attrs.groups > graft_ref_row_len(&d->out)))
        st = graft_fail(e, GRAFT_E_ARG, "%d of %lld are to be chosen", d->attrs.groups,
                        (long long)graft_ref_row_len(&d->out));
    return st;
}

/* How many of a row come before number i. */
static int64_t before(const float *x, int64_t n, int64_t i)
{
    int64_t count = 0;
    for (int64_t k = 0; k < n; k++) count += x[k] > x[i] || (x[k] == x[i] && k < i);
    return count;
}

static void run(const graft_op_desc *d, const void *const *in, void *out, float *workspace)
{
    (void)workspace;
    const int64_t rows = graft_ref_rows(&d->out), n = graft_ref_row_len(&d->out);
    for (int64_t r = 0; r < rows; r++) {
        const float *x = (const float *)in[0] + graft_ref_row_at(&d->in[0], r);
        float *y = (float *)out + graft_ref_row_at(&d->out, r), most = x[0], sum = 0;
        for (int64_t i = 1; i < n; i++) most = fmaxf(most, x[i]);
        for (int64_t i = 0; i < n; i++) sum += expf(x[i] - most);
        for (int64_t i = 0; i < n; i++)
            y[i] = before(x, n, i) < d->attrs.groups ? expf(x[i] - most) / sum : 0;
    }
}

const graft_ref_op graft_ref_op_ROUTE = {.check = check, .run = GRAFT_REF_CODE(run), .inputs = 1};
