/* Times the operators of a kernel library at Stable Diffusion's shapes.
 *
 *   graft-bench-kernels [--lib FILE.so] [--against FILE.so] [--threads N] [--only TEXT]
 *                       [--dtype f32|bf16] [--repeats N] [--variants] [--int8] [--turned]
 *
 * Each line: least and median time, the rate, and the rate as a part of the library's own large
 * matrix product of the same dtype, measured in the same run: machines differ and are noisy, so
 * only such ratios mean something. Memory-bound operators show GB/s. --int8 quantizes linears,
 * convolutions and attention (not that product); --turned has linears in int8, alone, whose rows
 * are turned in groups of 256, or as many as fit (kernels/hadamard.h). --against runs a second
 * library on the same values and prints the largest difference over the largest value.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/half.h"
#include "kernels/hadamard.h"
#include "kernels/kernel_abi.h"

#define MAX_REPEATS 200

typedef struct library {
    const graft_kernels *entry;
    graft_device *device;
} library;

typedef struct options {
    const char *lib, *against, *only, *dtype;
    int threads, repeats, variants, int8, turned;
} options;

typedef struct problem {
    const char *name;
    graft_op_desc op;
    double flop, bytes; /* of one launch; flop 0: memory-bound */
} problem;

static void fatal(const char *what, const char *text)
{
    fprintf(stderr, "graft-bench-kernels: %s: %s\n", what, text);
    exit(1);
}

static void *need(void *p)
{
    if (!p) fatal("memory", "short");
    return p;
}

static void *host_alloc(size_t align, size_t bytes)
{
    return graft_malloc_aligned(align, bytes);
}

static library library_open(const char *path, int threads)
{
    static const char none[] = "no graft_kernels_entry";
    graft_kernels_host host = {
        .size = sizeof host, .threads = threads, .alloc = host_alloc, .free = graft_free};
    char text[512] = "";
    library l = {NULL, NULL};
    void *dl = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!dl) fatal(path, dlerror());
    l.entry = dlsym(dl, GRAFT_KERNELS_SYMBOL);
    if (!l.entry) fatal(path, none);
    if (l.entry->api->create(&host, 0, &l.device, text, sizeof text)) fatal(path, text);
    return l;
}

/* Descriptors. */

static graft_tensor_desc tensor(graft_dtype t, int rank, const int64_t *dim)
{
    graft_tensor_desc d = {.dtype = t, .rank = rank};
    int64_t n = 1;
    for (int i = rank - 1; i >= 0; i--) {
        d.dim[i] = dim[i];
        d.stride[i] = n;
        n *= dim[i];
    }
    return d;
}

static graft_tensor_desc weight(int rank, const int64_t *dim)
{
    graft_tensor_desc d = tensor(GRAFT_F32, rank, dim);
    d.constant = 1;
    return d;
}

static int64_t elements(const graft_tensor_desc *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= t->dim[i];
    return n;
}

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

static graft_op_desc conv(graft_dtype t, int64_t n, int64_t h, int64_t c, int64_t o, int k,
                          int stride, int upsample)
{
    graft_op_desc op = {.size = sizeof op, .op = GRAFT_OP_CONV2D};
    int64_t up = upsample ? 2 * h : h, out = up / stride;
    op.attrs.kernel_h = op.attrs.kernel_w = k;
    op.attrs.stride_h = op.attrs.stride_w = stride;
    op.attrs.pad_top = op.attrs.pad_left = op.attrs.pad_bottom = op.attrs.pad_right = k / 2;
    if (upsample) {
        op.attrs.upsample = 2;
        op.attrs.up_h = op.attrs.up_w = (int32_t)up;
    }
    op.in[GRAFT_CONV_X] = tensor(t, 4, DIMS(n, h, h, c));
    op.in[GRAFT_CONV_W] = weight(4, DIMS(o, c, k, k));
    op.in[GRAFT_CONV_BIAS] = weight(1, DIMS(o));
    op.out = tensor(t, 4, DIMS(n, out, out, o));
    return op;
}

static graft_op_desc linear(graft_dtype t, int64_t rows, int64_t in, int64_t out, graft_act act,
                            int residual)
{
    graft_op_desc op = {.size = sizeof op, .op = GRAFT_OP_LINEAR};
    op.attrs.act = act;
    op.in[GRAFT_LINEAR_X] = tensor(t, 2, DIMS(rows, in));
    op.in[GRAFT_LINEAR_W] = weight(2, DIMS(out, in));
    op.in[GRAFT_LINEAR_BIAS] = weight(1, DIMS(out));
    op.out = tensor(t, 2, DIMS(rows, act == GRAFT_ACT_GEGLU ? out / 2 : out));
    if (residual) op.in[GRAFT_LINEAR_RESIDUAL] = op.out;
    return op;
}

static graft_op_desc attention(graft_dtype t, int64_t n, int heads, int64_t q, int64_t k,
                               int64_t dim, int causal)
{
    graft_op_desc op = {.size = sizeof op, .op = GRAFT_OP_ATTENTION};
    op.attrs.heads = heads;
    op.attrs.causal = causal;
    op.attrs.scale = 1.0f / sqrtf((float)dim);
    op.in[GRAFT_ATTENTION_Q] = op.out = tensor(t, 3, DIMS(n, q, heads * dim));
    op.in[GRAFT_ATTENTION_K] = op.in[GRAFT_ATTENTION_V] = tensor(t, 3, DIMS(n, k, heads * dim));
    return op;
}

static graft_op_desc norm(graft_op kind, graft_dtype t, int64_t n, int64_t h, int64_t c,
                          graft_act act)
{
    graft_op_desc op = {.size = sizeof op, .op = kind};
    op.attrs.groups = kind == GRAFT_OP_GROUP_NORM ? 32 : 0;
    op.attrs.act = act;
    op.attrs.eps = 1e-5f;
    op.in[GRAFT_NORM_X] = op.out = tensor(t, 4, DIMS(n, h, h, c));
    op.in[GRAFT_NORM_GAMMA] = op.in[GRAFT_NORM_BETA] = weight(1, DIMS(c));
    return op;
}

/* out = f(a[, b]), all of one shape but for the last dimension. */
static graft_op_desc plain(graft_op kind, graft_dtype t, int64_t rows, int64_t a, int64_t b,
                           int64_t out)
{
    graft_op_desc op = {.size = sizeof op, .op = kind};
    op.attrs.act = kind == GRAFT_OP_ACT ? GRAFT_ACT_SILU : GRAFT_ACT_NONE;
    op.attrs.scale = 0.5f;
    op.in[0] = tensor(t, 2, DIMS(rows, a));
    if (b) op.in[1] = tensor(t, 2, DIMS(rows, b));
    op.out = tensor(t, 2, DIMS(rows, out));
    return op;
}

/* Values: sums of uniform numbers, the same for every library. */

static uint64_t random_next(uint64_t *s)
{
    *s += 0x9e3779b97f4a7c15u;
    uint64_t z = (*s ^ *s >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static float *values(int64_t n, uint64_t seed, float scale)
{
    float *v = need(graft_malloc_array((size_t)n, sizeof *v));
    for (int64_t i = 0; i < n; i++) {
        uint64_t r = random_next(&seed);
        v[i] = ((float)(r & 0xffffff) + (float)(r >> 40) - 16777216.0f) / 16777216.0f * scale;
    }
    return v;
}

static void *to_device(const library *l, const graft_tensor_desc *t, const float *v)
{
    uint64_t bytes = (uint64_t)elements(t) * graft_dtype_size(t->dtype);
    void *p = need(l->entry->api->alloc(l->device, bytes));
    if (t->dtype == GRAFT_F32) {
        l->entry->api->upload(l->device, p, v, bytes);
    } else {
        void *h = need(graft_malloc((size_t)bytes));
        graft_f32_to_bf16_array(v, h, (size_t)elements(t));
        l->entry->api->upload(l->device, p, h, bytes);
        graft_free(h);
    }
    return p;
}

typedef struct running {
    const library *l;
    graft_kernel *kernel;
    graft_kernel_info info;
    void *buffer[GRAFT_MAX_INPUTS], *out, *workspace;
    double pack_seconds;
} running;

static int start(running *r, const library *l, const graft_op_desc *op, int variant)
{
    char text[256] = "";
    const graft_kernels_api *api = l->entry->api;
    memset(r, 0, sizeof *r);
    r->l = l;
    r->info.size = sizeof r->info;
    if (api->prepare(l->device, op, variant, &r->kernel, &r->info, text, sizeof text)) {
        printf("  %s: %s\n", l->entry->name, text);
        return -1;
    }
    for (int i = 0; i < GRAFT_MAX_INPUTS; i++) {
        const graft_tensor_desc *t = &op->in[i];
        if (t->dtype == GRAFT_DTYPE_NONE) continue;
        float scale =
            t->constant && t->rank > 1 ? 1.0f / sqrtf((float)(elements(t) / t->dim[0])) : 1.0f;
        float *v = values(elements(t), (uint64_t)i + 1, scale * 2.0f);
        if (t->constant) {
            r->buffer[i] = need(api->alloc(l->device, r->info.packed_bytes[i]));
            double t0 = graft_clock_now();
            if (api->pack(r->kernel, i, GRAFT_F32, v, r->buffer[i])) fatal(l->entry->name, "pack");
            r->pack_seconds += graft_clock_now() - t0;
        } else {
            r->buffer[i] = to_device(l, t, v);
        }
        graft_free(v);
    }
    r->out =
        need(api->alloc(l->device, (uint64_t)elements(&op->out) * graft_dtype_size(op->out.dtype)));
    if (r->info.workspace_bytes)
        r->workspace = need(api->alloc(l->device, r->info.workspace_bytes));
    return 0;
}

static void stop(running *r)
{
    const graft_kernels_api *api = r->l->entry->api;
    for (int i = 0; i < GRAFT_MAX_INPUTS; i++) api->free(r->l->device, r->buffer[i]);
    api->free(r->l->device, r->out);
    api->free(r->l->device, r->workspace);
    api->release(r->kernel);
}

static double launch(running *r)
{
    char text[256] = "";
    const graft_kernels_api *api = r->l->entry->api;
    double t = graft_clock_now();
    if (api->launch(r->kernel, (const void *const *)r->buffer, r->out, r->workspace) ||
        api->wait(r->l->device, text, sizeof text))
        fatal("launch", text);
    return graft_clock_now() - t;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Seconds, least and median, of launches that take about a third of a second together. */
static void measure(running *r, int repeats, double *least, double *median)
{
    double s[MAX_REPEATS], total = 0;
    int n = 0;
    launch(r);
    while (n < MAX_REPEATS && (repeats ? n < repeats : n < 5 || total < 0.3))
        total += s[n++] = launch(r);
    qsort(s, (size_t)n, sizeof s[0], by_value);
    *least = s[0];
    *median = s[n / 2];
}

static float *result(const running *r, const graft_op_desc *op)
{
    size_t n = (size_t)elements(&op->out);
    float *v = need(graft_malloc_array(n, sizeof *v));
    void *raw = need(graft_malloc_array(n, sizeof *v));
    r->l->entry->api->download(r->l->device, raw, r->out, n * graft_dtype_size(op->out.dtype));
    if (op->out.dtype == GRAFT_BF16) {
        graft_bf16_to_f32_array(raw, v, n);
    } else {
        memcpy(v, raw, n * sizeof *v);
    }
    graft_free(raw);
    return v;
}

/* The same operator in float32 on the same (rounded) values by another library. */
static double compare(const running *r, const graft_op_desc *op, const library *other)
{
    graft_op_desc exact = *op;
    running o;
    double worst = 0, most = 0;
    for (int i = 0; i < GRAFT_MAX_INPUTS; i++)
        if (exact.in[i].dtype == GRAFT_BF16) exact.in[i].dtype = GRAFT_F32;
    exact.out.dtype = GRAFT_F32;
    if (start(&o, other, &exact, -1)) return NAN;
    for (int i = 0; i < GRAFT_MAX_INPUTS; i++) {
        if (op->in[i].dtype != GRAFT_BF16) continue;
        size_t n = (size_t)elements(&op->in[i]);
        float *v = need(graft_malloc_array(n, sizeof *v));
        graft_bf16_to_f32_array(r->buffer[i], v, n);
        other->entry->api->upload(other->device, o.buffer[i], v, n * sizeof *v);
        graft_free(v);
    }
    launch(&o);
    float *a = result(r, op), *b = result(&o, &exact);
    for (int64_t i = 0; i < elements(&op->out); i++) {
        worst = fmax(worst, isnan(a[i]) ? INFINITY : fabs((double)a[i] - (double)b[i]));
        most = fmax(most, fabs((double)b[i]));
    }
    graft_free(a);
    graft_free(b);
    stop(&o);
    return most > 0 ? worst / most : worst;
}

static void run(const problem *p, const library *l, const library *other, const options *o,
                double peak)
{
    int variants = 1;
    for (int v = 0; v < variants; v++) {
        running r;
        double least, median;
        if (start(&r, l, &p->op, o->variants ? v : -1)) {
            continue;
        }
        if (o->variants) variants = r.info.variant_count;
        measure(&r, o->repeats, &least, &median);
        printf("%-34s %-4s %9.3f %9.3f ms ", p->name,
               p->op.out.dtype == GRAFT_BF16 ? "bf16" : "f32", least * 1e3, median * 1e3);
        if (p->flop > 0) {
            printf("%7.1f GFLOP/s %4.0f %%", p->flop / median * 1e-9,
                   100 * p->flop / median / peak);
        } else {
            printf("%7.1f GB/s         ", p->bytes / median * 1e-9);
        }
        if (r.pack_seconds > 0.01) printf(" pack %5.1f ms", r.pack_seconds * 1e3);
        if (other->entry) printf(" error %.2g", compare(&r, &p->op, other));
        printf("  %s\n", r.info.variant);
        fflush(stdout);
        stop(&r);
    }
}

static problem timed(const char *name, graft_op_desc op)
{
    problem p = {name, op, 0, 0};
    double out = (double)elements(&op.out);
    switch (op.op) {
    case GRAFT_OP_CONV2D:
    case GRAFT_OP_LINEAR: {
        double per = (double)elements(&op.in[1]) / (double)op.in[1].dim[0];
        p.flop = 2 * out * per * (op.attrs.act == GRAFT_ACT_GEGLU ? 2 : 1);
        break;
    }
    case GRAFT_OP_ATTENTION:
        p.flop = 4 * out * (double)op.in[1].dim[1] * (op.attrs.causal ? 0.5 : 1);
        break;
    default:
        break;
    }
    p.bytes = out * graft_dtype_size(op.out.dtype);
    for (int i = 0; i < GRAFT_MAX_INPUTS; i++)
        if (op.in[i].dtype && !op.in[i].constant)
            p.bytes += (double)elements(&op.in[i]) * graft_dtype_size(op.in[i].dtype);
    return p;
}

/* Of a transformer's tokens: a norm of each head, a norm or a gate with one row for all of them,
 * and two kinds of tokens joined. */
static graft_op_desc tokens(graft_op kind, graft_dtype t, int64_t n, int64_t c, int heads)
{
    graft_op_desc op = {.size = sizeof op, .op = kind};
    op.attrs.heads = heads;
    op.attrs.eps = 1e-6f;
    op.in[0] = op.out = tensor(t, 3, DIMS(1, n, c));
    if (kind == GRAFT_OP_RMS_NORM) {
        op.in[GRAFT_NORM_GAMMA] = weight(1, DIMS(c / heads));
    } else if (kind == GRAFT_OP_JOIN) {
        op.in[1] = tensor(t, 3, DIMS(1, 154, c));
        op.in[0].dim[1] -= 154;
    } else {
        op.in[1] = tensor(GRAFT_F32, 3, DIMS(1, 1, c));
        op.in[2] = kind == GRAFT_OP_MUL ? op.out : op.in[1];
    }
    return op;
}

/* Stable Diffusion 3's at 1024x1024, and T5's. */
static int transformer_problems(graft_dtype t, problem *p)
{
    int n = 0;
    p[n++] = timed("layer_norm 4250x1536 given", tokens(GRAFT_OP_LAYER_NORM, t, 4250, 1536, 0));
    p[n] = timed("layer_norm 4250x1536", tokens(GRAFT_OP_LAYER_NORM, t, 4250, 1536, 0));
    p[n].op.in[1] = p[n].op.in[2] = weight(1, DIMS(1536));
    n++;
    p[n++] = timed("rms_norm 4250x(24x64)", tokens(GRAFT_OP_RMS_NORM, t, 4250, 1536, 24));
    p[n++] = timed("rms_norm 256x4096", tokens(GRAFT_OP_RMS_NORM, t, 256, 4096, 1));
    p[n++] = timed("mul 4250x1536 residual", tokens(GRAFT_OP_MUL, t, 4250, 1536, 0));
    p[n++] = timed("join (4096+154)x1536", tokens(GRAFT_OP_JOIN, t, 4250, 1536, 0));
    p[n] = timed("act gelu 4250x6144", plain(GRAFT_OP_ACT, t, 4250, 6144, 0, 6144));
    p[n++].op.attrs.act = GRAFT_ACT_GELU;
    p[n] = timed("act gelu_tanh 4250x6144", plain(GRAFT_OP_ACT, t, 4250, 6144, 0, 6144));
    p[n++].op.attrs.act = GRAFT_ACT_GELU_TANH;
    /* FLUX's at 512x512. */
    p[n++] = timed("linear 1280 3072-21504", linear(t, 1280, 3072, 21504, 0, 0));
    p[n++] = timed("linear 1280 15360-3072 residual", linear(t, 1280, 15360, 3072, 0, 1));
    p[n++] = timed("linear 1024 3072-12288", linear(t, 1024, 3072, 12288, 0, 0));
    p[n++] = timed("linear 1 3072-18432", linear(t, 1, 3072, 18432, 0, 0));
    p[n++] = timed("linear 4096 1536-6144", linear(t, 4096, 1536, 6144, 0, 0));
    p[n++] = timed("linear 4096 1536-6144 gelu", linear(t, 4096, 1536, 6144, GRAFT_ACT_GELU, 0));
    p[n++] = timed("linear 4096 1536-6144 gelu_tanh",
                   linear(t, 4096, 1536, 6144, GRAFT_ACT_GELU_TANH, 0));
    p[n++] = timed("attention 24h 4250x4250x64", attention(t, 1, 24, 4250, 4250, 64, 0));
    p[n++] = timed("attention 64h 256x256x64", attention(t, 1, 64, 256, 256, 64, 0));
    p[n] = timed("attention 64h 256x256x64 bias", attention(t, 1, 64, 256, 256, 64, 0));
    p[n++].op.in[GRAFT_ATTENTION_BIAS] = tensor(GRAFT_F32, 3, DIMS(64, 256, 256));
    return n;
}

#define MAX_PROBLEMS 96

static int problems(graft_dtype t, problem *p)
{
    int n = 0;
    p[n++] = timed("conv 3x3 320-320 64x64", conv(t, 1, 64, 320, 320, 3, 1, 0));
    p[n++] = timed("conv 3x3 320-320 64x64 batch 2", conv(t, 2, 64, 320, 320, 3, 1, 0));
    p[n++] = timed("conv 3x3 640-640 32x32", conv(t, 1, 32, 640, 640, 3, 1, 0));
    p[n++] = timed("conv 3x3 1280-1280 16x16", conv(t, 1, 16, 1280, 1280, 3, 1, 0));
    p[n++] = timed("conv 3x3 1280-1280 8x8 batch 2", conv(t, 2, 8, 1280, 1280, 3, 1, 0));
    p[n++] = timed("conv 3x3 960-320 64x64", conv(t, 1, 64, 960, 320, 3, 1, 0));
    p[n++] = timed("conv 3x3 /2 320-320 64x64", conv(t, 1, 64, 320, 320, 3, 2, 0));
    p[n++] = timed("conv 3x3 x2 640-640 32x32", conv(t, 1, 32, 640, 640, 3, 1, 1));
    p[n++] = timed("conv 3x3 x2 1280-1280 8x8 batch 2", conv(t, 2, 8, 1280, 1280, 3, 1, 1));
    p[n++] = timed("conv 3x3 4-320 64x64", conv(t, 1, 64, 4, 320, 3, 1, 0));
    p[n++] = timed("conv 3x3 320-4 64x64", conv(t, 1, 64, 320, 4, 3, 1, 0));
    p[n++] = timed("conv 1x1 960-320 64x64", conv(t, 1, 64, 960, 320, 1, 1, 0));
    p[n] = timed("conv 3x3 320-320 64x64 residual", conv(t, 1, 64, 320, 320, 3, 1, 0));
    p[n].op.in[GRAFT_CONV_RESIDUAL] = p[n].op.out;
    n++;
    p[n++] = timed("conv 3x3 128-128 512x512 (VAE)", conv(t, 1, 512, 128, 128, 3, 1, 0));
    p[n++] = timed("conv 3x3 x2 512-512 64x64 (VAE)", conv(t, 1, 64, 512, 512, 3, 1, 1));
    p[n++] = timed("conv 3x3 x2 256-256 256x256 (VAE)", conv(t, 1, 256, 256, 256, 3, 1, 1));
    p[n++] = timed("conv 3x3 128-3 512x512 (VAE)", conv(t, 1, 512, 128, 3, 3, 1, 0));
    p[n++] = timed("linear 4096 320-320", linear(t, 4096, 320, 320, 0, 0));
    p[n++] = timed("linear 4096 320-320 residual", linear(t, 4096, 320, 320, 0, 1));
    p[n++] = timed("linear 4096 320-2560", linear(t, 4096, 320, 2560, 0, 0));
    p[n++] = timed("linear 4096 320-2560 geglu", linear(t, 4096, 320, 2560, GRAFT_ACT_GEGLU, 0));
    p[n++] = timed("linear 4096 1280-320 residual", linear(t, 4096, 1280, 320, 0, 1));
    p[n++] = timed("linear 1024 640-5120 geglu", linear(t, 1024, 640, 5120, GRAFT_ACT_GEGLU, 0));
    p[n++] = timed("linear 1024 2560-640", linear(t, 1024, 2560, 640, 0, 0));
    p[n++] = timed("linear 256 1280-10240", linear(t, 256, 1280, 10240, 0, 0));
    p[n++] = timed("linear 256 1280-10240 geglu", linear(t, 256, 1280, 10240, GRAFT_ACT_GEGLU, 0));
    p[n++] = timed("linear 256 5120-1280", linear(t, 256, 5120, 1280, 0, 0));
    p[n++] =
        timed("linear 77 768-3072 quick_gelu", linear(t, 77, 768, 3072, GRAFT_ACT_QUICK_GELU, 0));
    p[n++] = timed("linear 154 768-640", linear(t, 154, 768, 640, 0, 0));
    p[n++] = timed("linear 2 1280-1280", linear(t, 2, 1280, 1280, 0, 0));
    p[n++] = timed("attention 8h 4096x4096x40", attention(t, 1, 8, 4096, 4096, 40, 0));
    p[n++] = timed("attention 8h 1024x1024x80", attention(t, 1, 8, 1024, 1024, 80, 0));
    p[n++] = timed("attention 8h 256x256x160", attention(t, 1, 8, 256, 256, 160, 0));
    p[n++] = timed("attention 8h 64x64x160 batch 2", attention(t, 2, 8, 64, 64, 160, 0));
    p[n++] = timed("attention 8h 4096x77x40", attention(t, 1, 8, 4096, 77, 40, 0));
    p[n++] = timed("attention 8h 1024x77x80", attention(t, 1, 8, 1024, 77, 80, 0));
    p[n++] = timed("attention 10h 1024x1024x64", attention(t, 1, 10, 1024, 1024, 64, 0));
    p[n++] = timed("attention 1h 4096x4096x512 (VAE)", attention(t, 1, 1, 4096, 4096, 512, 0));
    p[n++] = timed("attention 12h 77x77x64 causal", attention(t, 1, 12, 77, 77, 64, 1));
    p[n++] = timed("group_norm silu 64x64x320",
                   norm(GRAFT_OP_GROUP_NORM, t, 1, 64, 320, GRAFT_ACT_SILU));
    p[n++] = timed("group_norm silu 64x64x320 batch 2",
                   norm(GRAFT_OP_GROUP_NORM, t, 2, 64, 320, GRAFT_ACT_SILU));
    p[n++] =
        timed("group_norm silu 8x8x1280", norm(GRAFT_OP_GROUP_NORM, t, 1, 8, 1280, GRAFT_ACT_SILU));
    p[n++] = timed("group_norm silu 512x512x128",
                   norm(GRAFT_OP_GROUP_NORM, t, 1, 512, 128, GRAFT_ACT_SILU));
    p[n++] = timed("layer_norm 4096x320", norm(GRAFT_OP_LAYER_NORM, t, 1, 64, 320, 0));
    p[n++] = timed("layer_norm 1024x640", norm(GRAFT_OP_LAYER_NORM, t, 1, 32, 640, 0));
    p[n++] = timed("geglu 4096x2560", plain(GRAFT_OP_GEGLU, t, 4096, 2560, 0, 1280));
    p[n++] = timed("act silu 4096x320", plain(GRAFT_OP_ACT, t, 4096, 320, 0, 320));
    p[n++] = timed("add 4096x320", plain(GRAFT_OP_ADD, t, 4096, 320, 320, 320));
    p[n++] = timed("concat 4096x(640+320)", plain(GRAFT_OP_CONCAT, t, 4096, 640, 320, 960));
    p[n++] = timed("copy 4096x320", plain(GRAFT_OP_COPY, t, 4096, 320, 0, 320));
    return n + transformer_problems(t, p + n);
}

static const char *default_library(char *out, size_t n)
{
    ssize_t len = readlink("/proc/self/exe", out, n - 1);
    if (len < 0) fatal("/proc/self/exe", "cannot be read");
    out[len] = '\0';
    char *slash = strrchr(out, '/');
    snprintf(slash, n - (size_t)(slash - out), "/../lib/graft/graft_kernels_cpu.so");
    return out;
}

static options parse(int argc, char **argv)
{
    options o = {0};
    for (int i = 1; i < argc; i++) {
        const char *v = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--variants") == 0) {
            o.variants = 1;
            continue;
        }
        if (strcmp(argv[i], "--int8") == 0) {
            o.int8 = 1;
            continue;
        }
        if (strcmp(argv[i], "--turned") == 0) {
            o.turned = 1;
            continue;
        }
        if (!v) fatal(argv[i], "is not known, or lacks its value");
        if (strcmp(argv[i], "--lib") == 0) {
            o.lib = v;
        } else if (strcmp(argv[i], "--against") == 0) {
            o.against = v;
        } else if (strcmp(argv[i], "--only") == 0) {
            o.only = v;
        } else if (strcmp(argv[i], "--dtype") == 0) {
            o.dtype = v;
        } else if (strcmp(argv[i], "--threads") == 0) {
            o.threads = atoi(v);
        } else if (strcmp(argv[i], "--repeats") == 0) {
            o.repeats = atoi(v) < MAX_REPEATS ? atoi(v) : MAX_REPEATS;
        } else {
            fatal(argv[i], "is not known");
        }
        i++;
    }
    if (o.threads < 1) o.threads = (int)sysconf(_SC_NPROCESSORS_ONLN);
    return o;
}

/* With --int8 and --turned: those that can be. */
static int may_run(problem *p, const options *o)
{
    if (o->only && !strstr(p->name, o->only)) return 0;
    if (!o->int8 && !o->turned) return 1;
    p->op.attrs.quant = GRAFT_QUANT_INT8;
    if (o->turned) {
        if (p->op.op != GRAFT_OP_LINEAR) return 0;
        p->op.attrs.groups = 256;
        while (!graft_hadamard_is(p->op.attrs.groups, p->op.in[GRAFT_LINEAR_W].dim[1]))
            p->op.attrs.groups /= 4;
        return p->op.attrs.groups > 0;
    }
    return p->op.op == GRAFT_OP_LINEAR || p->op.op == GRAFT_OP_CONV2D ||
           p->op.op == GRAFT_OP_ATTENTION;
}

int main(int argc, char **argv)
{
    options o = parse(argc, argv);
    char path[4096];
    library l = library_open(o.lib ? o.lib : default_library(path, sizeof path), o.threads);
    library other = {NULL, NULL};
    if (o.against) other = library_open(o.against, o.threads);
    graft_device_info info = {.size = sizeof info};
    l.entry->api->info(l.device, &info);
    printf("%s: %s\n%s, %d threads\n", l.entry->name, info.name, info.identity, o.threads);
    for (int i = 0; i < 2; i++) {
        graft_dtype t = i ? GRAFT_BF16 : GRAFT_F32;
        problem p[MAX_PROBLEMS];
        running r;
        double least, median, peak;
        if (o.dtype && strcmp(o.dtype, i ? "bf16" : "f32") != 0) continue;
        problem product = timed("product", linear(t, 4096, 1280, 1280, 0, 0));
        if (start(&r, &l, &product.op, -1)) continue;
        measure(&r, 0, &least, &median);
        stop(&r);
        peak = product.flop / least;
        printf("100 %% is %.1f GFLOP/s (linear 4096 1280-1280 %s)\n", peak * 1e-9,
               i ? "bf16" : "f32");
        int n = problems(t, p);
        for (int j = 0; j < n; j++)
            if (may_run(&p[j], &o)) run(&p[j], &l, &other, &o, peak);
    }
    l.entry->api->destroy(l.device);
    if (other.entry) other.entry->api->destroy(other.device);
    return 0;
}
