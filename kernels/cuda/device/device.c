/* The device at work: its lock, launches, and what its failures do. */
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/device/device.h"

extern const char graft_cuda_fatbin[]; /* fatbin.S */

static const struct {
    const char *name;
    uint32_t threads, shared; /* bytes of shared memory that the launch asks for */
} kernels[] = {
#define GRAFT_CUDA_KERNEL(name, threads)        {#name, threads, 0},
#define GRAFT_CUDA_HOPPER(name, threads, bytes) {#name, threads, bytes},
#define GRAFT_CUDA_TYPED(name, threads)                                                            \
    {#name "_f32", threads, 0}, {#name "_f16", threads, 0}, {#name "_bf16", threads, 0},
#include "kernels/cuda/gpu/kernels.def"
#undef GRAFT_CUDA_KERNEL
#undef GRAFT_CUDA_HOPPER
#undef GRAFT_CUDA_TYPED
};
_Static_assert(sizeof kernels / sizeof *kernels == GRAFT_CUDA_FUNCTIONS, "a kernel, a name");

void graft_cuda_log(const graft_device *d, int32_t level, const char *text)
{
    if (d->host.log && text[0]) d->host.log(d->host.log_ctx, level, text);
}

void graft_cuda_log_path(const graft_device *d, const char *library, size_t version,
                         const char *path)
{
    char text[400];
    if (version)
        snprintf(text, sizeof text, "%s %zu is %.320s", library, version, path);
    else
        snprintf(text, sizeof text, "%s is %.320s", library, path);
    graft_cuda_log(d, GRAFT_LOG_DEBUG, text);
}

void graft_cuda_lock(graft_device *d)
{
    pthread_mutex_lock(&d->lock);
    if (d->context) d->drv.context_set(d->context);
}

void graft_cuda_unlock(graft_device *d)
{
    pthread_mutex_unlock(&d->lock);
}

/* What a capture refuses, a library's call that allocates for instance, harms the capture alone:
 * the same launches can still run one by one. Of a device that is really lost the next call says
 * so. */
static void lose(graft_device *d, const char *text)
{
    char warning[320];
    if (d->capturing) {
        snprintf(warning, sizeof warning, "a run is not recorded: %s", text);
        if (!d->capture_failed) graft_cuda_log(d, GRAFT_LOG_WARN, warning);
        d->capture_failed = true;
    } else if (!d->lost[0]) {
        snprintf(d->lost, sizeof d->lost, "%.250s", text);
        graft_cuda_log(d, GRAFT_LOG_ERROR, d->lost);
    }
}

/* A capture must not wait; of a device that is lost waiting fails, too, and says why. What is
 * refused once is refused in many layers, and tuning asks for all of it: one line is enough. */
graft_status graft_cuda_refused(graft_device *d, graft_cuda_request what, const char *why)
{
    static const char *const names[GRAFT_CUDA_REQUESTS] = {
        [GRAFT_CUDA_LT_PRODUCT] = "cuBLASLt: a product",
        [GRAFT_CUDA_LT_FP8] = "cuBLASLt: a product in FP8",
        [GRAFT_CUDA_DNN_CONV] = "cuDNN: a convolution",
        [GRAFT_CUDA_DNN_ATTENTION] = "cuDNN: attention",
        [GRAFT_CUDA_DNN_INT8] = "cuDNN: a product in int8",
        [GRAFT_CUDA_DNN_FP8] = "cuDNN: a product in FP8",
    };
    char text[256];
    snprintf(text, sizeof text, "%s: %.150s", names[what], why);
    CUresult r = d->capturing ? CUDA_SUCCESS : d->drv.stream_wait(d->stream);
    if (d->capturing || r) {
        lose(d, text);
        return GRAFT_E_DEVICE;
    }
    snprintf(text, sizeof text, "%s: %.150s; where that is so own kernels do it instead",
             names[what], why);
    if (!d->told[what]) graft_cuda_log(d, GRAFT_LOG_WARN, text);
    d->told[what] = true;
    return GRAFT_E_UNSUPPORTED;
}

graft_status graft_cuda_done(graft_device *d, CUresult r, const char *what)
{
    graft_err e = GRAFT_ERR_INIT;
    if (r == CUDA_SUCCESS) return GRAFT_OK;
    graft_status st = graft_cuda_driver_fail(&d->drv, r, what, &e);
    if (st == GRAFT_E_NOMEM) {
        graft_cuda_log(d, GRAFT_LOG_WARN, e.text);
        return st;
    }
    lose(d, e.text);
    return st;
}

graft_status graft_cuda_launch(graft_device *d, graft_cuda_function f, uint32_t x, uint32_t y,
                               uint32_t z, const void *params)
{
    if (d->lost[0]) return GRAFT_E_DEVICE;
    void *args[] = {(void *)params}; /* the driver's type; it only reads */
    CUlaunchAttribute early = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                               .value.programmaticStreamSerializationAllowed = 1};
    const CUlaunchConfig config = {.gridDimX = x,
                                   .gridDimY = y,
                                   .gridDimZ = z,
                                   .blockDimX = kernels[f].threads,
                                   .blockDimY = 1,
                                   .blockDimZ = 1,
                                   .sharedMemBytes = kernels[f].shared,
                                   .hStream = d->stream,
                                   .attrs = &early,
                                   .numAttrs = 1};
    /* One that starts early would not wait for a copy of another stream. */
    const bool early_start = d->pdl && !d->follows;
    d->follows = false;
    CUresult r = early_start ? d->drv.launch_with(&config, d->function[f], args, NULL)
                             : d->drv.launch(d->function[f], x, y, z, kernels[f].threads, 1, 1,
                                             kernels[f].shared, d->stream, args, NULL);
    return graft_cuda_done(d, r, kernels[f].name);
}

enum { SCRATCH_KEPT = 8 << 20 };

graft_status graft_cuda_scratch(graft_device *d, CUdeviceptr *p, uint64_t *has, uint64_t bytes)
{
    if (*has >= bytes) return GRAFT_OK;
    if (*p) {
        graft_status st = graft_cuda_done(d, d->drv.stream_wait(d->stream), "packing");
        if (st) return st;
        d->drv.memory_free(*p);
    }
    *p = 0;
    *has = 0;
    graft_status st = graft_cuda_done(d, d->drv.memory_alloc(p, bytes), "memory for packing");
    if (st)
        *p = 0;
    else
        *has = bytes;
    return st;
}

void graft_cuda_scratch_free(graft_device *d)
{
    if (d->raw_bytes + d->term_bytes <= SCRATCH_KEPT) return;
    if (d->capturing || d->drv.stream_wait(d->stream)) return;
    if (d->raw) d->drv.memory_free(d->raw);
    if (d->term) d->drv.memory_free(d->term);
    d->raw = d->term = 0;
    d->raw_bytes = d->term_bytes = 0;
}

graft_status graft_cuda_kernels_load(graft_device *d, graft_err *e)
{
    CUresult r = d->drv.module_load(&d->module, graft_cuda_fatbin);
    if (r) return graft_cuda_driver_fail(&d->drv, r, "loading the CUDA kernels", e);
    for (int i = 0; i < GRAFT_CUDA_FUNCTIONS && !r; i++) {
        r = d->drv.module_function(&d->function[i], d->module, kernels[i].name);
        if (!r && kernels[i].shared && d->capability == GRAFT_CUDA_CC_HOPPER)
            r = d->drv.function_set(d->function[i], CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                    (int)kernels[i].shared);
        if (r) graft_cuda_driver_fail(&d->drv, r, kernels[i].name, e);
    }
    return r ? e->code : GRAFT_OK;
}
