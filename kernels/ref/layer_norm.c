#include "kernels/ref/ref.h"

static graft_status check(const graft_op_desc *d, graft_err *e)
{
    const graft_tensor_desc *x = &d->in[GRAFT_NORM_X];
    int64_t channels = graft_ref_row_len(x);
    bool each = d->in[GRAFT_NORM_GAMMA].rank == 3;
    graft_status st = graft_ref_check_f32(x, "x", e);
    if (!st) st = graft_ref_check_f32(&d->out, "out", e);
    if (!st) st = graft_ref_check_same_shape(x, &d->out, "x and out", e);
    for (int i = GRAFT_NORM_GAMMA; !st && i <= GRAFT_NORM_BETA; i++) {
        const char *name = i == GRAFT_NORM_GAMMA ? "gamma" : "beta";
        st = each ? graft_ref_check_row_each(&d->in[i], x, name, e)
                  : graft_ref_check_vector(&d->in[i], channels, name, e);
    }
    return st ? st : graft_ref_check_eps(d->attrs.eps, e);
}

static void run(const graft_op_desc *d, const void *const *in, void *out, float *workspace)
{
    (void)workspace;
    const graft_tensor_desc *x = &d->in[GRAFT_NORM_X];
    const graft_tensor_desc *gamma = &d->in[GRAFT_NORM_GAMMA], *beta = &d->in[GRAFT_NORM_BETA];
    int64_t rows = graft_ref_rows(x), n = graft_ref_row_len(x);
    for (int64_t r = 0; r < rows; r++) {
        int64_t entry = gamma->rank == 3 ? r / x->dim[1] : 0;
        graft_ref_layer_norm((const float *)in[GRAFT_NORM_X] + graft_ref_row_at(x, r),
                             (const float *)in[GRAFT_NORM_GAMMA] + entry * gamma->stride[0],
                             (const float *)in[GRAFT_NORM_BETA] + entry * beta->stride[0],
                             d->attrs.eps, (float *)out + graft_ref_row_at(&d->out, r), n);
    }
}

const graft_ref_op graft_ref_op_LAYER_NORM = {
    .check = check, .run = GRAFT_REF_CODE(run), .inputs = 3};
