/* Whether a device computes what it should. */
#ifndef GRAFT_KERNELS_CUDA_SELFTEST_H
#define GRAFT_KERNELS_CUDA_SELFTEST_H
#include "kernels/cuda/device/device.h"

/* Whether the kernels do; before the libraries are opened. */
graft_status graft_cuda_selftest(graft_device *d, graft_err *e);
/* Whether the FP8 instructions do; sets d->fp8. For devices that have them. */
void graft_cuda_fp8_open(graft_device *d);
/* Whether kernels that are launched before the one ahead has ended wait for it; sets d->pdl. From
 * compute capability 9.0 on. */
void graft_cuda_pdl_open(graft_device *d);
#endif
