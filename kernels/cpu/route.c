/* ROUTE: rows are short, and each is worked on by itself. */
#include <math.h>

#include "base/half.h"
#include "kernels/cpu/cpu.h"

#define MOST 256 /* of a row */

static graft_status check(graft_device *d, const graft_op_desc *op, graft_err *e)
{
    const graft_tensor_desc *x = &op->in[0], *y = &op->out;
    (void)d;
    graft_status st = graft_cpu_check_float(x, 0, "route: x", e);
    if (!st) st = graft_cpu_check_float(y, 0, "route: output", e);
    if (!st) st = graft_cpu_check_same(x, y, "route: x and output", e);
    if (!st) st = graft_cpu_check_absent(op, 1, e);
    if (st) return st;
    const int64_t n = y->dim[y->rank - 1];
    if (op->attrs.groups < 1 || op->attrs.groups > n)
        return graft_fail(e, GRAFT_E_ARG, "route: %d of %lld are to be chosen", op->attrs.groups,
                          (long long)n);
    if (x->constant || x->dtype != y->dtype || n > MOST)
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "route: x must vary, be of the output's dtype and at most %d wide", MOST);
    return GRAFT_OK;
}

static void put(void *p, graft_dtype t, int64_t at, float v)
{
    if (t == GRAFT_F32)
        ((float *)p)[at] = v;
    else
        ((uint16_t *)p)[at] = graft_f32_to_bf16(v);
}

static void route(const graft_kernel *k, const void *from, void *to)
{
    const graft_dtype t = k->op.out.dtype;
    const int64_t n = k->op.out.dim[k->op.out.rank - 1];
    float x[MOST], most, sum = 0;
    graft_cpu_to_f32(t, from, 0, x, n);
    most = x[0];
    for (int64_t i = 1; i < n; i++) most = fmaxf(most, x[i]);
    for (int64_t i = 0; i < n; i++) sum += expf(x[i] - most);
    for (int64_t i = 0; i < n; i++) {
        int64_t before = 0;
        for (int64_t j = 0; j < n; j++) before += x[j] > x[i] || (x[j] == x[i] && j < i);
        put(to, t, i, before < k->op.attrs.groups ? expf(x[i] - most) / sum : 0);
    }
}

typedef struct job {
    const graft_kernel *k;
    const void *x;
    void *y;
} job;

/* Where row i begins. */
static int64_t row_at(const graft_tensor_desc *t, int64_t i)
{
    int64_t at = 0;
    for (int d = t->rank - 2; d >= 0; d--) {
        at += i % t->dim[d] * t->stride[d];
        i /= t->dim[d];
    }
    return at;
}

static void part_of(void *p, int part, int parts)
{
    const job *j = p;
    const graft_tensor_desc *x = &j->k->op.in[0], *y = &j->k->op.out;
    const int64_t all = graft_cpu_elements(y) / y->dim[y->rank - 1], end = all * (part + 1) / parts;
    for (int64_t i = all * part / parts; i < end; i++)
        route(j->k, graft_cpu_at(j->x, x->dtype, row_at(x, i)),
              graft_cpu_at_mut(j->y, y->dtype, row_at(y, i)));
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, void *workspace)
{
    job j = {k, in[0], out};
    (void)workspace;
    graft_cpu_parallel(graft_cpu_threads(k->d, graft_cpu_elements(&k->op.out)), part_of, &j);
    return GRAFT_OK;
}

const graft_cpu_op graft_cpu_op_route = {check, NULL, NULL, NULL, launch, NULL};
