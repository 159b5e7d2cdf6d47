#include "kernels/ref/ref.h"

/* ops.def's t at a pixel: `wave` 1 has u, 2 has v, 3 both. */
static double angle(const graft_tensor_desc *t, int wave, int64_t r, int64_t c)
{
    double u = (double)r / (double)t->dim[1], v = (double)c / (double)t->dim[2];
    return 2 * M_PI * ((wave & 1 ? u : 0) + (wave & 2 ? v : 0));
}

static bool is_there(const graft_tensor_desc *t, int wave)
{
    return !(wave & 1 && t->dim[1] == 1) && !(wave & 2 && t->dim[2] == 1);
}

/* S(x cos t) and S(x sin t) of one channel. */
static void sums(const graft_tensor_desc *t, const float *x, int wave, double *cosines,
                 double *sines)
{
    *cosines = *sines = 0;
    for (int64_t r = 0; r < t->dim[1]; r++)
        for (int64_t c = 0; c < t->dim[2]; c++) {
            double v = (double)x[r * t->stride[1] + c * t->stride[2]], a = angle(t, wave, r, c);
            *cosines += v * cos(a);
            *sines += v * sin(a);
        }
}

static void run_channel(const graft_tensor_desc *in, const graft_tensor_desc *out, const float *x,
                        float *y, double factor)
{
    double cosines[4], sines[4];
    double each = (factor - 1) / ((double)in->dim[1] * (double)in->dim[2]);
    for (int w = 0; w < 4; w++) sums(in, x, w, &cosines[w], &sines[w]);
    for (int64_t r = 0; r < in->dim[1]; r++)
        for (int64_t c = 0; c < in->dim[2]; c++) {
            double low = 0;
            for (int w = 0; w < 4; w++) {
                double a = angle(in, w, r, c);
                if (is_there(in, w)) low += cos(a) * cosines[w] + sin(a) * sines[w];
            }
            y[r * out->stride[1] + c * out->stride[2]] =
                (float)((double)x[r * in->stride[1] + c * in->stride[2]] + each * low);
        }
}

static void run(const graft_op_desc *d, const void *const *in, void *out, float *workspace)
{
    (void)workspace;
    const graft_tensor_desc *x = &d->in[GRAFT_FACTOR_X], *y = &d->out;
    const float *from = in[GRAFT_FACTOR_X];
    float *to = out, factor = *(const float *)in[GRAFT_FACTOR];
    for (int64_t n = 0; n < x->dim[0]; n++)
        for (int64_t i = 0; i < x->dim[3]; i++)
            run_channel(x, y, from + n * x->stride[0] + i, to + n * y->stride[0] + i,
                        (double)factor);
}

const graft_ref_op graft_ref_op_LOW_SCALE = {
    .check = graft_ref_check_factor, .run = GRAFT_REF_CODE(run), .inputs = 2, .inplace = true};
