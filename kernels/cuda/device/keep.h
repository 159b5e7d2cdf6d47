/* What this library keeps on disk through the engine: plans of NVIDIA's libraries. They are good
 * for the device, the driver and the versions of libraries that the device's identity names, and
 * for no other. */
#ifndef GRAFT_KERNELS_CUDA_KEEP_H
#define GRAFT_KERNELS_CUDA_KEEP_H
#include "kernels/cuda/device/device.h"

/* Of one entry: what it is (a text with the version of its format), and for which shape. */
typedef struct graft_cuda_key {
    const char *what;
    const void *shape;
    size_t bytes;
} graft_cuda_key;

/* The bytes that were kept; released with host.free. NULL: none. Any thread. */
char *graft_cuda_keep_read(const graft_device *d, const graft_cuda_key *key, uint64_t *bytes);
void graft_cuda_keep_write(const graft_device *d, const graft_cuda_key *key, const void *data,
                           uint64_t bytes);
#endif
