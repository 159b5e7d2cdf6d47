#include "kernels/cuda/ops/wgmma.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "kernels/cuda/device/stage.h"

enum { ROW_BYTES = 128, LEAST = 64, TRIAL_BLOCKS = 2 }; /* of a tile; of a product; of a test */

static const struct {
    const char *name, *of_levels;
    uint32_t rows, columns;
    bool turns; /* a block computes many tiles */
    graft_cuda_function f16, bf16, level_f16, level_bf16;
} kernels[GRAFT_CUDA_WGMMA_KERNELS] = {
    {"own wgmma 128x160", "own int8 wgmma 128x160", 128, 160, false,
     GRAFT_CUDA_FN_graft_wgmma_128x160_f16, GRAFT_CUDA_FN_graft_wgmma_128x160_bf16,
     GRAFT_CUDA_FN_graft_wgmma8_128x160_f16, GRAFT_CUDA_FN_graft_wgmma8_128x160_bf16},
    {"own wgmma 256x160", "own int8 wgmma 256x160", 256, 160, false,
     GRAFT_CUDA_FN_graft_wgmma_256x160_f16, GRAFT_CUDA_FN_graft_wgmma_256x160_bf16,
     GRAFT_CUDA_FN_graft_wgmma8_256x160_f16, GRAFT_CUDA_FN_graft_wgmma8_256x160_bf16},
    {"own wgmma 128x128", "own int8 wgmma 128x128", 128, 128, false,
     GRAFT_CUDA_FN_graft_wgmma_128x128_f16, GRAFT_CUDA_FN_graft_wgmma_128x128_bf16,
     GRAFT_CUDA_FN_graft_wgmma8_128x128_f16, GRAFT_CUDA_FN_graft_wgmma8_128x128_bf16},
    {"own wgmma 2x128x128", "own int8 wgmma 2x128x128", 128, 128, true,
     GRAFT_CUDA_FN_graft_wgmma_turns_f16, GRAFT_CUDA_FN_graft_wgmma_turns_bf16,
     GRAFT_CUDA_FN_graft_wgmma8_turns_f16, GRAFT_CUDA_FN_graft_wgmma8_turns_bf16},
};

const char *graft_cuda_wgmma_name(int32_t kernel, bool levels)
{
    return levels ? kernels[kernel].of_levels : kernels[kernel].name;
}

static uint32_t value_bytes(const graft_cuda_gemm *g)
{
    return g->levels ? 1 : 2;
}

/* What is smaller than a tile in all directions has nothing to gain; the copies of tiles want rows
 * at multiples of 16 bytes. */
int32_t graft_cuda_wgmma_count(const graft_device *d, const graft_cuda_gemm *g)
{
    int64_t step = 16 / value_bytes(g);
    bool can = g->levels ? d->wgmma8 && g->levels == GRAFT_I8 : d->wgmma;
    bool fits = can && g->dtype != GRAFT_F32 && g->m >= LEAST && g->n >= LEAST && g->k >= LEAST &&
                g->ldx % step == 0 && g->ldw % step == 0;
    bool turns = g->levels || d->wgmma_turns;
    return !fits ? 0 : turns ? GRAFT_CUDA_WGMMA_KERNELS : GRAFT_CUDA_WGMMA_PLAIN;
}

/* A matrix of `rows` rows of k values, read in boxes of ROW_BYTES of `box` rows. */
static CUresult map_matrix(graft_device *d, const graft_cuda_gemm *g, const void *base,
                           int64_t rows, int64_t ld, uint32_t box, graft_cuda_map *out)
{
    CUtensorMap map = {{0}};
    const cuuint64_t dim[2] = {(cuuint64_t)g->k, (cuuint64_t)rows};
    const cuuint64_t stride[1] = {(cuuint64_t)ld * value_bytes(g)};
    const cuuint32_t size[2] = {ROW_BYTES / value_bytes(g), box}, steps[2] = {1, 1};
    CUtensorMapDataType type =
        g->dtype == GRAFT_F16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    CUresult r = d->drv.tensor_map(
        &map, g->levels ? CU_TENSOR_MAP_DATA_TYPE_UINT8 : type, 2, (void *)(uintptr_t)base, dim,
        stride, size, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    _Static_assert(sizeof map == sizeof *out, "the driver's record");
    memcpy(out, &map, sizeof map);
    return r;
}

static graft_cuda_function function_of(int32_t kernel, const graft_cuda_gemm *g)
{
    bool f16 = g->dtype == GRAFT_F16;
    if (g->levels) return f16 ? kernels[kernel].level_f16 : kernels[kernel].level_bf16;
    return f16 ? kernels[kernel].f16 : kernels[kernel].bf16;
}

static graft_status launch(graft_device *d, int32_t kernel, const graft_cuda_gemm *g,
                           const graft_cuda_wgmma_data *data, graft_cuda_wgmma *p)
{
    uint32_t rows = kernels[kernel].rows, columns = kernels[kernel].columns;
    CUresult r = map_matrix(d, g, data->x, g->m, g->ldx, rows, &p->x);
    if (!r) r = map_matrix(d, g, data->w, g->n, g->ldw, columns, &p->w);
    if (r) return p->trial ? GRAFT_E_UNSUPPORTED : graft_cuda_done(d, r, "a tensor map");
    p->bias = g->levels ? NULL : data->bias;
    p->column_bias = g->levels ? data->bias : NULL;
    p->row_scale = data->row_scale;
    p->column_scale = data->column_scale;
    p->residual = data->residual;
    p->out = data->out;
    p->ldo = g->ldo;
    p->ldr = g->ldr;
    p->m = (int32_t)g->m;
    p->n = (int32_t)g->n;
    p->k = (int32_t)g->k;
    p->tiles_m = (int32_t)graft_cuda_blocks((uint64_t)g->m, rows);
    p->tiles_n = (int32_t)graft_cuda_blocks((uint64_t)g->n, columns);
    uint32_t blocks = (uint32_t)p->tiles_m * (uint32_t)p->tiles_n;
    uint32_t most = p->trial ? TRIAL_BLOCKS : (uint32_t)d->processors;
    if (kernels[kernel].turns && blocks > most) blocks = most;
    p->blocks = (int32_t)blocks;
    p->vec = g->ldo % (p->geglu ? 4 : 8) == 0 && g->ldr % 8 == 0;
    return graft_cuda_launch(d, function_of(kernel, g), blocks, 1, 1, p);
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
enum { M = 264, N = 168, K = 456, LEVELS_K = 840, LEVELS_LD = 848, STEP = 37 };
enum {
    X_BYTES = M * K * 2,
    W_BYTES = N * K * 2,
    OUT_BYTES = M * N * 2,
    W_AT = (X_BYTES + 255) / 256 * 256,
    SCALES_AT = W_AT + (W_BYTES + 255) / 256 * 256, /* of rows and columns, then a bias */
    OUT_AT = SCALES_AT + ((M + 2 * N) * 4 + 255) / 256 * 256,
    TEST_BYTES = OUT_AT + OUT_BYTES
};
_Static_assert(LEVELS_LD <= 2 * K, "levels have room, too");
_Static_assert(TEST_BYTES % 4 == 0 && OUT_BYTES % 4 == 0, "what follows is aligned");

/* Small whole numbers; of a row of x one in STEP is not 0, which keeps the host's part short. */
static int x_at(int row, int k)
{
    return k % STEP == row % STEP ? (row / STEP + k / STEP) % 3 + 1 : 0;
}

static int w_at(int row, int k)
{
    return (row * 7 + k * 3 + row * k) % 5 - 2;
}

static int sum_at(int m, int n, int values)
{
    int sum = 0;
    for (int k = m % STEP; k < values; k += STEP) sum += x_at(m, k) * w_at(n, k);
    return sum;
}

static uint16_t to_half(graft_dtype t, float v)
{
    return t == GRAFT_F16 ? graft_f32_to_f16(v) : graft_f32_to_bf16(v);
}

/* Levels are X_UNIT and W_UNIT times as large, with some of either sign near the largest. */
enum { X_UNIT = 42, W_UNIT = 63, UNITS = X_UNIT * W_UNIT };

static float row_scale_at(int m)
{
    return m % 2 ? 0x1p-10f : 0x1p-12f;
}

static float column_scale_at(int n)
{
    return n % 3 ? 1.0f : 0.5f;
}

static float bias_at(int n)
{
    return (float)(n % 16) - 8;
}

static void fill_halves(graft_dtype t, char *host)
{
    uint16_t *x = (uint16_t *)(void *)host, *w = (uint16_t *)(void *)(host + W_AT);
    for (int i = 0; i < M * K; i++) x[i] = to_half(t, (float)x_at(i / K, i % K));
    for (int i = 0; i < N * K; i++) w[i] = to_half(t, (float)w_at(i / K, i % K));
}

/* What lies between the rows is not 0. */
static void fill_levels(char *host)
{
    int8_t *x = (int8_t *)host, *w = (int8_t *)host + W_AT;
    float *scale = (float *)(void *)(host + SCALES_AT);
    for (int i = 0; i < M; i++) {
        scale[i] = row_scale_at(i);
        for (int k = 0; k < LEVELS_K; k++) x[i * LEVELS_LD + k] = (int8_t)(X_UNIT * x_at(i, k));
    }
    for (int i = 0; i < N; i++) {
        scale[M + i] = column_scale_at(i);
        scale[M + N + i] = bias_at(i);
        for (int k = 0; k < LEVELS_K; k++) w[i * LEVELS_LD + k] = (int8_t)(W_UNIT * w_at(i, k));
    }
}

static float wanted(int m, int n, bool levels)
{
    if (!levels) return (float)sum_at(m, n, K);
    float sum = (float)(UNITS * sum_at(m, n, LEVELS_K));
    return sum * (row_scale_at(m) * column_scale_at(n)) + bias_at(n);
}

/* What all kernels of a kind are tried with. */
typedef struct trial {
    char *device;  /* TEST_BYTES */
    char *host;    /* what lies there at first; results are none yet */
    uint16_t *got; /* M * N */
    float *want;   /* the same */
    bool levels;
} trial;

static graft_status try_kernel(graft_device *d, int32_t kernel, graft_dtype t, const trial *with,
                               graft_err *e)
{
    bool levels = with->levels;
    char *device = with->device;
    int64_t k = levels ? LEVELS_K : K, ld = levels ? LEVELS_LD : K;
    const float *scale = (const float *)(const void *)(device + SCALES_AT);
    const graft_cuda_gemm g = {.dtype = t,
                               .levels = levels ? GRAFT_I8 : GRAFT_DTYPE_NONE,
                               .m = M,
                               .n = N,
                               .k = k,
                               .ldx = ld,
                               .ldw = ld,
                               .ldo = N,
                               .ldr = 0};
    const graft_cuda_wgmma_data data = {.x = device,
                                        .w = device + W_AT,
                                        .out = device + OUT_AT,
                                        .bias = levels ? scale + M + N : NULL,
                                        .row_scale = levels ? scale : NULL,
                                        .column_scale = levels ? scale + M : NULL};
    graft_cuda_wgmma p;
    memset(&p, 0, sizeof p);
    p.trial = 1;
    p.patience = 500;
    graft_status st = graft_cuda_upload(d, device + OUT_AT, with->host + OUT_AT, OUT_BYTES);
    if (!st && (st = launch(d, kernel, &g, &data, &p)) == GRAFT_E_UNSUPPORTED)
        graft_fail(e, st, "the driver refuses a tensor map");
    if (!st) st = graft_cuda_download(d, with->got, device + OUT_AT, OUT_BYTES);
    for (int i = 0; i < M * N && !st; i++)
        if (with->got[i] != to_half(t, with->want[i]))
            st = graft_fail(e, GRAFT_E_DEVICE, "element %d,%d of a product by %s", i / N, i % N,
                            graft_cuda_wgmma_name(kernel, levels));
    return st;
}

typedef struct kinds {
    bool levels, plain, turns; /* of levels or of 16 bits; which of those */
    const char *what;
} kinds;

/* Whether all of these compute what they should; else the log says that they are not used. */
static graft_status try_dtype(graft_device *d, const kinds *of, graft_dtype t, const trial *with,
                              graft_err *e)
{
    memset(with->host, 0xff, TEST_BYTES);
    if (of->levels)
        fill_levels(with->host);
    else
        fill_halves(t, with->host);
    graft_status st = graft_cuda_upload(d, with->device, with->host, OUT_AT);
    for (int32_t i = 0; i < GRAFT_CUDA_WGMMA_KERNELS && !st; i++)
        if (kernels[i].turns ? of->turns : of->plain) st = try_kernel(d, i, t, with, e);
    return st;
}

static bool try_all(graft_device *d, const kinds *of)
{
    graft_err e = GRAFT_ERR_INIT;
    CUdeviceptr memory = 0;
    char text[320];
    char *host = d->host.alloc(GRAFT_CUDA_ALIGN, TEST_BYTES + OUT_BYTES + M * N * sizeof(float));
    graft_status st = host ? GRAFT_OK : graft_fail_nomem(&e, "the test");
    CUresult r = st ? CUDA_SUCCESS : d->drv.memory_alloc(&memory, TEST_BYTES);
    if (r) st = graft_cuda_driver_fail(&d->drv, r, "memory for the test", &e);
    if (!st) {
        const trial with = {.device = (char *)(uintptr_t)memory,
                            .host = host,
                            .got = (uint16_t *)(void *)(host + TEST_BYTES),
                            .want = (float *)(void *)(host + TEST_BYTES + OUT_BYTES),
                            .levels = of->levels};
        for (int i = 0; i < M * N; i++) with.want[i] = wanted(i / N, i % N, of->levels);
        st = try_dtype(d, of, GRAFT_BF16, &with, &e);
        if (!st) st = try_dtype(d, of, GRAFT_F16, &with, &e);
    }
    if (memory) d->drv.memory_free(memory);
    if (host) d->host.free(host);
    if (!st) return true;
    snprintf(text, sizeof text, "%s with Hopper's instructions are not used: %.200s", of->what,
             d->lost[0] ? d->lost : e.text);
    graft_cuda_log(d, GRAFT_LOG_WARN, text);
    return false;
}

bool graft_cuda_wgmma_asked(const char *how)
{
    const char *wanted_at_all = getenv("GRAFT_CUDA_WGMMA");
    return wanted_at_all && strcmp(wanted_at_all, how) == 0;
}

void graft_cuda_wgmma_open(graft_device *d)
{
    static const kinds plain = {false, true, false, "kernels"};
    static const kinds turns = {false, false, true, "products by turns"};
    if (graft_cuda_wgmma_asked("off")) return;
    d->wgmma = try_all(d, &plain);
    if (d->wgmma && graft_cuda_wgmma_asked("all")) d->wgmma_turns = try_all(d, &turns);
}

void graft_cuda_wgmma8_open(graft_device *d)
{
    static const kinds levels = {true, true, true, "products of 8 bits"};
    if (d->wgmma && graft_cuda_wgmma_asked("all")) d->wgmma8 = try_all(d, &levels);
}
