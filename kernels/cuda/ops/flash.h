/* ATTENTION by own kernels with Hopper's warpgroup products: bf16 and f16, neither causal nor with
 * a bias, heads of up to 160 channels in eights, on compute capability 9.0 alone, and only where
 * the device passed a test of them when it was opened. */
#ifndef GRAFT_KERNELS_CUDA_FLASH_H
#define GRAFT_KERNELS_CUDA_FLASH_H
#include "kernels/cuda/ops/op.h"

/* A small attention with each kernel, held against the host's. Sets d->flash, or says in the log
 * why not; the device goes on without them. Nothing of this where d->wgmma is not set. Those that
 * hand over the next scores first, d->flash_ahead, have run on no device yet: they are tried with
 * GRAFT_CUDA_WGMMA=all alone. */
void graft_cuda_flash_open(graft_device *d);
/* How many of the kernels can compute it. */
int32_t graft_cuda_flash_count(const graft_device *d, const graft_op_desc *op);
/* Of the i-th of these: "own wgmma QUERIESxKEYS" of a tile, with " ahead" behind it. */
const char *graft_cuda_flash_name(const graft_op_desc *op, int32_t i);
/* The i-th of them. All pointers at multiples of 16 bytes. The lock is held. */
graft_status graft_cuda_flash_run(graft_device *d, int32_t i, const graft_op_desc *op,
                                  const void *const *in, void *out);
#endif
