/* Launches that may end early: with nobody who wants it they give the very bits of others; else
 * they end as soon as they are told, ask on the caller's thread alone, and the next launch knows
 * nothing of it. That no thread goes on is in share.c. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/harness.h"
#include "tests/test.h"

#define CPU_PATH GRAFT_LIB_DIR "/graft_kernels_cpu.so"

static kernel_lib lib;
static bool others; /* it has more than the caller's thread */

typedef struct someone {
    pthread_t thread;
    int asked, until; /* until: how often the answer is no */
    bool elsewhere;   /* another thread asked */
} someone;

static int32_t ask(void *ctx)
{
    someone *s = ctx;
    if (!pthread_equal(s->thread, pthread_self())) s->elsewhere = true;
    return ++s->asked > s->until;
}

static graft_tensor_desc tensor(int64_t a, int64_t b, int64_t c, int64_t d)
{
    graft_tensor_desc t = {.dtype = GRAFT_F32, .dim = {a, b, c, d}};
    while (t.rank < GRAFT_MAX_RANK && t.dim[t.rank] > 0) t.rank++;
    make_dense(&t);
    return t;
}

/* Buffers of one kernel, with values of its inputs. */
typedef struct bench {
    const void *in[GRAFT_MAX_INPUTS];
    void *out, *workspace;
    uint64_t bytes;
} bench;

static bool set_up(const graft_op_desc *d, graft_kernel *k, const graft_kernel_info *info, bench *b)
{
    uint64_t state = 3;
    *b = (bench){.bytes = (uint64_t)element_count(&d->out) * sizeof(float)};
    for (int i = 0; i < GRAFT_MAX_INPUTS; i++) {
        size_t n = d->in[i].rank ? (size_t)element_count(&d->in[i]) : 0;
        if (!n) continue;
        float *v = malloc(n * sizeof *v);
        for (size_t at = 0; at < n; at++)
            v[at] = (float)(random_next(&state) >> 40) * (1.0f / 8388608.0f) - 1.0f;
        bool packed = info->packed_bytes[i] > 0;
        void *p = lib.api->alloc(lib.device, packed ? info->packed_bytes[i] : n * sizeof *v);
        graft_status st = packed ? lib.api->pack(k, i, GRAFT_F32, v, p)
                                 : lib.api->upload(lib.device, p, v, n * sizeof *v);
        free(v);
        if (st) return false;
        b->in[i] = p;
    }
    b->out = lib.api->alloc(lib.device, b->bytes);
    if (info->workspace_bytes) b->workspace = lib.api->alloc(lib.device, info->workspace_bytes);
    return true;
}

static void tear_down(bench *b)
{
    for (int i = 0; i < GRAFT_MAX_INPUTS; i++) lib.api->free(lib.device, (void *)b->in[i]);
    lib.api->free(lib.device, b->out);
    lib.api->free(lib.device, b->workspace);
}

static graft_status run(graft_kernel *k, const bench *b, someone *s)
{
    const graft_stop stop = {s, ask};
    return lib.kernels->more->launch_until(k, b->in, b->out, b->workspace, &stop);
}

/* own: it is computed by us in pieces, and asks at each. */
static void check(graft_kernel *k, const bench *b, bool own, const char *what)
{
    someone never = {pthread_self(), 0, 1 << 30, false};
    void *want = malloc(b->bytes);
    CHECK_INT(lib.api->launch(k, b->in, b->out, b->workspace), GRAFT_OK);
    memcpy(want, b->out, b->bytes);
    memset(b->out, 0xff, b->bytes);
    CHECK_INT(run(k, b, &never), GRAFT_OK);
    CHECK(memcmp(want, b->out, b->bytes) == 0);
    /* With others that take work, how much is left for the caller is a matter of chance. */
    CHECK(!never.elsewhere && (own ? never.asked > !others : !never.asked));
    if (own && never.asked < 2 && !others) fprintf(stderr, "%s asks %d times\n", what, never.asked);
    for (int until = 0; until < 2; until++) {
        someone soon = {pthread_self(), 0, until, false};
        memset(b->out, 0xff, b->bytes);
        graft_status st = run(k, b, &soon);
        CHECK_INT(st, soon.asked > until ? GRAFT_E_CANCEL : GRAFT_OK);
        CHECK(!soon.elsewhere && soon.asked <= until + 1 && (st || others || !own));
        if (!st) CHECK(memcmp(want, b->out, b->bytes) == 0);
        if (st && !until && !others) CHECK(memcmp(want, b->out, b->bytes) != 0);
    }
    CHECK_INT(lib.api->launch(k, b->in, b->out, b->workspace), GRAFT_OK);
    CHECK(memcmp(want, b->out, b->bytes) == 0);
    free(want);
}

/* All variants of an operator. */
static void check_all(const graft_op_desc *d, bool small, const char *name)
{
    for (int32_t v = 0, count = 1; v < count; v++) {
        graft_kernel *k = NULL;
        graft_kernel_info info = {.size = sizeof info};
        char text[256] = "";
        bench b;
        graft_status st = lib.api->prepare(lib.device, d, v, &k, &info, text, sizeof text);
        CHECK_INT(st, GRAFT_OK);
        if (st) {
            fprintf(stderr, "%s: %s\n", name, text);
            return;
        }
        count = info.variant_count;
        bool own = d->op == GRAFT_OP_ATTENTION || strstr(info.variant, "winograd") ||
                   strstr(info.variant, "panels");
        CHECK(set_up(d, k, &info, &b));
        check(k, &b, own && !small, info.variant);
        tear_down(&b);
        lib.api->release(k);
    }
}

static graft_op_desc attention(int64_t tokens)
{
    graft_op_desc d = {.size = sizeof d, .op = GRAFT_OP_ATTENTION};
    d.attrs.heads = 2;
    d.attrs.scale = 0.2f;
    for (int i = 0; i < 3; i++) d.in[i] = tensor(1, tokens, 64, 0);
    d.out = d.in[0];
    return d;
}

static graft_op_desc linear(int64_t rows)
{
    graft_op_desc d = {.size = sizeof d, .op = GRAFT_OP_LINEAR};
    d.in[GRAFT_LINEAR_X] = tensor(rows, 256, 0, 0);
    d.in[GRAFT_LINEAR_W] = tensor(384, 256, 0, 0);
    d.in[GRAFT_LINEAR_W].constant = 1;
    d.out = tensor(rows, 384, 0, 0);
    return d;
}

static graft_op_desc conv(int64_t side)
{
    graft_op_desc d = {.size = sizeof d, .op = GRAFT_OP_CONV2D};
    d.attrs = (graft_attrs){ATTRS_3X3};
    d.in[GRAFT_CONV_X] = tensor(1, side, side, 64);
    d.in[GRAFT_CONV_W] = tensor(64, 64, 3, 3);
    d.in[GRAFT_CONV_W].constant = 1;
    d.out = tensor(1, side, side, 64);
    return d;
}

static void large_ones_end(void)
{
    const graft_op_desc a = attention(1024), l = linear(2048), c = conv(96);
    check_all(&a, false, "attention");
    check_all(&l, false, "linear");
    check_all(&c, false, "conv2d");
}

/* Small ones are over before anyone could want it. */
static void small_ones_do_not_ask(void)
{
    const graft_op_desc a = attention(32), l = linear(8), c = conv(8);
    check_all(&a, true, "attention");
    check_all(&l, true, "linear");
    check_all(&c, true, "conv2d");
}

int main(void)
{
    if (!lib_open(CPU_PATH, &lib)) return test_end();
    CHECK(GRAFT_KERNELS_HAS(lib.kernels->more, launch_until));
    graft_kernels_host alone = *lib_host();
    graft_device *several = lib.device;
    char text[256];
    alone.threads = 1;
    CHECK_INT(lib.api->create(&alone, 0, &lib.device, text, sizeof text), GRAFT_OK);
    RUN(large_ones_end);
    RUN(small_ones_do_not_ask);
    lib.api->destroy(lib.device);
    lib.device = several;
    others = true;
    RUN(large_ones_end);
    RUN(small_ones_do_not_ask);
    lib_close(&lib);
    return test_end();
}
