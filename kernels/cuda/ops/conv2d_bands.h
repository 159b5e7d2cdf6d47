/* Large convolutions band by band: some rows of the result at a time. What a band reads, with the
 * rows around it and zeros beyond the picture, is written to the workspace first.
 *
 * A doubled picture, which cuDNN has to be given as a whole, so takes the memory of one band. And a
 * result with fewer channels than x may take x's place: rows that the next band reads, too, are
 * handed on in the workspace, so nothing is read after it was written over. The VAE is largest
 * there: at 1024 x 1024 its result would come beside 512 MiB of x and 256 of the shortcut. */
#ifndef GRAFT_KERNELS_CUDA_CONV2D_BANDS_H
#define GRAFT_KERNELS_CUDA_CONV2D_BANDS_H
#include "kernels/cuda/ops/op.h"

enum { GRAFT_CUDA_BAND_BYTES = 16 << 20 }; /* what a band reads, where nothing else is asked for */

/* Sets k->bands where the operator is done so; `rows` is 0 where it is not. */
void graft_cuda_bands_init(graft_kernel *k);
/* The convolution of one band, without channel_add and act. */
graft_op_desc graft_cuda_bands_desc(const graft_kernel *k);
/* All bands by the plan for one. In x's place by the own kernel where there is none or it is
 * refused, which k->refused says from then on; elsewhere that is GRAFT_E_UNSUPPORTED, since the own
 * kernel needs no bands there. All of the operator but channel_add and act. */
graft_status graft_cuda_bands_run(graft_kernel *k, graft_cuda_dnn_plan *plan, const void *const *in,
                                  void *out, char *workspace);
#endif
