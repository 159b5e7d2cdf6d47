#include <math.h>

#include "base/alloc.h"
#include "base/size.h"
#include "engine/image/resize.h"

int64_t graft_resize_taps(const graft_resize_kernel *k, int64_t in, int64_t out)
{
    const double scale = (double)in / (double)out;
    return (int64_t)ceil(k->support * (scale < 1.0 ? 1.0 : scale)) * 2 + 1;
}

graft_resize_window graft_resize_window_at(const graft_resize_kernel *k, int64_t in, int64_t out,
                                           int64_t i, double *weight)
{
    const double scale = (double)in / (double)out, wide = scale < 1.0 ? 1.0 : scale;
    const double reach = k->support * wide, narrow = 1.0 / wide;
    const double centre = ((double)i + 0.5) * scale;
    int64_t first = (int64_t)(centre - reach + 0.5), last = (int64_t)(centre + reach + 0.5);
    double sum = 0.0;
    first = first < 0 ? 0 : first;
    last = last > in ? in : last;
    for (int64_t n = 0; n < last - first; n++)
        sum += weight[n] = k->weight(((double)(n + first) - centre + 0.5) * narrow);
    for (int64_t n = 0; n < last - first && sum != 0.0; n++) weight[n] /= sum;
    return (graft_resize_window){first, last - first};
}

/* ------------------------------------------------------------------ bicubic */

/* Keys, "Cubic convolution interpolation for digital image processing" (1981), eq. 15: a = -1/2. */
static double cubic(double x)
{
    x = fabs(x);
    if (x < 1.0) return (1.5 * x - 2.5) * x * x + 1.0;
    return x < 2.0 ? ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0 : 0.0;
}

typedef struct filter {
    int64_t taps; /* places of `weight` for each window */
    graft_resize_window *at;
    double *weight;
} filter;

static void filter_finish(filter *f)
{
    graft_free(f->at);
    graft_free(f->weight);
}

/* For places begin … begin + n - 1 of `out`. */
static graft_status filter_init(filter *f, int64_t in, int64_t out, int64_t begin, int64_t n,
                                graft_err *e)
{
    const graft_resize_kernel kernel = {cubic, 2.0};
    size_t count;
    f->taps = graft_resize_taps(&kernel, in, out);
    f->at = graft_malloc_array((size_t)n, sizeof *f->at);
    f->weight = graft_size_mul((size_t)n, (size_t)f->taps, &count)
                    ? graft_malloc_array(count, sizeof *f->weight)
                    : NULL;
    if (!f->at || !f->weight) return graft_fail_nomem(e, "the weights of a filter");
    for (int64_t i = 0; i < n; i++)
        f->at[i] = graft_resize_window_at(&kernel, in, out, begin + i, f->weight + i * f->taps);
    return GRAFT_OK;
}

/* Values `step` apart. */
static float weigh(const float *src, int64_t step, const filter *f, int64_t i)
{
    const double *weight = f->weight + i * f->taps;
    double sum = 0.0;
    src += f->at[i].first * step;
    for (int64_t k = 0; k < f->at[i].count; k++) sum += weight[k] * (double)src[k * step];
    return (float)sum;
}

graft_status graft_resize_smooth(const float *src, const int64_t shape[4], float *dst,
                                 const graft_resize_part *part, graft_err *e)
{
    const int64_t in_h = shape[1], in_w = shape[2], c = shape[3], row = part->w * c;
    filter fx = {0}, fy = {0};
    float *middle = NULL;
    graft_status st = GRAFT_OK;
    size_t n;
    GRAFT_TRY(filter_init(&fx, in_w, part->whole[1], part->x, part->w, e));
    GRAFT_TRY(filter_init(&fy, in_h, part->whole[0], part->y, part->h, e));
    if (graft_size_mul((size_t)in_h, (size_t)row, &n))
        middle = graft_malloc_array(n, sizeof *middle);
    if (!middle) {
        st = graft_fail_nomem(e, "resizing");
        goto out;
    }
    for (int64_t i = 0; i < shape[0]; i++, src += in_h * in_w * c, dst += part->h * row) {
        for (int64_t y = 0; y < in_h; y++)
            for (int64_t x = 0; x < part->w; x++)
                for (int64_t k = 0; k < c; k++)
                    middle[y * row + x * c + k] = weigh(src + y * in_w * c + k, c, &fx, x);
        for (int64_t y = 0; y < part->h; y++)
            for (int64_t k = 0; k < row; k++) dst[y * row + k] = weigh(middle + k, row, &fy, y);
    }
out:
    graft_free(middle);
    filter_finish(&fy);
    filter_finish(&fx);
    return st;
}
