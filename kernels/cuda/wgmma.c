#include "kernels/cuda/wgmma.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"

enum { TILE_K = 64, LEAST = 64 };

static const struct {
    const char *name;
    uint32_t rows, columns;
    graft_cuda_function f16, bf16;
} kernels[GRAFT_CUDA_WGMMA_KERNELS] = {
    {"own wgmma 128x160", 128, 160, GRAFT_CUDA_FN_graft_wgmma_128x160_f16,
     GRAFT_CUDA_FN_graft_wgmma_128x160_bf16},
    {"own wgmma 256x160", 256, 160, GRAFT_CUDA_FN_graft_wgmma_256x160_f16,
     GRAFT_CUDA_FN_graft_wgmma_256x160_bf16},
    {"own wgmma 128x128", 128, 128, GRAFT_CUDA_FN_graft_wgmma_128x128_f16,
     GRAFT_CUDA_FN_graft_wgmma_128x128_bf16},
};

const char *graft_cuda_wgmma_name(int32_t kernel)
{
    return kernels[kernel].name;
}

/* What is smaller than a tile in all directions has nothing to gain; the copies of tiles want rows
 * at multiples of 16 bytes. */
int32_t graft_cuda_wgmma_count(const graft_device *d, const graft_cuda_gemm *g)
{
    bool fits = d->wgmma && g->dtype != GRAFT_F32 && g->m >= LEAST && g->n >= LEAST &&
                g->k >= LEAST && g->ldx % 8 == 0 && g->ldw % 8 == 0;
    return fits ? GRAFT_CUDA_WGMMA_KERNELS : 0;
}

/* A matrix of `rows` rows of k values, read in boxes of 64 values of `box` rows. */
static CUresult map_matrix(graft_device *d, const graft_cuda_gemm *g, const void *base,
                           int64_t rows, int64_t ld, uint32_t box, graft_cuda_map *out)
{
    CUtensorMap map = {{0}};
    const cuuint64_t dim[2] = {(cuuint64_t)g->k, (cuuint64_t)rows};
    const cuuint64_t stride[1] = {(cuuint64_t)ld * 2};
    const cuuint32_t size[2] = {TILE_K, box}, steps[2] = {1, 1};
    CUresult r = d->drv.tensor_map(
        &map,
        g->dtype == GRAFT_F16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        2, (void *)(uintptr_t)base, dim, stride, size, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
        CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    _Static_assert(sizeof map == sizeof *out, "the driver's record");
    memcpy(out, &map, sizeof map);
    return r;
}

static graft_status launch(graft_device *d, int32_t kernel, const graft_cuda_gemm *g,
                           const graft_cuda_wgmma_data *data, graft_cuda_wgmma *p)
{
    uint32_t rows = kernels[kernel].rows, columns = kernels[kernel].columns;
    CUresult r = map_matrix(d, g, data->x, g->m, g->ldx, rows, &p->x);
    if (!r) r = map_matrix(d, g, data->w, g->n, g->ldw, columns, &p->w);
    if (r) return p->trial ? GRAFT_E_UNSUPPORTED : graft_cuda_done(d, r, "a tensor map");
    p->bias = data->bias;
    p->residual = data->residual;
    p->out = data->out;
    p->ldo = g->ldo;
    p->ldr = g->ldr;
    p->m = (int32_t)g->m;
    p->n = (int32_t)g->n;
    p->k = (int32_t)g->k;
    p->tiles_m = (int32_t)graft_cuda_blocks((uint64_t)g->m, rows);
    p->tiles_n = (int32_t)graft_cuda_blocks((uint64_t)g->n, columns);
    p->vec = g->ldo % (p->geglu ? 4 : 8) == 0 && g->ldr % 8 == 0;
    return graft_cuda_launch(d, g->dtype == GRAFT_F16 ? kernels[kernel].f16 : kernels[kernel].bf16,
                             (uint32_t)p->tiles_m * (uint32_t)p->tiles_n, 1, 1, p);
}

graft_status graft_cuda_wgmma_run(graft_device *d, int32_t kernel, const graft_cuda_gemm *g,
                                  graft_act act, const graft_cuda_wgmma_data *data)
{
    graft_cuda_wgmma p;
    memset(&p, 0, sizeof p);
    p.geglu = act == GRAFT_ACT_GEGLU;
    p.act = p.geglu ? GRAFT_ACT_NONE : act;
    p.patience = 10000;
    return d->lost[0] ? GRAFT_E_DEVICE : launch(d, kernel, g, data, &p);
}

/* ------------------------------------------------------------------ the test of the device */

/* More than a tile each way, a ring filled more than once, and nothing a multiple of a tile. */
enum {
    M = 264,
    N = 168,
    K = 456,
    STEP = 37,
    X_BYTES = M * K * 2,
    W_BYTES = N * K * 2,
    OUT_BYTES = M * N * 2
};
enum { W_AT = (X_BYTES + 255) / 256 * 256, OUT_AT = W_AT + (W_BYTES + 255) / 256 * 256 };

/* Small whole numbers; of a row of x one in STEP is not 0, which keeps the host's part short. */
static int x_at(int row, int k)
{
    return k % STEP == row % STEP ? (row / STEP + k / STEP) % 3 + 1 : 0;
}

static int w_at(int row, int k)
{
    return (row * 7 + k * 3 + row * k) % 5 - 2;
}

static uint16_t to_half(graft_dtype t, float v)
{
    return t == GRAFT_F16 ? graft_f32_to_f16(v) : graft_f32_to_bf16(v);
}

/* `host` has room for everything. */
static graft_status try_kernel(graft_device *d, int32_t kernel, graft_dtype t, char *device,
                               uint16_t *host, graft_err *e)
{
    const graft_cuda_gemm g = {
        .dtype = t, .m = M, .n = N, .k = K, .ldx = K, .ldw = K, .ldo = N, .ldr = 0};
    const graft_cuda_wgmma_data data = {.x = device, .w = device + W_AT, .out = device + OUT_AT};
    graft_cuda_wgmma p;
    memset(&p, 0, sizeof p);
    p.trial = 1;
    p.patience = 500;
    memset(host, 0xff, OUT_AT + OUT_BYTES);
    for (int i = 0; i < M * K; i++) host[i] = to_half(t, (float)x_at(i / K, i % K));
    for (int i = 0; i < N * K; i++) host[W_AT / 2 + i] = to_half(t, (float)w_at(i / K, i % K));
    graft_status st = graft_cuda_upload(d, device, host, OUT_AT + OUT_BYTES);
    if (!st && (st = launch(d, kernel, &g, &data, &p)) == GRAFT_E_UNSUPPORTED)
        graft_fail(e, st, "the driver refuses a tensor map");
    if (!st) st = graft_cuda_download(d, host, device + OUT_AT, OUT_BYTES);
    for (int i = 0; i < M * N && !st; i++) {
        int sum = 0;
        for (int k = i / N % STEP; k < K; k += STEP) sum += x_at(i / N, k) * w_at(i % N, k);
        if (host[i] != to_half(t, (float)sum))
            st = graft_fail(e, GRAFT_E_DEVICE, "element %d,%d of a product by %s", i / N, i % N,
                            kernels[kernel].name);
    }
    return st;
}

void graft_cuda_wgmma_open(graft_device *d)
{
    graft_err e = GRAFT_ERR_INIT;
    CUdeviceptr memory = 0;
    char text[320];
    const char *wanted = getenv("GRAFT_CUDA_WGMMA");
    if (wanted && strcmp(wanted, "off") == 0) return;
    uint16_t *host = d->host.alloc(GRAFT_CUDA_ALIGN, OUT_AT + OUT_BYTES);
    graft_status st = host ? GRAFT_OK : graft_fail_nomem(&e, "the test");
    CUresult r = st ? CUDA_SUCCESS : d->drv.memory_alloc(&memory, OUT_AT + OUT_BYTES);
    if (r) st = graft_cuda_driver_fail(&d->drv, r, "memory for the test", &e);
    for (int32_t i = 0; i < 2 * GRAFT_CUDA_WGMMA_KERNELS && !st; i++)
        st = try_kernel(d, i / 2, i % 2 ? GRAFT_F16 : GRAFT_BF16, (char *)(uintptr_t)memory, host,
                        &e);
    if (memory) d->drv.memory_free(memory);
    if (host) d->host.free(host);
    d->wgmma = st == GRAFT_OK;
    if (!st) return;
    snprintf(text, sizeof text, "kernels with Hopper's instructions are not used: %.200s",
             d->lost[0] ? d->lost : e.text);
    graft_cuda_log(d, GRAFT_LOG_WARN, text);
}
