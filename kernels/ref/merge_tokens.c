#include "kernels/ref/ref.h"

static graft_status check(const graft_op_desc *d, graft_err *e)
{
    const graft_tensor_desc *x = &d->in[0], *table = &d->in[1], *out = &d->out;
    graft_status st = graft_ref_check_table(d, e);
    if (!st) st = graft_ref_check_dim(table->dim[1], x->dim[1], "tokens of the table", e);
    if (!st) st = graft_ref_check_dim(out->dim[1], d->attrs.groups, "tokens of out", e);
    return st;
}

static void run(const graft_op_desc *d, const void *const *in, void *out, float *workspace)
{
    const graft_tensor_desc *x = &d->in[0];
    (void)workspace;
    for (int64_t b = 0; b < d->out.dim[0]; b++)
        for (int64_t r = 0; r < d->out.dim[1]; r++) {
            const int32_t *table = (const int32_t *)in[1] + b * d->in[1].stride[0];
            float *y = (float *)out + b * d->out.stride[0] + r * d->out.stride[1];
            for (int64_t c = 0; c < x->dim[2]; c++) {
                double sum = 0, count = 0;
                for (int64_t i = 0; i < x->dim[1]; i++) {
                    if (table[i] != r) continue;
                    sum += (double)((const float *)in[0])[b * x->stride[0] + i * x->stride[1] + c];
                    count++;
                }
                y[c] = count > 0 ? (float)(sum / count) : 0;
            }
        }
}

const graft_ref_op graft_ref_op_MERGE_TOKENS = {
    .check = check, .run = GRAFT_REF_CODE(run), .inputs = 2};
