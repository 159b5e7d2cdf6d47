#include "kernels/ref/ref.h"

static graft_status check_moments(const graft_op_desc *d, graft_err *e)
{
    const graft_tensor_desc *m = &d->in[GRAFT_NORM_MOMENTS];
    if (!graft_ref_present(m)) return GRAFT_OK;
    graft_status st = graft_ref_check_f32(m, "moments", e);
    if (!st) st = graft_ref_check_rank(m, 3, "moments", e);
    if (!st) st = graft_ref_check_dim(m->dim[0], d->out.dim[0], "moments", e);
    if (!st) st = graft_ref_check_dim(m->dim[1], d->attrs.groups, "moments", e);
    if (!st) st = graft_ref_check_dim(m->dim[2], 2, "moments", e);
    return st;
}

static graft_status check_add(const graft_op_desc *d, graft_err *e)
{
    const graft_tensor_desc *add = &d->in[GRAFT_NORM_CHANNEL_ADD];
    if (!graft_ref_present(add)) return GRAFT_OK;
    graft_status st = graft_ref_check_f32(add, "channel_add", e);
    if (!st) st = graft_ref_check_rank(add, 2, "channel_add", e);
    if (!st) st = graft_ref_check_dim(add->dim[0], d->out.dim[0], "batch of channel_add", e);
    if (!st) st = graft_ref_check_dim(add->dim[1], d->out.dim[3], "channels of channel_add", e);
    return st;
}

static graft_status check(const graft_op_desc *d, graft_err *e)
{
    const graft_tensor_desc *x = &d->in[GRAFT_NORM_X];
    graft_status st = graft_ref_check_f32(x, "x", e);
    if (!st) st = graft_ref_check_f32(&d->out, "out", e);
    if (!st) st = graft_ref_check_rank(x, 4, "x", e);
    if (!st) st = graft_ref_check_same_shape(x, &d->out, "x and out", e);
    if (!st) st = graft_ref_check_vector(&d->in[GRAFT_NORM_GAMMA], x->dim[3], "gamma", e);
    if (!st) st = graft_ref_check_vector(&d->in[GRAFT_NORM_BETA], x->dim[3], "beta", e);
    if (!st) st = graft_ref_check_act(d->attrs.act, e);
    if (!st) st = graft_ref_check_eps(d->attrs.eps, e);
    if (!st && (d->attrs.groups < 1 || x->dim[3] % d->attrs.groups))
        st = graft_fail(e, GRAFT_E_ARG, "%d groups do not divide %lld channels",
                        (int)d->attrs.groups, (long long)x->dim[3]);
    if (!st) st = check_moments(d, e);
    if (!st) st = check_add(d, e);
    return st;
}

/* What is normed; add: of the picture's channels, or NULL. */
static double value(const float *x, const float *add, int64_t channel)
{
    return (double)x[channel] + (add ? (double)add[channel] : 0);
}

/* Mean and 1 / sqrt(variance + eps) over the pixels of one picture and `n` channels from `first`.
 */
static void statistics(const graft_op_desc *d, const float *x, const float *add, int64_t first,
                       int64_t n, double *mean, double *inverse)
{
    const graft_tensor_desc *t = &d->in[GRAFT_NORM_X];
    double count = (double)t->dim[1] * (double)t->dim[2] * (double)n, sum = 0, squares = 0;
    for (int64_t r = 0; r < t->dim[1]; r++)
        for (int64_t c = 0; c < t->dim[2]; c++) {
            const float *p = x + r * t->stride[1] + c * t->stride[2];
            for (int64_t i = first; i < first + n; i++) sum += value(p, add, i);
        }
    *mean = sum / count;
    for (int64_t r = 0; r < t->dim[1]; r++)
        for (int64_t c = 0; c < t->dim[2]; c++) {
            const float *p = x + r * t->stride[1] + c * t->stride[2];
            for (int64_t i = first; i < first + n; i++)
                squares += (value(p, add, i) - *mean) * (value(p, add, i) - *mean);
        }
    *inverse = 1.0 / sqrt(squares / count + (double)d->attrs.eps);
}

/* given: mean and variance, or NULL for x's own. */
static void normalize_group(const graft_op_desc *d, const float *x, const float *add,
                            const float *gamma, const float *beta, const float *given, float *y,
                            int64_t first, int64_t n)
{
    const graft_tensor_desc *in = &d->in[GRAFT_NORM_X], *out = &d->out;
    double mean, inverse;
    if (given) {
        mean = (double)given[0];
        inverse = 1.0 / sqrt((double)given[1] + (double)d->attrs.eps);
    } else {
        statistics(d, x, add, first, n, &mean, &inverse);
    }
    for (int64_t r = 0; r < in->dim[1]; r++)
        for (int64_t c = 0; c < in->dim[2]; c++) {
            const float *from = x + r * in->stride[1] + c * in->stride[2];
            float *to = y + r * out->stride[1] + c * out->stride[2];
            for (int64_t i = first; i < first + n; i++)
                to[i] = (float)((value(from, add, i) - mean) * inverse) * gamma[i] + beta[i];
            graft_ref_act_row(d->attrs.act, to + first, n);
        }
}

static void run(const graft_op_desc *d, const void *const *in, void *out, float *workspace)
{
    (void)workspace;
    const graft_tensor_desc *x = &d->in[GRAFT_NORM_X];
    const graft_tensor_desc *m = &d->in[GRAFT_NORM_MOMENTS];
    const float *moments = in[GRAFT_NORM_MOMENTS], *add = in[GRAFT_NORM_CHANNEL_ADD];
    int64_t n = x->dim[3] / d->attrs.groups;
    for (int64_t b = 0; b < x->dim[0]; b++)
        for (int64_t g = 0; g < d->attrs.groups; g++)
            normalize_group(d, (const float *)in[GRAFT_NORM_X] + b * x->stride[0],
                            add ? add + b * d->in[GRAFT_NORM_CHANNEL_ADD].stride[0] : NULL,
                            in[GRAFT_NORM_GAMMA], in[GRAFT_NORM_BETA],
                            moments ? moments + b * m->stride[0] + g * m->stride[1] : NULL,
                            (float *)out + b * d->out.stride[0], g * n, n);
}

const graft_ref_op graft_ref_op_GROUP_NORM = {.check = check,
                                              .run = GRAFT_REF_CODE(run),
                                              .inputs = 5,
                                              .optional = 1u << GRAFT_NORM_MOMENTS |
                                                          1u << GRAFT_NORM_CHANNEL_ADD};
