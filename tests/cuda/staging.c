/* What is copied to the device through pinned buffers, which are used again and again while the
 * device is behind: pieces larger than all of them together, many small ones, and both in turns;
 * alone and with threads that help. The driver copies when someone waits, and no sooner, so that a
 * buffer that is filled too early shows. */
#include <dirent.h>

#include "base/alloc.h"
#include "kernels/cuda/device/copiers.h"
#include "kernels/cuda/device/stage.h"
#include "kernels/kernel_abi.h"
#include "tests/cuda/backend.h"
#include "tests/test.h"

enum { ROWS = 8, CHANNELS = 1000, STEP = ROWS * CHANNELS * 4 + 768, MIDDLES = 24 };
#define ALL     (GRAFT_CUDA_BUFFERS * GRAFT_CUDA_BUFFER_BYTES)
#define LARGEST (ALL + ALL / 4 + 12) /* bytes */
#define MIDDLE  ((uint64_t)700 << 10)
#define SMALLER ((uint64_t)300 << 10)

static const graft_kernels *k;
static fake_cuda_state *fake;

static graft_device *open_device(int threads)
{
    const graft_kernels_host host = {
        .size = sizeof host, .threads = threads, .alloc = graft_malloc_aligned, .free = graft_free};
    graft_device *d = NULL;
    char text[200] = "";
    CHECK_INT(k->api->create(&host, 0, &d, text, sizeof text), GRAFT_OK);
    if (!d) fprintf(stderr, "  %s\n", text);
    return d;
}

/* A linear layer of ROWS outputs, whose weight is packed as float32. */
static graft_kernel *layer_of(graft_device *d, int64_t channels)
{
    graft_op_desc op = {.size = sizeof op, .op = GRAFT_OP_LINEAR};
    graft_kernel_info info = {.size = sizeof info};
    graft_kernel *kernel = NULL;
    op.in[GRAFT_LINEAR_X] = tensor_of(2, 1, channels, 1, 1);
    op.in[GRAFT_LINEAR_W] = tensor_of(2, ROWS, channels, 1, 1);
    op.in[GRAFT_LINEAR_W].constant = 1;
    op.out = tensor_of(2, 1, ROWS, 1, 1);
    op.in[GRAFT_LINEAR_X].dtype = op.in[GRAFT_LINEAR_W].dtype = op.out.dtype = GRAFT_F32;
    CHECK_INT(k->api->prepare(d, &op, -1, &kernel, &info, NULL, 0), GRAFT_OK);
    CHECK_INT(info.packed_bytes[GRAFT_LINEAR_W], ROWS * channels * 4);
    return kernel;
}

/* Values that differ from one place and one piece to the next. */
static void fill(uint32_t *p, uint64_t bytes, uint32_t seed)
{
    for (uint64_t i = 0; i < bytes / 4; i++)
        p[i] = ((uint32_t)i * 2654435761u ^ seed) & 0x3fffffffu;
}

static int differs(const uint32_t *p, uint64_t bytes, uint32_t seed)
{
    int wrong = 0;
    for (uint64_t i = 0; i < bytes / 4; i++)
        wrong += p[i] != (((uint32_t)i * 2654435761u ^ seed) & 0x3fffffffu);
    return wrong;
}

static int threads_now(void)
{
    int n = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (const struct dirent *t; tasks && (t = readdir(tasks));) n += t->d_name[0] != '.';
    if (tasks) closedir(tasks);
    return n;
}

typedef struct scene {
    graft_device *d;
    graft_kernel *layer;
    uint64_t layer_bytes;
    uint32_t *from; /* LARGEST bytes */
    char *there;    /* LARGEST, then places of STEP */
} scene;

/* The source is filled anew at once: pack() has read it when it returns. */
static void pack(const scene *s, graft_kernel *layer, uint64_t bytes, char *dst, uint32_t seed)
{
    fill(s->from, bytes, seed);
    CHECK_INT(k->api->pack(layer, GRAFT_LINEAR_W, GRAFT_F32, s->from, dst), GRAFT_OK);
}

static void expect(const scene *s, const char *at, uint64_t bytes, uint32_t seed)
{
    memset(s->from, 0, bytes);
    CHECK_INT(k->api->download(s->d, s->from, at, bytes), GRAFT_OK);
    CHECK_INT(differs(s->from, bytes, seed), 0);
}

static void one_large(const scene *s)
{
    fill(s->from, LARGEST, 1);
    CHECK_INT(k->api->upload(s->d, s->there, s->from, LARGEST), GRAFT_OK);
    CHECK_INT(differs((const uint32_t *)(const void *)s->there, LARGEST, 1), 0);
    expect(s, s->there, LARGEST, 1);
}

/* More than fits into `buffers`. */
static void many_small(const scene *s, int buffers)
{
    uint32_t n = (uint32_t)((uint64_t)buffers * GRAFT_CUDA_BUFFER_BYTES / s->layer_bytes) + 9;
    uint64_t waits = fake->waits;
    for (uint32_t i = 0; i < n; i++) pack(s, s->layer, s->layer_bytes, s->there + i * STEP, i + 2);
    CHECK_INT(fake->waits, waits);
    for (uint32_t i = 0; i < n; i++) expect(s, s->there + i * STEP, s->layer_bytes, i + 2);
}

/* Enough of each to come round; nothing waits for the stream in between. */
static void sizes_in_turns(const scene *s)
{
    graft_kernel *layer[2] = {layer_of(s->d, MIDDLE / 4 / ROWS),
                              layer_of(s->d, SMALLER / 4 / ROWS)};
    char *at = s->there;
    uint64_t waits = fake->waits;
    for (uint32_t i = 0; i < MIDDLES; i++, at += MIDDLE + SMALLER + STEP) {
        pack(s, layer[0], MIDDLE, at, 3 * i);
        pack(s, layer[1], SMALLER, at + MIDDLE, 3 * i + 1);
        pack(s, s->layer, s->layer_bytes, at + MIDDLE + SMALLER, 3 * i + 2);
    }
    CHECK(fake->waits <= waits + 1); /* scratch that grows */
    at = s->there;
    for (uint32_t i = 0; i < MIDDLES; i++, at += MIDDLE + SMALLER + STEP) {
        expect(s, at, MIDDLE, 3 * i);
        expect(s, at + MIDDLE, SMALLER, 3 * i + 1);
        expect(s, at + MIDDLE + SMALLER, s->layer_bytes, 3 * i + 2);
    }
    k->api->release(layer[0]);
    k->api->release(layer[1]);
}

/* What a sampler sends: memory of its size is pinned for what is small alone, the source is the
 * caller's at once, and nobody waits for the stream. */
static void sent_ahead(const scene *s)
{
    const graft_kernels_more *more = k->more;
    const int64_t objects = fake->live_objects;
    const uint64_t waits = fake->waits;
    for (uint32_t i = 0; i < 3; i++) {
        fill(s->from, LARGEST, 7 + i);
        CHECK_INT(more->send(s->d, s->there, s->from, LARGEST), GRAFT_OK);
    }
    memset(s->from, 0, LARGEST);
    CHECK_INT(fake->live_objects, objects);
    CHECK_INT(fake->waits, waits);
    expect(s, s->there, LARGEST, 9);
    fill(s->from, SMALLER, 10);
    CHECK_INT(more->send(s->d, s->there, s->from, SMALLER), GRAFT_OK);
    CHECK_INT(fake->live_objects, objects + 2); /* and an event */
    expect(s, s->there, SMALLER, 10);
}

/* A device that is lost while buffers are filled: the source is left alone, and nothing hangs. */
static void lost_on_the_way(const scene *s)
{
    fill(s->from, LARGEST, 5);
    fake->lazy = 1;
    fake->fail_event = 2;
    CHECK_INT(k->api->upload(s->d, s->there, s->from, LARGEST), GRAFT_E_DEVICE);
    fake->fail_event = 0;
    memset(s->from, 0, LARGEST);
    CHECK_INT(k->api->upload(s->d, s->there, s->from, 4), GRAFT_E_DEVICE);
}

static void with_threads(int threads, bool lazy)
{
    scene s = {.d = open_device(threads), .layer_bytes = ROWS * CHANNELS * 4};
    if (!s.d) return;
    fake->lazy = lazy;
    s.from = graft_malloc(LARGEST);
    s.there = k->api->alloc(s.d, LARGEST);
    s.layer = layer_of(s.d, CHANNELS);
    CHECK(s.from && s.there);
    CHECK(MIDDLES * (MIDDLE + SMALLER + STEP) <= LARGEST);
    if (s.from && s.there) {
        int before = threads_now();
        many_small(&s, 2);
        CHECK_INT(threads_now(), before); /* small things need none */
        one_large(&s);
        CHECK_INT(threads_now(), before + (threads < 8 ? threads : 8) - 1);
        sizes_in_turns(&s);
        many_small(&s, GRAFT_CUDA_BUFFERS);
        one_large(&s);
        sent_ahead(&s);
        lost_on_the_way(&s);
        CHECK_INT(threads_now(), before + (threads < 8 ? threads : 8) - 1);
    }
    int after = threads_now();
    k->api->release(s.layer);
    k->api->free(s.d, s.there);
    k->api->destroy(s.d);
    CHECK(threads == 1 || threads_now() < after);
    fake->lazy = 0;
    graft_free(s.from);
    CHECK_INT(fake->live_blocks, 0);
    CHECK_INT(fake->live_objects, 0);
    CHECK_INT(fake->misuse, 0);
}

static void *nothing(void *p)
{
    return p;
}

/* A sanitizer has a thread of its own from the first one on, which is not to be counted. */
static void settle(void)
{
    pthread_t t;
    CHECK_INT(pthread_create(&t, NULL, nothing, NULL), 0);
    pthread_join(t, NULL);
}

#if !defined(__SANITIZE_THREAD__) /* which takes long, and sees nothing in one thread */
static void alone(void)
{
    with_threads(1, true);
}

static void on_a_fast_device(void)
{
    with_threads(3, false);
}
#endif

static void two(void)
{
    with_threads(2, true);
}

static void as_many_as_help(void)
{
    with_threads(32, true);
}

int main(void)
{
    use_fake_driver();
    fake = fake_driver_state();
    void *h = dlopen(CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    k = h ? dlsym(h, GRAFT_KERNELS_SYMBOL) : NULL;
    CHECK(fake && k);
    if (fake && k) {
        settle();
#if !defined(__SANITIZE_THREAD__)
        RUN(alone);
        RUN(on_a_fast_device);
#endif
        RUN(two);
        RUN(as_many_as_help);
    }
    return test_end();
}
