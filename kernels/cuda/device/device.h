/* What the files of this library share on the host: the device at work.
 *
 * All work of a device goes to one stream, in order, but for what lanes bring (lane.h). Its lock is
 * held around every use of the driver, and from the begin of a capture to its end. */
#ifndef GRAFT_KERNELS_CUDA_DEVICE_H
#define GRAFT_KERNELS_CUDA_DEVICE_H
#include <pthread.h>

#include "base/log.h"
#include "kernels/cuda/device/copiers.h"
#include "kernels/cuda/device/driver.h"
#include "kernels/cuda/gpu/params.h"
#include "kernels/kernel_abi.h"

#define GRAFT_CUDA_ALIGN 256

enum { /* compute capabilities, times 10 */
       GRAFT_CUDA_CC_ADA = 89,
       GRAFT_CUDA_CC_HOPPER = 90,
       GRAFT_CUDA_CC_BLACKWELL = 120 /* from here on, and on Ada, mma.sync has FP8 */
};

typedef enum graft_cuda_function { /* the device kernels */
#define GRAFT_CUDA_KERNEL(name, threads)        GRAFT_CUDA_FN_##name,
#define GRAFT_CUDA_HOPPER(name, threads, bytes) GRAFT_CUDA_FN_##name,
/* The dtypes follow each other so that graft_cuda_typed() can count. */
#define GRAFT_CUDA_TYPED(name, threads)                                                            \
    GRAFT_CUDA_FN_##name, GRAFT_CUDA_FN_##name##_f16, GRAFT_CUDA_FN_##name##_bf16,
#include "kernels/cuda/gpu/kernels.def"
#undef GRAFT_CUDA_KERNEL
#undef GRAFT_CUDA_HOPPER
#undef GRAFT_CUDA_TYPED
                                   GRAFT_CUDA_FUNCTIONS
} graft_cuda_function;

typedef struct graft_cuda_lt graft_cuda_lt;             /* cuBLASLt, open */
typedef struct graft_cuda_lt_plan graft_cuda_lt_plan;   /* one product */
typedef struct graft_cuda_dnn graft_cuda_dnn;           /* cuDNN, open */
typedef struct graft_cuda_dnn_plan graft_cuda_dnn_plan; /* one convolution or attention */

/* What is asked of NVIDIA's libraries, as far as refusals are told apart. */
typedef enum graft_cuda_request {
    GRAFT_CUDA_LT_PRODUCT,
    GRAFT_CUDA_LT_FP8,
    GRAFT_CUDA_DNN_CONV,
    GRAFT_CUDA_DNN_ATTENTION,
    GRAFT_CUDA_DNN_INT8,
    GRAFT_CUDA_DNN_FP8,
    GRAFT_CUDA_REQUESTS
} graft_cuda_request;

/* The ring of pinned buffers of copies from ordinary memory (stage.h). */
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

struct graft_device {
    graft_kernels_host host; /* a copy */
    graft_device_info info;
    graft_cuda_driver drv;
    CUdevice id;
    CUcontext context;
    CUstream stream;
    CUstream beside; /* of lanes' copies; NULL: there was none yet */
    bool follows;    /* the next launch waits for a copy of a lane */
    bool no_pinned;  /* memory of the host had none when it was last asked for */
    CUmodule module;
    CUfunction function[GRAFT_CUDA_FUNCTIONS];
    pthread_mutex_t lock;   /* recursive */
    graft_cuda_stage stage; /* for copies to and from ordinary memory */
    CUdeviceptr raw;        /* a weight as its file has it, before it is packed */
    graft_fetch *fetches;   /* that wait for their next use */
    graft_fetch *sent;      /* whose copies to the device may be under way, the oldest first */
    int n_sent;
    CUdeviceptr term; /* the factors of a LoRA */
    uint64_t raw_bytes, term_bytes;
    int processors, capability; /* the latter times 10 */
    bool wgmma;                 /* Hopper's kernels may be used */
    bool flash, flash_ahead;    /* and those for attention; those of them that are ahead */
    bool wgmma_turns, wgmma8;   /* and those by turns, and for products of levels */
    bool fp8;                   /* those with FP8 instructions of mma.sync may */
    bool dnn_int8;              /* cuDNN's products in int8 may */
    uint64_t band_bytes;        /* of conv2d_bands.h; 0: all convolutions are done at once */
    uint64_t piece_bytes;       /* of floats of blocks.c's weights; 0: all layers likewise */
    bool pdl;                   /* own kernels may start before the one ahead has ended */
    bool capturing, capture_failed;
    char lost[256];                 /* why the device is not used again; empty: it works */
    bool told[GRAFT_CUDA_REQUESTS]; /* that a library refused one of these; under the lock */
    graft_cuda_lt *lt;
    graft_cuda_dnn *dnn;
};

/* The lock, with the device's context made current. */
void graft_cuda_lock(graft_device *d);
void graft_cuda_unlock(graft_device *d);
/* The status of a driver call; what is no lack of memory loses the device, or the capture that goes
 * on. The lock is held. */
graft_status graft_cuda_done(graft_device *d, CUresult r, const char *what);
/* A library's call failed. GRAFT_E_UNSUPPORTED where the device still works, so that own kernels
 * can do the same, which is told once for each kind of request; else likewise. The lock is held. */
graft_status graft_cuda_refused(graft_device *d, graft_cuda_request what, const char *why);
graft_status graft_cuda_launch(graft_device *d, graft_cuda_function f, uint32_t x, uint32_t y,
                               uint32_t z, const void *params);
/* The version of a typed kernel for dtype t. */
static inline graft_cuda_function graft_cuda_typed(graft_cuda_function f32, graft_dtype t)
{
    return (graft_cuda_function)(f32 + (t == GRAFT_F16 ? 1 : t == GRAFT_BF16 ? 2 : 0));
}
/* Memory of at least this size that what is in the stream may still use. The lock is held. */
graft_status graft_cuda_scratch(graft_device *d, CUdeviceptr *p, uint64_t *has, uint64_t bytes);
/* Gives back what packing has left behind, up to the size of the largest weight, unless it is less
 * than 8 MiB. Where the host waits anyway: what is in the stream is waited for. The lock is held.
 */
void graft_cuda_scratch_free(graft_device *d);
void graft_cuda_log(const graft_device *d, int32_t level, const char *text);
/* Says which file a library is: several versions may be installed. version 0: not known. */
void graft_cuda_log_path(const graft_device *d, const char *library, size_t version,
                         const char *path);
/* Loads the library's device kernels, of which d->capability decides some. */
graft_status graft_cuda_kernels_load(graft_device *d, graft_err *e);

static inline bool graft_cuda_present(const graft_tensor_desc *t)
{
    return t->dtype != GRAFT_DTYPE_NONE;
}
static inline uint32_t graft_cuda_blocks(uint64_t count, uint32_t size)
{
    return (uint32_t)((count + size - 1) / size);
}
#endif
