/* A device from its driver's number, and back. */
#ifndef GRAFT_KERNELS_CUDA_OPENING_H
#define GRAFT_KERNELS_CUDA_OPENING_H
#include "kernels/cuda/device/device.h"

/* d: a zeroed record with host and lock. Tries the kernels before they are used; missing libraries
 * of NVIDIA's are told to the log, no failure. The caller closes it in any case. */
graft_status graft_cuda_device_open(graft_device *d, int32_t index, graft_err *e);
void graft_cuda_device_close(graft_device *d);
#endif
