/* A kernel library made for tests: as many variants as a test wants, each as slow, as large and as
 * wrong as it wants, and everything counted. Compiled into the test, never loaded. */
#ifndef GRAFT_TESTS_CACHE_FAKE_H
#define GRAFT_TESTS_CACHE_FAKE_H
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "engine/cache/compiled.h"
#include "tests/test.h"

enum { FAKE_VARIANTS = 4 };

struct graft_device {
    int unused;
};

static struct fake_state {
    int variants, own;
    uint32_t slow;                /* bits of variants that take long to prepare */
    int us[FAKE_VARIANTS];        /* of a launch, on the library's own clock */
    int first_us[FAKE_VARIANTS];  /* more, of its kernel's first one */
    int host_us[FAKE_VARIANTS];   /* of handing it over, which a recorded one is not */
    int workspace[FAKE_VARIANTS]; /* bytes */
    int weights[FAKE_VARIANTS];   /* packed bytes for each byte of the weight */
    int packing[FAKE_VARIANTS];
    float error[FAKE_VARIANTS]; /* added to the result, from here to there; 0: everywhere */
    int64_t error_from, error_to;
    bool broken[FAKE_VARIANTS], unmade[FAKE_VARIANTS], unrecorded[FAKE_VARIANTS];
    bool idle[FAKE_VARIANTS];    /* writes nothing */
    bool hasty[FAKE_VARIANTS];   /* from the second launch on adds what its workspace held before */
    bool stuck[FAKE_VARIANTS];   /* reads the weights of its first launch in all others */
    int replaced[FAKE_VARIANTS]; /* from which launch on something else stands in; 0: never */
    struct graft_captured *recorded; /* that is being made */
    int prepare_us;
    void (*meanwhile)(void); /* called once, at the next preparation */
    _Atomic int prepares, launches, kernels, copies, recordings;
    _Atomic int64_t clock_us;    /* spent in launches */
    _Atomic int64_t bytes, most; /* device memory now, and at the worst */
} fake;

struct graft_kernel {
    graft_op_desc op;
    int variant, launches;
    const float *weights; /* of the first launch */
};

struct graft_captured {
    int us;               /* of all its launches */
    graft_kernel *kernel; /* of the last one */
    float *out;
    void *ws;
};

static inline void fake_reset(void)
{
    memset(&fake, 0, sizeof fake);
    fake.variants = 1;
    for (int i = 0; i < FAKE_VARIANTS; i++) fake.weights[i] = 1;
}

static inline void fake_wait(int us)
{
    struct timespec a, b;
    if (!us) return;
    clock_gettime(CLOCK_MONOTONIC, &a);
    do clock_gettime(CLOCK_MONOTONIC, &b);
    while ((b.tv_sec - a.tv_sec) * 1000000 + (b.tv_nsec - a.tv_nsec) / 1000 < us);
}

static inline int64_t fake_bytes(const graft_tensor_desc *d)
{
    int64_t n = graft_dtype_size(d->dtype);
    for (int i = 0; i < d->rank; i++) n *= d->dim[i];
    return n;
}

static inline void *fake_alloc(graft_device *d, uint64_t bytes)
{
    (void)d;
    uint64_t *p = graft_malloc_aligned(64, bytes + 64);
    if (!p) return NULL;
    *p = bytes;
    int64_t now = atomic_fetch_add(&fake.bytes, (int64_t)bytes) + (int64_t)bytes;
    int64_t most = atomic_load(&fake.most);
    while (now > most && !atomic_compare_exchange_weak(&fake.most, &most, now)) {
    }
    return (char *)p + 64;
}

static inline void fake_free(graft_device *d, void *p)
{
    (void)d;
    uint64_t *head = (uint64_t *)(void *)((char *)p - 64);
    atomic_fetch_sub(&fake.bytes, (int64_t)*head);
    graft_free(head);
}

static inline graft_status fake_copy(graft_device *d, void *dst, const void *src, uint64_t n)
{
    (void)d;
    memcpy(dst, src, n);
    atomic_fetch_add(&fake.copies, 1);
    return GRAFT_OK;
}

static inline int32_t fake_supports(graft_device *d, const graft_op_desc *op)
{
    (void)d, (void)op;
    return 1;
}

static inline graft_status fake_prepare(graft_device *d, const graft_op_desc *op, int32_t variant,
                                        graft_kernel **out, graft_kernel_info *info, char *text,
                                        uint64_t n)
{
    (void)d;
    int v = variant < 0 ? fake.own : variant;
    void (*meanwhile)(void) = fake.meanwhile;
    if (meanwhile) {
        fake.meanwhile = NULL;
        meanwhile();
    }
    atomic_fetch_add(&fake.prepares, 1);
    fake_wait(fake.prepare_us);
    *out = NULL;
    if (v >= fake.variants || (variant >= 0 && fake.unmade[v])) {
        snprintf(text, n, "no variant %d", v);
        return GRAFT_E_UNSUPPORTED;
    }
    graft_kernel *k = graft_malloc(sizeof *k);
    if (!k) return GRAFT_E_NOMEM;
    *k = (graft_kernel){.op = *op, .variant = v};
    info->workspace_bytes = (uint64_t)fake.workspace[v];
    for (int i = 0; i < GRAFT_MAX_INPUTS; i++) {
        if (!op->in[i].constant || !op->in[i].dtype) continue;
        info->packed_bytes[i] = (uint64_t)(fake_bytes(&op->in[i]) * fake.weights[v]);
        info->packing[i] = (uint64_t)fake.packing[v];
    }
    info->variant_index = v;
    info->variant_count = fake.variants;
    info->slow = fake.slow;
    atomic_fetch_add(&fake.kernels, 1);
    *out = k;
    return GRAFT_OK;
}

static inline void fake_release(graft_kernel *k)
{
    if (k) atomic_fetch_sub(&fake.kernels, 1);
    graft_free(k);
}

static inline graft_status fake_pack(graft_kernel *k, int32_t input, graft_dtype t, const void *src,
                                     void *dst)
{
    (void)t, (void)src;
    memset(dst, 1, (size_t)(fake_bytes(&k->op.in[input]) * fake.weights[k->variant]));
    return GRAFT_OK;
}

static inline void fake_compute(const graft_kernel *k, float *y, void *ws)
{
    int64_t n = fake_bytes(&k->op.out) / (int64_t)sizeof *y;
    float before = 0;
    if (fake.hasty[k->variant] && k->launches > 1) memcpy(&before, ws, sizeof before);
    if (fake.stuck[k->variant]) before += k->weights[0];       /* as packed, next to nothing */
    if (ws) memset(ws, 7, (size_t)fake.workspace[k->variant]); /* likewise */
    if (fake.idle[k->variant]) return;
    for (int64_t i = 0; i < n; i++) y[i] = (float)(i % 7) - 3.0f + before;
    int64_t to = fake.error_to && fake.error_to < n ? fake.error_to : n;
    for (int64_t i = fake.error_from; i < to; i++) y[i] += fake.error[k->variant];
}

static inline graft_status fake_launch(graft_kernel *k, const void *const *in, void *out, void *ws)
{
    if (!k->weights) k->weights = in[GRAFT_LINEAR_W];
    atomic_fetch_add(&fake.launches, 1);
    if (fake.recorded) {
        *fake.recorded =
            (struct graft_captured){fake.recorded->us + fake.us[k->variant] + 1, k, out, ws};
        return fake.unrecorded[k->variant] ? GRAFT_E_DEVICE : GRAFT_OK;
    }
    atomic_fetch_add(&fake.clock_us, fake.us[k->variant] + fake.host_us[k->variant] + 1);
    if (!k->launches++) atomic_fetch_add(&fake.clock_us, fake.first_us[k->variant]);
    if (fake.broken[k->variant]) return GRAFT_E_DEVICE;
    fake_compute(k, out, ws);
    return GRAFT_OK;
}

static inline int32_t fake_inplace(graft_kernel *k, int32_t input)
{
    (void)k, (void)input;
    return 0;
}

static inline graft_status fake_sync(graft_device *d, char *text, uint64_t n)
{
    (void)d, (void)text, (void)n;
    return GRAFT_OK;
}

static const graft_kernels_api fake_api = {
    NULL,          NULL,         NULL,         fake_alloc, fake_free,   fake_copy,    fake_copy,
    fake_supports, fake_prepare, fake_release, fake_pack,  fake_launch, fake_inplace, fake_sync};

static inline graft_status fake_capture_begin(graft_device *d)
{
    (void)d;
    fake.recorded = graft_calloc(1, sizeof *fake.recorded);
    return fake.recorded ? GRAFT_OK : GRAFT_E_NOMEM;
}

static inline graft_status fake_capture_end(graft_device *d, graft_captured **out)
{
    (void)d;
    *out = fake.recorded;
    fake.recorded = NULL;
    atomic_fetch_add(&fake.recordings, 1);
    return GRAFT_OK;
}

static inline graft_status fake_replay(graft_captured *c)
{
    atomic_fetch_add(&fake.clock_us, c->us);
    fake_compute(c->kernel, c->out, c->ws);
    return GRAFT_OK;
}

static inline graft_status fake_fill(graft_device *d, float *out, uint64_t n, float value)
{
    (void)d;
    for (uint64_t i = 0; i < n; i++) out[i] = value;
    return GRAFT_OK;
}

static inline void fake_captured_free(graft_captured *c)
{
    if (c) atomic_fetch_sub(&fake.recordings, 1);
    graft_free(c);
}

static inline int32_t fake_stands_in(graft_kernel *k)
{
    int from = fake.replaced[k->variant];
    return from && k->launches >= from;
}

static inline graft_backend fake_backend(const char *identity)
{
    static const graft_kernels lib = {.abi_minor = 0}; /* nothing beyond the plain table */
    static graft_device device;
    graft_backend b = {.lib = &lib, .api = &fake_api, .device = &device, .threads = 2};
    b.info.alignment = 64;
    b.info.host_memory = 1;
    b.identity = graft_hash128(identity, strlen(identity));
    snprintf(b.name, sizeof b.name, "fake");
    return b;
}

/* The same as a device, whose launches can be recorded. */
static inline graft_backend fake_recorder(const char *identity)
{
    static const graft_kernels_more more = {.size = sizeof more,
                                            .capture_begin = fake_capture_begin,
                                            .capture_end = fake_capture_end,
                                            .replay = fake_replay,
                                            .captured_free = fake_captured_free,
                                            .copy = fake_copy,
                                            .fill = fake_fill,
                                            .stands_in = fake_stands_in};
    static const graft_kernels lib = {.abi_minor = 1, .more = &more};
    graft_backend b = fake_backend(identity);
    b.lib = &lib;
    b.info.host_memory = 0;
    return b;
}

/* ------------------------------------------------------------------ graphs */

typedef struct fake_arch {
    int32_t layers, width;
} fake_arch;
typedef struct fake_shape {
    int64_t rows;
    int32_t dtype, zero;
} fake_shape;

/* `layers` matrices one after the other, each a little wider: as many signatures as layers. */
static inline graft_status fake_build(const void *arch, const void *shape, graft_graph **out,
                                      graft_err *e)
{
    const fake_arch *a = arch;
    const fake_shape *s = shape;
    graft_graph *g = graft_graph_create();
    if (!g) return graft_fail_nomem(e, "graph");
    int64_t width = a->width;
    graft_vid x = graft_graph_input(g, s->dtype, 2, (int64_t[]){s->rows, width});
    for (int32_t i = 0; i < a->layers; i++, width += 16) {
        char name[32];
        snprintf(name, sizeof name, "layer.%d", i);
        graft_vid w = graft_graph_weight(g, name, 2, (int64_t[]){width + 16, width});
        x = graft_graph_node(g, GRAFT_OP_LINEAR, NULL, (graft_vid[]){x, w}, 2, GRAFT_DTYPE_NONE);
    }
    graft_graph_output(g, x);
    graft_status st = graft_graph_status(g, e);
    if (st) {
        graft_graph_destroy(g);
        return st;
    }
    *out = g;
    return GRAFT_OK;
}

static const fake_arch usual_arch = {3, 64};
static const fake_shape usual_shape = {32, GRAFT_F32, 0};

static inline graft_compile_job fake_job(graft_backend *b)
{
    return (graft_compile_job){.kind = "fake",
                               .arch = &usual_arch,
                               .arch_bytes = sizeof usual_arch,
                               .shape = &usual_shape,
                               .shape_bytes = sizeof usual_shape,
                               .backend = b,
                               .use_disk = true,
                               .build = fake_build};
}

/* ------------------------------------------------------------------ folders and the log */

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static int warnings;
static char last_warning[2048];

static inline void keep_warning(void *ctx, int32_t level, const char *text)
{
    (void)ctx;
    if (level < GRAFT_LOG_WARN) return;
    pthread_mutex_lock(&log_lock);
    warnings++;
    snprintf(last_warning, sizeof last_warning, "%s", text);
    pthread_mutex_unlock(&log_lock);
}

/* A name for a folder that is not there; the test removes what it makes. */
static inline const char *fresh_folder(const char *name)
{
    static char path[512];
    static int turn;
    snprintf(path, sizeof path, "%s/cache-test-%ld-%d-%s", GRAFT_BINARY_DIR, (long)getpid(), turn++,
             name);
    return path;
}

static inline void remove_folder(const char *path)
{
    char command[1200];
    snprintf(command, sizeof command, "chmod -R u+rwx '%s' 2>/dev/null; rm -rf '%s'", path, path);
    if (system(command)) fprintf(stderr, "%s stays behind\n", path);
}

static inline graft_disk_cache *open_cache(const char *folder, uint64_t max_bytes)
{
    graft_disk_cache *c = NULL;
    graft_err e = GRAFT_ERR_INIT;
    const graft_log log = {NULL, keep_warning};
    warnings = 0;
    last_warning[0] = 0;
    CHECK_OK(graft_disk_cache_create(folder, max_bytes, &log, &c, &e), &e);
    return c;
}

static inline graft_hash key_of(const char *text)
{
    return graft_hash128(text, strlen(text));
}
#endif
