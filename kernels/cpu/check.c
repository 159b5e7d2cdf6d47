/* Descriptors come from outside: everything that the kernels rely on is checked here. */
#include "base/size.h"
#include "kernels/cpu/cpu.h"

static graft_status check_extent(const graft_tensor_desc *t, const char *what, graft_err *e)
{
    int64_t extent = 1, bytes = 0, count = 0;
    for (int i = 0; i < t->rank; i++) {
        int64_t reach = 0;
        if (t->dim[i] < 1)
            return graft_fail(e, GRAFT_E_ARG, "%s: dimension %d is %lld", what, i,
                              (long long)t->dim[i]);
        if (t->constant) continue;
        if (t->stride[i] < 0)
            return graft_fail(e, GRAFT_E_ARG, "%s: stride %d is %lld", what, i,
                              (long long)t->stride[i]);
        if (__builtin_mul_overflow(t->dim[i] - 1, t->stride[i], &reach) ||
            __builtin_add_overflow(extent, reach, &extent))
            return graft_fail(e, GRAFT_E_ARG, "%s: too large", what);
    }
    if (!graft_size_product(t->dim, t->rank, &count) ||
        __builtin_mul_overflow(count > extent ? count : extent, (int64_t)8, &bytes) ||
        bytes > INT64_MAX / 8)
        return graft_fail(e, GRAFT_E_ARG, "%s: too large", what);
    return GRAFT_OK;
}

graft_status graft_cpu_check_tensor(const graft_tensor_desc *t, const char *what, graft_err *e)
{
    if (t->dtype == GRAFT_DTYPE_NONE) return graft_fail(e, GRAFT_E_ARG, "%s is missing", what);
    if (graft_dtype_size(t->dtype) == 0)
        return graft_fail(e, GRAFT_E_ARG, "%s: dtype %d is not known", what, (int)t->dtype);
    if (t->rank < 1 || t->rank > GRAFT_MAX_RANK)
        return graft_fail(e, GRAFT_E_ARG, "%s: rank %d, must be 1 to %d", what, (int)t->rank,
                          GRAFT_MAX_RANK);
    return check_extent(t, what, e);
}

graft_status graft_cpu_check_float(const graft_tensor_desc *t, int rank, const char *what,
                                   graft_err *e)
{
    graft_status st = graft_cpu_check_tensor(t, what, e);
    if (st) return st;
    if (rank && t->rank != rank)
        return graft_fail(e, GRAFT_E_ARG, "%s: rank %d, must be %d", what, (int)t->rank, rank);
    if (t->constant ? !graft_cpu_is_float(t->dtype)
                    : t->dtype != GRAFT_F32 && t->dtype != GRAFT_BF16)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "%s: dtype %d is neither float32 nor bfloat16",
                          what, (int)t->dtype);
    if (!t->constant && t->dim[t->rank - 1] != 1 && t->stride[t->rank - 1] != 1)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "%s: the last stride is %lld, must be 1", what,
                          (long long)t->stride[t->rank - 1]);
    return GRAFT_OK;
}

graft_status graft_cpu_check_vector(const graft_tensor_desc *t, int64_t n, int optional,
                                    const char *what, graft_err *e)
{
    if (optional && !graft_cpu_present(t)) return GRAFT_OK;
    graft_status st = graft_cpu_check_float(t, 1, what, e);
    if (st) return st;
    if (t->dim[0] != n)
        return graft_fail(e, GRAFT_E_ARG, "%s has %lld elements, must have %lld", what,
                          (long long)t->dim[0], (long long)n);
    if (!t->constant && t->dtype != GRAFT_F32)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "%s must be constant or float32", what);
    return GRAFT_OK;
}

graft_status graft_cpu_check_row_each(const graft_tensor_desc *t, const graft_tensor_desc *x,
                                      const char *what, graft_err *e)
{
    graft_status st = graft_cpu_check_float(t, 3, what, e);
    if (st) return st;
    if (x->rank != 3 || t->dim[0] != x->dim[0] || t->dim[1] != 1 || t->dim[2] != x->dim[2])
        return graft_fail(e, GRAFT_E_ARG, "%s must have a row for each entry of the batch", what);
    if (t->constant || t->dtype != GRAFT_F32)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "%s must be float32 and no constant", what);
    return GRAFT_OK;
}

graft_status graft_cpu_check_factor(graft_device *d, const graft_op_desc *op, graft_err *e)
{
    const graft_tensor_desc *x = &op->in[GRAFT_FACTOR_X], *y = &op->out;
    (void)d;
    graft_status st = graft_cpu_check_float(x, 4, "x", e);
    if (!st) st = graft_cpu_check_float(y, 4, "output", e);
    if (!st) st = graft_cpu_check_same(x, y, "x and output", e);
    if (!st) st = graft_cpu_check_vector(&op->in[GRAFT_FACTOR], 1, 0, "factor", e);
    if (!st) st = graft_cpu_check_absent(op, GRAFT_FACTOR + 1, e);
    if (!st && x->constant) st = graft_fail(e, GRAFT_E_UNSUPPORTED, "x is constant");
    return st;
}

int32_t graft_cpu_inplace_factor(const graft_kernel *k, int32_t input)
{
    const graft_tensor_desc *x = &k->op.in[GRAFT_FACTOR_X], *y = &k->op.out;
    return input == GRAFT_FACTOR_X && x->dtype == y->dtype && graft_cpu_is_dense(x) &&
           graft_cpu_is_dense(y);
}

graft_status graft_cpu_check_same(const graft_tensor_desc *a, const graft_tensor_desc *b,
                                  const char *what, graft_err *e)
{
    int same = a->rank == b->rank;
    for (int i = 0; same && i < a->rank; i++) same = a->dim[i] == b->dim[i];
    return same ? GRAFT_OK : graft_fail(e, GRAFT_E_ARG, "%s: shapes differ", what);
}

graft_status graft_cpu_check_table(const graft_op_desc *op, const char *name, graft_err *e)
{
    const graft_tensor_desc *x = &op->in[0], *table = &op->in[1], *y = &op->out;
    graft_status st;
    GRAFT_TRY(graft_cpu_check_float(x, 3, name, e));
    GRAFT_TRY(graft_cpu_check_tensor(table, name, e));
    GRAFT_TRY(graft_cpu_check_float(y, 3, name, e));
    GRAFT_TRY(graft_cpu_check_absent(op, 2, e));
    if (x->constant || table->constant || table->dtype != GRAFT_I32 || x->dtype != y->dtype)
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: the table must be int32, x and output of one dtype", name);
    if (table->rank != 2 || table->dim[0] != x->dim[0] || y->dim[0] != x->dim[0] ||
        y->dim[2] != x->dim[2])
        st = graft_fail(e, GRAFT_E_ARG, "%s: shapes must be (N,…,C) (N,…) -> (N,…,C)", name);
out:
    return st;
}

graft_status graft_cpu_check_absent(const graft_op_desc *op, int first, graft_err *e)
{
    for (int i = first; i < GRAFT_MAX_INPUTS; i++)
        if (graft_cpu_present(&op->in[i]))
            return graft_fail(e, GRAFT_E_ARG, "input %d is one too many", i);
    return GRAFT_OK;
}
