/* The way of bytes from ordinary memory to the device: through a ring of pinned buffers, in the
 * stream's order. Small pieces share a buffer; large ones take one after the other, filled by
 * several threads. The device's lock is held around all of this. */
#ifndef GRAFT_KERNELS_CUDA_STAGE_H
#define GRAFT_KERNELS_CUDA_STAGE_H
#include "base/error.h"
#include "kernels/cuda/device/copiers.h"
#include "kernels/cuda/device/driver.h"

enum { GRAFT_CUDA_BUFFERS = 8 };
#define GRAFT_CUDA_BUFFER_BYTES ((uint64_t)4 << 20)

typedef struct graft_cuda_stage {
    void *pinned[GRAFT_CUDA_BUFFERS];
    CUevent copied[GRAFT_CUDA_BUFFERS]; /* recorded when a buffer is left */
    int n;                              /* that there are */
    bool complete;                      /* there will not be more */
    int now;                            /* the buffer that small pieces go to */
    uint64_t used;                      /* bytes of it */
    bool open;
    graft_cuda_copiers copiers;
} graft_cuda_stage;

struct graft_device;
/* With two buffers; more come with the first large piece. What it has is freed by _close(), also
 * after a failure, where nothing uses the buffers any more. */
graft_status graft_cuda_stage_open(struct graft_device *d, graft_err *e);
void graft_cuda_stage_close(struct graft_device *d);
#endif
