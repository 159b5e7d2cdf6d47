#include "kernels/cpu/norm_rows.h"

#include "kernels/cpu/share.h"

#define UNIT       8192 /* elements of a unit of work, or a row */
#define MOST_UNITS 8    /* taken at a time */

typedef struct job {
    const graft_kernel *k;
    const void *const *in;
    void *out;
    graft_cpu_norm_row_fn *norm;
    int64_t unit; /* rows */
    graft_cpu_share share;
} job;

static void part(void *p, int part, int parts)
{
    job *j = p;
    const graft_tensor_desc *x = &j->k->op.in[GRAFT_NORM_X], *y = &j->k->op.out;
    int64_t rows = graft_cpu_rows(x), first, count;
    (void)parts;
    while ((count = graft_cpu_share_take(&j->share, part, &first)) > 0) {
        int64_t end = (first + count) * j->unit < rows ? (first + count) * j->unit : rows;
        for (int64_t r = first * j->unit; r < end; r++)
            j->norm(j->k, j->in, r,
                    graft_cpu_at(j->in[GRAFT_NORM_X], x->dtype, graft_cpu_row_offset(x, r)),
                    graft_cpu_at_mut(j->out, y->dtype, graft_cpu_row_offset(y, r)));
    }
}

graft_status graft_cpu_norm_rows(graft_kernel *k, const void *const *in, void *out, void *workspace,
                                 graft_cpu_norm_row_fn *norm)
{
    const graft_tensor_desc *x = &k->op.in[GRAFT_NORM_X];
    int threads = graft_cpu_threads(k->d, 2 * graft_cpu_elements(x));
    job j = {.k = k, .in = in, .out = out, .norm = norm, .share.most = MOST_UNITS};
    j.unit = graft_cpu_pieces(UNIT, x->dim[x->rank - 1]);
    graft_cpu_share_begin(&j.share, workspace, graft_cpu_pieces(graft_cpu_rows(x), j.unit),
                          threads);
    graft_cpu_parallel(threads, part, &j);
    return GRAFT_OK;
}

void graft_cpu_norm_rows_init(graft_kernel *k)
{
    k->info.workspace_bytes = sizeof(graft_cpu_piece) * (size_t)k->d->host.threads;
}

int32_t graft_cpu_norm_rows_inplace(const graft_kernel *k, int32_t input)
{
    return input == GRAFT_NORM_X && k->op.in[0].dtype == k->op.out.dtype &&
           graft_cpu_is_dense(&k->op.in[0]) && graft_cpu_is_dense(&k->op.out);
}
