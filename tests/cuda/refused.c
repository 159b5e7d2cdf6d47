/* What cuBLASLt and cuDNN refuse: own kernels stand in and the library says so, tuning takes no
 * stand-in for the variant, nor what does nothing for right, each kind of request is told once, and
 * nothing is asked of FP8 that is not known to be there. */
#include <pthread.h>

#include "base/alloc.h"
#include "base/half.h"
#include "base/log.h"
#include "engine/exec/trial.h"
#include "tests/cuda/backend.h"
#include "tests/test.h"

/* In place of the machine's clock, on which the emulator would be too slow to be recorded. */
double graft_trial_now(void)
{
    static atomic_int turn;
    return 1e-5 * atomic_fetch_add(&turn, 1);
}

enum { MOST = 64 * 64 * 2, THREADS = 6 }; /* values of a tensor */
#define LIMIT 2e-5                        /* as tests/kernels/limits.h has it for LINEAR */

static fake_cuda_state *fake;
static const graft_kernels *lib;
static int warnings;
static char warned[8][256];

static void note(void *ctx, int32_t level, const char *text)
{
    (void)ctx;
    if (level < GRAFT_LOG_WARN) return;
    if (warnings < 8) snprintf(warned[warnings], sizeof warned[0], "%s", text);
    warnings++;
}

/* A device of its own for each test: what was told is told again. */
static graft_backend open_device(void)
{
    const graft_kernels_host host = {.size = sizeof host,
                                     .threads = 1,
                                     .alloc = graft_malloc_aligned,
                                     .free = graft_free,
                                     .log = note};
    graft_backend b = {.lib = lib, .api = lib->api, .threads = 1};
    char text[200] = "";
    b.info.size = sizeof b.info;
    CHECK_INT(lib->api->create(&host, 0, &b.device, text, sizeof text), GRAFT_OK);
    if (!b.device) abort();
    CHECK_INT(lib->api->info(b.device, &b.info), GRAFT_OK);
    warnings = 0;
    return b;
}

/* ------------------------------------------------------------------ operators */

static graft_tensor_desc constant(graft_tensor_desc t)
{
    t.constant = 1;
    return t;
}

static graft_op_desc linear(graft_quant quant, int64_t rows, bool bias, bool residual)
{
    graft_op_desc d = {.size = sizeof d, .op = GRAFT_OP_LINEAR, .attrs.quant = quant};
    d.in[GRAFT_LINEAR_X] = tensor_of(2, rows, 48, 0, 0);
    d.in[GRAFT_LINEAR_W] = constant(tensor_of(2, 64, 48, 0, 0));
    d.out = tensor_of(2, rows, 64, 0, 0);
    if (bias) d.in[GRAFT_LINEAR_BIAS] = constant(tensor_of(1, 64, 0, 0, 0));
    if (residual) d.in[GRAFT_LINEAR_RESIDUAL] = d.out;
    return d;
}

static graft_op_desc convolution(graft_quant quant, int64_t side)
{
    graft_op_desc d = {.size = sizeof d,
                       .op = GRAFT_OP_CONV2D,
                       .attrs = {.kernel_h = 1, .kernel_w = 1, .stride_h = 1, .stride_w = 1}};
    d.attrs.quant = quant;
    d.in[GRAFT_CONV_X] = d.out = tensor_of(4, 1, side, side, 32);
    d.in[GRAFT_CONV_W] = constant(tensor_of(4, 32, 32, 1, 1));
    return d;
}

static graft_op_desc attention(int64_t tokens)
{
    graft_op_desc d = {.size = sizeof d, .op = GRAFT_OP_ATTENTION};
    d.attrs.heads = 2;
    d.attrs.scale = 0.25f;
    d.in[0] = d.in[1] = d.in[2] = d.out = tensor_of(3, 1, tokens, 32, 0);
    return d;
}

/* Of heads that cuBLASLt's products are for. */
static graft_op_desc long_heads(int64_t tokens)
{
    graft_op_desc d = attention(tokens);
    d.in[0] = d.in[1] = d.in[2] = d.out = tensor_of(3, 1, tokens, 336, 0);
    return d;
}

static size_t count(const graft_tensor_desc *t)
{
    size_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= (size_t)t->dim[i];
    return n;
}

typedef struct outcome {
    int32_t stands_in, variants;
    uint64_t launches;
    char variant[64];
} outcome;

static void *give_input(const graft_backend *b, graft_kernel *k, const graft_kernel_info *info,
                        const graft_op_desc *d, int i)
{
    uint16_t v[MOST];
    const graft_tensor_desc *t = &d->in[i];
    if (!t->dtype) return NULL;
    for (size_t at = 0; at < count(t); at++)
        v[at] = graft_f32_to_bf16((float)((at * 37 + (size_t)i * 11) % 64) / 32 - 1);
    void *p = b->api->alloc(b->device, t->constant ? info->packed_bytes[i] : 2 * count(t));
    CHECK(p != NULL);
    if (t->constant)
        CHECK_INT(b->api->pack(k, i, GRAFT_BF16, v, p), GRAFT_OK);
    else
        CHECK_INT(b->api->upload(b->device, p, v, 2 * count(t)), GRAFT_OK);
    return p;
}

/* out: as floats, or NULL. */
static outcome run(const graft_backend *b, const graft_op_desc *d, int32_t variant, float *out)
{
    outcome r = {0};
    graft_kernel_info info = {.size = sizeof info};
    graft_kernel *k = NULL;
    void *in[GRAFT_MAX_INPUTS] = {NULL};
    uint16_t y[MOST];
    CHECK_INT(b->api->prepare(b->device, d, variant, &k, &info, NULL, 0), GRAFT_OK);
    if (!k) return r;
    for (int i = 0; i < GRAFT_MAX_INPUTS; i++) in[i] = give_input(b, k, &info, d, i);
    void *to = b->api->alloc(b->device, 2 * count(&d->out));
    void *ws = b->api->alloc(b->device, info.workspace_bytes);
    CHECK_INT(lib->more->stands_in(k), 0);
    uint64_t before = fake->launches;
    CHECK_INT(b->api->launch(k, (const void *const *)in, to, ws), GRAFT_OK);
    r.launches = fake->launches - before;
    r.stands_in = lib->more->stands_in(k);
    r.variants = info.variant_count;
    snprintf(r.variant, sizeof r.variant, "%s", info.variant);
    CHECK_INT(b->api->download(b->device, y, to, 2 * count(&d->out)), GRAFT_OK);
    for (size_t i = 0; out && i < count(&d->out); i++) out[i] = graft_bf16_to_f32(y[i]);
    for (int i = 0; i < GRAFT_MAX_INPUTS; i++) b->api->free(b->device, in[i]);
    b->api->free(b->device, to);
    b->api->free(b->device, ws);
    b->api->release(k);
    return r;
}

/* ------------------------------------------------------------------ FP8 */

static double difference(const float *a, const float *b, size_t n)
{
    double off = 0, size = 1e-30;
    for (size_t i = 0; i < n; i++) {
        off += pow((double)a[i] - (double)b[i], 2);
        size += pow((double)b[i], 2);
    }
    return off / size;
}

/* With a bias and a residual the library's product is still used, and the residual is in one more
 * pass, which is that of the activation, too. */
static void fp8_keeps_its_product(void)
{
    graft_backend b = open_device();
    float got[MOST], want[MOST];
    fake->refuse_sums = 1;
    for (int i = 0; i < 8; i++) {
        bool bias = i & 1, residual = i & 2, act = i & 4;
        graft_op_desc d = linear(GRAFT_QUANT_FP8, 32, bias, residual);
        if (act) d.attrs.act = GRAFT_ACT_SILU;
        outcome r = run(&b, &d, -1, got);
        CHECK(strncmp(r.variant, "cublasLt fp8", 12) == 0);
        CHECK_INT(r.stands_in, 0);
        CHECK_INT(r.launches, 2u + (act || (bias && residual)));
        CHECK(strncmp(run(&b, &d, 0, want).variant, "own", 3) == 0);
        CHECK(difference(got, want, count(&d.out)) < LIMIT);
    }
    CHECK_INT(warnings, 0);
    fake->refuse_sums = 0;
    lib->api->destroy(b.device);
}

/* Those that add both at once come behind the others, and cuDNN's plan behind them; all compute the
 * same, where they run. */
static void fp8_variants(void)
{
    graft_backend b = open_device();
    const graft_op_desc d = linear(GRAFT_QUANT_FP8, 32, true, true);
    float got[MOST], want[MOST];
    int apart = 0, at_once = 0, cudnn = 0, fast = 0;
    outcome own = run(&b, &d, 0, want);
    for (int32_t v = 1; v < own.variants; v++) {
        int before = fake->fast_products;
        outcome r = run(&b, &d, v, got);
        bool named = strstr(r.variant, " fast") != NULL;
        CHECK_INT(fake->fast_products - before, named);
        CHECK(v > 1 || !named);
        fast += named;
        CHECK(difference(got, want, count(&d.out)) < LIMIT);
        CHECK_INT(r.stands_in, 0);
        fake->refuse_sums = 1;
        bool once = strncmp(r.variant, "cublasLt", 8) == 0 && !strstr(r.variant, "+ residual");
        CHECK_INT(run(&b, &d, v, got).stands_in, once);
        CHECK(difference(got, want, count(&d.out)) < LIMIT);
        fake->refuse_sums = 0;
        apart += strstr(r.variant, "+ residual") != NULL;
        at_once += once;
        cudnn += strncmp(r.variant, "cudnn", 5) == 0;
        CHECK(!once || !cudnn);
        CHECK(apart == v || v > 4);
    }
    CHECK_INT(apart, 4);
    CHECK_INT(at_once, 4);
    CHECK_INT(fast, 4);
    CHECK_INT(cudnn, 1);
    lib->api->destroy(b.device);
}

/* Compiling cuDNN's plan takes its time, so it is for who asks. */
static void fp8_plans_only_when_asked(void)
{
    graft_backend b = open_device();
    const graft_op_desc d = linear(GRAFT_QUANT_FP8, 64, true, false);
    graft_kernel_info info = {.size = sizeof info};
    graft_kernel *k = NULL;
    int made = fake->plans_made;
    for (int32_t v = -1; v < 5; v++) {
        CHECK_INT(b.api->prepare(b.device, &d, v, &k, &info, NULL, 0), GRAFT_OK);
        b.api->release(k);
        CHECK_INT(info.variant_count, 6);
        CHECK_INT(info.slow, 1 << 5);
    }
    CHECK_INT(fake->plans_made, made);
    CHECK_INT(b.api->prepare(b.device, &d, 5, &k, &info, NULL, 0), GRAFT_OK);
    b.api->release(k);
    CHECK(strncmp(info.variant, "cudnn", 5) == 0);
    CHECK_INT(info.variant_index, 5);
    CHECK(fake->plans_made > made);
    lib->api->destroy(b.device);
}

/* ------------------------------------------------------------------ tuning */

static graft_trial tried(const graft_backend *b, const graft_op_desc *d)
{
    const graft_trial_limits limits = {.max_bytes = 1 << 22};
    graft_trial t;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_trial_run(b, d, &limits, NULL, &t, &e), &e);
    CHECK(t.count > 1);
    return t;
}

static bool is_own(const graft_backend *b, const graft_op_desc *d, int32_t v)
{
    graft_kernel_info info = {.size = sizeof info};
    graft_kernel *k = NULL;
    CHECK_INT(b->api->prepare(b->device, d, v, &k, &info, NULL, 0), GRAFT_OK);
    b->api->release(k);
    return strncmp(info.variant, "own", 3) == 0;
}

/* What is refused has no time, and an own kernel is chosen, by its own name. */
static void trials_time_no_stand_in(void)
{
    const graft_op_desc list[] = {linear(GRAFT_QUANT_NONE, 64, true, true),
                                  linear(GRAFT_QUANT_INT8, 64, true, true),
                                  linear(GRAFT_QUANT_FP8, 64, true, true),
                                  linear(GRAFT_QUANT_INT4, 64, true, false),
                                  convolution(GRAFT_QUANT_NONE, 8),
                                  convolution(GRAFT_QUANT_INT8, 8),
                                  attention(64),
                                  long_heads(16)};
    graft_backend b = open_device();
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        graft_trial t = tried(&b, &list[i]);
        for (int v = 0; v < t.count; v++) CHECK(t.ns[v] > 0 && !t.status[v]);
        CHECK(!is_own(&b, &list[i], t.own));
        fake->refuse_plans = 1;
        t = tried(&b, &list[i]);
        fake->refuse_plans = 0;
        for (int v = 0; v < t.count; v++) {
            bool own = is_own(&b, &list[i], v);
            CHECK_INT(t.status[v], own ? GRAFT_OK : GRAFT_E_UNSUPPORTED);
            CHECK((t.ns[v] > 0) == own);
        }
        int32_t best = graft_trial_best(&t);
        CHECK(best >= 0 && is_own(&b, &list[i], best));
        CHECK_INT(t.wrong, 0);
    }
    lib->api->destroy(b.device);
}

/* One that is refused does not take the others with it. */
static void trials_drop_what_is_refused(void)
{
    graft_backend b = open_device();
    const graft_op_desc d = linear(GRAFT_QUANT_FP8, 64, true, true);
    fake->refuse_sums = 1;
    graft_trial t = tried(&b, &d);
    fake->refuse_sums = 0;
    CHECK_INT(t.count, 1 + 4 + 4 + 1);
    for (int v = 0; v < t.count; v++) {
        bool at_once = v > 4 && v < 9;
        CHECK_INT(t.status[v], at_once ? GRAFT_E_UNSUPPORTED : GRAFT_OK);
        CHECK((t.ns[v] > 0) == !at_once);
    }
    CHECK_INT(t.own, 1);
    lib->api->destroy(b.device);
}

/* What is not written is not taken for what another variant has left there. */
static void trials_drop_what_does_nothing(void)
{
    const graft_op_desc list[] = {linear(GRAFT_QUANT_NONE, 64, true, true),
                                  linear(GRAFT_QUANT_FP8, 64, true, false)};
    const uint32_t idle[] = {1 << 2, 1 << 3 | 1 << 4}; /* FP8: with fast sums and without */
    graft_backend b = open_device();
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        fake->idle = 1; /* the second of two */
        graft_trial t = tried(&b, &list[i]);
        fake->idle = 0;
        CHECK_INT(t.own, 1);
        CHECK_INT(t.wrong, idle[i]);
        for (int v = 0; v < t.count; v++)
            CHECK((t.ns[v] > 0) == !(idle[i] >> v & 1) && t.status[v] == GRAFT_OK);
    }
    lib->api->destroy(b.device);
}

/* ------------------------------------------------------------------ what is told */

static void told_once_for_each_kind(void)
{
    graft_backend b = open_device();
    fake->refuse_plans = 1;
    for (int i = 0; i < 3; i++) {
        const graft_op_desc list[] = {linear(GRAFT_QUANT_NONE, 16 + 8 * i, true, false),
                                      linear(GRAFT_QUANT_FP8, 16, i, i),
                                      convolution(GRAFT_QUANT_NONE, 4 + i),
                                      attention(8 + i),
                                      long_heads(8 + i),
                                      linear(GRAFT_QUANT_INT8, 16 + i, false, false),
                                      convolution(GRAFT_QUANT_INT8, 4 + i),
                                      convolution(GRAFT_QUANT_FP8, 4 + i)};
        for (size_t k = 0; k < sizeof list / sizeof *list; k++)
            CHECK_INT(run(&b, &list[k], -1, NULL).stands_in, 1);
        CHECK_INT(warnings, 6); /* int8's are one product to cuDNN, long heads' are cuBLASLt's */
    }
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < i; k++) CHECK(strcmp(warned[i], warned[k]) != 0);
    CHECK(strstr(warned[0], "cuBLASLt: a product: made up") != NULL);
    CHECK(strstr(warned[3], "cuDNN: attention") != NULL);
    fake->refuse_plans = 0;
    lib->api->destroy(b.device);
}

static void *run_one(void *p)
{
    const graft_op_desc d = linear(GRAFT_QUANT_NONE, 32, true, true);
    CHECK_INT(run(p, &d, -1, NULL).stands_in, 1);
    return NULL;
}

static void told_once_by_all_threads(void)
{
    graft_backend b = open_device();
    pthread_t t[THREADS];
    fake->refuse_plans = 1;
    for (int i = 0; i < THREADS; i++) CHECK_INT(pthread_create(&t[i], NULL, run_one, &b), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    CHECK_INT(warnings, 1);
    fake->refuse_plans = 0;
    lib->api->destroy(b.device);
}

int main(void)
{
    use_fake_driver();
    fake = fake_driver_state();
    void *h = dlopen(CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    lib = h ? dlsym(h, GRAFT_KERNELS_SYMBOL) : NULL;
    CHECK(fake && lib);
    if (!fake || !lib) return test_end();
    RUN(fp8_keeps_its_product);
    RUN(fp8_variants);
    RUN(fp8_plans_only_when_asked);
    RUN(trials_time_no_stand_in);
    RUN(trials_drop_what_is_refused);
    RUN(trials_drop_what_does_nothing);
    RUN(told_once_for_each_kind);
    RUN(told_once_by_all_threads);
    CHECK_INT(fake->live_blocks, 0);
    CHECK_INT(fake->live_objects, 0);
    CHECK_INT(fake->misuse, 0);
    return test_end();
}
