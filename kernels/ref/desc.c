#include <string.h>

#include "base/size.h"
#include "kernels/ref/ref.h"

/* No buffer comes near: a bound that keeps all byte offsets far from overflow. */
#define MAX_EXTENT ((int64_t)1 << 48)

static graft_status check_strides(const graft_tensor_desc *t, const char *name, graft_err *e)
{
    int64_t extent = 1, part;
    for (int i = 0; i < t->rank; i++) {
        if (t->stride[i] < 0)
            return graft_fail(e, GRAFT_E_ARG, "%s: stride %lld of dimension %d is negative", name,
                              (long long)t->stride[i], i);
        if (__builtin_mul_overflow(t->dim[i] - 1, t->stride[i], &part) ||
            __builtin_add_overflow(extent, part, &extent) || extent > MAX_EXTENT)
            return graft_fail(e, GRAFT_E_LIMIT, "%s: strides reach beyond 2^48 elements", name);
    }
    return GRAFT_OK;
}

/* True when rows are laid out in the order of their dimensions without touching each other. */
static bool nested(const graft_tensor_desc *t)
{
    int64_t below = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        if (t->dim[i] == 1) continue;
        if (t->stride[i] < below) return false;
        below = t->stride[i] * t->dim[i];
    }
    return true;
}

graft_status graft_ref_check_tensor(const graft_tensor_desc *t, const char *name, bool output,
                                    bool any_stride, graft_err *e)
{
    int64_t n;
    if (graft_dtype_size(t->dtype) == 0)
        return graft_fail(e, GRAFT_E_ARG, "%s: dtype %d is not known", name, (int)t->dtype);
    if (t->rank < 1 || t->rank > GRAFT_MAX_RANK)
        return graft_fail(e, GRAFT_E_ARG, "%s: rank %d is not 1 to %d", name, (int)t->rank,
                          GRAFT_MAX_RANK);
    for (int i = 0; i < t->rank; i++)
        if (t->dim[i] < 1)
            return graft_fail(e, GRAFT_E_ARG, "%s: dimension %d is %lld, expected at least 1", name,
                              i, (long long)t->dim[i]);
    if (!graft_size_product(t->dim, t->rank, &n) || n > MAX_EXTENT)
        return graft_fail(e, GRAFT_E_LIMIT, "%s: more than 2^48 elements", name);
    graft_status st = check_strides(t, name, e);
    if (st || any_stride) return st;
    int last = t->rank - 1;
    if (t->dim[last] > 1 && t->stride[last] != 1)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "%s: the last stride is %lld, expected 1", name,
                          (long long)t->stride[last]);
    if (output && !nested(t))
        return graft_fail(e, GRAFT_E_ARG, "%s: elements of the output overlap", name);
    return GRAFT_OK;
}

graft_status graft_ref_check_dim(int64_t have, int64_t want, const char *what, graft_err *e)
{
    if (have == want) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_ARG, "%s is %lld, expected %lld", what, (long long)have,
                      (long long)want);
}

graft_status graft_ref_check_rank(const graft_tensor_desc *t, int32_t rank, const char *name,
                                  graft_err *e)
{
    if (t->rank == rank) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_ARG, "%s: rank %d, expected %d", name, (int)t->rank, (int)rank);
}

graft_status graft_ref_check_same_shape(const graft_tensor_desc *a, const graft_tensor_desc *b,
                                        const char *names, graft_err *e)
{
    if (a->rank != b->rank)
        return graft_fail(e, GRAFT_E_ARG, "%s: ranks %d and %d differ", names, (int)a->rank,
                          (int)b->rank);
    for (int i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i])
            return graft_fail(e, GRAFT_E_ARG, "%s: dimension %d is %lld in one, %lld in the other",
                              names, i, (long long)a->dim[i], (long long)b->dim[i]);
    return GRAFT_OK;
}

graft_status graft_ref_check_f32(const graft_tensor_desc *t, const char *name, graft_err *e)
{
    if (t->dtype == GRAFT_F32) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_UNSUPPORTED, "%s: dtype %d, this library computes in float32",
                      name, (int)t->dtype);
}

graft_status graft_ref_check_ids(const graft_tensor_desc *t, const char *name, graft_err *e)
{
    if (t->dtype != GRAFT_I32 && t->dtype != GRAFT_I64)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "%s: dtype %d, expected int32 or int64", name,
                          (int)t->dtype);
    if (t->constant)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "%s: whole numbers cannot be constant", name);
    return GRAFT_OK;
}

graft_status graft_ref_check_vector(const graft_tensor_desc *t, int64_t n, const char *name,
                                    graft_err *e)
{
    if (!graft_ref_present(t)) return GRAFT_OK;
    graft_status st = graft_ref_check_f32(t, name, e);
    if (!st) st = graft_ref_check_rank(t, 1, name, e);
    if (!st) st = graft_ref_check_dim(t->dim[0], n, name, e);
    return st;
}

graft_status graft_ref_check_row_each(const graft_tensor_desc *t, const graft_tensor_desc *x,
                                      const char *name, graft_err *e)
{
    graft_status st = graft_ref_check_f32(t, name, e);
    if (!st) st = graft_ref_check_rank(t, 3, name, e);
    if (!st) st = graft_ref_check_rank(x, 3, "x", e);
    if (!st) st = graft_ref_check_dim(t->dim[0], x->dim[0], name, e);
    if (!st) st = graft_ref_check_dim(t->dim[1], 1, name, e);
    if (!st) st = graft_ref_check_dim(t->dim[2], x->dim[2], name, e);
    if (!st && t->constant) st = graft_fail(e, GRAFT_E_UNSUPPORTED, "%s is constant", name);
    return st;
}

graft_status graft_ref_check_factor(const graft_op_desc *d, graft_err *e)
{
    const graft_tensor_desc *x = &d->in[GRAFT_FACTOR_X];
    graft_status st = graft_ref_check_f32(x, "x", e);
    if (!st) st = graft_ref_check_f32(&d->out, "out", e);
    if (!st) st = graft_ref_check_rank(x, 4, "x", e);
    if (!st) st = graft_ref_check_same_shape(x, &d->out, "x and out", e);
    if (!st) st = graft_ref_check_vector(&d->in[GRAFT_FACTOR], 1, "factor", e);
    return st;
}

graft_status graft_ref_check_table(const graft_op_desc *d, graft_err *e)
{
    const graft_tensor_desc *x = &d->in[0], *table = &d->in[1], *out = &d->out;
    graft_status st = graft_ref_check_f32(x, "x", e);
    if (!st) st = graft_ref_check_ids(table, "table", e);
    if (!st) st = graft_ref_check_f32(out, "out", e);
    if (!st) st = graft_ref_check_rank(x, 3, "x", e);
    if (!st) st = graft_ref_check_rank(table, 2, "table", e);
    if (!st) st = graft_ref_check_rank(out, 3, "out", e);
    if (!st) st = graft_ref_check_dim(table->dim[0], x->dim[0], "batch of the table", e);
    if (!st) st = graft_ref_check_dim(out->dim[0], x->dim[0], "batch of out", e);
    if (!st) st = graft_ref_check_dim(out->dim[2], x->dim[2], "channels of out", e);
    if (!st && (x->constant || table->dtype != GRAFT_I32))
        st = graft_fail(e, GRAFT_E_UNSUPPORTED, "x is constant, or the table no int32");
    return st;
}

graft_status graft_ref_check_eps(float eps, graft_err *e)
{
    if (eps >= 0) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_ARG, "eps is %g, expected at least 0", (double)eps);
}

graft_status graft_ref_check_act(graft_act act, graft_err *e)
{
    if (graft_act_is_pointwise(act)) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_UNSUPPORTED, "activation %d is not possible here", (int)act);
}

bool graft_ref_is_dense(const graft_tensor_desc *t)
{
    int64_t below = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        if (t->dim[i] != 1 && t->stride[i] != below) return false;
        below *= t->dim[i];
    }
    return true;
}

void graft_ref_make_dense(graft_tensor_desc *t)
{
    int64_t below = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        t->stride[i] = below;
        below *= t->dim[i];
    }
}

int64_t graft_ref_elements(const graft_tensor_desc *t)
{
    return graft_ref_rows(t) * graft_ref_row_len(t);
}

int64_t graft_ref_rows(const graft_tensor_desc *t)
{
    int64_t n = 1;
    for (int i = 0; i + 1 < t->rank; i++) n *= t->dim[i];
    return n;
}

int64_t graft_ref_row_at(const graft_tensor_desc *t, int64_t row)
{
    int64_t at = 0;
    for (int i = t->rank - 2; i >= 0; i--) {
        at += row % t->dim[i] * t->stride[i];
        row /= t->dim[i];
    }
    return at;
}

graft_status graft_ref_broadcast(const graft_tensor_desc *b, const graft_tensor_desc *out,
                                 graft_tensor_desc *view, graft_err *e)
{
    int missing = out->rank - b->rank;
    if (missing < 0)
        return graft_fail(e, GRAFT_E_ARG, "b: rank %d, expected at most %d", (int)b->rank,
                          (int)out->rank);
    graft_tensor_desc v = *out;
    for (int i = 0; i < out->rank; i++) {
        int64_t dim = i < missing ? 1 : b->dim[i - missing];
        if (dim != 1 && dim != out->dim[i])
            return graft_fail(e, GRAFT_E_ARG, "b: dimension %d is %lld, expected 1 or %lld",
                              i - missing, (long long)dim, (long long)out->dim[i]);
        v.stride[i] = dim == 1 ? 0 : b->stride[i - missing];
    }
    if (view) *view = v;
    return GRAFT_OK;
}

graft_status graft_ref_check_binary(const graft_op_desc *d, graft_err *e)
{
    graft_status st = graft_ref_check_f32(&d->in[0], "a", e);
    if (!st) st = graft_ref_check_f32(&d->in[1], "b", e);
    if (!st) st = graft_ref_check_f32(&d->out, "out", e);
    if (!st) st = graft_ref_check_same_shape(&d->in[0], &d->out, "a and out", e);
    if (!st) st = graft_ref_broadcast(&d->in[1], &d->out, NULL, e);
    return st;
}

int64_t graft_ref_id_at(const graft_tensor_desc *t, const void *data, int64_t i)
{
    int64_t len = graft_ref_row_len(t);
    int64_t at = graft_ref_row_at(t, i / len) + i % len * t->stride[t->rank - 1];
    return t->dtype == GRAFT_I64 ? ((const int64_t *)data)[at] : ((const int32_t *)data)[at];
}
