#include "base/metrics.h"

#include <math.h>

#include "base/alloc.h"
#include "base/size.h"

enum { WINDOW = 11, MOMENTS = 5 };

/* Eight sums, so that no addition waits for the one before it. */
double graft_metric_square_sum(const float *v, size_t n)
{
    double sum[8] = {0};
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; k++) sum[k] += (double)v[i + (size_t)k] * (double)v[i + (size_t)k];
    for (; i < n; i++) sum[0] += (double)v[i] * (double)v[i];
    for (int k = 1; k < 8; k++) sum[0] += sum[k];
    return sum[0];
}

double graft_metric_mse(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)a[i] - (double)b[i];
        sum += d * d;
    }
    return n ? sum / (double)n : 0;
}

double graft_metric_psnr(const float *a, const float *b, size_t n, double range)
{
    double mse = graft_metric_mse(a, b, n);
    return mse > 0 ? 10 * log10(range * range / mse) : mse == 0 ? INFINITY : NAN;
}

static void gaussian(double window[WINDOW])
{
    double sum = 0;
    for (int i = 0; i < WINDOW; i++) {
        double d = i - WINDOW / 2;
        window[i] = exp(-d * d / (2 * 1.5 * 1.5));
        sum += window[i];
    }
    for (int i = 0; i < WINDOW; i++) window[i] /= sum;
}

/* Weighted means of a, b, aa, bb, ab along WINDOW values of each, `stride` apart. */
static void gather(const double window[WINDOW], const double *moment, int64_t stride,
                   double out[MOMENTS])
{
    for (int k = 0; k < MOMENTS; k++) out[k] = 0;
    for (int i = 0; i < WINDOW; i++)
        for (int k = 0; k < MOMENTS; k++) out[k] += window[i] * moment[i * stride + k];
}

static double similarity(const double m[MOMENTS], double c1, double c2)
{
    double var_a = m[2] - m[0] * m[0], var_b = m[3] - m[1] * m[1], cov = m[4] - m[0] * m[1];
    return (2 * m[0] * m[1] + c1) * (2 * cov + c2) /
           ((m[0] * m[0] + m[1] * m[1] + c1) * (var_a + var_b + c2));
}

graft_status graft_metric_ssim(const float *a, const float *b, int64_t height, int64_t width,
                               int64_t channels, double range, double *out, graft_err *e)
{
    double window[WINDOW], c1 = 0.01 * range, c2 = 0.03 * range, sum = 0;
    if (height < WINDOW || width < WINDOW || channels < 1)
        return graft_fail(e, GRAFT_E_ARG, "SSIM needs pictures of at least %dx%d pixels", WINDOW,
                          WINDOW);
    int64_t rows = height, columns = width - WINDOW + 1, inner = height - WINDOW + 1, size;
    if (!graft_size_product((int64_t[]){rows, columns, MOMENTS}, 3, &size))
        return graft_fail(e, GRAFT_E_ARG, "the pictures are too large");
    double *across = graft_malloc_array((size_t)size, sizeof *across);
    if (!across) return graft_fail_nomem(e, "SSIM");
    gaussian(window);
    for (int64_t c = 0; c < channels; c++) {
        for (int64_t i = 0; i < rows * columns; i++) {
            int64_t at = (i / columns * width + i % columns) * channels + c;
            double moment[WINDOW * MOMENTS];
            for (int k = 0; k < WINDOW; k++) {
                double x = a[at + k * channels], y = b[at + k * channels];
                double *m = moment + k * MOMENTS;
                m[0] = x, m[1] = y, m[2] = x * x, m[3] = y * y, m[4] = x * y;
            }
            gather(window, moment, MOMENTS, across + i * MOMENTS);
        }
        for (int64_t i = 0; i < inner * columns; i++) {
            double m[MOMENTS];
            gather(window, across + i * MOMENTS, columns * MOMENTS, m);
            sum += similarity(m, c1 * c1, c2 * c2);
        }
    }
    graft_free(across);
    *out = sum / (double)(inner * columns * channels);
    return GRAFT_OK;
}
