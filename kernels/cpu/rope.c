/* ROPE: a table of cosines and sines for the grid, for each of its rows, and for each column. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/norm_rows.h"
#include "kernels/rope.h"

typedef struct rope {
    graft_rope of;
    /* How many values of a head each of the three has in the table: those that it turns; where they
     * are mixed all have all. */
    int64_t values[3];
    /* Of the grid a cosine for each of its values, and as many sines, those of a pair's first value
     * with the other sign; then so of each row, and of each column. */
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
    graft_rope r;
    if (!graft_rope_of(a, x->dim[1], x->dim[2], &r))
        st = graft_fail(e, GRAFT_E_ARG,
                        "rope: %d x %d cells before %d of %lld tokens, %d and %d values turned "
                        "before %d, width %lld in %d heads",
                        (int)a->up_h, (int)a->up_w, (int)a->pad_bottom, (long long)x->dim[1],
                        (int)a->kernel_h, (int)a->kernel_w, (int)a->pad_right, (long long)x->dim[2],
                        (int)a->heads);
out:
    return st;
}

/* Places from `first` on, each `step` behind the one before; returns what is behind them. */
static float *fill(float *table, int64_t first, int64_t step, int64_t places, double base,
                   int64_t n)
{
    for (int64_t p = first; places > 0; places--, p += step, table += 2 * n)
        for (int64_t i = 0; i < n; i += 2) {
            double angle = (double)p * pow(base, -(double)i / (double)n);
            table[i] = table[i + 1] = (float)cos(angle);
            table[n + i + 1] = (float)sin(angle);
            table[n + i] = -table[n + i + 1];
        }
    return table;
}

static graft_status init(graft_kernel *k, int32_t variant, graft_err *e)
{
    const graft_attrs *a = &k->op.attrs;
    const graft_tensor_desc *x = &k->op.in[0];
    graft_rope of;
    (void)variant;
    if (!graft_rope_of(a, x->dim[1], x->dim[2], &of))
        return graft_fail(e, GRAFT_E_INTERNAL, "rope: not checked");
    const int64_t all = of.of_frame + of.of_row + of.of_column;
    const int64_t of_frame = of.mixed ? all : of.of_frame;
    const int64_t of_row = of.mixed ? all : of.of_row;
    const int64_t of_column = of.mixed ? all : of.of_column;
    const int64_t n = 2 * (of_frame + a->up_h * of_row + a->up_w * of_column);
    rope *r = graft_cpu_calloc(k->d, sizeof *r + (size_t)n * sizeof r->table[0]);
    if (!r) return graft_fail_nomem(e, "rope's table");
    k->state = r;
    r->of = of;
    memcpy(r->values, (int64_t[]){of_frame, of_row, of_column}, sizeof r->values);
    float *table = fill(r->table, a->groups, 1, 1, of.base, of_frame);
    table = fill(table, a->pad_top, of.row_step, a->up_h, of.base, of_row);
    fill(table, a->pad_left, 1, a->up_w, of.base, of_column);
    graft_cpu_norm_rows_init(k);
    return GRAFT_OK;
}

/* The cosines and sines of what is turned in this cell. */
static void of_cell(const graft_kernel *k, int64_t cell, float *cosine, float *sine)
{
    const rope *r = k->state;
    const int64_t rows = k->op.attrs.up_h, columns = k->op.attrs.up_w;
    const float *row = r->table + 2 * r->values[0];
    const float *column = row + rows * 2 * r->values[1];
    const float *const part[] = {r->table, row + cell / columns * 2 * r->values[1],
                                 column + cell % columns * 2 * r->values[2]};
    for (int64_t i = 0, n = r->values[0]; r->of.mixed && i < n; i++) {
        const float *of = part[graft_rope_axis(&r->of, i / 2)];
        cosine[i] = of[i];
        sine[i] = of[n + i];
    }
    for (int i = 0; !r->of.mixed && i < 3; i++) {
        size_t n = (size_t)r->values[i];
        memcpy(cosine, part[i], n * sizeof *cosine);
        memcpy(sine, part[i] + n, n * sizeof *sine);
        cosine += n;
        sine += n;
    }
}

static void turn(const graft_kernel *k, const void *const *in, int64_t row, const void *x, void *y)
{
    const graft_rope *r = &((const rope *)k->state)->of;
    const graft_tensor_desc *d = &k->op.in[0];
    const int64_t cell = row % d->dim[1] - r->before;
    float cosine[GRAFT_ROPE_HEAD_MAX], sine[GRAFT_ROPE_HEAD_MAX];
    (void)in;
    if (cell < 0 || cell >= r->cells) {
        if (x != y) k->d->simd->scale(x, d->dtype, y, k->op.out.dtype, (size_t)d->dim[2], 1, 0);
        return;
    }
    of_cell(k, cell, cosine, sine);
    k->d->simd->turn(x, d->dtype, cosine, sine, y, k->op.out.dtype, (size_t)k->op.attrs.heads,
                     (size_t)r->still, (size_t)(r->of_frame + r->of_row + r->of_column),
                     (size_t)r->last);
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, void *workspace)
{
    return graft_cpu_norm_rows(k, in, out, workspace, turn);
}

const graft_cpu_op graft_cpu_op_rope = {check, init,   NULL,
                                        NULL,  launch, graft_cpu_norm_rows_inplace};
