#include "kernels/ref/ref.h"

static double mean_of(const float *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i];
    return sum / (double)n;
}

/* The least mean of a picture's pixels and the largest; both no number where one is not finite. */
static void range_of(const graft_tensor_desc *t, const float *x, double *least, double *most)
{
    double off = 0; /* 0, or no number */
    *least = INFINITY;
    *most = -INFINITY;
    for (int64_t r = 0; r < t->dim[1]; r++)
        for (int64_t c = 0; c < t->dim[2]; c++) {
            double m = mean_of(x + r * t->stride[1] + c * t->stride[2], t->dim[3]);
            off += m * 0;
            if (m < *least) *least = m;
            if (m > *most) *most = m;
        }
    *least += off;
    *most += off;
}

static void run(const graft_op_desc *d, const void *const *in, void *out, float *workspace)
{
    (void)workspace;
    const graft_tensor_desc *x = &d->in[GRAFT_FACTOR_X], *y = &d->out;
    double factor = (double)*(const float *)in[GRAFT_FACTOR], least, most;
    int64_t half = x->dim[3] / 2;
    for (int64_t n = 0; n < x->dim[0]; n++) {
        const float *from = (const float *)in[GRAFT_FACTOR_X] + n * x->stride[0];
        float *to = (float *)out + n * y->stride[0];
        range_of(x, from, &least, &most);
        for (int64_t r = 0; r < x->dim[1]; r++)
            for (int64_t c = 0; c < x->dim[2]; c++) {
                const float *p = from + r * x->stride[1] + c * x->stride[2];
                float *q = to + r * y->stride[1] + c * y->stride[2];
                double m = mean_of(p, x->dim[3]) - least;
                m = most == least ? 0 : m / (most - least);
                for (int64_t i = 0; i < x->dim[3]; i++)
                    q[i] = i < half ? (float)((double)p[i] * (1 + (factor - 1) * m)) : p[i];
            }
    }
}

const graft_ref_op graft_ref_op_MEAN_SCALE = {
    .check = graft_ref_check_factor, .run = GRAFT_REF_CODE(run), .inputs = 2, .inplace = true};
