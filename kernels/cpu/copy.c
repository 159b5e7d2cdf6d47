/* COPY: any strides, any dtypes. Rows that are contiguous on both sides are moved or converted as
 * such; transposes go through a small float32 row. */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "kernels/cpu/cpu.h"

#define PIECE 256

static graft_status check(graft_device *d, const graft_op_desc *op, graft_err *e)
{
    graft_status st;
    const graft_tensor_desc *x = &op->in[0], *y = &op->out;
    (void)d;
    GRAFT_TRY(graft_cpu_check_tensor(x, "copy: x", e));
    GRAFT_TRY(graft_cpu_check_tensor(y, "copy: output", e));
    GRAFT_TRY(graft_cpu_check_same(x, y, "copy: x and output", e));
    GRAFT_TRY(graft_cpu_check_absent(op, 1, e));
    if (x->constant) return graft_fail(e, GRAFT_E_UNSUPPORTED, "copy: x is constant");
    if (x->dtype != y->dtype && (y->dtype == GRAFT_F8_E4M3 || y->dtype == GRAFT_F8_E5M2))
        st = graft_fail(e, GRAFT_E_UNSUPPORTED, "copy: nothing is converted to 8-bit floats");
out:
    return st;
}

static double read_one(const void *p, graft_dtype t, int64_t i)
{
    switch (t) {
    case GRAFT_F32:
        return (double)((const float *)p)[i];
    case GRAFT_F16:
        return (double)graft_f16_to_f32(((const uint16_t *)p)[i]);
    case GRAFT_BF16:
        return (double)graft_bf16_to_f32(((const uint16_t *)p)[i]);
    case GRAFT_I8:
        return ((const int8_t *)p)[i];
    case GRAFT_U8:
        return ((const uint8_t *)p)[i];
    case GRAFT_I32:
        return ((const int32_t *)p)[i];
    case GRAFT_I64:
        return (double)((const int64_t *)p)[i];
    case GRAFT_F64:
        return ((const double *)p)[i];
    case GRAFT_F8_E4M3:
        return (double)graft_f8_e4m3_to_f32(((const uint8_t *)p)[i]);
    case GRAFT_F8_E5M2:
        return (double)graft_f8_e5m2_to_f32(((const uint8_t *)p)[i]);
    default:
        return ((const uint8_t *)p)[i] != 0;
    }
}

/* To the nearest whole number, ties to even, within [low, high]; not a number gives 0. */
static double whole(double v, double low, double high)
{
    v = nearbyint(v);
    return v != v ? 0 : v < low ? low : v > high ? high : v;
}

static void write_one(void *p, graft_dtype t, int64_t i, double v)
{
    switch (t) {
    case GRAFT_F32:
        ((float *)p)[i] = (float)v;
        break;
    case GRAFT_F16:
        ((uint16_t *)p)[i] = graft_f32_to_f16((float)v);
        break;
    case GRAFT_BF16:
        ((uint16_t *)p)[i] = graft_f32_to_bf16((float)v);
        break;
    case GRAFT_I8:
        ((int8_t *)p)[i] = (int8_t)whole(v, -128, 127);
        break;
    case GRAFT_U8:
        ((uint8_t *)p)[i] = (uint8_t)whole(v, 0, 255);
        break;
    case GRAFT_I32:
        ((int32_t *)p)[i] = (int32_t)whole(v, INT32_MIN, INT32_MAX);
        break;
    case GRAFT_I64: /* the largest double below 2^63 */
        ((int64_t *)p)[i] = (int64_t)whole(v, -0x1p63, 0x1.fffffffffffffp62);
        break;
    case GRAFT_F64:
        ((double *)p)[i] = v;
        break;
    default:
        ((uint8_t *)p)[i] = v != 0;
    }
}

/* A row with any strides. */
static void copy_strided(const char *x, graft_dtype xt, int64_t xs, char *y, graft_dtype yt,
                         int64_t ys, int64_t n)
{
    if (xt == yt) {
        size_t size = graft_dtype_size(xt);
        if (size == 4) {
            for (int64_t i = 0; i < n; i++) memcpy(y + i * ys * 4, x + i * xs * 4, 4);
        } else if (size == 2) {
            for (int64_t i = 0; i < n; i++) memcpy(y + i * ys * 2, x + i * xs * 2, 2);
        } else {
            for (int64_t i = 0; i < n; i++)
                memcpy(y + i * ys * (int64_t)size, x + i * xs * (int64_t)size, size);
        }
        return;
    }
    for (int64_t i = 0; i < n; i++) write_one(y, yt, i * ys, read_one(x, xt, i * xs));
}

static void copy_row(const graft_device *d, const void *x, graft_dtype xt, void *y, graft_dtype yt,
                     int64_t n)
{
    int fast = (xt == GRAFT_F32 || xt == GRAFT_BF16) && (yt == GRAFT_F32 || yt == GRAFT_BF16);
    if (xt == yt) {
        memcpy(y, x, (size_t)n * graft_dtype_size(xt));
    } else if (fast) {
        d->simd->act(GRAFT_ACT_NONE, x, xt, y, yt, (size_t)n);
    } else if (xt == GRAFT_F16 && yt == GRAFT_F32) {
        graft_f16_to_f32_array(x, y, (size_t)n);
    } else if (xt == GRAFT_F32 && yt == GRAFT_F16) {
        graft_f32_to_f16_array(x, y, (size_t)n);
    } else {
        copy_strided(x, xt, 1, y, yt, 1, n);
    }
}

typedef struct job {
    const graft_kernel *k;
    const char *x;
    char *y;
    int rank, order[GRAFT_MAX_RANK]; /* dimensions, that of the inner loop last */
    int64_t rows, pieces;
} job;

static void part(void *p, int i, int n)
{
    const job *j = p;
    const graft_tensor_desc *x = &j->k->op.in[0], *y = &j->k->op.out;
    int inner = j->order[j->rank - 1];
    int64_t xs = x->stride[inner], ys = y->stride[inner], length = x->dim[inner];
    int64_t total = j->rows * j->pieces, end = total * (i + 1) / n;
    for (int64_t t = total * i / n; t < end; t++) {
        int64_t rest = t / j->pieces, at = t % j->pieces * PIECE;
        int64_t xo = at * xs, yo = at * ys, count = length - at < PIECE ? length - at : PIECE;
        for (int r = j->rank - 2; r >= 0; r--) {
            int dim = j->order[r];
            xo += rest % x->dim[dim] * x->stride[dim];
            yo += rest % x->dim[dim] * y->stride[dim];
            rest /= x->dim[dim];
        }
        const char *from = graft_cpu_at(j->x, x->dtype, xo);
        char *to = graft_cpu_at_mut(j->y, y->dtype, yo);
        if (xs == 1 && ys == 1) {
            copy_row(j->k->d, from, x->dtype, to, y->dtype, count);
        } else {
            copy_strided(from, x->dtype, xs, to, y->dtype, ys, count);
        }
    }
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, void *workspace)
{
    const graft_tensor_desc *x = &k->op.in[0], *y = &k->op.out;
    job j = {k, in[0], out, x->rank, {0}, 1, 0};
    int inner = x->rank - 1;
    (void)workspace;
    /* The inner loop runs along the output's contiguous dimension when it is long enough, else
     * along the input's. */
    for (int i = 0; i < x->rank; i++)
        if (y->stride[i] == 1 && x->dim[i] >= 16) inner = i;
    if (x->dim[inner] < 16)
        for (int i = 0; i < x->rank; i++)
            if (x->stride[i] == 1 && x->dim[i] > x->dim[inner]) inner = i;
    int at = 0;
    for (int i = 0; i < x->rank; i++)
        if (i != inner) {
            j.order[at++] = i;
            j.rows *= x->dim[i];
        }
    j.order[at] = inner;
    j.pieces = (x->dim[inner] + PIECE - 1) / PIECE;
    graft_cpu_parallel(graft_cpu_threads(k->d, graft_cpu_elements(x)), part, &j);
    return GRAFT_OK;
}

const graft_cpu_op graft_cpu_op_copy = {check, NULL, NULL, NULL, launch, NULL};
