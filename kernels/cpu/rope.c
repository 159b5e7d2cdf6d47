/* ROPE: a table of cosines and sines for each row of the grid, and one for each column. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/norm_rows.h"

typedef struct rope {
    int64_t before;              /* tokens that are no cells */
    size_t still, rows, columns; /* values of a head */
    /* Of each row kernel_h cosines, one for each value, and as many sines, those of a pair's first
     * value with the other sign; then of each column kernel_w. */
    float table[];
} rope;

static graft_status check(graft_device *d, const graft_op_desc *op, graft_err *e)
{
    graft_status st;
    const graft_attrs *a = &op->attrs;
    const graft_tensor_desc *x = &op->in[0], *y = &op->out;
    (void)d;
    GRAFT_TRY(graft_cpu_check_float(x, 3, "rope: x", e));
    GRAFT_TRY(graft_cpu_check_float(y, 3, "rope: output", e));
    GRAFT_TRY(graft_cpu_check_same(x, y, "rope: x and output", e));
    GRAFT_TRY(graft_cpu_check_absent(op, 1, e));
    if (x->constant) return graft_fail(e, GRAFT_E_UNSUPPORTED, "rope: x is constant");
    if (a->heads < 1 || x->dim[2] % (2 * (int64_t)a->heads) ||
        x->dim[2] / a->heads > GRAFT_ROPE_HEAD_MAX)
        return graft_fail(e, GRAFT_E_ARG, "rope: width %lld in %d heads", (long long)x->dim[2],
                          (int)a->heads);
    if (a->up_h < 1 || a->up_w < 1 || x->dim[1] / a->up_h < a->up_w)
        return graft_fail(e, GRAFT_E_ARG, "rope: %d x %d cells in %lld tokens", (int)a->up_h,
                          (int)a->up_w, (long long)x->dim[1]);
    if (a->kernel_h < 0 || a->kernel_w < 0 || a->kernel_h % 2 || a->kernel_w % 2 ||
        (int64_t)a->kernel_h + a->kernel_w > x->dim[2] / a->heads)
        st = graft_fail(e, GRAFT_E_ARG, "rope: %d and %d values are turned of a head's %lld",
                        (int)a->kernel_h, (int)a->kernel_w, (long long)(x->dim[2] / a->heads));
out:
    return st;
}

static void fill(float *table, size_t places, size_t n)
{
    for (size_t p = 0; p < places; p++, table += 2 * n)
        for (size_t i = 0; i < n; i += 2) {
            double angle = (double)p * pow(10000, -(double)i / (double)n);
            table[i] = table[i + 1] = (float)cos(angle);
            table[n + i + 1] = (float)sin(angle);
            table[n + i] = -table[n + i + 1];
        }
}

static graft_status init(graft_kernel *k, int32_t variant, graft_err *e)
{
    const graft_attrs *a = &k->op.attrs;
    const graft_tensor_desc *x = &k->op.in[0];
    const size_t of_rows = 2 * (size_t)a->up_h * (size_t)a->kernel_h;
    const size_t of_columns = 2 * (size_t)a->up_w * (size_t)a->kernel_w;
    (void)variant;
    rope *r = graft_cpu_calloc(k->d, sizeof *r + (of_rows + of_columns) * sizeof r->table[0]);
    if (!r) return graft_fail_nomem(e, "rope's table");
    k->state = r;
    r->before = x->dim[1] - (int64_t)a->up_h * a->up_w;
    r->rows = (size_t)a->kernel_h;
    r->columns = (size_t)a->kernel_w;
    r->still = (size_t)(x->dim[2] / a->heads) - r->rows - r->columns;
    fill(r->table, (size_t)a->up_h, r->rows);
    fill(r->table + of_rows, (size_t)a->up_w, r->columns);
    graft_cpu_norm_rows_init(k);
    return GRAFT_OK;
}

/* The cosines and sines of what is turned in this cell. */
static void of_cell(const graft_kernel *k, size_t cell, float *cosine, float *sine)
{
    const rope *r = k->state;
    const size_t rows = (size_t)k->op.attrs.up_h, columns = (size_t)k->op.attrs.up_w;
    const float *row = r->table + cell / columns * 2 * r->rows;
    const float *column = r->table + rows * 2 * r->rows + cell % columns * 2 * r->columns;
    memcpy(cosine, row, r->rows * sizeof *cosine);
    memcpy(sine, row + r->rows, r->rows * sizeof *sine);
    memcpy(cosine + r->rows, column, r->columns * sizeof *cosine);
    memcpy(sine + r->rows, column + r->columns, r->columns * sizeof *sine);
}

static void turn(const graft_kernel *k, const void *const *in, int64_t row, const void *x, void *y)
{
    const rope *r = k->state;
    const graft_tensor_desc *d = &k->op.in[0];
    const int64_t cell = row % d->dim[1] - r->before;
    float cosine[GRAFT_ROPE_HEAD_MAX], sine[GRAFT_ROPE_HEAD_MAX];
    (void)in;
    if (cell < 0) {
        if (x != y) k->d->simd->scale(x, d->dtype, y, k->op.out.dtype, (size_t)d->dim[2], 1, 0);
        return;
    }
    of_cell(k, (size_t)cell, cosine, sine);
    k->d->simd->turn(x, d->dtype, cosine, sine, y, k->op.out.dtype, (size_t)k->op.attrs.heads,
                     r->still, r->rows + r->columns);
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, void *workspace)
{
    return graft_cpu_norm_rows(k, in, out, workspace, turn);
}

const graft_cpu_op graft_cpu_op_rope = {check, init,   NULL,
                                        NULL,  launch, graft_cpu_norm_rows_inplace};
