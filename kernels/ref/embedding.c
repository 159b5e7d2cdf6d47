#include <string.h>

#include "kernels/ref/ref.h"

static graft_status check(const graft_op_desc *d, graft_err *e)
{
    const graft_tensor_desc *ids = &d->in[0], *table = &d->in[1], *out = &d->out;
    graft_status st = graft_ref_check_ids(ids, "ids", e);
    if (!st) st = graft_ref_check_f32(table, "table", e);
    if (!st) st = graft_ref_check_f32(out, "out", e);
    if (!st) st = graft_ref_check_rank(table, 2, "table", e);
    if (!st) st = graft_ref_check_rank(out, ids->rank + 1, "out", e);
    for (int i = 0; !st && i < ids->rank; i++)
        st = graft_ref_check_dim(out->dim[i], ids->dim[i], "a leading dimension of out", e);
    if (!st) st = graft_ref_check_dim(out->dim[ids->rank], table->dim[1], "channels of out", e);
    return st;
}

/* Ids outside the table give zeros: the caller checks them, and this must not read wildly. */
static void run(const graft_op_desc *d, const void *const *in, void *out, float *workspace)
{
    (void)workspace;
    const graft_tensor_desc *table = &d->in[1];
    int64_t rows = graft_ref_rows(&d->out);
    size_t bytes = (size_t)table->dim[1] * sizeof(float);
    for (int64_t r = 0; r < rows; r++) {
        int64_t id = graft_ref_id_at(&d->in[0], in[0], r);
        float *y = (float *)out + graft_ref_row_at(&d->out, r);
        if (id >= 0 && id < table->dim[0])
            memcpy(y, (const float *)in[1] + id * table->stride[0], bytes);
        else
            memset(y, 0, bytes);
    }
}

const graft_ref_op graft_ref_op_EMBEDDING = {
    .check = check, .run = GRAFT_REF_CODE(run), .inputs = 2};
