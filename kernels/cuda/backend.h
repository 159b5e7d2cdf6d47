/* What the files of this library share on the host: the device, a kernel, and the shape of one
 * operator's part.
 *
 * All work of a device goes to one stream, in order. Its lock is held around every use of the
 * driver, and from the begin of a capture to its end. */
#ifndef GRAFT_KERNELS_CUDA_BACKEND_H
#define GRAFT_KERNELS_CUDA_BACKEND_H
#include <pthread.h>

#include "base/log.h"
#include "kernels/cuda/libs/driver.h"
#include "kernels/cuda/gpu/params.h"
#include "kernels/cuda/stage.h"
#include "kernels/kernel_abi.h"
#include "kernels/ref/ref.h"

#define GRAFT_CUDA_ALIGN 256

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

struct graft_device {
    graft_kernels_host host; /* a copy */
    graft_device_info info;
    graft_cuda_driver drv;
    CUdevice id;
    CUcontext context;
    CUstream stream;
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
    bool pdl;                   /* own kernels may start before the one ahead has ended */
    bool capturing, capture_failed;
    char lost[256];                 /* why the device is not used again; empty: it works */
    bool told[GRAFT_CUDA_REQUESTS]; /* that a library refused one of these; under the lock */
    graft_cuda_lt *lt;
    graft_cuda_dnn *dnn;
};

/* How a constant is packed; rows of 0: the input is no constant. */
typedef struct graft_cuda_layout {
    uint32_t rows, channels, taps, ldw;
    graft_dtype to;
    bool pairs, int4, weight; /* int4: packed as GRAFT_Q4, and `to` is what it is unpacked to */
    bool corners;             /* for conv2d_corners.h: ldw is what a row becomes there */
} graft_cuda_layout;

typedef struct graft_cuda_op graft_cuda_op;
struct graft_kernel {
    graft_device *d;
    const graft_cuda_op *type;
    graft_op_desc op;
    graft_dtype t; /* that it computes with: the result's */
    graft_kernel_info info;
    graft_cuda_layout layout[GRAFT_MAX_INPUTS];
    graft_cuda_lt_plan *lt;      /* NULL: own kernels */
    graft_cuda_lt_plan *lt_sums; /* of attention as products: the second; lt is the first */
    graft_cuda_dnn_plan *dnn;
    int32_t wgmma; /* 1: Hopper's first kernel, …; 0: none */
    int32_t way;   /* GROUP_NORM's variant (norm.c) */
    bool corners;  /* CONV2D by conv2d_corners.h */
    bool refused;  /* the library's plan failed in a launch: own kernels from then on */
    bool apart;    /* the residual is added behind cuBLASLt's product */
    uint64_t part; /* where in the workspace the second half begins */
    struct {       /* likewise, of quantized kernels */
        uint64_t level, scale, most, wide, weight;
    } at;
};

struct graft_cuda_op {
    /* [any] What this library cannot do although the record is sound; may be NULL. */
    graft_status (*check)(const graft_op_desc *op, graft_err *e);
    /* Sets layouts and info of k, a zeroed record with desc and dtype. May be NULL. */
    graft_status (*init)(graft_kernel *k, int32_t variant, graft_err *e);
    graft_status (*launch)(graft_kernel *k, const void *const *in, void *out, char *workspace);
    bool inplace; /* out may be in[0], or MUL's residual, where both are dense */
};

extern const graft_cuda_op graft_cuda_op_conv2d, graft_cuda_op_linear, graft_cuda_op_group_norm,
    graft_cuda_op_layer_norm, graft_cuda_op_attention, graft_cuda_op_act, graft_cuda_op_add,
    graft_cuda_op_mul, graft_cuda_op_scale, graft_cuda_op_concat, graft_cuda_op_copy,
    graft_cuda_op_upsample, graft_cuda_op_embedding, graft_cuda_op_timestep, graft_cuda_op_geglu,
    graft_cuda_op_gather_row, graft_cuda_op_prelu, graft_cuda_op_mean_scale,
    graft_cuda_op_low_scale, graft_cuda_op_rms_norm, graft_cuda_op_join, graft_cuda_op_rope,
    graft_cuda_op_conv2d_int8, graft_cuda_op_linear_int8, graft_cuda_op_int4, graft_cuda_op_narrow;
/* Whether it is graft_cuda_op_narrow's. */
bool graft_cuda_is_narrow(const graft_op_desc *op);

/* ------------------------------------------------------------------ device.c */

graft_status graft_cuda_device_open(graft_device *d, int32_t index, graft_err *e);
void graft_cuda_device_close(graft_device *d);
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
void graft_cuda_log(const graft_device *d, int32_t level, const char *text);
/* Says which file a library is: several versions may be installed. version 0: not known. */
void graft_cuda_log_path(const graft_device *d, const char *library, size_t version,
                         const char *path);

/* selftest.c: whether the kernels compute what they should; before the libraries are opened. */
graft_status graft_cuda_selftest(graft_device *d, graft_err *e);
/* Whether the FP8 instructions do; sets d->fp8. For devices that have them. */
void graft_cuda_fp8_open(graft_device *d);
/* Whether kernels that are launched before the one ahead has ended wait for it; sets d->pdl. From
 * compute capability 9.0 on. */
void graft_cuda_pdl_open(graft_device *d);

/* ------------------------------------------------------------------ stage.c */

/* Host to device: `src` was read on return, the rest comes in the stream's order. The lock is held.
 */
graft_status graft_cuda_send(graft_device *d, void *dst, const void *src, uint64_t bytes);
/* Host to device and back, complete on return. The lock is held. */
graft_status graft_cuda_upload(graft_device *d, void *dst, const void *src, uint64_t bytes);
graft_status graft_cuda_download(graft_device *d, void *dst, const void *src, uint64_t bytes);

/* ------------------------------------------------------------------ pack.c */

graft_status graft_cuda_pack_weight(graft_kernel *k, int32_t input, graft_dtype from,
                                    const void *src, void *dst);
graft_status graft_cuda_pack_merged(graft_kernel *k, int32_t input, const graft_weight_part *part,
                                    uint32_t n_parts, void *dst);

/* ------------------------------------------------------------------ shape.c */

static inline bool graft_cuda_present(const graft_tensor_desc *t)
{
    return t->dtype != GRAFT_DTYPE_NONE;
}
/* Four dimensions, those missing in front of size 1; dim and stride may be NULL. */
void graft_cuda_shape(const graft_tensor_desc *t, uint32_t *dim, int64_t *stride);
/* The distance of rows where all are equally far apart, else -1. */
int64_t graft_cuda_row_stride(const graft_tensor_desc *t);
/* Strides of b in the shape of `out`, 0 where it is repeated. */
void graft_cuda_broadcast(const graft_tensor_desc *b, const graft_tensor_desc *out,
                          int64_t *stride);
/* Input i is a constant: packed as rows of n values to dtype `to`. */
void graft_cuda_pack_as(graft_kernel *k, int i, graft_cuda_layout layout);
/* Input i, if it is there and constant, packed as it is. */
void graft_cuda_pack_plain(graft_kernel *k, int i, graft_dtype to);
/* Whether a library may read all these: first elements at multiples of 16 bytes. */
static inline bool graft_cuda_aligned(const void *const *in, int n, const void *out)
{
    uintptr_t bits = (uintptr_t)out;
    for (int i = 0; i < n; i++) bits |= (uintptr_t)in[i];
    return bits % 16 == 0;
}
static inline uint32_t graft_cuda_blocks(uint64_t count, uint32_t size)
{
    return (uint32_t)((count + size - 1) / size);
}

/* ------------------------------------------------------------------ move.c */

/* Launches graft_move; `size` and, where pieces of 16 bytes can be moved, the shape are set here.
 * The lock is held. */
graft_status graft_cuda_move_run(graft_device *d, graft_cuda_move *p);

/* ------------------------------------------------------------------ elementwise.c */

/* out = act(out + b + c), over the shape of the result; b, c may be NULL. */
graft_status graft_cuda_finish(const graft_kernel *k, void *out, graft_act act, int b_input,
                               const void *b, int c_input, const void *c);
/* out = halves of `wide`, which alternate, as a * gelu(b). */
graft_status graft_cuda_fold_pairs(const graft_kernel *k, const void *wide, void *out);
#endif
