/* SPREAD_TOKENS: a copy of a row for each token. */
#include <string.h>

#include "kernels/cpu/cpu.h"

static graft_status check(graft_device *d, const graft_op_desc *op, graft_err *e)
{
    (void)d;
    graft_status st = graft_cpu_check_table(op, "spread_tokens", e);
    if (!st && op->out.dim[1] != op->in[1].dim[1])
        st = graft_fail(e, GRAFT_E_ARG, "spread_tokens: shapes must be (N,M,C) (N,T) -> (N,T,C)");
    return st;
}

typedef struct job {
    const graft_kernel *k;
    const void *const *in;
    void *out;
} job;

static void part_of(void *p, int part, int parts)
{
    const job *j = p;
    const graft_tensor_desc *x = &j->k->op.in[0], *y = &j->k->op.out;
    const int64_t tokens = y->dim[1], all = y->dim[0] * tokens, end = all * (part + 1) / parts;
    const size_t bytes = (size_t)x->dim[2] * graft_dtype_size(x->dtype);
    for (int64_t i = all * part / parts; i < end; i++) {
        const int64_t b = i / tokens, t = i % tokens;
        const int64_t row = ((const int32_t *)j->in[1])[b * j->k->op.in[1].stride[0] + t];
        void *to = graft_cpu_at_mut(j->out, y->dtype, b * y->stride[0] + t * y->stride[1]);
        if (row >= 0 && row < x->dim[1])
            memcpy(to, graft_cpu_at(j->in[0], x->dtype, b * x->stride[0] + row * x->stride[1]),
                   bytes);
        else
            memset(to, 0, bytes);
    }
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, void *workspace)
{
    job j = {k, in, out};
    (void)workspace;
    graft_cpu_parallel(graft_cpu_threads(k->d, graft_cpu_elements(&k->op.out)), part_of, &j);
    return GRAFT_OK;
}

const graft_cpu_op graft_cpu_op_spread_tokens = {check, NULL, NULL, NULL, launch, NULL};
