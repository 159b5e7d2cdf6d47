/* Launches recorded once and run again as one (kernel_abi.h). */
#ifndef GRAFT_KERNELS_CUDA_CAPTURE_H
#define GRAFT_KERNELS_CUDA_CAPTURE_H
#include "kernels/cuda/device/device.h"

graft_status graft_cuda_capture_begin(graft_device *d);
graft_status graft_cuda_capture_end(graft_device *d, graft_captured **out);
graft_status graft_cuda_replay(graft_captured *c);
void graft_cuda_captured_free(graft_captured *c);
uint64_t graft_cuda_captured_bytes(const graft_captured *c);
#endif
