/* The device: context, stream, kernels, memory, and what its failures do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/backend.h"
#include "kernels/cuda/libs/dnn.h"
#include "kernels/cuda/libs/lt.h"
#include "kernels/cuda/ops/sampler.h"
#include "kernels/cuda/ops/flash.h"
#include "kernels/cuda/ops/wgmma.h"

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
    CUresult r = d->pdl ? d->drv.launch_with(&config, d->function[f], args, NULL)
                        : d->drv.launch(d->function[f], x, y, z, kernels[f].threads, 1, 1,
                                        kernels[f].shared, d->stream, args, NULL);
    return graft_cuda_done(d, r, kernels[f].name);
}

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

/* ------------------------------------------------------------------ opening */

#define TRY_DRIVER(call, what)                                                                     \
    do {                                                                                           \
        CUresult r_ = (call);                                                                      \
        if (r_) return graft_cuda_driver_fail(&d->drv, r_, what, e);                               \
    } while (0)

enum { ADA = 89, HOPPER = 90, BLACKWELL = 120 }; /* the last: those with FP8 for mma.sync */

static graft_status find_capability(graft_device *d, graft_err *e)
{
    int major = 0, minor = 0;
    TRY_DRIVER(d->drv.device_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, d->id),
               "the device's capability");
    TRY_DRIVER(d->drv.device_attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, d->id),
               "the device's capability");
    d->capability = 10 * major + minor;
    return GRAFT_OK;
}

static graft_status load_kernels(graft_device *d, graft_err *e)
{
    TRY_DRIVER(d->drv.module_load(&d->module, graft_cuda_fatbin), "loading the CUDA kernels");
    for (int i = 0; i < GRAFT_CUDA_FUNCTIONS; i++) {
        TRY_DRIVER(d->drv.module_function(&d->function[i], d->module, kernels[i].name),
                   kernels[i].name);
        if (kernels[i].shared && d->capability == HOPPER)
            TRY_DRIVER(d->drv.function_set(d->function[i],
                                           CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                           (int)kernels[i].shared),
                       kernels[i].name);
    }
    return GRAFT_OK;
}

static graft_status open_stream(graft_device *d, graft_err *e)
{
    TRY_DRIVER(d->drv.context_retain(&d->context, d->id), "the device's context");
    TRY_DRIVER(d->drv.context_set(d->context), "the device's context");
    TRY_DRIVER(d->drv.stream_create(&d->stream, CU_STREAM_NON_BLOCKING), "a stream");
    return graft_cuda_stage_open(d, e);
}

/* Missing libraries are no failure: own kernels do what they would. */
static void open_libraries(graft_device *d)
{
    graft_err e = GRAFT_ERR_INIT;
    if (graft_cuda_lt_open(d, &d->lt, &e)) graft_cuda_log(d, GRAFT_LOG_WARN, e.text);
    if (graft_cuda_dnn_open(d, &d->dnn, &e)) graft_cuda_log(d, GRAFT_LOG_WARN, e.text);
}

static graft_status describe(graft_device *d, graft_err *e)
{
    char name[96] = "NVIDIA GPU";
    int driver = 0, cache = 0;
    size_t free_bytes = 0, total = 0;
    TRY_DRIVER(d->drv.device_name(name, sizeof name, d->id), "the device's name");
    TRY_DRIVER(
        d->drv.device_attribute(&d->processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, d->id),
        "the device's processors");
    TRY_DRIVER(d->drv.device_attribute(&cache, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, d->id),
               "the device's cache");
    TRY_DRIVER(d->drv.memory_info(&free_bytes, &total), "the device's memory");
    TRY_DRIVER(d->drv.version(&driver), "the driver's version");
    graft_cuda_log_path(d, "the driver for CUDA", (size_t)driver, d->drv.path);
    d->info = (graft_device_info){.size = sizeof d->info,
                                  .memory_total = total,
                                  .alignment = GRAFT_CUDA_ALIGN,
                                  .cache_bytes = cache > 0 ? (uint64_t)cache : 0,
                                  .fast_bf16 = 1,
                                  .fast_f16 = 1,
                                  .fast_int8 = 1};
    /* On an H200 with cuDNN 9.14 each of these products was right when it was timed, and a network
     * of them was wrong: they are for those who look into it. */
    const char *wanted = getenv("GRAFT_CUDA_DNN_INT8");
    d->dnn_int8 = wanted && strcmp(wanted, "on") == 0;
    snprintf(d->info.name, sizeof d->info.name, "%s (compute %d.%d)", name, d->capability / 10,
             d->capability % 10);
    snprintf(d->info.identity, sizeof d->info.identity,
             "cuda %.34s %d.%d%s%s%s%s%s%s processors %d driver %d lt %zu dnn %zu", name,
             d->capability / 10, d->capability % 10, d->wgmma ? " wgmma" : "",
             d->wgmma_turns ? " turns" : "", d->wgmma8 ? " wgmma8" : "",
             d->flash_ahead ? " ahead" : "", d->fp8 ? " fp8" : "", d->dnn_int8 ? " dnn8" : "",
             d->processors, driver, d->lt ? graft_cuda_lt_version(d->lt) : 0,
             d->dnn ? graft_cuda_dnn_version(d->dnn) : 0);
    return GRAFT_OK;
}

graft_status graft_cuda_device_open(graft_device *d, int32_t index, graft_err *e)
{
    graft_status st = graft_cuda_driver_open(&d->drv, e);
    if (!st) st = graft_cuda_driver_device(&d->drv, index, &d->id, NULL, e);
    if (!st) st = find_capability(d, e);
    if (!st) st = open_stream(d, e);
    if (!st) st = load_kernels(d, e);
    if (!st) st = graft_cuda_selftest(d, e);
    if (st) return st;
    if (d->capability == HOPPER) {
        graft_cuda_wgmma_open(d);
        graft_cuda_flash_open(d);
        graft_cuda_wgmma8_open(d);
    }
    if (d->capability == ADA || d->capability >= BLACKWELL) graft_cuda_fp8_open(d);
    if (d->lost[0])
        return graft_fail(
            e, GRAFT_E_DEVICE,
            "the device fails its self-test: %s; with GRAFT_CUDA_%s=off these kernels "
            "are left out",
            d->lost, d->capability == HOPPER ? "WGMMA" : "FP8");
    if (d->capability >= HOPPER) graft_cuda_pdl_open(d);
    if (d->lost[0])
        return graft_fail(e, GRAFT_E_DEVICE,
                          "the device fails its self-test: %s; with GRAFT_CUDA_PDL=off kernels "
                          "start one after the other",
                          d->lost);
    open_libraries(d);
    return describe(d, e);
}

void graft_cuda_device_close(graft_device *d)
{
    if (!d->context) return;
    d->drv.context_set(d->context);
    if (d->stream) d->drv.stream_wait(d->stream);
    graft_cuda_dnn_close(d, d->dnn);
    graft_cuda_lt_close(d, d->lt);
    graft_cuda_fetches_close(d);
    if (d->raw) d->drv.memory_free(d->raw);
    if (d->term) d->drv.memory_free(d->term);
    graft_cuda_stage_close(d);
    if (d->module) d->drv.module_unload(d->module);
    if (d->stream) d->drv.stream_destroy(d->stream);
    d->drv.context_release(d->id);
}
