/* The way of bytes from ordinary memory to the device: through a ring of pinned buffers, in the
 * stream's order. Small pieces share a buffer; large ones take one after the other, filled by
 * several threads. The device's lock is held around all of this. */
#ifndef GRAFT_KERNELS_CUDA_STAGE_H
#define GRAFT_KERNELS_CUDA_STAGE_H
#include "kernels/cuda/device/device.h"

/* With two buffers; more come with the first large piece. What it has is freed by _close(), also
 * after a failure, where nothing uses the buffers any more. */
graft_status graft_cuda_stage_open(graft_device *d, graft_err *e);
void graft_cuda_stage_close(graft_device *d);
/* Host to device: `src` was read on return, the rest comes in the stream's order. The lock is held.
 */
graft_status graft_cuda_send(graft_device *d, void *dst, const void *src, uint64_t bytes);
/* Host to device and back, complete on return. The lock is held. */
graft_status graft_cuda_upload(graft_device *d, void *dst, const void *src, uint64_t bytes);
graft_status graft_cuda_download(graft_device *d, void *dst, const void *src, uint64_t bytes);
#endif
