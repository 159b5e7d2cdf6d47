/* Compiled graphs: what the key covers, one compilation for many callers, what happens to files
 * that lie, budgets. */
#include <sys/stat.h>

#include "base/file.h"
#include "tests/cache/fake.h"

typedef struct world {
    char folder[512];
    graft_disk_cache *disk;
    graft_tuner *tuner;
    graft_compiled *compiled;
    graft_backend backend;
} world;

/* folder NULL: a fresh one; else that of an earlier world, as a later process would find it. */
static void world_init(world *w, const char *folder)
{
    graft_err e = GRAFT_ERR_INIT;
    char name[sizeof w->folder];
    snprintf(name, sizeof name, "%s", folder ? folder : fresh_folder("compiled"));
    memset(w, 0, sizeof *w);
    memcpy(w->folder, name, sizeof name);
    w->backend = fake_backend("fake 1");
    w->disk = open_cache(w->folder, (uint64_t)1 << 30);
    CHECK_OK(graft_tuner_create(w->disk, &w->tuner, &e), &e);
    CHECK_OK(graft_compiled_create((uint64_t)1 << 30, w->disk, w->tuner, &w->compiled, &e), &e);
}

static void world_finish(world *w, bool forget)
{
    graft_compiled_destroy(w->compiled);
    graft_tuner_destroy(w->tuner);
    graft_disk_cache_destroy(w->disk);
    if (forget) remove_folder(w->folder);
    CHECK(atomic_load(&fake.kernels) == 0);
    CHECK(atomic_load(&fake.bytes) == 0);
}

static graft_compiled_stats stats_of(world *w)
{
    graft_compiled_stats s;
    graft_compiled_stats_get(w->compiled, &s);
    return s;
}

static graft_exe *get(world *w, const graft_compile_job *job)
{
    graft_exe *x = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_compiled_get(w->compiled, job, NULL, &x, &e), &e);
    return x;
}

/* ------------------------------------------------------------------ keys */

static int n_keys;
static graft_hash seen[64];

/* Another key than all before; the same job has the same key. */
static void new_key(const graft_compile_job *job)
{
    graft_hash key = graft_compile_key(job);
    for (int i = 0; i < n_keys; i++) CHECK(!graft_hash_equal(key, seen[i]));
    CHECK(graft_hash_equal(key, graft_compile_key(job)));
    seen[n_keys++] = key;
}

static void every_ingredient(void)
{
    graft_backend b = fake_backend("fake 1"), other = fake_backend("fake 2");
    graft_compile_job job = fake_job(&b), changed;
    n_keys = 0;
    new_key(&job);
#define FLIP(field, value)                                                                         \
    do {                                                                                           \
        changed = job;                                                                             \
        changed.field = (value);                                                                   \
        new_key(&changed);                                                                         \
    } while (0)
    FLIP(kind, "fake2");
    FLIP(kind, "fak");
    FLIP(tuning, GRAFT_TUNING_FAST);
    FLIP(tuning, GRAFT_TUNING_FULL);
    FLIP(max_bytes, 1);
    FLIP(max_bytes, (int64_t)1 << 40);
    FLIP(backend, &other);
    FLIP(arch_bytes, sizeof usual_arch - 4);
    FLIP(shape_bytes, sizeof usual_shape - 4);
#undef FLIP
}

/* Each byte of architecture and shape, so each of their fields. */
static void every_byte(void)
{
    graft_backend b = fake_backend("fake 1");
    graft_compile_job job = fake_job(&b);
    unsigned char arch[sizeof usual_arch], shape[sizeof usual_shape];
    memcpy(arch, &usual_arch, sizeof arch);
    memcpy(shape, &usual_shape, sizeof shape);
    job.arch = arch;
    job.shape = shape;
    n_keys = 0;
    new_key(&job);
    for (size_t i = 0; i < sizeof arch; i++) {
        arch[i] ^= 1;
        new_key(&job);
        arch[i] ^= 1;
    }
    for (size_t i = 0; i < sizeof shape; i++) {
        shape[i] ^= 1;
        new_key(&job);
        shape[i] ^= 1;
    }
    /* What moves from one field into the next is something else. */
    job.arch_bytes -= 1;
    new_key(&job);
}

static graft_hash identity_of(const char *folder, const char *name, int threads)
{
    graft_backends all;
    graft_backend *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_backends_load(&all, folder, threads, NULL, &e), &e);
    graft_status st = graft_backends_get(&all, name, &b, &e);
    graft_hash h = st ? (graft_hash){0, 0} : b->identity;
    CHECK_OK(st, &e);
    graft_backends_finish(&all);
    return h;
}

/* What a backend's identity is made of: its name, its library's code wherever that lies, and what
 * the device says of itself. */
static void every_ingredient_of_a_backend(void)
{
    char path[700], *code = NULL;
    size_t n = 0;
    graft_err e = GRAFT_ERR_INIT;
    const graft_hash ref = identity_of(GRAFT_LIB_DIR, "ref", 1);
    CHECK(graft_hash_equal(ref, identity_of(GRAFT_LIB_DIR, "ref", 1)));
    CHECK_OK(graft_file_read(GRAFT_LIB_DIR "/graft_kernels_ref.so", 1 << 28, &code, &n, &e), &e);
    for (int changed = 0; changed < 2; changed++) {
        const char *folder = fresh_folder("library");
        snprintf(path, sizeof path, "%s/graft_kernels_ref.so", folder);
        CHECK_OK(graft_dir_make(folder, &e), &e);
        /* The byte behind a library's end that graft_file_read() adds is no code, but it is read.
         */
        CHECK_OK(graft_file_write(path, code, n + (size_t)changed, &e), &e);
        CHECK(graft_hash_equal(ref, identity_of(folder, "ref", 1)) == !changed);
        remove_folder(folder);
    }
    graft_free(code);
    if (!graft_file_exists(GRAFT_LIB_DIR "/graft_kernels_cpu.so")) {
        printf("     skipped: identity of a device: the cpu kernels are not built\n");
        return;
    }
    const graft_hash one = identity_of(GRAFT_LIB_DIR, "cpu", 1);
    CHECK(graft_hash_equal(one, identity_of(GRAFT_LIB_DIR, "cpu", 1)));
    CHECK(!graft_hash_equal(one, ref));
    CHECK(!graft_hash_equal(one, identity_of(GRAFT_LIB_DIR, "cpu", 2))); /* the device says so */
}

static void no_ingredient(void)
{
    graft_backend b = fake_backend("fake 1");
    graft_compile_job job = fake_job(&b), same = job;
    fake_arch arch = usual_arch;
    same.arch = &arch;
    same.use_disk = false;
    same.resident_bytes = 5;
    CHECK(graft_hash_equal(graft_compile_key(&job), graft_compile_key(&same)));
}

/* ------------------------------------------------------------------ memory and disk */

static void memory_then_disk(void)
{
    world w, later;
    fake_reset();
    world_init(&w, NULL);
    graft_compile_job job = fake_job(&w.backend);
    graft_exe *x = get(&w, &job), *again = get(&w, &job);
    CHECK(x == again && x);
    CHECK(stats_of(&w).built == 1 && stats_of(&w).hits == 1 && stats_of(&w).from_disk == 0);
    CHECK(strcmp(x->kind, "fake") == 0);
    CHECK(graft_hash_equal(x->arch, graft_compiled_arch(&usual_arch, sizeof usual_arch)));
    int64_t arena = x->arena_bytes;
    uint64_t weights = x->weight_bytes;
    graft_exe_release(x);
    graft_exe_release(again);
    world_finish(&w, false);
    world_init(&later, w.folder);
    job = fake_job(&later.backend);
    x = get(&later, &job);
    CHECK(stats_of(&later).built == 0 && stats_of(&later).from_disk == 1);
    CHECK(x->arena_bytes == arena && x->weight_bytes == weights && x->graph->n_nodes == 3);
    graft_exe_release(x);
    job.use_disk = false;
    fake_shape wider = {48, GRAFT_F32, 0};
    job.shape = &wider;
    x = get(&later, &job);
    graft_exe_release(x);
    graft_disk_entry *list;
    size_t n;
    CHECK(graft_disk_cache_list(later.disk, true, &list, &n, NULL) == GRAFT_OK && n == 1);
    graft_free(list);
    world_finish(&later, true);
}

/* A whole file whose content makes no sense, under the right key. */
static void nonsense_on_disk(void)
{
    static const char *const texts[] = {"",
                                        "variants",
                                        "variants 3\n0 0 0 \n",
                                        "variants 9\n0 0 0 \ngraft-graph 1\n",
                                        "variants 0\n\ngraft-graph 1\n",
                                        "variants 0\n\ngraft-graph 1\nslot plain [",
                                        "variants 1\n0 \ngraft-graph 2\n",
                                        "variants 99999999999999999999\n0 \ngraft-graph 1\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        world w;
        fake_reset();
        world_init(&w, NULL);
        graft_compile_job job = fake_job(&w.backend);
        graft_disk_cache_write(w.disk, GRAFT_DISK_GRAPH, graft_compile_key(&job), NULL, texts[i],
                               strlen(texts[i]));
        graft_exe *x = get(&w, &job);
        CHECK(x && x->graph->n_nodes == 3);
        CHECK(stats_of(&w).built == 1 && warnings == 1);
        graft_exe_release(x);
        world_finish(&w, false);
        world_init(&w, w.folder); /* and was made anew */
        job = fake_job(&w.backend);
        x = get(&w, &job);
        CHECK(stats_of(&w).from_disk == 1 && warnings == 0);
        graft_exe_release(x);
        world_finish(&w, true);
    }
}

/* Variants that this library has no longer: its own choice is taken. */
static void stale_variants(void)
{
    world w;
    fake_reset();
    fake.variants = 3;
    fake.own = 2;
    world_init(&w, NULL);
    graft_compile_job job = fake_job(&w.backend);
    graft_exe_release(get(&w, &job));
    world_finish(&w, false);
    fake.variants = 1;
    fake.own = 0;
    world_init(&w, w.folder);
    job = fake_job(&w.backend);
    graft_exe *x = get(&w, &job);
    CHECK(x && x->info[0].variant_index == 0 && stats_of(&w).from_disk == 1);
    graft_exe_release(x);
    world_finish(&w, true);
}

/* ------------------------------------------------------------------ other processes */

static const char *race_folder;

/* Another process makes the same graph with another variant and is done first. */
static void other_is_faster(void)
{
    world other;
    fake.own = 2;
    world_init(&other, race_folder);
    graft_compile_job job = fake_job(&other.backend);
    graft_exe *x = get(&other, &job);
    CHECK(stats_of(&other).built == 1 && x->info[0].variant_index == 2);
    graft_exe_release(x);
    graft_compiled_destroy(other.compiled);
    graft_tuner_destroy(other.tuner);
    graft_disk_cache_destroy(other.disk);
    fake.own = 1;
}

/* ... or writes what makes no sense. */
static void other_is_mad(void)
{
    graft_disk_cache *disk = open_cache(race_folder, (uint64_t)1 << 30);
    graft_backend b = fake_backend("fake 1");
    graft_compile_job job = fake_job(&b);
    graft_disk_cache_write(disk, GRAFT_DISK_GRAPH, graft_compile_key(&job), NULL, "mad", 3);
    graft_disk_cache_destroy(disk);
}

static int32_t variant_after(void (*meanwhile)(void), int32_t kept)
{
    world w, later;
    fake_reset();
    fake.variants = 3;
    fake.own = 1;
    world_init(&w, NULL);
    race_folder = w.folder;
    fake.meanwhile = meanwhile;
    graft_compile_job job = fake_job(&w.backend);
    graft_exe *x = get(&w, &job);
    int32_t variant = x ? x->info[0].variant_index : -1;
    graft_exe_release(x);
    world_finish(&w, false);
    world_init(&later, w.folder);
    job = fake_job(&later.backend);
    x = get(&later, &job);
    CHECK(stats_of(&later).from_disk == 1 && x && x->info[0].variant_index == kept);
    graft_exe_release(x);
    world_finish(&later, true);
    return variant;
}

static void the_first_entry_stays(void)
{
    CHECK(variant_after(NULL, 1) == 1);
    CHECK(variant_after(other_is_faster, 2) == 2);
    CHECK(variant_after(other_is_mad, 1) == 1);
}

/* ------------------------------------------------------------------ threads */

enum { THREADS = 8 };
typedef struct caller {
    world *w;
    graft_compile_job job;
    graft_exe *x;
    graft_status st;
} caller;

static void *call(void *arg)
{
    caller *c = arg;
    c->st = graft_compiled_get(c->w->compiled, &c->job, NULL, &c->x, NULL);
    return NULL;
}

static void call_all(world *w, caller c[THREADS])
{
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++) {
        c[i] = (caller){w, fake_job(&w->backend), NULL, GRAFT_OK};
        CHECK(pthread_create(&thread[i], NULL, call, &c[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
}

static void single_flight(void)
{
    world w;
    caller c[THREADS];
    fake_reset();
    fake.prepare_us = 3000;
    world_init(&w, NULL);
    call_all(&w, c);
    for (int i = 0; i < THREADS; i++) CHECK(c[i].st == GRAFT_OK && c[i].x == c[0].x);
    CHECK(atomic_load(&fake.prepares) == 3);
    CHECK(stats_of(&w).built == 1 && stats_of(&w).hits == THREADS - 1);
    for (int i = 0; i < THREADS; i++) graft_exe_release(c[i].x);
    world_finish(&w, true);
}

/* The one that makes it fails: the next in line tries, nobody waits for ever. */
static void failing_flight(void)
{
    world w;
    caller c[THREADS];
    fake_reset();
    fake.variants = 0;
    fake.prepare_us = 1000;
    world_init(&w, NULL);
    call_all(&w, c);
    for (int i = 0; i < THREADS; i++) CHECK(c[i].st == GRAFT_E_UNSUPPORTED && !c[i].x);
    CHECK(stats_of(&w).in_memory == 0);
    fake.variants = 1;
    graft_compile_job job = fake_job(&w.backend);
    graft_exe_release(get(&w, &job));
    world_finish(&w, true);
}

static bool cancel_now(void *ctx)
{
    int *left = ctx;
    return (*left)-- <= 0;
}

static void cancelled(void)
{
    world w;
    fake_reset();
    world_init(&w, NULL);
    graft_compile_job job = fake_job(&w.backend);
    for (int after = 0; after < 3; after++) {
        int left = after;
        graft_exe *x = NULL;
        graft_err e = GRAFT_ERR_INIT;
        const graft_task task = {.ctx = &left, .cancelled = cancel_now};
        CHECK(graft_compiled_get(w.compiled, &job, &task, &x, &e) == GRAFT_E_CANCEL);
        CHECK(!x && strstr(e.text, "cancelled"));
    }
    graft_exe_release(get(&w, &job));
    world_finish(&w, true);
}

static world *waiting_world;

/* Asks for the graph that is being made, with a task that is cancelled after some looks. */
static void wait_for_it(void)
{
    graft_compile_job job = fake_job(&waiting_world->backend);
    graft_exe *x = NULL;
    graft_err e = GRAFT_ERR_INIT;
    int left = 3;
    const graft_task task = {.ctx = &left, .cancelled = cancel_now};
    CHECK(graft_compiled_get(waiting_world->compiled, &job, &task, &x, &e) == GRAFT_E_CANCEL);
    CHECK(!x && strstr(e.text, "cancelled"));
}

static void cancelled_while_waiting(void)
{
    world w;
    fake_reset();
    world_init(&w, NULL);
    waiting_world = &w;
    fake.meanwhile = wait_for_it;
    graft_compile_job job = fake_job(&w.backend);
    graft_exe_release(get(&w, &job));
    CHECK(!fake.meanwhile && stats_of(&w).built == 1 && stats_of(&w).hits == 0);
    world_finish(&w, true);
}

/* ------------------------------------------------------------------ limits */

static void budget(void)
{
    world w;
    fake_reset();
    fake.weights[0] = 600; /* megabytes from small matrices */
    world_init(&w, NULL);
    graft_compile_job job = fake_job(&w.backend);
    graft_exe *x = get(&w, &job);
    int64_t need = x->arena_bytes + (int64_t)x->weight_bytes;
    graft_exe_release(x);
    graft_err e = GRAFT_ERR_INIT;
    char smallest[32];
    int64_t mb = (need + (1 << 20) - 1) >> 20;
    snprintf(smallest, sizeof smallest, "would do is %lld", (long long)mb);
    job.max_bytes = (mb - 1) << 20;
    for (int i = 0; i < 2; i++) { /* the second time from the table */
        e.text[0] = 0;
        CHECK(graft_compiled_get(w.compiled, &job, NULL, &x, &e) == GRAFT_E_LIMIT);
        CHECK(strstr(e.text, smallest) != NULL);
    }
    job.max_bytes = mb << 20; /* what the message says does */
    graft_exe_release(get(&w, &job));
    world_finish(&w, true);
}

/* The table keeps what fits, the longest unused goes; what is in use stays. */
static void eviction(void)
{
    world w;
    graft_err e = GRAFT_ERR_INIT;
    fake_reset();
    world_init(&w, NULL);
    graft_compiled_destroy(w.compiled);
    CHECK_OK(graft_compiled_create(1, NULL, w.tuner, &w.compiled, &e), &e);
    graft_compile_job job = fake_job(&w.backend);
    graft_exe *used = get(&w, &job);
    for (int64_t rows = 1; rows < 6; rows++) {
        fake_shape shape = {rows, GRAFT_F32, 0};
        job.shape = &shape;
        graft_exe_release(get(&w, &job));
    }
    CHECK(stats_of(&w).in_memory <= 2);
    job.shape = &usual_shape;
    graft_exe *again = get(&w, &job);
    CHECK(again == used);
    graft_exe_release(again);
    graft_exe_release(used);
    world_finish(&w, true);
}

static void out_of_memory(void)
{
    graft_alloc_stats before, after;
    int failures = 0;
    fake_reset();
    fake.variants = 2;
    fake.us[0] = 20;
    graft_alloc_stats_get(&before);
    for (int64_t at = 1; at < 400; at += 1 + at / 60) {
        world w;
        graft_exe *x = NULL;
        world_init(&w, NULL);
        graft_compile_job job = fake_job(&w.backend);
        job.tuning = GRAFT_TUNING_FULL;
        graft_alloc_fail_at(at);
        graft_status st = graft_compiled_get(w.compiled, &job, NULL, &x, NULL);
        graft_alloc_fail_at(0);
        CHECK(st == GRAFT_OK || st == GRAFT_E_NOMEM);
        failures += st != GRAFT_OK;
        graft_exe_release(x);
        graft_exe_release(get(&w, &job));
        world_finish(&w, true);
    }
    graft_alloc_stats_get(&after);
    CHECK(before.live_blocks == after.live_blocks);
    CHECK(failures > 10);
}

int main(void)
{
    RUN(every_ingredient);
    RUN(every_byte);
    RUN(every_ingredient_of_a_backend);
    RUN(no_ingredient);
    RUN(memory_then_disk);
    RUN(nonsense_on_disk);
    RUN(stale_variants);
    RUN(the_first_entry_stays);
    RUN(single_flight);
    RUN(failing_flight);
    RUN(cancelled);
    RUN(cancelled_while_waiting);
    RUN(budget);
    RUN(eviction);
    RUN(out_of_memory);
    return test_end();
}
