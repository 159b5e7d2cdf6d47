/* Many threads on one engine: different weight sets on one compiled graph, swaps during runs, runs
 * that are cancelled anywhere while others wait for what they were making, several engines at once.
 * Every result must equal, bit for bit, that of the same call made alone.
 *
 * Under ThreadSanitizer only the ref kernels run: the cpu library's OpenMP runtime is not
 * instrumented, so its barriers would be reported as races. */
#include <pthread.h>
#include <stdatomic.h>

#include "tests/engine/sample.h"

#define VAE GRAFT_SOURCE_DIR "/golden/small/vae.safetensors"

enum { THREADS = 4, ROUNDS = UNDER_TSAN ? 2 : 4, SETS = 2, STEPS = 2 };

static const char *backend;
static char set_path[SETS][256];
static float expected[SETS][OUT];
static _Atomic int wrong; /* the counters of tests/test.h belong to the main thread */

/* ------------------------------------------------------------------ one call */

static void silent(void *ctx, int32_t level, const char *text)
{
    (void)ctx, (void)level, (void)text;
}

static graft_engine *open_engine(void)
{
    graft_engine_config c = {.kernel_dir = GRAFT_LIB_DIR, .backend = backend, .threads = 1};
    graft_engine *g = NULL;
    graft_err e = GRAFT_ERR_INIT;
    c.log.line = silent;
    CHECK_OK(graft_engine_create(&c, &g, &e), &e);
    return g;
}

static graft_status sample_one(const graft_model *m, const graft_task *task, float out[OUT],
                               graft_err *e)
{
    graft_cond *cond = NULL;
    graft_latent *latent = NULL, *result = NULL;
    int64_t shape[4];
    graft_status st = sample_cond(m, &cond, e);
    if (!st) st = graft_latent_empty(4, 8 * SIDE, 8 * SIDE, 1, &latent, e);
    if (!st) st = sample_latent(m, cond, latent, "euler", STEPS, task, &result, e);
    if (!st) memcpy(out, graft_latent_data(result, shape), OUT * sizeof *out);
    graft_cond_release(cond);
    graft_latent_release(latent);
    graft_latent_release(result);
    return st;
}

static void must(graft_status st, const graft_err *e)
{
    if (!st) return;
    atomic_fetch_add(&wrong, 1);
    fprintf(stderr, "%s: %s\n", graft_status_text(st), e->text);
}

static void must_equal(const float *got, int set)
{
    if (same_bits(got, expected[set])) return;
    atomic_fetch_add(&wrong, 1);
    fprintf(stderr, "set %d: the result is not that of the call made alone\n", set);
}

static void expect_set(const graft_model *m, int set)
{
    graft_err e = GRAFT_ERR_INIT;
    float out[OUT];
    graft_status st = sample_one(m, NULL, out, &e);
    must(st, &e);
    if (!st) must_equal(out, set);
}

static graft_model *load_set(graft_engine *g, int set)
{
    graft_model *m = NULL;
    graft_err e = GRAFT_ERR_INIT;
    must(graft_model_load(g, set_path[set], NULL, &m, &e), &e);
    return m;
}

/* Starts `n` threads on `body` at one moment, as good as can be, and waits for them. */
typedef struct worker {
    graft_engine *engine;
    graft_model **model;
    int index;
    int64_t cancel_after; /* questions; 0: never */
    pthread_barrier_t *start;
    void (*body)(struct worker *w);
} worker;

static void *enter(void *arg)
{
    worker *w = arg;
    pthread_barrier_wait(w->start);
    w->body(w);
    return NULL;
}

static void run_workers(worker *w, int n)
{
    pthread_t thread[THREADS];
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, (unsigned)n);
    for (int i = 0; i < n; i++) {
        w[i].start = &start;
        w[i].index = i;
        CHECK(pthread_create(&thread[i], NULL, enter, &w[i]) == 0);
    }
    for (int i = 0; i < n; i++) pthread_join(thread[i], NULL);
    pthread_barrier_destroy(&start);
    CHECK_INT(atomic_exchange(&wrong, 0), 0);
}

/* ------------------------------------------------------------------ tests */

static void sample_rounds(worker *w)
{
    for (int i = 0; i < ROUNDS; i++) expect_set(w->model[w->index % SETS], w->index % SETS);
}

/* All threads meet an empty cache: the graph is made once, and so is each packed weight. */
static void two_sets_on_one_graph(void)
{
    graft_engine *g = open_engine();
    graft_model *model[SETS];
    graft_compiled_stats compiled;
    worker w[THREADS] = {0};
    for (int i = 0; i < SETS; i++) model[i] = load_set(g, i);
    for (int i = 0; i < THREADS; i++) w[i] = (worker){.model = model, .body = sample_rounds};
    run_workers(w, THREADS);
    graft_compiled_stats_get(g->compiled, &compiled);
    CHECK_INT(compiled.built, 1);
    for (int i = 0; i < SETS; i++) graft_model_release(model[i]);
    graft_engine_destroy(g);
}

static void swap_rounds(worker *w)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = graft_model_retain(w->model[0]);
    for (int i = 0; i < 2 * ROUNDS; i++) {
        graft_model *next = NULL;
        int set = (i + 1) % SETS;
        graft_status st = graft_model_swap(m, set_path[set], i % 3 == 0, NULL, &next, &e);
        must(st, &e);
        if (st) break;
        graft_model_release(m);
        m = next;
        expect_set(m, set);
    }
    graft_model_release(m);
}

static void run_or_swap(worker *w)
{
    if (w->index % 2)
        swap_rounds(w);
    else
        sample_rounds(w);
}

/* A run keeps the weights that it started with, whatever others swap and drop meanwhile. */
static void swaps_during_runs(void)
{
    graft_engine *g = open_engine();
    graft_model *model[SETS];
    worker w[THREADS] = {0};
    for (int i = 0; i < SETS; i++) model[i] = load_set(g, i);
    for (int i = 0; i < THREADS; i++) w[i] = (worker){.model = model, .body = run_or_swap};
    run_workers(w, THREADS);
    for (int i = 0; i < SETS; i++) expect_set(model[i], i);
    CHECK_INT(atomic_exchange(&wrong, 0), 0);
    for (int i = 0; i < SETS; i++) graft_model_release(model[i]);
    graft_engine_destroy(g);
}

typedef struct canceller {
    int64_t left, asked;
} canceller;

static bool cancel_now(void *ctx)
{
    canceller *c = ctx;
    c->asked++;
    return c->left > 0 && --c->left == 0;
}

static int64_t count_questions(void)
{
    graft_engine *g = open_engine();
    graft_model *m = load_set(g, 0);
    canceller c = {0};
    graft_task task = {.ctx = &c, .cancelled = cancel_now};
    graft_err e = GRAFT_ERR_INIT;
    float out[OUT];
    CHECK_OK(sample_one(m, &task, out, &e), &e);
    graft_model_release(m);
    graft_engine_destroy(g);
    return c.asked;
}

/* Cancelled at every so many questions, from the first in compiling to the last in running: the
 * status says so, and the same engine then works. */
static void cancelled_anywhere(void)
{
    int64_t total = count_questions(), step = total / (UNDER_TSAN ? 12 : 48) + 1;
    CHECK(total > 100);
    for (int64_t n = 1; n <= total; n += step) {
        graft_engine *g = open_engine();
        graft_model *m = load_set(g, 0);
        canceller c = {.left = n};
        graft_task task = {.ctx = &c, .cancelled = cancel_now};
        graft_err e = GRAFT_ERR_INIT;
        float out[OUT];
        CHECK_INT(sample_one(m, &task, out, &e), GRAFT_E_CANCEL);
        CHECK(e.text[0] != '\0');
        expect_set(m, 0);
        graft_model_release(m);
        graft_engine_destroy(g);
    }
    CHECK_INT(atomic_exchange(&wrong, 0), 0);
}

static void cancel_or_sample(worker *w)
{
    graft_err e = GRAFT_ERR_INIT;
    canceller c = {.left = w->cancel_after};
    graft_task task = {.ctx = &c, .cancelled = cancel_now};
    float out[OUT];
    graft_status st = sample_one(w->model[0], &task, out, &e);
    if (st == GRAFT_E_CANCEL && w->cancel_after) return;
    must(st, &e);
    if (!st) must_equal(out, 0);
}

/* Threads that wait for a graph or a packed weight go on when its maker was cancelled. */
static void cancelled_beside_others(void)
{
    int64_t total = count_questions();
    for (int k = 1; k < (UNDER_TSAN ? 4 : 12); k++) {
        graft_engine *g = open_engine();
        graft_model *m = load_set(g, 0);
        worker w[THREADS] = {0};
        for (int i = 0; i < THREADS; i++)
            w[i] = (worker){.model = &m,
                            .body = cancel_or_sample,
                            .cancel_after = i < THREADS / 2 ? total * k / 12 + i + 1 : 0};
        run_workers(w, THREADS);
        graft_model_release(m);
        graft_engine_destroy(g);
    }
}

static void own_engine(worker *w)
{
    graft_engine *g = NULL;
    graft_err e = GRAFT_ERR_INIT;
    graft_engine_config c = {.kernel_dir = GRAFT_LIB_DIR, .backend = backend, .threads = 1};
    c.log.line = silent;
    for (int i = 0; i < ROUNDS; i++) {
        must(graft_engine_create(&c, &g, &e), &e);
        if (!g) return;
        graft_model *m = load_set(g, w->index % SETS);
        if (m) expect_set(m, w->index % SETS);
        graft_model_release(m);
        graft_engine_destroy(g);
        g = NULL;
    }
}

static void several_engines(void)
{
    worker w[THREADS] = {0};
    for (int i = 0; i < THREADS; i++) w[i] = (worker){.body = own_engine};
    run_workers(w, THREADS);
}

/* Sampling, decoding, text and reports side by side, as a host with a queue of jobs does. */
static graft_vae *vae;
static graft_clip *clip;
static _Atomic uint64_t decoded_hash, encoded_hash;

static void must_repeat(_Atomic uint64_t *first, uint64_t hash, const char *what)
{
    uint64_t none = 0;
    if (atomic_compare_exchange_strong(first, &none, hash) || none == hash) return;
    atomic_fetch_add(&wrong, 1);
    fprintf(stderr, "%s: not the same in each thread\n", what);
}

static void decode_once(void)
{
    graft_latent *l = NULL;
    graft_image *i = NULL;
    graft_err e = GRAFT_ERR_INIT;
    int64_t shape[4];
    must(graft_latent_empty(4, 64, 64, 1, &l, &e), &e);
    graft_status st = l ? graft_vae_decode(vae, l, NULL, NULL, &i, &e) : GRAFT_OK;
    must(st, &e);
    if (i) {
        const float *x = graft_image_data(i, shape);
        must_repeat(&decoded_hash, graft_hash64(x, (size_t)shape_count(shape, 4) * sizeof *x),
                    "picture");
    }
    graft_image_release(i);
    graft_latent_release(l);
}

static void encode_once(void)
{
    graft_cond *c = NULL;
    graft_err e = GRAFT_ERR_INIT;
    must(graft_clip_encode(clip, "a red apple", NULL, &c, &e), &e);
    if (c)
        must_repeat(
            &encoded_hash,
            graft_hash64(c->entry[0]->data,
                         (size_t)(c->entry[0]->tokens * c->entry[0]->width) * sizeof(float)),
            "conditioning");
    graft_cond_release(c);
}

static void mixed(worker *w)
{
    for (int i = 0; i < ROUNDS; i++) {
        switch ((w->index + i) % 3) {
        case 0:
            expect_set(w->model[0], 0);
            break;
        case 1:
            decode_once();
            break;
        default:
            encode_once();
        }
    }
}

static void different_jobs(void)
{
    graft_engine *g = open_engine();
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_set(g, 0);
    worker w[THREADS] = {0};
    CHECK_OK(graft_vae_load(g, VAE, NULL, &vae, &e), &e);
    CHECK_OK(graft_checkpoint_load(g, DEMO, NULL, NULL, &clip, NULL, &e), &e);
    for (int i = 0; i < THREADS; i++) w[i] = (worker){.model = &m, .body = mixed};
    run_workers(w, THREADS);
    graft_vae_release(vae);
    graft_clip_release(clip);
    graft_model_release(m);
    graft_engine_destroy(g);
    decoded_hash = encoded_hash = 0;
}

/* ------------------------------------------------------------------ main */

/* The second set: the first with other numbers in every third tensor, so that packs are shared. */
static void make_sets(void)
{
    snprintf(set_path[0], sizeof set_path[0], "%s", SD1);
    snprintf(set_path[1], sizeof set_path[1], "%s", temp_path("set.safetensors"));
    graft_safetensors *f = open_file(SD1);
    made_file *copy = copy_file(f, "");
    for (size_t i = 0; i < copy->n; i += 3) {
        float *v = (float *)copy->tensor[i].data;
        int64_t n = shape_count(copy->tensor[i].shape, copy->tensor[i].rank);
        for (int64_t k = 0; k < n; k++) v[k] *= 0.9f;
    }
    char *config = NULL;
    const char *text = graft_safetensors_metadata(f, "config");
    if (text) config = strdup(text);
    write_file(copy, set_path[1], config);
    free(config);
    graft_safetensors_close(f);
}

static void compute_alone(void)
{
    for (int i = 0; i < SETS; i++) {
        graft_engine *g = open_engine();
        graft_model *m = load_set(g, i);
        graft_err e = GRAFT_ERR_INIT;
        CHECK_OK(sample_one(m, NULL, expected[i], &e), &e);
        graft_model_release(m);
        graft_engine_destroy(g);
    }
    CHECK(!same_bits(expected[0], expected[1]));
}

static void run_all(const char *name)
{
    backend = name;
    printf("backend %s\n", name);
    RUN(compute_alone);
    RUN(two_sets_on_one_graph);
    RUN(swaps_during_runs);
    RUN(cancelled_anywhere);
    RUN(cancelled_beside_others);
    RUN(several_engines);
    RUN(different_jobs);
}

int main(void)
{
    setenv("GRAFT_PRECISION", "f32", 1);
    make_sets();
    run_all("ref");
    if (UNDER_TSAN)
        printf("skipped: backend cpu, whose OpenMP runtime ThreadSanitizer cannot see into\n");
    else
        run_all("cpu");
    unlink(set_path[1]);
    return test_end();
}
