#include "kernels/cuda/ops/flash.h"

#include <stdio.h>
#include <string.h>

#include "base/half.h"
#include "kernels/cuda/device/stage.h"
#include "kernels/cuda/ops/wgmma.h"

static const struct {
    int32_t head_dim; /* at most */
    bool ahead;       /* behind the others for such heads */
    uint32_t queries, keys;
    const char *name;
    graft_cuda_function f16, bf16;
} kernels[] = {
#define KERNEL_(head_dim, ahead, queries, keys, name, of)                                          \
    {                                                                                              \
        head_dim, ahead, queries, keys, "own wgmma " #queries "x" #keys of,                        \
            GRAFT_CUDA_FN_graft_flash_hopper_##name##_f16,                                         \
            GRAFT_CUDA_FN_graft_flash_hopper_##name##_bf16                                         \
    }
#define KERNEL(head_dim, queries, keys, name) KERNEL_(head_dim, false, queries, keys, name, "")
#define AHEAD(head_dim, queries, keys, name)                                                       \
    KERNEL_(head_dim, true, queries, keys, name##_ahead, " ahead")
    KERNEL(40, 128, 64, 40),        KERNEL(40, 192, 128, 40_three), AHEAD(40, 128, 128, 40),
    AHEAD(40, 192, 128, 40_three),  KERNEL(64, 128, 48, 64),        KERNEL(64, 128, 128, 64_long),
    KERNEL(64, 192, 128, 64_three), AHEAD(64, 128, 128, 64),        AHEAD(64, 192, 128, 64_three),
    KERNEL(80, 128, 128, 80),       AHEAD(80, 128, 128, 80),        KERNEL(128, 128, 128, 128),
    KERNEL(160, 128, 64, 160),
#undef KERNEL
#undef AHEAD
#undef KERNEL_
};
enum { KERNELS = sizeof kernels / sizeof *kernels };

/* The first kernel for heads of so many channels, of the tightest kind; KERNELS: there is none. */
static int32_t first_of(int64_t head_dim)
{
    int32_t i = 0;
    while (i < KERNELS && kernels[i].head_dim < head_dim) i++;
    return i;
}

static bool mappable(const graft_tensor_desc *t)
{
    return t->stride[1] > 0 && t->stride[1] % 8 == 0 &&
           (t->dim[0] == 1 || (t->stride[0] > 0 && t->stride[0] % 8 == 0));
}

int32_t graft_cuda_flash_count(const graft_device *d, const graft_op_desc *op)
{
    int64_t head_dim = op->out.dim[2] / op->attrs.heads;
    int32_t first = first_of(head_dim), n = 0;
    if (!d->flash || op->out.dtype == GRAFT_F32 || op->attrs.causal || !(op->attrs.scale > 0) ||
        graft_cuda_present(&op->in[GRAFT_ATTENTION_BIAS]) || head_dim % 8 || !mappable(&op->out))
        return 0;
    for (int i = 0; i < 3; i++)
        if (!mappable(&op->in[i])) return 0;
    while (first + n < KERNELS && kernels[first + n].head_dim == kernels[first].head_dim &&
           (d->flash_ahead || !kernels[first + n].ahead))
        n++;
    return n;
}

const char *graft_cuda_flash_name(const graft_op_desc *op, int32_t i)
{
    return kernels[first_of(op->out.dim[2] / op->attrs.heads) + i].name;
}

/* Channel of a head, head, token, batch, in boxes of 64 channels of `rows` tokens. Channels that a
 * head does not have are zeros then, as are tokens that there are not. */
static CUresult map_heads(graft_device *d, const graft_tensor_desc *t, int32_t heads,
                          const void *base, uint32_t rows, graft_cuda_map *out)
{
    CUtensorMap map = {{0}};
    int64_t head_dim = t->dim[2] / heads;
    int64_t batch = t->dim[0] == 1 ? t->stride[1] * t->dim[1] : t->stride[0];
    const cuuint64_t dim[4] = {(cuuint64_t)head_dim, (cuuint64_t)heads, (cuuint64_t)t->dim[1],
                               (cuuint64_t)t->dim[0]};
    const cuuint64_t stride[3] = {(cuuint64_t)head_dim * 2, (cuuint64_t)t->stride[1] * 2,
                                  (cuuint64_t)batch * 2};
    const cuuint32_t box[4] = {64, 1, rows, 1}, steps[4] = {1, 1, 1, 1};
    CUresult r = d->drv.tensor_map(
        &map,
        t->dtype == GRAFT_F16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        4, (void *)(uintptr_t)base, dim, stride, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
        CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    memcpy(out, &map, sizeof map);
    return r;
}

static graft_status launch(graft_device *d, int32_t kernel, const graft_op_desc *op,
                           const void *const *in, void *out, graft_cuda_flash *p)
{
    int32_t heads = op->attrs.heads;
    uint32_t queries = kernels[kernel].queries, keys = kernels[kernel].keys;
    CUresult r = map_heads(d, &op->in[0], heads, in[0], queries, &p->q);
    if (!r) r = map_heads(d, &op->in[1], heads, in[1], keys, &p->k);
    if (!r) r = map_heads(d, &op->in[2], heads, in[2], keys, &p->v);
    if (r) return p->trial ? GRAFT_E_UNSUPPORTED : graft_cuda_done(d, r, "a tensor map");
    p->out = out;
    p->so[0] = op->out.stride[0];
    p->so[1] = op->out.stride[1];
    p->queries = (int32_t)op->out.dim[1];
    p->keys = (int32_t)op->in[1].dim[1];
    p->head_dim = (int32_t)(op->out.dim[2] / heads);
    p->scale = op->attrs.scale * 1.4426950408889634f;
    if (graft_cuda_present(&op->in[GRAFT_ATTENTION_COUNT])) p->count = in[GRAFT_ATTENTION_COUNT];
    return graft_cuda_launch(
        d, op->out.dtype == GRAFT_F16 ? kernels[kernel].f16 : kernels[kernel].bf16,
        graft_cuda_blocks((uint64_t)p->queries, queries), (uint32_t)heads, (uint32_t)op->out.dim[0],
        p);
}

graft_status graft_cuda_flash_run(graft_device *d, int32_t i, const graft_op_desc *op,
                                  const void *const *in, void *out)
{
    graft_cuda_flash p;
    memset(&p, 0, sizeof p);
    p.patience = 10000;
    if (d->lost[0]) return GRAFT_E_DEVICE;
    return launch(d, first_of(op->out.dim[2] / op->attrs.heads) + i, op, in, out, &p);
}

/* ------------------------------------------------------------------ the test of the device */

/* Both warpgroups have queries, and keys are a tile and a part of one. */
enum { QUERIES = 72, MORE_KEYS = 8, MOST_KEYS = 136, MOST_HEAD = 160 };
#define SCALE 0.125f
enum { ROOM = (QUERIES + 2 * MOST_KEYS + QUERIES) * MOST_HEAD }; /* values: q, k, v, out */

/* What the kernels are tried with, on the host. */
typedef struct trial {
    uint16_t half[ROOM];              /* as on the device */
    float value[ROOM];                /* the same but for the result */
    double want[QUERIES * MOST_HEAD]; /* the result */
} trial;

static float value_of(int which, int row, int c)
{
    return (float)((row * 13 + c * 5 + row * c + which * 3) % 17 - 8) / 8;
}

static float from_half(graft_dtype t, uint16_t v)
{
    return t == GRAFT_F16 ? graft_f16_to_f32(v) : graft_bf16_to_f32(v);
}

/* e^x for small x; the library needs nothing but the C library. */
static double power_of_e(double x)
{
    double sum = 1, term = 1;
    for (int i = 1; i < 20; i++) sum += term *= x / 16 / i;
    for (int i = 0; i < 4; i++) sum *= sum;
    return sum;
}

/* A row of the result, as it should be, of the values of q, k and v. */
static void row_of(const float *q, const float *k, const float *v, int keys, int head_dim,
                   double scale, double *out)
{
    double share[MOST_KEYS], sum = 0;
    for (int j = 0; j < keys; j++) {
        double score = 0;
        for (int c = 0; c < head_dim; c++) score += (double)q[c] * (double)k[j * head_dim + c];
        share[j] = power_of_e(score * scale);
        sum += share[j];
    }
    for (int c = 0; c < head_dim; c++) out[c] = 0;
    for (int j = 0; j < keys; j++)
        for (int c = 0; c < head_dim; c++) out[c] += share[j] / sum * (double)v[j * head_dim + c];
}

static void fill(int which, int rows, int head_dim, float *out)
{
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < head_dim; c++) *out++ = value_of(which, r, c);
}

static graft_tensor_desc rows_of(graft_dtype t, int rows, int head_dim)
{
    return (graft_tensor_desc){.dtype = t,
                               .rank = 3,
                               .dim = {1, rows, head_dim},
                               .stride = {(int64_t)rows * head_dim, head_dim, 1}};
}

static graft_status compare(int32_t kernel, graft_dtype t, const double *want, const uint16_t *got,
                            graft_err *e)
{
    int head_dim = kernels[kernel].head_dim;
    for (int i = 0; i < QUERIES * head_dim; i++) {
        double is = (double)from_half(t, got[i]), off = is - want[i];
        if (!(off < 0.01 && off > -0.01))
            return graft_fail(
                e, GRAFT_E_DEVICE, "element %d,%d of attention by %s for heads of %d: %g, not %g",
                i / head_dim, i % head_dim, kernels[kernel].name, head_dim, is, want[i]);
    }
    return GRAFT_OK;
}

/* `device` has room for ROOM values; their places there are `at`, of q, k, v and the result. */
static graft_status try_dtype(graft_device *d, int32_t kernel, graft_dtype t, uint16_t *device,
                              const int *at, trial *with, graft_err *e)
{
    int head_dim = kernels[kernel].head_dim, keys = (int)kernels[kernel].keys + MORE_KEYS;
    graft_op_desc op = {.size = sizeof op, .op = GRAFT_OP_ATTENTION};
    const void *const in[] = {device, device + at[1], device + at[2]};
    graft_cuda_flash p;
    memset(&p, 0, sizeof p);
    p.trial = 1;
    p.patience = 500;
    op.attrs.heads = 1;
    op.attrs.scale = SCALE;
    op.out = op.in[0] = rows_of(t, QUERIES, head_dim);
    op.in[1] = op.in[2] = rows_of(t, keys, head_dim);
    memset(with->half, 0xff, sizeof with->half);
    for (int i = 0; i < at[3]; i++)
        with->half[i] =
            t == GRAFT_F16 ? graft_f32_to_f16(with->value[i]) : graft_f32_to_bf16(with->value[i]);
    graft_status st = graft_cuda_upload(d, device, with->half, sizeof with->half);
    if (!st && (st = launch(d, kernel, &op, in, device + at[3], &p)) == GRAFT_E_UNSUPPORTED)
        graft_fail(e, st, "the driver refuses a tensor map");
    if (!st)
        st = graft_cuda_download(d, with->half, device + at[3],
                                 (uint64_t)(QUERIES * head_dim) * sizeof *with->half);
    return st ? st : compare(kernel, t, with->want, with->half, e);
}

static graft_status try_kernel(graft_device *d, int32_t kernel, uint16_t *device, trial *with,
                               graft_err *e)
{
    int head_dim = kernels[kernel].head_dim, keys = (int)kernels[kernel].keys + MORE_KEYS;
    const int at[4] = {0, QUERIES * head_dim, (QUERIES + keys) * head_dim,
                       (QUERIES + 2 * keys) * head_dim};
    float *v = with->value;
    for (int i = 0; i < 3; i++) fill(i, i ? keys : QUERIES, head_dim, v + at[i]);
    for (int r = 0; r < QUERIES; r++)
        row_of(v + r * head_dim, v + at[1], v + at[2], keys, head_dim, (double)SCALE,
               with->want + r * head_dim);
    graft_status st = try_dtype(d, kernel, GRAFT_BF16, device, at, with, e);
    return st ? st : try_dtype(d, kernel, GRAFT_F16, device, at, with, e);
}

/* Whether all kernels, those that are ahead or the others, compute what they should; else the log
 * says that `what` is not used. */
static bool try_all(graft_device *d, bool ahead, const char *what)
{
    graft_err e = GRAFT_ERR_INIT;
    CUdeviceptr memory = 0;
    char text[320];
    trial *host = d->host.alloc(GRAFT_CUDA_ALIGN, sizeof *host);
    graft_status st = host ? GRAFT_OK : graft_fail_nomem(&e, "the test");
    CUresult r = st ? CUDA_SUCCESS : d->drv.memory_alloc(&memory, sizeof host->half);
    if (r) st = graft_cuda_driver_fail(&d->drv, r, "memory for the test", &e);
    for (int32_t i = 0; i < KERNELS && !st; i++)
        if (kernels[i].ahead == ahead)
            st = try_kernel(d, i, (uint16_t *)(uintptr_t)memory, host, &e);
    if (memory) d->drv.memory_free(memory);
    if (host) d->host.free(host);
    if (!st) return true;
    snprintf(text, sizeof text, "%s with Hopper's instructions is not used: %.200s", what,
             d->lost[0] ? d->lost : e.text);
    graft_cuda_log(d, GRAFT_LOG_WARN, text);
    return false;
}

void graft_cuda_flash_open(graft_device *d)
{
    if (d->wgmma) d->flash = try_all(d, false, "attention");
    if (d->flash && graft_cuda_wgmma_asked("all"))
        d->flash_ahead = try_all(d, true, "attention ahead");
}
