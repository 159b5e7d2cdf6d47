/* Weights that the machine's memory has no room for lie in files (engine/exec/spill.h): whatever
 * the limit, results have the bits that they have without one, no more memory is taken, and no file
 * is left. */
#include <dirent.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "engine/exec/spill.h"
#include "tests/engine/fixture.h"

static const char *folder;

static graft_engine *engine_of(uint64_t limit)
{
    const graft_engine_config c = {
        .kernel_dir = GRAFT_LIB_DIR, .backend = "cpu", .threads = 2, .cache_dir = folder};
    graft_engine *g = NULL;
    graft_err e = GRAFT_ERR_INIT;
    setenv("GRAFT_PRECISION", "f32", 1);
    CHECK_OK(graft_engine_create(&c, &g, &e), &e);
    g->max_bytes = limit;
    return g;
}

static graft_status bind_demo(const graft_model *m, graft_binding **out, graft_err *e)
{
    return graft_model_bind(m, 1, SIDE, SIDE, TOKENS, NULL, out, e);
}

static void run_demo(const graft_binding *b, const graft_engine *g, float out[OUT])
{
    static float x[OUT], context[TOKENS * 1024], t = 500;
    graft_err e = GRAFT_ERR_INIT;
    for (int i = 0; i < OUT; i++) x[i] = fixed_value((uint64_t)i);
    for (int i = 0; i < TOKENS * 1024; i++) context[i] = fixed_value((uint64_t)(OUT + i));
    CHECK_OK(graft_exe_run(b, g->arenas, (const void *[]){x, &t, context, NULL}, (void *[]){out},
                           NULL, NULL, &e),
             &e);
}

static int files_in(const char *path)
{
    int n = 0;
    DIR *d = opendir(path);
    for (struct dirent *f; d && (f = readdir(d));) n += strncmp(f->d_name, "spill-", 6) == 0;
    if (d) closedir(d);
    return n;
}

static uint64_t held(const graft_engine *g)
{
    graft_packs_stats packs;
    graft_packs_stats_get(g->packs, &packs);
    return packs.bytes + graft_arenas_bytes(g->arenas);
}

/* Pages of packs that lie in files, which are the process's now. */
static size_t mapped_now(const graft_binding *b)
{
    size_t bytes = 0;
    for (size_t i = 0; i < b->exe->n_uses; i++) {
        if (!b->offload || !b->offload->away[i]) continue;
        FILE *f = fopen("/proc/self/smaps", "r");
        char line[512], start[32];
        bool here = false;
        snprintf(start, sizeof start, "%llx-",
                 (unsigned long long)(uintptr_t)graft_pack_data(b->pack[i]));
        while (f && fgets(line, sizeof line, f)) {
            size_t kib;
            if (strncmp(line, start, strlen(start)) == 0) here = true;
            if (here && sscanf(line, "Rss: %zu kB", &kib) == 1) {
                bytes += kib << 10;
                break;
            }
        }
        CHECK(f && here);
        if (f) fclose(f);
    }
    return bytes;
}

/* machine: not a limit, but all that the machine has. */
static void within(uint64_t limit, bool machine, const float want[OUT])
{
    graft_engine *g = engine_of(machine ? 0 : limit);
    graft_model *m = load_model(g, DEMO);
    graft_backend *cpu = NULL;
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float out[OUT];
    CHECK_OK(graft_backends_get(&g->backends, "cpu", &cpu, &e), &e);
    if (machine) cpu->info.memory_total = limit;
    CHECK_OK(bind_demo(m, &b, &e), &e);
    CHECK(b->offload && b->offload->bytes > 0);
    for (int i = 0; i < 2; i++) {
        run_demo(b, g, out);
        CHECK(same_bits(out, want));
        CHECK_INT(mapped_now(b), 0);
    }
    CHECK(held(g) <= limit);
    CHECK_INT(files_in(folder), 0);
    graft_binding_release(b);
    graft_model_release(m);
    graft_engine_destroy(g);
}

static void any_limit(void)
{
    graft_engine *g = engine_of(0);
    graft_model *m = load_model(g, DEMO);
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float want[OUT];
    CHECK_OK(bind_demo(m, &b, &e), &e);
    run_demo(b, g, want);
    CHECK(!b->offload);
    const uint64_t arena = (uint64_t)b->exe->arena_bytes, all = arena + b->exe->weight_bytes;
    const uint64_t least = arena + graft_offload_least(b->exe);
    printf("     %llu KiB, %llu at least\n", (unsigned long long)all >> 10,
           (unsigned long long)least >> 10);
    CHECK(least < all);
    graft_binding_release(b);
    for (int i = 0; i <= 4; i++) within(least + (all - 1 - least) * (uint64_t)i / 4, false, want);
    within(least, true, want);
    within(all - 1, true, want);
    g->max_bytes = least - 1;
    CHECK_INT(bind_demo(m, &b, &e), GRAFT_E_LIMIT);
    g->max_bytes = all - 1;
    g->offload = false;
    CHECK_INT(bind_demo(m, &b, &e), GRAFT_E_LIMIT);
    graft_model_release(m);
    graft_engine_destroy(g);
    g = make_engine_threads("cpu", 2); /* without a folder */
    g->max_bytes = all - 1;
    m = load_model(g, DEMO);
    CHECK_INT(bind_demo(m, &b, &e), GRAFT_E_LIMIT);
    graft_model_release(m);
    graft_engine_destroy(g);
}

static graft_engine *engine_at(const char *cache, char why[1100], graft_status *st)
{
    const graft_engine_config c = {
        .kernel_dir = GRAFT_LIB_DIR, .backend = "cpu", .threads = 2, .cache_dir = cache};
    graft_engine *g = NULL;
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_engine_create(&c, &g, &e), &e);
    graft_model *m = load_model(g, DEMO);
    CHECK_OK(bind_demo(m, &b, &e), &e);
    g->max_bytes = b->exe->weight_bytes;
    graft_binding_release(b);
    *st = bind_demo(m, &b, &e);
    snprintf(why, 1100, "%s", e.text);
    graft_model_release(m);
    return g;
}

/* A folder in memory is as none; one in which no file can be made is told. */
static void other_folders(void)
{
    char why[1100];
    graft_status st;
    CHECK(graft_spill_helps(folder) && graft_spill_helps("relative") && graft_spill_helps("/"));
    CHECK(!graft_spill_helps("/dev/null/below"));
    graft_engine_destroy(engine_at("/proc/nowhere", why, &st));
    CHECK_INT(st, GRAFT_E_NOMEM);
    CHECK(strstr(why, "cannot lie in /proc/nowhere: No such file") != NULL);
    if (access("/dev/shm", W_OK) != 0) {
        printf("     skipped: there is no /dev/shm\n");
        return;
    }
    CHECK(!graft_spill_helps("/dev/shm") && !graft_spill_helps("/dev/shm/not/there"));
    graft_engine_destroy(engine_at("/dev/shm/graft-not-there", why, &st));
    CHECK_INT(st, GRAFT_E_LIMIT);
    CHECK(strstr(why, "the smallest GRAFT_MEMORY_MB that would do is ") != NULL);
    graft_engine *g = engine_at("/dev/shm/graft-not-there", why, &st);
    uint64_t entries;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_cache_clear(g, &entries, &e), &e);
    graft_engine_destroy(g);
    rmdir("/dev/shm/graft-not-there");
}

static void memory_in_files(void)
{
    const uint64_t bytes = (uint64_t)3 << 20;
    uint8_t *p = graft_spill_alloc(folder, bytes);
    CHECK(p != NULL);
    if (!p) return;
    CHECK(p[0] == 0 && p[bytes - 1] == 0);
    for (uint64_t i = 0; i < bytes; i++) p[i] = (uint8_t)(i * 7);
    graft_spill_done(p, bytes);
    graft_spill_soon(p, bytes);
    bool same = true;
    for (uint64_t i = 0; i < bytes; i++) same &= p[i] == (uint8_t)(i * 7);
    CHECK(same);
    CHECK_INT(files_in(folder), 0);
    graft_spill_free(p, bytes);
    graft_spill_free(NULL, 0);
    CHECK(graft_spill_alloc(folder, (uint64_t)1 << 60) == NULL); /* no disk has it */
    CHECK(graft_spill_alloc("/proc", 1) == NULL);
}

int main(void)
{
    folder = temp_path("spill");
    memory_in_files();
    any_limit();
    other_folders();
    graft_engine *g = engine_of(0);
    graft_err e = GRAFT_ERR_INIT;
    uint64_t entries;
    CHECK_OK(graft_cache_clear(g, &entries, &e), &e);
    graft_engine_destroy(g);
    CHECK_INT(rmdir(folder), 0); /* nothing else was in it */
    return test_end();
}
