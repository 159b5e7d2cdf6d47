/* UPSAMPLE: nearest neighbour, row r reads r*H/up_h. */
#include <string.h>

#include "kernels/cpu/cpu.h"

static graft_status check(graft_device *d, const graft_op_desc *op, graft_err *e)
{
    graft_status st;
    const graft_tensor_desc *x = &op->in[0], *y = &op->out;
    (void)d;
    GRAFT_TRY(graft_cpu_check_float(x, 4, "upsample: x", e));
    GRAFT_TRY(graft_cpu_check_float(y, 4, "upsample: output", e));
    GRAFT_TRY(graft_cpu_check_absent(op, 1, e));
    if (x->constant || x->dtype != y->dtype)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "upsample: a constant, or differing dtypes");
    if (y->dim[0] != x->dim[0] || y->dim[3] != x->dim[3] || y->dim[1] != op->attrs.up_h ||
        y->dim[2] != op->attrs.up_w)
        st = graft_fail(e, GRAFT_E_ARG, "upsample: the output must be (N, up_h, up_w, C)");
out:
    return st;
}

typedef struct job {
    const graft_kernel *k;
    const char *x;
    char *y;
} job;

static void part(void *p, int i, int n)
{
    const job *j = p;
    const graft_tensor_desc *x = &j->k->op.in[0], *y = &j->k->op.out;
    int64_t size = graft_dtype_size(x->dtype), rows = y->dim[0] * y->dim[1];
    int64_t end = rows * (i + 1) / n;
    for (int64_t r = rows * i / n; r < end; r++) {
        int64_t image = r / y->dim[1], h = r % y->dim[1];
        const char *from =
            j->x + (image * x->stride[0] + h * x->dim[1] / y->dim[1] * x->stride[1]) * size;
        char *to = j->y + (image * y->stride[0] + h * y->stride[1]) * size;
        for (int64_t w = 0; w < y->dim[2]; w++)
            memcpy(to + w * y->stride[2] * size,
                   from + w * x->dim[2] / y->dim[2] * x->stride[2] * size,
                   (size_t)(x->dim[3] * size));
    }
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, void *workspace)
{
    job j = {k, in[0], out};
    (void)workspace;
    graft_cpu_parallel(graft_cpu_threads(k->d, graft_cpu_elements(&k->op.out)), part, &j);
    return GRAFT_OK;
}

const graft_cpu_op graft_cpu_op_upsample = {check, NULL, NULL, NULL, launch, NULL};
