#include "kernels/ref/ref.h"
#include "kernels/rope.h"

static graft_status check(const graft_op_desc *d, graft_err *e)
{
    const graft_attrs *a = &d->attrs;
    const graft_tensor_desc *x = &d->in[0];
    graft_status st = graft_ref_check_f32(x, "x", e);
    if (!st) st = graft_ref_check_f32(&d->out, "out", e);
    if (!st) st = graft_ref_check_rank(x, 3, "x", e);
    if (!st) st = graft_ref_check_same_shape(x, &d->out, "x and out", e);
    if (st) return st;
    graft_rope r;
    if (!graft_rope_of(a, x->dim[1], x->dim[2], &r))
        return graft_fail(e, GRAFT_E_ARG,
                          "a grid of %d rows and %d columns before %d others of %lld tokens, of "
                          "which %d and %d values of each of %d heads are turned of %lld, and the "
                          "last %d stay",
                          (int)a->up_h, (int)a->up_w, (int)a->pad_bottom, (long long)x->dim[1],
                          (int)a->kernel_h, (int)a->kernel_w, (int)a->heads, (long long)x->dim[2],
                          (int)a->pad_right);
    return GRAFT_OK;
}

/* n values, as they are where `place` is 0. */
static void turn(const float *x, int64_t place, double base, int64_t n, float *y)
{
    for (int64_t i = 0; i < n; i += 2) {
        double angle = (double)place * pow(base, -(double)i / (double)n);
        double a = (double)x[i], b = (double)x[i + 1];
        y[i] = (float)(a * cos(angle) - b * sin(angle));
        y[i + 1] = (float)(a * sin(angle) + b * cos(angle));
    }
}

/* A head whose pairs go round. */
static void turn_mixed(const float *x, const graft_rope *p, const int64_t place[3], int64_t width,
                       float *y)
{
    for (int64_t i = 0; i < width; i += 2) {
        double angle =
            (double)place[graft_rope_axis(p, i / 2)] * pow(p->base, -(double)i / (double)width);
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
    const int64_t tokens = x->dim[1], width = x->dim[2] / a->heads;
    graft_rope p;
    if (!graft_rope_of(a, tokens, x->dim[2], &p)) return;
    for (int64_t r = 0; r < graft_ref_rows(x); r++) {
        const int64_t cell = r % tokens - p.before;
        const int64_t row = a->pad_top + p.row_step * (cell / a->up_w),
                      column = a->pad_left + cell % a->up_w;
        const bool is_cell = cell >= 0 && cell < p.cells;
        for (int32_t h = 0; h < a->heads; h++) {
            const float *from = (const float *)in[0] + graft_ref_row_at(x, r) + h * width;
            float *to = (float *)out + graft_ref_row_at(&d->out, r) + h * width;
            for (int64_t i = 0; i < (is_cell ? p.still : width); i++) to[i] = from[i];
            if (!is_cell) continue;
            const int64_t places[] = {a->groups, row, column};
            const int64_t values[] = {p.of_frame, p.of_row, p.of_column};
            if (p.mixed) {
                turn_mixed(from, &p, places, width, to);
                continue;
            }
            for (int64_t i = 0, at = p.still; i < 3; at += values[i++])
                turn(from + at, places[i], p.base, values[i], to + at);
            for (int64_t i = width - p.last; i < width; i++) to[i] = from[i];
        }
    }
}

const graft_ref_op graft_ref_op_ROPE = {
    .check = check, .run = GRAFT_REF_CODE(run), .inputs = 1, .inplace = true};
