/* EMBEDDING: rows of a table; an id outside of it gives zeros. */
#include <string.h>

#include "kernels/cpu/cpu.h"

static graft_status check(graft_device *d, const graft_op_desc *op, graft_err *e)
{
    graft_status st;
    const graft_tensor_desc *ids = &op->in[0], *table = &op->in[1], *y = &op->out;
    (void)d;
    GRAFT_TRY(graft_cpu_check_tensor(ids, "embedding: ids", e));
    GRAFT_TRY(graft_cpu_check_float(table, 2, "embedding: table", e));
    GRAFT_TRY(graft_cpu_check_float(y, ids->rank + 1, "embedding: output", e));
    GRAFT_TRY(graft_cpu_check_absent(op, 2, e));
    if (ids->constant || (ids->dtype != GRAFT_I32 && ids->dtype != GRAFT_I64) ||
        (!table->constant && table->dtype != y->dtype))
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "embedding: ids must be int32 or int64, the table constant");
    int fits = y->dim[ids->rank] == table->dim[1];
    for (int i = 0; i < ids->rank; i++) fits = fits && y->dim[i] == ids->dim[i];
    if (!fits) st = graft_fail(e, GRAFT_E_ARG, "embedding: the output's shape does not follow");
out:
    return st;
}

static graft_status init(graft_kernel *k, int32_t variant, graft_err *e)
{
    (void)variant;
    (void)e;
    graft_cpu_pack_as(k, 1, k->op.out.dtype);
    return GRAFT_OK;
}

static int64_t read_id(const void *p, graft_dtype t, int64_t at)
{
    return t == GRAFT_I32 ? ((const int32_t *)p)[at] : ((const int64_t *)p)[at];
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, void *workspace)
{
    const graft_tensor_desc *ids = &k->op.in[0], *table = &k->op.in[1], *y = &k->op.out;
    int64_t n = graft_cpu_elements(ids);
    size_t bytes = (size_t)table->dim[1] * graft_dtype_size(y->dtype);
    (void)workspace;
    for (int64_t i = 0; i < n; i++) {
        int64_t from = 0, to = 0, rest = i;
        for (int r = ids->rank - 1; r >= 0; r--) {
            from += rest % ids->dim[r] * ids->stride[r];
            to += rest % ids->dim[r] * y->stride[r];
            rest /= ids->dim[r];
        }
        int64_t id = read_id(in[0], ids->dtype, from);
        void *row = graft_cpu_at_mut(out, y->dtype, to);
        if (id >= 0 && id < table->dim[0]) {
            memcpy(row, graft_cpu_at(in[1], y->dtype, id * table->stride[0]), bytes);
        } else {
            memset(row, 0, bytes);
        }
    }
    return GRAFT_OK;
}

const graft_cpu_op graft_cpu_op_embedding = {check, init, NULL, NULL, launch, NULL};
