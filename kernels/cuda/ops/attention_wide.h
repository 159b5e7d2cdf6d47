/* ATTENTION of long heads, in bf16 and f16, as products by cuBLASLt: scores of some queries in
 * float32, the shares made of them, and the values' sum. Neither causal nor with a bias. Such a
 * head (the VAE's has 512 channels) does not fit into what one block can keep. */
#ifndef GRAFT_KERNELS_CUDA_ATTENTION_WIDE_H
#define GRAFT_KERNELS_CUDA_ATTENTION_WIDE_H
#include "kernels/cuda/ops/op.h"

/* Whether it can be computed so. */
bool graft_cuda_wide_possible(const graft_kernel *k);
/* Makes plans and asks for a workspace; fails where cuBLASLt has no such products. */
graft_status graft_cuda_wide_init(graft_kernel *k);
/* All pointers at multiples of 16 bytes. The lock is held. */
graft_status graft_cuda_wide_run(graft_kernel *k, const void *const *in, void *out,
                                 char *workspace);
#endif
