/* The CUDA library from many threads: every function of its table called by a thread that has never
 * touched the device and so has no context of its own, and plans of more threads than handles were
 * kept for, run after those threads are gone. */
#include <pthread.h>

#include "base/alloc.h"
#include "kernels/kernel_abi.h"
#include "tests/cuda/backend.h"
#include "tests/test.h"

enum { SIDE = 4, CHANNELS = 16, VALUES = SIDE * SIDE * CHANNELS, PLANNERS = 12 };

typedef struct scene {
    graft_device *d;
    graft_kernel *kernel[PLANNERS];
    graft_kernel_info info[PLANNERS];
    char *memory; /* x, the packed weight, out, the workspace, floats of samplers */
    graft_captured *captured;
    graft_fetch *fetch;
    graft_marks *marks;
} scene;

static const graft_kernels *k;
static fake_cuda_state *fake;

enum { X = 0, W = 1 << 14, OUT = 1 << 16, WORK = 1 << 17, FLOATS = 1 << 18, MEMORY = 1 << 19 };

static graft_op_desc convolution(int64_t rows)
{
    graft_tensor_desc t = {.dtype = GRAFT_BF16,
                           .rank = 4,
                           .dim = {1, rows, SIDE, CHANNELS},
                           .stride = {rows * SIDE * CHANNELS, SIDE * CHANNELS, CHANNELS, 1}};
    graft_op_desc d = {.size = sizeof d,
                       .op = GRAFT_OP_CONV2D,
                       .attrs = {.kernel_h = 1, .kernel_w = 1, .stride_h = 1, .stride_w = 1},
                       .out = t};
    d.in[GRAFT_CONV_X] = t;
    d.in[GRAFT_CONV_W] = (graft_tensor_desc){.dtype = GRAFT_BF16,
                                             .rank = 4,
                                             .dim = {CHANNELS, CHANNELS, 1, 1},
                                             .stride = {CHANNELS, 1, 1, 1},
                                             .constant = 1};
    return d;
}

/* ------------------------------------------------------------------ one call a thread */

typedef struct job {
    void (*call)(scene *s);
    scene *s;
} job;

static void *do_job(void *p)
{
    const job *j = p;
    j->call(j->s);
    return NULL;
}

static void in_thread(scene *s, void (*call)(scene *s))
{
    job j = {call, s};
    pthread_t t;
    CHECK_INT(pthread_create(&t, NULL, do_job, &j), 0);
    pthread_join(t, NULL);
}

static void create(scene *s)
{
    const graft_kernels_host host = {
        .size = sizeof host, .threads = 1, .alloc = graft_malloc_aligned, .free = graft_free};
    char text[200] = "";
    CHECK_INT(k->api->create(&host, 0, &s->d, text, sizeof text), GRAFT_OK);
    if (!s->d) fprintf(stderr, "  %s\n", text);
}

static void destroy(scene *s)
{
    k->api->destroy(s->d);
}

static void tell(scene *s)
{
    graft_device_info info = {.size = sizeof info};
    CHECK_INT(k->api->info(s->d, &info), GRAFT_OK);
    CHECK(info.memory_free > 0);
}

static void take_memory(scene *s)
{
    s->memory = k->api->alloc(s->d, MEMORY);
    CHECK(s->memory != NULL);
}

static void give_memory(scene *s)
{
    k->api->free(s->d, s->memory);
}

static void prepare(scene *s)
{
    const graft_op_desc d = convolution(SIDE);
    char text[200] = "";
    s->info[0].size = sizeof s->info[0];
    CHECK_INT(k->api->prepare(s->d, &d, -1, &s->kernel[0], &s->info[0], text, sizeof text),
              GRAFT_OK);
    CHECK(strncmp(s->info[0].variant, "cudnn", 5) == 0);
    CHECK(s->info[0].workspace_bytes <= FLOATS - WORK && s->info[0].packed_bytes[1] <= OUT - W);
}

static void release(scene *s)
{
    k->api->release(s->kernel[0]);
}

static void pack(scene *s)
{
    float w[CHANNELS * CHANNELS] = {0}; /* the result is twice x */
    for (int i = 0; i < CHANNELS; i++) w[i * CHANNELS + i] = 2;
    CHECK_INT(k->api->pack(s->kernel[0], GRAFT_CONV_W, GRAFT_F32, w, s->memory + W), GRAFT_OK);
}

static void upload(scene *s)
{
    uint16_t x[VALUES];
    for (int i = 0; i < VALUES; i++) x[i] = (uint16_t)(0x3f80 + i % 64); /* 1 and a little more */
    CHECK_INT(k->api->upload(s->d, s->memory + X, x, sizeof x), GRAFT_OK);
}

static void launch(scene *s)
{
    const void *in[GRAFT_MAX_INPUTS] = {s->memory + X, s->memory + W};
    CHECK_INT(k->api->launch(s->kernel[0], in, s->memory + OUT, s->memory + WORK), GRAFT_OK);
}

static void clear(scene *s)
{
    const uint16_t zero[VALUES] = {0};
    CHECK_INT(k->more->send(s->d, s->memory + OUT, zero, sizeof zero), GRAFT_OK);
}

static void look(scene *s)
{
    uint16_t y[VALUES] = {0};
    int wrong = 0;
    CHECK_INT(k->api->download(s->d, y, s->memory + OUT, sizeof y), GRAFT_OK);
    for (int i = 0; i < VALUES; i++) wrong += y[i] != 0x4000 + i % 64;
    CHECK_INT(wrong, 0);
}

static void wait_all(scene *s)
{
    char text[100];
    CHECK_INT(k->api->wait(s->d, text, sizeof text), GRAFT_OK);
}

static void capture(scene *s)
{
    CHECK_INT(k->more->capture_begin(s->d), GRAFT_OK);
    launch(s);
    CHECK_INT(k->more->capture_end(s->d, &s->captured), GRAFT_OK);
}

static void replay(scene *s)
{
    CHECK_INT(k->more->replay(s->captured), GRAFT_OK);
}

static void drop_capture(scene *s)
{
    k->more->captured_free(s->captured);
}

static void sums(scene *s)
{
    float *at = (float *)(void *)(s->memory + FLOATS);
    const double two = 2;
    const float *in = at;
    CHECK_INT(k->more->fill(s->d, at, 8, 3), GRAFT_OK);
    CHECK_INT(k->more->copy(s->d, at + 8, at, 8 * sizeof *at), GRAFT_OK);
    CHECK_INT(k->more->mix(s->d, at + 8, 8, 1, &two, &in), GRAFT_OK);
}

/* Of what `sums` left: eight values of 3 and as many of 6. */
static void guidance(scene *s)
{
    float *at = (float *)(void *)(s->memory + FLOATS), *more = at + 16, *total = at + 64;
    const graft_excerpt part = {.part = more,
                                .whole = at,
                                .total = total,
                                .pictures = 1,
                                .channels = 2,
                                .h = 2,
                                .w = 4,
                                .x = 1,
                                .height = 2,
                                .width = 3};
    const graft_weighed mean = {.x = at,
                                .sum = at,
                                .total = total,
                                .out = at + 32,
                                .n = 16,
                                .per = 16,
                                .area = 8,
                                .terms = {.kind = GRAFT_GUIDE_X0}};
    const graft_change three = {.positive = at,
                                .negative = at,
                                .third = at,
                                .out = at + 48,
                                .n = 16,
                                .per = 16,
                                .area = 8,
                                .kind = GRAFT_CHANGE_THREE};
    CHECK_INT(k->more->fill(s->d, total, 8, 1), GRAFT_OK);
    CHECK_INT(k->more->cut(s->d, &part), GRAFT_OK);
    CHECK_INT(k->more->weigh(s->d, &part), GRAFT_OK); /* all but the first column is doubled */
    CHECK_INT(k->more->mean(s->d, &mean), GRAFT_OK);
    CHECK_INT(k->more->change(s->d, &three), GRAFT_OK);
}

static void look_at_guidance(scene *s)
{
    float v[72] = {0};
    int wrong = 0;
    CHECK_INT(k->api->download(s->d, v, s->memory + FLOATS, sizeof v), GRAFT_OK);
    for (int i = 0; i < 16; i++) {
        const float was = i < 8 ? 3.0f : 6.0f;
        wrong += v[i] != (i % 4 ? 2 * was : was); /* the sum */
        wrong += v[32 + i] != was;                /* over weights of 1 and 2 */
        wrong += v[48 + i] != v[i];
    }
    CHECK_INT(wrong, 0);
}

static void fetch(scene *s)
{
    CHECK_INT(k->more->fetch(s->d, s->memory + FLOATS, 16 * sizeof(float), &s->fetch), GRAFT_OK);
}

static void fetched(scene *s)
{
    const void *data = NULL;
    float v[16] = {0};
    CHECK_INT(k->more->fetched(s->fetch, &data), GRAFT_OK);
    if (data) memcpy(v, data, sizeof v);
    CHECK(v[7] == 3 && v[15] == 6);
}

static void drop_fetch(scene *s)
{
    k->more->fetch_free(s->fetch);
}

static void make_marks(scene *s)
{
    graft_marks *none = NULL;
    CHECK_INT(k->more->marks_create(s->d, 1, &none), GRAFT_E_ARG);
    CHECK_INT(k->more->marks_create(s->d, 3, &s->marks), GRAFT_OK);
    CHECK_INT(k->more->mark(s->marks, 3), GRAFT_E_ARG);
}

static void mark(scene *s)
{
    CHECK_INT(k->more->mark(s->marks, 0), GRAFT_OK);
    launch(s);
    CHECK_INT(k->more->mark(s->marks, 1), GRAFT_OK);
    CHECK_INT(k->more->mark(s->marks, 2), GRAFT_OK);
}

/* They are events of the device; a recording knows no such thing. */
static void mark_a_capture(scene *s)
{
    graft_captured *c = NULL;
    CHECK_INT(k->more->capture_begin(s->d), GRAFT_OK);
    CHECK_INT(k->more->mark(s->marks, 0), GRAFT_E_ARG);
    k->more->capture_end(s->d, &c);
    k->more->captured_free(c);
}

static void read_marks(scene *s)
{
    double seconds[2] = {-1, -1};
    CHECK_INT(k->more->marks_read(s->marks, seconds), GRAFT_OK);
    CHECK(seconds[0] > 0.9e-6 && seconds[1] == 0);
}

static void drop_marks(scene *s)
{
    k->more->marks_free(s->marks);
    k->more->marks_free(NULL);
}

static void each_has_the_context(void)
{
    static void (*const calls[])(scene * s) = {
        create,         tell,        take_memory,  prepare,    pack,
        upload,         launch,      look,         clear,      capture,
        replay,         look,        sums,         fetch,      fetched,
        drop_fetch,     wait_all,    drop_capture, make_marks, mark,
        mark_a_capture, read_marks,  drop_marks,   guidance,   look_at_guidance,
        release,        give_memory, destroy};
    scene s = {0};
    for (size_t i = 0; i < sizeof calls / sizeof *calls && (i == 0 || s.d); i++) {
        in_thread(&s, calls[i]);
        CHECK_INT(fake->misuse, 0);
        if (fake->misuse) fprintf(stderr, "  in call %zu\n", i);
        fake->misuse = 0;
    }
    CHECK_INT(fake->live_blocks, 0);
    CHECK_INT(fake->live_objects, 0);
}

/* ------------------------------------------------------------------ plans */

typedef struct planner {
    scene *s;
    int n;
    graft_status st;
} planner;

static void *plan(void *p)
{
    planner *w = p;
    scene *s = w->s;
    const graft_op_desc d = convolution(w->n + 1);
    s->info[w->n].size = sizeof s->info[0];
    w->st = k->api->prepare(s->d, &d, 1, &s->kernel[w->n], &s->info[w->n], NULL, 0);
    return NULL;
}

/* All at the same time, so that each thread has a handle of its own. */
static void plans_outlive_their_threads(void)
{
    scene s = {0};
    planner w[PLANNERS];
    pthread_t t[PLANNERS];
    create(&s);
    if (!s.d) return;
    take_memory(&s);
    fake->slow_plans = 100000;
    for (int i = 0; i < PLANNERS; i++) {
        w[i] = (planner){&s, i, GRAFT_E_ARG};
        CHECK_INT(pthread_create(&t[i], NULL, plan, &w[i]), 0);
    }
    for (int i = 0; i < PLANNERS; i++) pthread_join(t[i], NULL);
    fake->slow_plans = 0;
    for (int i = 0; i < PLANNERS; i++) {
        const void *in[GRAFT_MAX_INPUTS] = {s.memory + X, s.memory + W};
        CHECK_INT(w[i].st, GRAFT_OK);
        if (w[i].st) continue;
        CHECK(strncmp(s.info[i].variant, "cudnn", 5) == 0);
        CHECK_INT(k->api->launch(s.kernel[i], in, s.memory + OUT, s.memory + WORK), GRAFT_OK);
        k->api->release(s.kernel[i]);
    }
    give_memory(&s);
    destroy(&s);
    CHECK_INT(fake->misuse, 0);
    CHECK_INT(fake->live_objects, 0);
}

int main(void)
{
    use_fake_driver();
    fake = fake_driver_state();
    void *h = dlopen(CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    k = h ? dlsym(h, GRAFT_KERNELS_SYMBOL) : NULL;
    CHECK(fake && k);
    if (fake && k) {
        RUN(each_has_the_context);
        RUN(plans_outlive_their_threads);
    }
    return test_end();
}
