/* A device whose kernels compute something else is not used: one product on tensor cores, exact in
 * every step, is held against the host's when the device is opened, in bfloat16 and in int8. One of
 * FP8, where the device has that, decides only whether it is used, and so does a chain of kernels
 * that start before the one ahead has ended. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "kernels/cuda/selftest.h"
#include "kernels/cuda/device/capture.h"
#include "kernels/cuda/device/stage.h"

enum { SIDE = 64, BYTES = SIDE * SIDE * 2 };

/* Whole numbers from -2 to 2: sums of 64 products stay below 257, which bfloat16 holds exactly. */
static int factor(int row, int k, int seed)
{
    return (row * 7 + k * 3 + row * k + seed) % 5 - 2;
}

static int product(int i, int j)
{
    int sum = 0;
    for (int k = 0; k < SIDE; k++) sum += factor(i, k, 0) * factor(j, k, 1);
    return sum;
}

static graft_cuda_matmul shape(const void *x, const void *w, void *out)
{
    return (graft_cuda_matmul){.x = x,
                               .w = w,
                               .out = out,
                               .sx = {0, 0, SIDE},
                               .so = {0, 0, SIDE},
                               .m = SIDE,
                               .n = SIDE,
                               .k = SIDE,
                               .ldw = SIDE,
                               .out_h = 1,
                               .out_w = SIDE,
                               .in_h = 1,
                               .in_w = SIDE,
                               .channels = SIDE,
                               .kernel_w = 1,
                               .stride_h = 1,
                               .stride_w = 1,
                               .vec = 1};
}

static graft_status multiply(graft_device *d, char *on_device, uint16_t *out)
{
    uint16_t given[2][SIDE * SIDE];
    for (int i = 0; i < SIDE * SIDE; i++)
        for (int m = 0; m < 2; m++)
            given[m][i] = graft_f32_to_bf16((float)factor(i / SIDE, i % SIDE, m));
    memset(out, 0xff, BYTES);
    graft_status st = graft_cuda_upload(d, on_device, given, sizeof given);
    if (!st) st = graft_cuda_upload(d, on_device + 2 * BYTES, out, BYTES);
    graft_cuda_matmul p = shape(on_device, on_device + BYTES, on_device + 2 * BYTES);
    if (!st) st = graft_cuda_launch(d, GRAFT_CUDA_FN_graft_matmul_small_bf16, 1, 1, 1, &p);
    return st ? st : graft_cuda_download(d, out, on_device + 2 * BYTES, BYTES);
}

/* A whole number from -2 to 2 as a level. */
static uint8_t level(int v, bool fp8)
{
    static const uint8_t e4m3[3] = {0, 0x38, 0x40}; /* 0, 1, 2 */
    return !fp8 ? (uint8_t)(int8_t)v : v < 0 ? e4m3[-v] | 0x80 : e4m3[v];
}

/* The same of levels whose scales are 1. */
static graft_status multiply_levels(graft_device *d, bool fp8, char *on_device, uint16_t *out)
{
    uint8_t given[2][SIDE * SIDE];
    float one[SIDE];
    for (int i = 0; i < SIDE * SIDE; i++)
        for (int m = 0; m < 2; m++) given[m][i] = level(factor(i / SIDE, i % SIDE, m), fp8);
    for (int i = 0; i < SIDE; i++) one[i] = 1;
    memset(out, 0xff, BYTES);
    graft_status st = graft_cuda_upload(d, on_device, given, sizeof given);
    if (!st) st = graft_cuda_upload(d, on_device + BYTES, one, sizeof one);
    if (!st) st = graft_cuda_upload(d, on_device + 2 * BYTES, out, BYTES);
    graft_cuda_int8 p = {.m = shape(on_device, on_device + SIDE * SIDE, on_device + 2 * BYTES),
                         .row_scale = (const float *)(const void *)(on_device + BYTES),
                         .column_scale = (const float *)(const void *)(on_device + BYTES),
                         .rows_per_scale = 1};
    graft_cuda_function f =
        fp8 ? GRAFT_CUDA_FN_graft_fp8_small_bf16 : GRAFT_CUDA_FN_graft_int8_small_bf16;
    if (!st) st = graft_cuda_launch(d, f, 1, 1, 1, &p);
    return st ? st : graft_cuda_download(d, out, on_device + 2 * BYTES, BYTES);
}

static graft_status compare(const char *what, const uint16_t *out, graft_err *e)
{
    for (int i = 0; i < SIDE * SIDE; i++)
        if (graft_bf16_to_f32(out[i]) != (float)product(i / SIDE, i % SIDE))
            return graft_fail(e, GRAFT_E_DEVICE,
                              "the device fails its self-test: element %d of a product of %s is "
                              "%g, not %d",
                              i, what, (double)graft_bf16_to_f32(out[i]),
                              product(i / SIDE, i % SIDE));
    return GRAFT_OK;
}

graft_status graft_cuda_selftest(graft_device *d, graft_err *e)
{
    uint16_t out[SIDE * SIDE];
    CUdeviceptr memory = 0;
    CUresult r = d->drv.memory_alloc(&memory, 3 * BYTES);
    if (r) return graft_cuda_driver_fail(&d->drv, r, "memory for the self-test", e);
    char *on_device = (char *)(uintptr_t)memory;
    graft_status st = multiply(d, on_device, out);
    if (!st) st = compare("bfloat16", out, e);
    if (!st) {
        st = multiply_levels(d, false, on_device, out);
        if (!st) st = compare("int8", out, e);
    }
    d->drv.memory_free(memory);
    if (st && d->lost[0]) return graft_fail(e, st, "the device fails its self-test: %s", d->lost);
    return st;
}

void graft_cuda_fp8_open(graft_device *d)
{
    graft_err e = GRAFT_ERR_INIT;
    uint16_t out[SIDE * SIDE];
    char text[320];
    CUdeviceptr memory = 0;
    const char *wanted = getenv("GRAFT_CUDA_FP8");
    if (wanted && strcmp(wanted, "off") == 0) return;
    CUresult r = d->drv.memory_alloc(&memory, 3 * BYTES);
    graft_status st = r ? graft_cuda_driver_fail(&d->drv, r, "memory for the test", &e)
                        : multiply_levels(d, true, (char *)(uintptr_t)memory, out);
    if (!st) st = compare("FP8", out, &e);
    if (memory) d->drv.memory_free(memory);
    d->fp8 = st == GRAFT_OK;
    if (!st) return;
    snprintf(text, sizeof text, "kernels with FP8 instructions are not used: %.200s",
             d->lost[0] ? d->lost : e.text);
    graft_cuda_log(d, GRAFT_LOG_WARN, text);
}

/* ------------------------------------------------------------------ kernels that start early
 *
 * Each link of the chain transposes what the one before wrote and adds 1, from one half of the
 * memory to the other: its blocks need results of all blocks, and one that began too early would
 * read what was there two links ago, or overwrite what the link before still reads. */

enum {
    ROWS = 64,
    COLUMNS = 128,
    VALUES = ROWS * COLUMNS,
    CHAIN_BYTES = VALUES * (int)sizeof(float),
    LINKS = 16,
    GRAPHS_WITH_EDGES = 12030 /* the first driver whose recordings keep such launches as such */
};

static graft_status launch_chain(graft_device *d, float *on_device)
{
    graft_status st = GRAFT_OK;
    for (int i = 0; i < LINKS && !st; i++) {
        bool there = i % 2 == 0;
        uint32_t rows = there ? COLUMNS : ROWS, columns = VALUES / rows;
        graft_cuda_elementwise p = {.a = on_device + (there ? 0 : VALUES),
                                    .out = on_device + (there ? VALUES : 0),
                                    .sa = {0, 0, 1, rows},
                                    .so = {0, 0, columns, 1},
                                    .dim = {1, 1, rows, columns},
                                    .count = VALUES,
                                    .op = GRAFT_CUDA_SCALE,
                                    .scale = 1,
                                    .shift = 1};
        st = graft_cuda_launch(d, GRAFT_CUDA_FN_graft_elementwise,
                               graft_cuda_blocks(VALUES, GRAFT_CUDA_THREADS), 1, 1, &p);
    }
    return st;
}

static graft_status replay_chain(graft_device *d, float *on_device)
{
    graft_captured *c = NULL;
    graft_status st = graft_cuda_capture_begin(d);
    if (st) return st;
    st = launch_chain(d, on_device);
    graft_status end = graft_cuda_capture_end(d, &c);
    if (!st) st = end;
    for (int i = 0; i < 2 && !st; i++) st = graft_cuda_replay(c);
    graft_cuda_captured_free(c);
    return st;
}

/* Launched one by one, then recorded and replayed twice: an even number of links each. */
static graft_status try_chain(graft_device *d, float *on_device, graft_err *e)
{
    float value[VALUES];
    for (int i = 0; i < VALUES; i++) value[i] = (float)i;
    graft_status st = graft_cuda_upload(d, on_device, value, sizeof value);
    if (!st) st = launch_chain(d, on_device);
    if (!st) st = replay_chain(d, on_device);
    if (!st) st = graft_cuda_download(d, value, on_device, sizeof value);
    if (st) return graft_fail(e, st, "a chain of kernels cannot be launched or recorded");
    for (int i = 0; i < VALUES; i++)
        if (value[i] != (float)(i + 3 * LINKS))
            return graft_fail(e, GRAFT_E_DEVICE, "element %d of a chain of kernels is %g, not %d",
                              i, (double)value[i], i + 3 * LINKS);
    return GRAFT_OK;
}

void graft_cuda_pdl_open(graft_device *d)
{
    graft_err e = GRAFT_ERR_INIT;
    char text[320];
    int version = 0;
    CUdeviceptr memory = 0;
    const char *wanted = getenv("GRAFT_CUDA_PDL");
    if (wanted && strcmp(wanted, "off") == 0) return;
    if (d->drv.version(&version) || version < GRAPHS_WITH_EDGES) return;
    CUresult r = d->drv.memory_alloc(&memory, 2 * CHAIN_BYTES);
    d->pdl = r == CUDA_SUCCESS;
    graft_status st = r ? graft_cuda_driver_fail(&d->drv, r, "memory for the test", &e)
                        : try_chain(d, (float *)(uintptr_t)memory, &e);
    /* What a launch was refused for does no harm without the attribute. */
    bool works = st && d->drv.stream_wait(d->stream) == CUDA_SUCCESS;
    if (memory) d->drv.memory_free(memory);
    d->pdl = st == GRAFT_OK;
    snprintf(text, sizeof text, "kernels %s%.200s",
             st ? "do not start before the one ahead has ended: "
                : "start before the one ahead has ended",
             !st          ? ""
             : d->lost[0] ? d->lost
                          : e.text);
    graft_cuda_log(d, st ? GRAFT_LOG_WARN : GRAFT_LOG_DEBUG, text);
    if (works) d->lost[0] = '\0';
}
