/* A 3x3 convolution of a picture whose pixels were doubled, on the picture as it was.
 *
 * Where four pixels of x meet, at a corner, four pixels of the result see these four alone, each
 * with weights of its own: sums of the taps that fall on the same pixel. So the result is a 2x2
 * convolution of x, padded by one, with four times the channels: 16 products where 36 were, and
 * then each corner's channels go to its four pixels. Pixel Y of the result belongs to corner
 * (Y + 1) / 2, from the pixels (Y + 1) / 2 - 1 and (Y + 1) / 2 of x: for even Y the first sees tap
 * 0, the second taps 1 and 2; for odd Y taps 0 and 1, and tap 2. */
#ifndef GRAFT_KERNELS_CUDA_CONV2D_CORNERS_H
#define GRAFT_KERNELS_CUDA_CONV2D_CORNERS_H
#include "kernels/cuda/ops/op.h"

/* Variants from number `first` on: cuDNN's plans for the small convolution, then the own kernel;
 * 0 where the operator is of another kind. Sets up k when `variant` is one of them. */
int32_t graft_cuda_corners_init(graft_kernel *k, int32_t variant, int32_t first);
/* All of the operator but channel_add and act, of a kernel that was set up so. */
graft_status graft_cuda_corners_run(graft_kernel *k, const void *const *in, void *out,
                                    char *workspace);
#endif
