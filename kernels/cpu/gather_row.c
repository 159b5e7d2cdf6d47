/* GATHER_ROW: one token of each picture; a row outside gives zeros. */
#include <string.h>

#include "kernels/cpu/cpu.h"

static graft_status check(graft_device *d, const graft_op_desc *op, graft_err *e)
{
    graft_status st;
    const graft_tensor_desc *x = &op->in[0], *row = &op->in[1], *y = &op->out;
    (void)d;
    GRAFT_TRY(graft_cpu_check_float(x, 3, "gather_row: x", e));
    GRAFT_TRY(graft_cpu_check_tensor(row, "gather_row: row", e));
    GRAFT_TRY(graft_cpu_check_float(y, 2, "gather_row: output", e));
    GRAFT_TRY(graft_cpu_check_absent(op, 2, e));
    if (x->constant || row->constant || row->dtype != GRAFT_I32 || x->dtype != y->dtype)
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "gather_row: row must be int32, x and output of one dtype");
    if (row->rank != 1 || row->dim[0] != x->dim[0] || y->dim[0] != x->dim[0] ||
        y->dim[1] != x->dim[2])
        st = graft_fail(e, GRAFT_E_ARG, "gather_row: shapes must be (N,T,C) (N) -> (N,C)");
out:
    return st;
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, void *workspace)
{
    const graft_tensor_desc *x = &k->op.in[0], *y = &k->op.out;
    const int32_t *rows = in[1];
    size_t bytes = (size_t)x->dim[2] * graft_dtype_size(x->dtype);
    (void)workspace;
    for (int64_t i = 0; i < x->dim[0]; i++) {
        int64_t row = rows[i * k->op.in[1].stride[0]];
        void *to = graft_cpu_at_mut(out, y->dtype, i * y->stride[0]);
        if (row >= 0 && row < x->dim[1]) {
            memcpy(to, graft_cpu_at(in[0], x->dtype, i * x->stride[0] + row * x->stride[1]), bytes);
        } else {
            memset(to, 0, bytes);
        }
    }
    return GRAFT_OK;
}

const graft_cpu_op graft_cpu_op_gather_row = {check, NULL, NULL, NULL, launch, NULL};
