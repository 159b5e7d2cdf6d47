/* Launches recorded once and run again as one (kernel_abi.h), and what else goes beyond the plain
 * table. */
#ifndef GRAFT_KERNELS_CUDA_CAPTURE_H
#define GRAFT_KERNELS_CUDA_CAPTURE_H
#include "kernels/cuda/backend.h"

graft_status graft_cuda_capture_begin(graft_device *d);
graft_status graft_cuda_capture_end(graft_device *d, graft_captured **out);
graft_status graft_cuda_replay(graft_captured *c);
void graft_cuda_captured_free(graft_captured *c);
uint64_t graft_cuda_captured_bytes(const graft_captured *c);
void graft_cuda_missing(char *text, uint64_t n);
void graft_cuda_kernel_finish(graft_kernel *k);
#endif
