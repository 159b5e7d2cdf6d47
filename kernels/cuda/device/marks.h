/* Points in the order of launches, and the time between them. */
#ifndef GRAFT_KERNELS_CUDA_MARKS_H
#define GRAFT_KERNELS_CUDA_MARKS_H
#include "kernels/cuda/device/device.h"

/* As kernel_abi.h says of marks_create() and those after it. */
graft_status graft_cuda_marks_create(graft_device *d, uint32_t n, graft_marks **out);
graft_status graft_cuda_mark(graft_marks *m, uint32_t index);
graft_status graft_cuda_marks_read(graft_marks *m, double *seconds);
void graft_cuda_marks_free(graft_marks *m);
#endif
