/* RMS_NORM over each head of the last dimension. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/share.h"

#define UNIT       8192 /* elements of a unit of work, or a row */
#define MOST_UNITS 8    /* taken at a time */

static graft_status check(graft_device *d, const graft_op_desc *op, graft_err *e)
{
    graft_status st;
    const graft_tensor_desc *x = &op->in[GRAFT_NORM_X], *y = &op->out;
    int64_t heads = op->attrs.heads;
    (void)d;
    GRAFT_TRY(graft_cpu_check_float(x, 0, "rms_norm: x", e));
    GRAFT_TRY(graft_cpu_check_float(y, 0, "rms_norm: output", e));
    GRAFT_TRY(graft_cpu_check_same(x, y, "rms_norm: x and output", e));
    int64_t n = x->dim[x->rank - 1];
    if (heads < 1 || n % heads)
        return graft_fail(e, GRAFT_E_ARG, "rms_norm: width %lld in %d heads", (long long)n,
                          (int)heads);
    GRAFT_TRY(
        graft_cpu_check_vector(&op->in[GRAFT_NORM_GAMMA], n / heads, 0, "rms_norm: gamma", e));
    GRAFT_TRY(graft_cpu_check_absent(op, GRAFT_NORM_GAMMA + 1, e));
    if (x->constant) st = graft_fail(e, GRAFT_E_UNSUPPORTED, "rms_norm: x is constant");
out:
    return st;
}

static graft_status init(graft_kernel *k, int32_t variant, graft_err *e)
{
    (void)variant;
    (void)e;
    graft_cpu_pack_as(k, GRAFT_NORM_GAMMA, GRAFT_F32);
    k->info.workspace_bytes = sizeof(graft_cpu_piece) * (size_t)k->d->host.threads;
    return GRAFT_OK;
}

typedef struct job {
    const graft_kernel *k;
    const void *const *in;
    void *out;
    int64_t unit; /* rows */
    graft_cpu_share share;
} job;

static void part(void *p, int part, int parts)
{
    job *j = p;
    const graft_op_desc *op = &j->k->op;
    const graft_tensor_desc *x = &op->in[GRAFT_NORM_X], *y = &op->out;
    int64_t rows = graft_cpu_rows(x), n = x->dim[x->rank - 1] / op->attrs.heads, first, count;
    (void)parts;
    while ((count = graft_cpu_share_take(&j->share, part, &first)) > 0) {
        int64_t end = (first + count) * j->unit < rows ? (first + count) * j->unit : rows;
        for (int64_t r = first * j->unit; r < end; r++)
            j->k->d->simd->rms_norm(
                graft_cpu_at(j->in[GRAFT_NORM_X], x->dtype, graft_cpu_row_offset(x, r)), x->dtype,
                j->in[GRAFT_NORM_GAMMA],
                graft_cpu_at_mut(j->out, y->dtype, graft_cpu_row_offset(y, r)), y->dtype,
                (size_t)op->attrs.heads, (size_t)n, op->attrs.eps);
    }
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, void *workspace)
{
    const graft_tensor_desc *x = &k->op.in[GRAFT_NORM_X];
    int threads = graft_cpu_threads(k->d, 2 * graft_cpu_elements(x));
    job j = {.k = k, .in = in, .out = out, .share.most = MOST_UNITS};
    j.unit = graft_cpu_pieces(UNIT, x->dim[x->rank - 1]);
    graft_cpu_share_begin(&j.share, workspace, graft_cpu_pieces(graft_cpu_rows(x), j.unit),
                          threads);
    graft_cpu_parallel(threads, part, &j);
    return GRAFT_OK;
}

static int32_t inplace(const graft_kernel *k, int32_t input)
{
    return input == GRAFT_NORM_X && k->op.in[0].dtype == k->op.out.dtype &&
           graft_cpu_is_dense(&k->op.in[0]) && graft_cpu_is_dense(&k->op.out);
}

const graft_cpu_op graft_cpu_op_rms_norm = {check, init, NULL, NULL, launch, inplace};
