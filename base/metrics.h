/* How alike two pictures or latents are. Pure functions, any thread. */
#ifndef GRAFT_BASE_METRICS_H
#define GRAFT_BASE_METRICS_H
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Sum of v^2. */
double graft_metric_square_sum(const float *v, size_t n);
/* Mean of (a - b)^2. */
double graft_metric_mse(const float *a, const float *b, size_t n);
/* 10 log10(range^2 / MSE) dB; INFINITY for equal data. */
double graft_metric_psnr(const float *a, const float *b, size_t n, double range);
/* Structural similarity (Wang, Bovik, Sheikh and Simoncelli 2004, IEEE Trans. Image Processing
 * 13/4) of pictures (H,W,C) whose values span `range`: Gaussian window of 11x11 with sigma 1.5, K1
 * = 0.01, K2 = 0.03, covariances of the population, each channel alone, mean over all channels and
 * all places at which the window lies inside. At least 11x11 pixels. */
graft_status graft_metric_ssim(const float *a, const float *b, int64_t height, int64_t width,
                               int64_t channels, double range, double *out, graft_err *e);
#endif
