#include "kernels/ref/ref.h"

static graft_status check(const graft_op_desc *d, graft_err *e)
{
    const graft_attrs *a = &d->attrs;
    const graft_tensor_desc *x = &d->in[0];
    graft_status st = graft_ref_check_f32(x, "x", e);
    if (!st) st = graft_ref_check_f32(&d->out, "out", e);
    if (!st) st = graft_ref_check_rank(x, 3, "x", e);
    if (!st) st = graft_ref_check_same_shape(x, &d->out, "x and out", e);
    if (st) return st;
    if (a->heads < 1 || x->dim[2] % (2 * (int64_t)a->heads) ||
        x->dim[2] / a->heads > GRAFT_ROPE_HEAD_MAX)
        return graft_fail(e, GRAFT_E_ARG, "%lld channels in %d heads, each of at most %d and even",
                          (long long)x->dim[2], (int)a->heads, GRAFT_ROPE_HEAD_MAX);
    if (a->up_h < 1 || a->up_w < 1 || x->dim[1] / a->up_h < a->up_w)
        return graft_fail(e, GRAFT_E_ARG, "a grid of %d rows and %d columns in %lld tokens",
                          (int)a->up_h, (int)a->up_w, (long long)x->dim[1]);
    if (a->kernel_h < 0 || a->kernel_w < 0 || a->kernel_h % 2 || a->kernel_w % 2 ||
        (int64_t)a->kernel_h + a->kernel_w > x->dim[2] / a->heads)
        return graft_fail(e, GRAFT_E_ARG, "%d and %d values of a head of %lld cannot be turned",
                          (int)a->kernel_h, (int)a->kernel_w, (long long)(x->dim[2] / a->heads));
    return GRAFT_OK;
}

/* n values, as they are where `place` is 0. */
static void turn(const float *x, int64_t place, int32_t n, float *y)
{
    for (int32_t i = 0; i < n; i += 2) {
        double angle = (double)place * pow(10000, -(double)i / (double)n);
        double a = (double)x[i], b = (double)x[i + 1];
        y[i] = (float)(a * cos(angle) - b * sin(angle));
        y[i + 1] = (float)(a * sin(angle) + b * cos(angle));
    }
}

static void run(const graft_op_desc *d, const void *const *in, void *out, float *workspace)
{
    (void)workspace;
    const graft_attrs *a = &d->attrs;
    const graft_tensor_desc *x = &d->in[0];
    const int64_t tokens = x->dim[1], before = tokens - (int64_t)a->up_h * a->up_w;
    const int64_t width = x->dim[2] / a->heads, still = width - a->kernel_h - a->kernel_w;
    for (int64_t r = 0; r < graft_ref_rows(x); r++) {
        const int64_t cell = r % tokens - before;
        const int64_t row = cell / a->up_w, column = cell % a->up_w;
        for (int32_t h = 0; h < a->heads; h++) {
            const float *from = (const float *)in[0] + graft_ref_row_at(x, r) + h * width;
            float *to = (float *)out + graft_ref_row_at(&d->out, r) + h * width;
            for (int64_t i = 0; i < (cell < 0 ? width : still); i++) to[i] = from[i];
            if (cell < 0) continue;
            turn(from + still, row, a->kernel_h, to + still);
            turn(from + still + a->kernel_h, column, a->kernel_w, to + still + a->kernel_h);
        }
    }
}

const graft_ref_op graft_ref_op_ROPE = {
    .check = check, .run = GRAFT_REF_CODE(run), .inputs = 1, .inplace = true};
