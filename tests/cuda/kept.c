/* Plans of NVIDIA's libraries on disk: a second process makes none, what is damaged or of another
 * driver or library is made anew, and a folder that cannot be used stops nobody. Processes are real
 * ones; the libraries are made-up ones, which count what they are asked for. */
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/alloc.h"
#include "base/file.h"
#include "engine/disk/disk.h"
#include "tests/cuda/backend.h"
#include "tests/engine/fixture.h"

typedef struct outcome {
    int made, restored, heuristics, checks_failed, warnings;
    char warning[2][200];
    float out[OUT];
} outcome;

static outcome *shared; /* with the process that runs */
static char folder[300];

static void note_warning(void *ctx, int32_t level, const char *text)
{
    (void)ctx;
    if (level < GRAFT_LOG_WARN) return;
    if (shared->warnings < 2) snprintf(shared->warning[shared->warnings], 200, "%s", text);
    shared->warnings++;
}

static void work(const char *cache, bool no_disk, int threads)
{
    graft_engine_config c = {
        .kernel_dir = GRAFT_LIB_DIR, .backend = "cuda", .threads = threads, .cache_dir = cache};
    graft_engine *g = NULL;
    graft_err e = GRAFT_ERR_INIT;
    c.log.line = note_warning;
    setenv("GRAFT_PRECISION", "bf16", 1);
    CHECK_OK(graft_engine_create(&c, &g, &e), &e);
    if (!g) return;
    graft_model *m = load_model(g, SD1);
    m->options.tuning = GRAFT_TUNING_OFF;
    m->options.no_disk = no_disk;
    run_model(m, shared->out);
    graft_model_release(m);
    graft_engine_destroy(g);
    const fake_cuda_state *fake = fake_driver_state();
    shared->made = fake->plans_made;
    shared->restored = fake->plans_restored;
    shared->heuristics = fake->heuristics;
    CHECK_INT(fake->misuse, 0);
    CHECK_INT(fake->live_objects, 0);
}

/* `variable`: "NAME=value" of the process's environment, or NULL. */
static outcome in_process(const char *cache, bool no_disk, int threads, const char *variable)
{
    memset(shared, 0, sizeof *shared);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        char *copy = variable ? strdup(variable) : NULL;
        if (copy) putenv(copy);
        work(cache, no_disk, threads);
        shared->checks_failed = test_failures;
        fflush(NULL);
        _exit(0);
    }
    int status = -1;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK_INT(status, 0);
    CHECK_INT(shared->checks_failed, 0);
    return *shared;
}

static void empty_folder(void)
{
    char command[400];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    CHECK_INT(system(command), 0);
}

static graft_disk_entry *kept_entries(size_t *n)
{
    graft_disk_cache *c = NULL;
    graft_disk_entry *list = NULL;
    graft_err e = GRAFT_ERR_INIT;
    size_t all = 0;
    *n = 0;
    CHECK_OK(graft_disk_cache_create(folder, 1 << 30, NULL, &c, &e), &e);
    CHECK_OK(graft_disk_cache_list(c, true, &list, &all, &e), &e);
    for (size_t i = 0; i < all; i++)
        if (strstr(list[i].name, ".kept")) list[(*n)++] = list[i];
    graft_disk_cache_destroy(c);
    return list;
}

/* Bytes of every entry that begins like a set of cuDNN's plans are changed, with a right checksum
 * around them (`sound`) or not. Returns how many entries. */
static int spoil_plans(bool sound)
{
    size_t n;
    int spoiled = 0;
    graft_disk_entry *list = kept_entries(&n);
    graft_err e = GRAFT_ERR_INIT;
    for (size_t i = 0; i < n; i++) {
        char path[400], *data = NULL;
        size_t size = 0;
        snprintf(path, sizeof path, "%s/%s", folder, list[i].name);
        CHECK_OK(graft_file_read(path, 1 << 24, &data, &size, &e), &e);
        char *text = memmem(data, size, "fake 9", 6);
        if (text) {
            text[5] = '8';
            spoiled++;
        }
        if (text && sound) { /* the key is in the name: lower half, then upper, as numbers */
            graft_disk_cache *c = NULL;
            graft_hash key;
            memcpy(&key, data + 16, sizeof key); /* behind magic, format and kind */
            size_t head = strlen("GRAFTCG\n") + 8 + 16 + 8 + 16;
            CHECK_OK(graft_disk_cache_create(folder, 1 << 30, NULL, &c, &e), &e);
            graft_disk_cache_write(c, GRAFT_DISK_KEPT, key, NULL, data + head, size - head);
            graft_disk_cache_destroy(c);
        } else if (text) {
            CHECK_OK(graft_file_write(path, data, size, &e), &e);
        }
        graft_free(data);
    }
    graft_free(list);
    return spoiled;
}

/* ------------------------------------------------------------------ tests */

static outcome first;

static void second_process_makes_none(void)
{
    size_t entries;
    empty_folder();
    first = in_process(folder, false, 1, NULL);
    CHECK(first.made > 10 && first.restored == 0 && first.heuristics > 10);
    CHECK_INT(first.warnings, 0);
    graft_disk_entry *list = kept_entries(&entries);
    for (size_t i = 0; i < entries; i++) CHECK(list[i].good);
    graft_free(list);
    CHECK(entries > 10);
    outcome second = in_process(folder, false, 1, NULL);
    CHECK_INT(second.made, 0);
    CHECK_INT(second.heuristics, 0);
    CHECK_INT(second.restored, first.made);
    CHECK_INT(second.warnings, 0);
    CHECK(same_bits(first.out, second.out));
    printf("     %d plans and %d lists of algorithms made, then read from %d entries\n", first.made,
           first.heuristics, (int)entries);
}

static void made_by_threads(void)
{
    empty_folder();
    outcome o = in_process(folder, false, 4, NULL);
    CHECK_INT(o.made, first.made); /* none twice */
    CHECK(same_bits(first.out, o.out));
    o = in_process(folder, false, 4, NULL);
    CHECK_INT(o.made, 0);
    CHECK_INT(o.restored, first.made);
}

static void damage_is_told_and_mended(void)
{
    int spoiled = spoil_plans(false);
    CHECK(spoiled > 3);
    outcome o = in_process(folder, false, 1, NULL);
    CHECK_INT(o.made, first.made);
    CHECK_INT(o.warnings, spoiled); /* a line for each file */
    CHECK(strstr(o.warning[0], "damaged") != NULL);
    CHECK(same_bits(first.out, o.out));
    CHECK_INT(in_process(folder, false, 1, NULL).made, 0);
}

/* The file is sound and says what the library refuses. */
static void refused_plans_are_told_once(void)
{
    CHECK(spoil_plans(true) > 3);
    outcome o = in_process(folder, false, 1, NULL);
    CHECK_INT(o.made, first.made);
    CHECK_INT(o.warnings, 1);
    CHECK(strstr(o.warning[0], "does not take plans") != NULL);
    o = in_process(folder, false, 1, NULL);
    CHECK_INT(o.made, 0);
    CHECK_INT(o.warnings, 0);
}

static void other_versions_have_their_own(void)
{
    static const char *const others[] = {"FAKE_CUDA_VERSION=13010", "FAKE_CUDNN_VERSION=91901"};
    for (int i = 0; i < 2; i++) {
        outcome o = in_process(folder, false, 1, others[i]);
        CHECK_INT(o.made, first.made);
        CHECK_INT(o.restored, 0);
        CHECK_INT(o.heuristics, first.heuristics);
        CHECK_INT(o.warnings, 0);
        o = in_process(folder, false, 1, others[i]);
        CHECK_INT(o.made, 0);
    }
    CHECK_INT(in_process(folder, false, 1, NULL).made, 0); /* those of the first are still there */
}

static void folder_that_cannot_be_used(void)
{
    char below[400];
    graft_err e = GRAFT_ERR_INIT;
    empty_folder();
    CHECK_OK(graft_file_write(folder, "no folder", 9, &e), &e);
    snprintf(below, sizeof below, "%s/cache", folder);
    outcome o = in_process(below, false, 1, NULL);
    CHECK_INT(o.made, first.made);
    CHECK_INT(o.warnings, 1);
    CHECK(same_bits(first.out, o.out));
    unlink(folder);
    if (geteuid() == 0) {
        printf("skipped: a read-only folder: root may write everywhere\n");
        return;
    }
    CHECK_INT(in_process(folder, false, 1, NULL).made, first.made);
    CHECK_INT(chmod(folder, 0500), 0);
    o = in_process(folder, false, 1, NULL);
    CHECK_INT(o.made, 0);
    CHECK_INT(o.warnings, 0);
    o = in_process(folder, false, 1, "FAKE_CUDA_VERSION=13010");
    CHECK_INT(o.made, first.made);
    CHECK_INT(o.warnings, 1);
    CHECK_INT(chmod(folder, 0700), 0);
}

static void without_a_cache_nothing_is_touched(void)
{
    struct stat s;
    empty_folder();
    CHECK_INT(in_process(folder, true, 1, NULL).made, first.made);
    CHECK(stat(folder, &s) != 0);
    CHECK_INT(in_process(folder, false, 1, NULL).made, first.made);
    outcome o = in_process(folder, true, 1, NULL);
    CHECK_INT(o.made, first.made);
    CHECK_INT(o.restored, 0);
    empty_folder();
}

int main(void)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return 1;
    snprintf(folder, sizeof folder, "%s", temp_path("kept"));
    use_fake_driver();
    RUN(second_process_makes_none);
    RUN(made_by_threads);
    RUN(damage_is_told_and_mended);
    RUN(refused_plans_are_told_once);
    RUN(other_versions_have_their_own);
    RUN(folder_that_cannot_be_used);
    RUN(without_a_cache_nothing_is_touched);
    return test_end();
}
