/* A device whose kernels compute something else is not used: one product on tensor cores, exact in
 * every step, is held against the host's when the device is opened, in bfloat16 and in int8. One of
 * FP8, where the device has that, decides only whether it is used. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "kernels/cuda/backend.h"

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
