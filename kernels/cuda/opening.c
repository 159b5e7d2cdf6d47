/* Opening a device: context, stream, kernels that are tried first, and NVIDIA's libraries. */
#include "kernels/cuda/opening.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/device/stage.h"
#include "kernels/cuda/libs/dnn.h"
#include "kernels/cuda/libs/lt.h"
#include "kernels/cuda/ops/conv2d_bands.h"
#include "kernels/cuda/ops/flash.h"
#include "kernels/cuda/ops/sampler.h"
#include "kernels/cuda/ops/wgmma.h"
#include "kernels/cuda/selftest.h"

#define TRY_DRIVER(call, what)                                                                     \
    do {                                                                                           \
        CUresult r_ = (call);                                                                      \
        if (r_) return graft_cuda_driver_fail(&d->drv, r_, what, e);                               \
    } while (0)

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

enum { PIECE_BYTES = 32 << 20 }; /* where nothing else is asked for */

/* GRAFT_CUDA_BANDS: KiB that a band of a convolution reads, or "off"; GRAFT_CUDA_PIECES: KiB of
 * floats that blocks become at a time, likewise. */
static uint64_t bytes_of(const char *name, uint64_t usual)
{
    const char *wanted = getenv(name);
    unsigned long kib = wanted ? strtoul(wanted, NULL, 10) : 0;
    if (wanted && strcmp(wanted, "off") == 0) return 0;
    return kib && kib <= INT32_MAX / 1024 ? (uint64_t)kib << 10 : usual;
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
    d->band_bytes = bytes_of("GRAFT_CUDA_BANDS", GRAFT_CUDA_BAND_BYTES);
    d->piece_bytes = bytes_of("GRAFT_CUDA_PIECES", PIECE_BYTES);
    snprintf(d->info.name, sizeof d->info.name, "%s (compute %d.%d)", name, d->capability / 10,
             d->capability % 10);
    snprintf(d->info.identity, sizeof d->info.identity,
             "cuda %.34s %d.%d%s%s%s%s%s%s sms %d driver %d lt %zu dnn %zu bands %d/%d", name,
             d->capability / 10, d->capability % 10, d->wgmma ? " wgmma" : "",
             d->wgmma_turns ? " turns" : "", d->wgmma8 ? " wgmma8" : "",
             d->flash_ahead ? " ahead" : "", d->fp8 ? " fp8" : "", d->dnn_int8 ? " dnn8" : "",
             d->processors, driver, d->lt ? graft_cuda_lt_version(d->lt) : 0,
             d->dnn ? graft_cuda_dnn_version(d->dnn) : 0, (int)(d->band_bytes >> 10),
             (int)(d->piece_bytes >> 10));
    return GRAFT_OK;
}

graft_status graft_cuda_device_open(graft_device *d, int32_t index, graft_err *e)
{
    graft_status st = graft_cuda_driver_open(&d->drv, e);
    if (!st) st = graft_cuda_driver_device(&d->drv, index, &d->id, NULL, e);
    if (!st) st = find_capability(d, e);
    if (!st) st = open_stream(d, e);
    if (!st) st = graft_cuda_kernels_load(d, e);
    if (!st) st = graft_cuda_selftest(d, e);
    if (st) return st;
    if (d->capability == GRAFT_CUDA_CC_HOPPER) {
        graft_cuda_wgmma_open(d);
        graft_cuda_flash_open(d);
        graft_cuda_wgmma8_open(d);
    }
    if (d->capability == GRAFT_CUDA_CC_ADA || d->capability >= GRAFT_CUDA_CC_BLACKWELL)
        graft_cuda_fp8_open(d);
    if (d->lost[0])
        return graft_fail(
            e, GRAFT_E_DEVICE,
            "the device fails its self-test: %s; with GRAFT_CUDA_%s=off these kernels "
            "are left out",
            d->lost, d->capability == GRAFT_CUDA_CC_HOPPER ? "WGMMA" : "FP8");
    if (d->capability >= GRAFT_CUDA_CC_HOPPER) graft_cuda_pdl_open(d);
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
    if (d->beside) d->drv.stream_destroy(d->beside);
    if (d->stream) d->drv.stream_destroy(d->stream);
    d->drv.context_release(d->id);
}
