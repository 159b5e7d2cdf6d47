/* cuDNN must have a plan for every convolution and attention of SD 1.5 at 512, SDXL at 1024 and
 * their VAE on an H100, which is only described: no device is needed. Convolutions precompiled
 * (they cost no time to make), attention and 8 bits by the engines with Hopper's matrix
 * instructions, all within a bound on workspace. Engine numbers are those of cuDNN 9.
 *
 * Those of 8 bits are compiled, which takes more than a second each: every sixteenth, or with
 * GRAFT_PLANS=full all of them. AddressSanitizer sees nothing of cuDNN, and of Graft the same code
 * for each shape: with it there are fewer. */
#include <pthread.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "kernels/cuda/libs/dnn.h"
#include "tests/cuda/backend.h"
#include "tests/test.h"

static const char h100[] =
    "{\"deviceName\":\"NVIDIA H100 80GB HBM3\",\"cudaDeviceId\":0,\"pciBusId\":0,\"pciDeviceId\":0,"
    "\"pciDomainId\":0,\"isTccDriver\":0,\"deviceVer\":900,\"multiProcessorCount\":132,"
    "\"driverVer\":13000,\"maxSharedMemoryPerBlockOptin\":232448,\"maxSharedMemoryPerBlock\":49152,"
    "\"reservedSharedMemoryPerBlock\":1024,\"totalGlobalMem\":85000000000,"
    "\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],"
    "\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,\"regsPerBlock\":65536,"
    "\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32,\"warpSize\":32,\"smClockRateKHz\":1980000,"
    "\"memClockRateKHz\":2619000,\"l2CacheSize\":52428800,\"supportCoopLaunch\":1}";

#define WORKSPACE_MOST ((uint64_t)128 << 20)

#if defined(__SANITIZE_ADDRESS__)
enum { SANITIZED = 1, EVERY = 96, EACH = 1 };
#else
enum { SANITIZED = 0, EVERY = 16, EACH = 3 };
#endif

static graft_device device;
static graft_cuda_dnn *dnn;

/* ------------------------------------------------------------------ in the place of the disk */

typedef struct kept {
    char key[64], *data;
    uint64_t key_bytes, bytes;
} kept;
static kept store[256];
static int n_kept, reads, writes;
static pthread_mutex_t store_lock = PTHREAD_MUTEX_INITIALIZER;

static kept *find_kept(const void *key, uint64_t n)
{
    for (int i = 0; i < n_kept; i++)
        if (store[i].key_bytes == n && memcmp(store[i].key, key, n) == 0) return &store[i];
    return NULL;
}

static graft_status kept_read(void *ctx, const void *key, uint64_t n, void **data, uint64_t *bytes)
{
    (void)ctx;
    pthread_mutex_lock(&store_lock);
    const kept *k = find_kept(key, n);
    if (k && (*data = graft_malloc_aligned(8, k->bytes)) != NULL) {
        memcpy(*data, k->data, *bytes = k->bytes);
        reads++;
    }
    pthread_mutex_unlock(&store_lock);
    return k ? GRAFT_OK : GRAFT_E_NOTFOUND;
}

static void kept_write(void *ctx, const void *key, uint64_t n, const void *data, uint64_t bytes)
{
    (void)ctx;
    pthread_mutex_lock(&store_lock);
    kept *k = find_kept(key, n);
    if (!k && n <= sizeof k->key && n_kept < (int)(sizeof store / sizeof *store))
        k = &store[n_kept++];
    if (k) {
        free(k->data);
        *k = (kept){.data = malloc(bytes), .key_bytes = n, .bytes = bytes};
        memcpy(k->key, key, n);
        memcpy(k->data, data, bytes);
        writes++;
    }
    pthread_mutex_unlock(&store_lock);
}

/* ------------------------------------------------------------------ shapes */

/* What dnn.c needs of device.c. */
void graft_cuda_lock(graft_device *d)
{
    (void)d;
}

void graft_cuda_unlock(graft_device *d)
{
    (void)d;
}

static int complaints;

void graft_cuda_log(const graft_device *d, int32_t level, const char *text)
{
    (void)d;
    complaints += level >= GRAFT_LOG_WARN;
    fprintf(stderr, "  %s\n", text);
}

void graft_cuda_log_path(const graft_device *d, const char *library, size_t version,
                         const char *path)
{
    (void)d;
    printf("     %s %zu is %s\n", library, version, path);
}

graft_status graft_cuda_refused(graft_device *d, graft_cuda_request what, const char *why)
{
    (void)d, (void)what, (void)why;
    return GRAFT_E_DEVICE;
}

static void report(const char *what, graft_status st, const graft_cuda_dnn_plan *p, int32_t count,
                   const graft_err *e)
{
    char name[64] = "";
    if (p) graft_cuda_dnn_name(p, name, sizeof name);
    CHECK_INT(st, GRAFT_OK);
    if (st) fprintf(stderr, "  no plan for %s: %s\n", what, e->text);
    if (!p) return;
    CHECK(graft_cuda_dnn_workspace(p) <= WORKSPACE_MOST);
    printf("     %-42s %-26s of %d, workspace %llu kB\n", what, name, (int)count,
           (unsigned long long)(graft_cuda_dnn_workspace(p) >> 10));
}

typedef struct conv_shape {
    int n, c, side, k, taps, stride;
} conv_shape;

static graft_quant levels; /* plans of these are asked for */
static int asked;          /* for how many so far */

static bool left_out(void)
{
    const char *all = getenv("GRAFT_PLANS");
    int every = levels == GRAFT_QUANT_FP8 ? 4 * EVERY : EVERY;
    return levels && asked++ % every && !(all && strcmp(all, "full") == 0);
}

/* Made, and by the engine that multiplies 8 bits with Hopper's instructions. */
static void levels_plan(graft_op_desc *d, const char *what)
{
    graft_cuda_dnn_plan *p = NULL;
    graft_err e = GRAFT_ERR_INIT;
    char name[64] = "";
    int32_t count = 0;
    d->attrs.quant = levels;
    d->in[GRAFT_CONV_X].dtype = d->in[GRAFT_CONV_W].dtype =
        levels == GRAFT_QUANT_FP8 ? GRAFT_F8_E4M3 : GRAFT_I8;
    graft_status st = graft_cuda_dnn_int8(dnn, d, 0, &p, &count, &e);
    report(what, st, p, count, &e);
    if (p) graft_cuda_dnn_name(p, name, sizeof name);
    CHECK_STR(name, "cudnn engine 2 compiled");
}

static void conv(const conv_shape *s, bool residual)
{
    graft_op_desc d = {.size = sizeof d, .op = GRAFT_OP_CONV2D};
    graft_cuda_dnn_plan *p = NULL;
    graft_err e = GRAFT_ERR_INIT;
    char what[64];
    int32_t count = 0;
    int side = s->side / s->stride + (s->taps == 2), pad = s->taps / 2;
    d.attrs = (graft_attrs){.kernel_h = s->taps,
                            .kernel_w = s->taps,
                            .stride_h = s->stride,
                            .stride_w = s->stride,
                            .pad_top = pad,
                            .pad_left = pad,
                            .pad_bottom = pad,
                            .pad_right = pad};
    d.in[GRAFT_CONV_X] = tensor_of(4, s->n, s->side, s->side, s->c);
    d.in[GRAFT_CONV_W] = tensor_of(4, s->k, s->c, s->taps, s->taps);
    d.in[GRAFT_CONV_BIAS] = tensor_of(1, s->k, 0, 0, 0);
    if (residual) d.in[GRAFT_CONV_RESIDUAL] = tensor_of(4, s->n, side, side, s->k);
    d.out = tensor_of(4, s->n, side, side, s->k);
    snprintf(what, sizeof what, "conv %dx%dx%dx%d to %d, %dx%d/%d%s", s->n, s->side, s->side, s->c,
             s->k, s->taps, s->taps, s->stride, residual ? " + residual" : "");
    if (levels) {
        if (!left_out()) levels_plan(&d, what);
        return;
    }
    graft_status st = graft_cuda_dnn_conv(dnn, &d, 0, &p, &count, &e);
    report(what, st, p, count, &e);
    CHECK(!p || !graft_cuda_dnn_compiled(p));
}

/* A band of the VAE's largest convolutions (conv2d_bands.h): its rows are written out with those
 * around them. */
static void band(int width, int c, int k, int rows)
{
    graft_op_desc d = {.size = sizeof d, .op = GRAFT_OP_CONV2D};
    graft_cuda_dnn_plan *p = NULL;
    graft_err e = GRAFT_ERR_INIT;
    char what[64];
    int32_t count = 0;
    d.attrs = (graft_attrs){
        .kernel_h = 3, .kernel_w = 3, .stride_h = 1, .stride_w = 1, .pad_left = 1, .pad_right = 1};
    d.in[GRAFT_CONV_X] = tensor_of(4, 1, rows + 2, width, c);
    d.in[GRAFT_CONV_W] = tensor_of(4, k, c, 3, 3);
    d.in[GRAFT_CONV_BIAS] = tensor_of(1, k, 0, 0, 0);
    d.out = tensor_of(4, 1, rows, width, k);
    snprintf(what, sizeof what, "band of %d rows, %d x %d to %d", rows, width, c, k);
    graft_status st = graft_cuda_dnn_conv(dnn, &d, 0, &p, &count, &e);
    report(what, st, p, count, &e);
    CHECK(!p || !graft_cuda_dnn_compiled(p));
}

static void convs_of(const conv_shape *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        conv(&list[i], false);
        if (list[i].taps == 3 && list[i].stride == 1) conv(&list[i], true);
    }
}

static void convolutions(void)
{
    static const conv_shape sdxl[] = {
        {2, 320, 128, 320, 3, 1},  {2, 320, 128, 320, 3, 2},  {2, 320, 64, 640, 3, 1},
        {2, 640, 64, 640, 3, 1},   {2, 640, 64, 640, 3, 2},   {2, 640, 32, 1280, 3, 1},
        {2, 1280, 32, 1280, 3, 1}, {2, 2560, 32, 1280, 3, 1}, {2, 1920, 32, 1280, 3, 1},
        {2, 1280, 64, 1280, 3, 1}, {2, 1920, 64, 640, 3, 1},  {2, 1280, 64, 640, 3, 1},
        {2, 960, 64, 640, 3, 1},   {2, 640, 128, 640, 3, 1},  {2, 960, 128, 320, 3, 1},
        {2, 640, 128, 320, 3, 1},  {2, 320, 64, 640, 1, 1},   {2, 640, 32, 1280, 1, 1},
        {2, 2560, 32, 1280, 1, 1}, {2, 1920, 32, 1280, 1, 1}, {2, 1920, 64, 640, 1, 1},
        {2, 1280, 64, 640, 1, 1},  {2, 960, 64, 640, 1, 1},   {2, 960, 128, 320, 1, 1},
        {2, 640, 128, 320, 1, 1}};
    static const conv_shape sd15[] = {
        {2, 320, 64, 320, 3, 1},   {2, 320, 64, 320, 3, 2},   {2, 320, 32, 640, 3, 1},
        {2, 640, 32, 640, 3, 1},   {2, 640, 32, 640, 3, 2},   {2, 640, 16, 1280, 3, 1},
        {2, 1280, 16, 1280, 3, 1}, {2, 1280, 16, 1280, 3, 2}, {2, 1280, 8, 1280, 3, 1},
        {2, 2560, 8, 1280, 3, 1},  {2, 2560, 16, 1280, 3, 1}, {2, 1920, 16, 1280, 3, 1},
        {2, 1280, 32, 1280, 3, 1}, {2, 1920, 32, 640, 3, 1},  {2, 1280, 32, 640, 3, 1},
        {2, 960, 32, 640, 3, 1},   {2, 640, 64, 640, 3, 1},   {2, 960, 64, 320, 3, 1},
        {2, 640, 64, 320, 3, 1},   {2, 320, 64, 320, 1, 1},   {2, 640, 32, 640, 1, 1},
        {2, 1280, 16, 1280, 1, 1}, {2, 1280, 8, 1280, 1, 1},  {2, 2560, 16, 1280, 1, 1}};
    static const conv_shape vae[] = {{1, 512, 128, 512, 3, 1},  {1, 512, 256, 512, 3, 1},
                                     {1, 512, 512, 512, 3, 1},  {1, 512, 512, 256, 3, 1},
                                     {1, 256, 512, 256, 3, 1},  {1, 256, 1024, 256, 3, 1},
                                     {1, 256, 1024, 128, 3, 1}, {1, 128, 1024, 128, 3, 1},
                                     {1, 512, 512, 256, 1, 1},  {1, 256, 1024, 128, 1, 1}};
    /* Of doubled pictures, as conv2d_corners.h has them: SDXL's, SD 1.5's, the VAE's. */
    static const conv_shape corners[] = {
        {2, 1280, 32, 5120, 2, 1}, {2, 640, 64, 2560, 2, 1},  {2, 1280, 8, 5120, 2, 1},
        {2, 1280, 16, 5120, 2, 1}, {2, 640, 32, 2560, 2, 1},  {1, 512, 128, 2048, 2, 1},
        {1, 512, 256, 2048, 2, 1}, {1, 256, 512, 1024, 2, 1}, {1, 512, 64, 2048, 2, 1}};
    for (size_t i = 0; i < sizeof corners / sizeof *corners && !levels; i++)
        conv(&corners[i], false);
    /* First and last ones, of latents, pictures, and latents with a mask. */
    static const conv_shape ends[] = {{2, 4, 128, 320, 3, 1},  {2, 320, 128, 4, 3, 1},
                                      {2, 4, 64, 320, 3, 1},   {2, 320, 64, 4, 3, 1},
                                      {2, 9, 64, 320, 3, 1},   {1, 4, 128, 512, 3, 1},
                                      {1, 128, 1024, 3, 3, 1}, {1, 3, 1024, 128, 3, 1}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends && !levels; i++) conv(&ends[i], false);
    convs_of(sdxl, sizeof sdxl / sizeof *sdxl);
    convs_of(sd15, sizeof sd15 / sizeof *sd15);
    if (levels) return;
    convs_of(vae, sizeof vae / sizeof *vae);
    band(512, 512, 512, 32);
    band(1024, 256, 256, 32);
    band(1024, 256, 128, 16);
}

/* Of rows, k wide, to n: a convolution of 1 x 1, as linear_int8.c asks for it. */
static void linear(int rows, int k, int n, bool bias, bool residual)
{
    graft_op_desc d = {.size = sizeof d, .op = GRAFT_OP_CONV2D};
    char what[64];
    d.attrs = (graft_attrs){.kernel_h = 1, .kernel_w = 1, .stride_h = 1, .stride_w = 1};
    d.in[GRAFT_CONV_X] = tensor_of(4, 1, rows, 1, k);
    d.in[GRAFT_CONV_W] = tensor_of(4, n, k, 1, 1);
    if (bias) d.in[GRAFT_CONV_BIAS] = tensor_of(1, n, 0, 0, 0);
    d.out = tensor_of(4, 1, rows, 1, n);
    if (residual) d.in[GRAFT_CONV_RESIDUAL] = d.out;
    snprintf(what, sizeof what, "%d rows of %d to %d%s%s", rows, k, n, bias ? " + bias" : "",
             residual ? " + residual" : "");
    if (!left_out()) levels_plan(&d, what);
}

/* Of a block of transformers: queries, keys and values at once, the queries of cross attention, its
 * keys and values of the text, both results, and the feed-forward net. */
static void transformer(int rows, int c, int text)
{
    linear(rows, c, 3 * c, false, false);
    linear(rows, c, c, false, false);
    linear(2 * 77, text, 2 * c, false, false);
    linear(rows, c, c, true, true);
    linear(rows, c, 8 * c, true, false);
    linear(rows, 4 * c, c, true, true);
}

static void levels_plans(graft_quant quant)
{
    levels = quant;
    asked = 0;
    convolutions();
    transformer(2 * 4096, 640, 2048); /* SDXL */
    transformer(2 * 1024, 1280, 2048);
    transformer(2 * 4096, 320, 768); /* SD 1.5 */
    transformer(2 * 1024, 640, 768);
    transformer(2 * 256, 1280, 768);
    transformer(2 * 64, 1280, 768);
    levels = GRAFT_QUANT_NONE;
}

static void int8_plans(void)
{
    levels_plans(GRAFT_QUANT_INT8);
}

static void fp8_plans(void)
{
    levels_plans(GRAFT_QUANT_FP8);
}

typedef struct attention_shape {
    int n, tokens, keys, heads, head_dim;
    bool counted;
} attention_shape;

static graft_tensor_desc counts_of(int n)
{
    return (graft_tensor_desc){.dtype = GRAFT_I32, .rank = 1, .dim = {n}, .stride = {1}};
}

static graft_status plan_attention(const attention_shape *s, int32_t index,
                                   graft_cuda_dnn_plan **out, int32_t *count, graft_err *e)
{
    graft_op_desc d = {.size = sizeof d, .op = GRAFT_OP_ATTENTION};
    int64_t c = (int64_t)s->heads * s->head_dim;
    d.attrs = (graft_attrs){.heads = s->heads, .scale = 1 / sqrtf((float)s->head_dim)};
    d.in[0] = tensor_of(3, s->n, s->tokens, c, 0);
    d.in[1] = d.in[2] = tensor_of(3, s->n, s->keys, c, 0);
    d.out = d.in[0];
    if (s->counted) d.in[GRAFT_ATTENTION_COUNT] = counts_of(s->n);
    if (s->tokens == s->keys) /* slices of one tensor of q, k and v */
        for (int i = 0; i < 3; i++) {
            d.in[i].stride[1] = 3 * c;
            d.in[i].stride[0] = 3 * c * s->tokens;
        }
    return graft_cuda_dnn_attention(dnn, &d, index, out, count, e);
}

static void attention_of(attention_shape s, const char *engine)
{
    graft_cuda_dnn_plan *p = NULL;
    graft_err e = GRAFT_ERR_INIT;
    char what[64], name[64] = "";
    int32_t count = 0;
    snprintf(what, sizeof what, "attention %dx%d on %d%s, %d heads of %d", s.n, s.tokens, s.keys,
             s.counted ? " counted" : "", s.heads, s.head_dim);
    graft_status st = plan_attention(&s, 0, &p, &count, &e);
    report(what, st, p, count, &e);
    if (p) graft_cuda_dnn_name(p, name, sizeof name);
    CHECK(strstr(name, engine) != NULL);
}

static void attention(int n, int tokens, int keys, int heads, int head_dim, const char *engine)
{
    attention_of((attention_shape){n, tokens, keys, heads, head_dim, false}, engine);
}

static void attentions(void)
{
    const char *wgmma = "engine 9", *mma = "engine 8"; /* 9: not for heads of 512 channels */
    attention_of((attention_shape){2, 4160, 4160, 24, 128, true}, wgmma);
    attention(2, 4096, 4096, 10, 64, wgmma);
    attention(2, 4096, 77, 10, 64, wgmma);
    attention(1, 16384, 16384, 1, 512, mma);
    if (SANITIZED) return;
    attention(2, 1024, 1024, 20, 64, wgmma);
    attention(2, 1024, 77, 20, 64, wgmma);
    attention(2, 4096, 4096, 8, 40, wgmma);
    attention(2, 4096, 77, 8, 40, wgmma);
    attention(2, 1024, 1024, 8, 80, wgmma);
    attention(2, 1024, 77, 8, 80, wgmma);
    attention(2, 256, 256, 8, 160, wgmma);
    attention(2, 256, 77, 8, 160, wgmma);
    attention(2, 64, 64, 8, 160, wgmma);
    attention(2, 64, 77, 8, 160, wgmma);
}

/* Those behind the first are compiled when they are asked for, kept then, and other ones. */
static void more_attentions(void)
{
    const attention_shape s = {2, 1024, 1024, 20, 64, false};
    graft_cuda_dnn_plan *plan[3] = {NULL};
    int32_t count = 0;
    CHECK_INT(plan_attention(&s, 0, &plan[0], &count, NULL), GRAFT_OK);
    CHECK_INT(count, 3);
    int made = writes, there = 1;
    for (int i = 1; i < 3; i++) {
        char name[64] = "none";
        graft_status st = plan_attention(&s, i, &plan[i], &count, NULL);
        there += st == GRAFT_OK;
        CHECK(st == GRAFT_OK ? plan[i] && plan[i] != plan[i - 1] : count == there);
        if (!st) graft_cuda_dnn_name(plan[i], name, sizeof name);
        printf("     plan %d: %s\n", i, name);
    }
    CHECK(there > 1 && writes >= made + there - 1);
    made = writes;
    CHECK_INT(plan_attention(&s, there - 1, &plan[0], &count, NULL), GRAFT_OK);
    CHECK_INT(writes, made);
    CHECK_INT(plan_attention(&s, 3, &plan[0], &count, NULL), GRAFT_E_UNSUPPORTED);
}

/* ------------------------------------------------------------------ restored, and in threads */

static void open_again(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_cuda_dnn_close(&device, dnn);
    CHECK_OK(graft_cuda_dnn_open_deviceless(&device, h100, &dnn, &e), &e);
}

/* Also of those that were made later. */
static void more_restored(void)
{
    const attention_shape s = {2, 1024, 1024, 20, 64, false};
    graft_cuda_dnn_plan *first = NULL, *second = NULL;
    int32_t count;
    CHECK_INT(plan_attention(&s, 1, &second, &count, NULL), GRAFT_OK);
    CHECK_INT(plan_attention(&s, 0, &first, &count, NULL), GRAFT_OK);
    CHECK(first && second && first != second);
}

/* What was kept is all that is needed: nothing is made, and the plans are the same ones. */
static void restored(void)
{
    uint64_t bytes = 0;
    int made = writes;
    for (int i = 0; i < n_kept; i++) bytes += store[i].bytes;
    CHECK(made > 60 && made >= n_kept && made <= n_kept + 2);
    open_again();
    reads = 0;
    double t = graft_clock_now();
    convolutions();
    attentions();
    if (!SANITIZED) more_restored();
    int8_plans();
    fp8_plans();
    t = graft_clock_now() - t;
    CHECK_INT(writes, made);
    CHECK_INT(reads, n_kept);
    CHECK_INT(complaints, 0);
    printf("     %d shapes restored in %.0f ms, %llu kB\n", reads, t * 1e3,
           (unsigned long long)(bytes >> 10));
}

/* Entries whose checksum holds though they make no sense, and plans that cuDNN does not take: they
 * are made again, which is told once. */
static void not_taken(void)
{
    int made = writes;
    for (int i = 0; i < n_kept; i++) {
        kept *k = &store[i];
        switch (i % 4) {
        case 0: /* cut short: what follows a plan's length is not there */
            k->bytes /= 2;
            break;
        case 1: /* no count */
            memset(k->data, 0x7f, 8);
            break;
        case 2: /* a length beyond everything */
            memset(k->data + 40, 0x7f, 8);
            break;
        default: /* a text that is none of cuDNN's */
            memset(k->data + 48, 'x', 64);
        }
    }
    open_again();
    convolutions();
    CHECK_INT(complaints, 1);
    CHECK(writes > made + 40);
}

enum { THREADS = 5 };
typedef struct worker {
    int head_dim;
    graft_cuda_dnn_plan *plan[EACH];
} worker;

static void *make_some(void *arg)
{
    worker *w = arg;
    for (int i = 0; i < EACH; i++) {
        const attention_shape s = {2, 64 << i, 64 << i, 8, w->head_dim, false};
        int32_t count;
        plan_attention(&s, 0, &w->plan[i], &count, NULL);
    }
    return NULL;
}

/* Compiled in several threads at once; two ask for the same shapes and get the same plans. */
static void made_in_threads(void)
{
    pthread_t thread[THREADS];
    worker w[THREADS] = {{40, {0}}, {64, {0}}, {80, {0}}, {128, {0}}, {128, {0}}};
    device.host.kept_read = NULL;
    device.host.kept_write = NULL;
    open_again();
    double t = graft_clock_now();
    for (int i = 0; i < THREADS; i++)
        CHECK_INT(pthread_create(&thread[i], NULL, make_some, &w[i]), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < THREADS * EACH; i++) CHECK(w[i / EACH].plan[i % EACH] != NULL);
    for (int i = 0; i < EACH; i++) CHECK(w[3].plan[i] == w[4].plan[i]);
    printf("     %d attentions compiled in %d threads: %.2f s\n", (THREADS - 1) * EACH, THREADS,
           graft_clock_now() - t);
}

/* NVIDIA's libraries keep what they made until the process ends; ours give everything back. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libcublasLt.so\nleak:libcudnn\n";
}

int main(void)
{
    graft_err e = GRAFT_ERR_INIT;
    device.host = (graft_kernels_host){.size = sizeof device.host,
                                       .alloc = graft_malloc_aligned,
                                       .free = graft_free,
                                       .kept_read = kept_read,
                                       .kept_write = kept_write};
    /* Compiled plans ask whether there is a driver, and no more. */
    if (!dlopen(STUB_DRIVER, RTLD_NOW | RTLD_LOCAL))
        printf("skipped: attention, without a driver: %s\n", dlerror());
    if (graft_cuda_dnn_open_deviceless(&device, h100, &dnn, &e)) {
        printf("skipped: %s\n", e.text);
        return 0;
    }
    printf("     cuDNN %zu\n", graft_cuda_dnn_version(dnn));
    if (SANITIZED) puts("skipped: two of three plans of 8 bits, and most attentions: see the top");
    RUN(convolutions);
    RUN(attentions);
    if (!SANITIZED) RUN(more_attentions);
    RUN(int8_plans);
    RUN(fp8_plans);
    RUN(restored);
    RUN(not_taken);
    RUN(made_in_threads);
    graft_cuda_dnn_close(&device, dnn);
    for (int i = 0; i < n_kept; i++) free(store[i].data);
    return test_end();
}
