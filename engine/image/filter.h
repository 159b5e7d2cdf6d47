/* Correlating pictures with small kernels. Any thread. */
#ifndef GRAFT_IMAGE_FILTER_H
#define GRAFT_IMAGE_FILTER_H
#include "engine/engine.h"

/* Weights of a bell exp(-x^2 / (2 sigma^2)) at 2 radius + 1 places x = -radius * step, ...,
 * radius * step, normed to the sum 1. sigma is above 0. */
void graft_filter_bell(int64_t radius, double step, double sigma, float *weight);

/* dst = src correlated with the square kernel weight(y) * weight(x), 2 radius + 1 weights either
 * way. src and dst are pictures (N,H,W,C), the last index fastest; they may be the same. Beyond its
 * edges a picture is its mirror image about the outermost pixel, which is not repeated, so sides
 * are larger than the radius, else GRAFT_E_ARG. Asks the task, which may be NULL, for cancellation
 * at every row. dst is undefined after a failure. */
graft_status graft_filter_reflect(const float *src, const int64_t shape[4], const float *weight,
                                  int64_t radius, const graft_task *task, float *dst, graft_err *e);
#endif
