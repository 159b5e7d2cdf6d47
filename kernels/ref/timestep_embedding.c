#include "kernels/ref/ref.h"

static graft_status check(const graft_op_desc *d, graft_err *e)
{
    graft_status st = graft_ref_check_f32(&d->in[0], "t", e);
    if (!st) st = graft_ref_check_f32(&d->out, "out", e);
    if (!st) st = graft_ref_check_rank(&d->in[0], 1, "t", e);
    if (!st) st = graft_ref_check_rank(&d->out, 2, "out", e);
    if (!st) st = graft_ref_check_dim(d->out.dim[0], d->in[0].dim[0], "batch of out", e);
    if (!st && d->out.dim[1] % 2)
        st = graft_fail(e, GRAFT_E_ARG, "channels of out: %lld is odd", (long long)d->out.dim[1]);
    return st;
}

/* Frequencies and angles are rounded to float32 as in the networks' training: at t = 999 that
 * moves an angle by up to 1e-4, which the trained weights have seen. */
static void run(const graft_op_desc *d, const void *const *in, void *out, float *workspace)
{
    (void)workspace;
    int64_t half = d->out.dim[1] / 2;
    const float ln_max_period = 9.210340371976184f; /* of 10000 */
    for (int64_t n = 0; n < d->out.dim[0]; n++) {
        float t = ((const float *)in[0])[n * d->in[0].stride[0]];
        float *y = (float *)out + n * d->out.stride[0];
        for (int64_t i = 0; i < half; i++) {
            float exponent = -ln_max_period * (float)i / (float)half;
            float angle = t * (float)exp(exponent);
            y[i] = (float)cos(angle);
            y[half + i] = (float)sin(angle);
        }
    }
}

const graft_ref_op graft_ref_op_TIMESTEP = {
    .check = check, .run = GRAFT_REF_CODE(run), .inputs = 1};
