/* The cache on disk: damage, trouble with the folder, many writers, eviction. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/file.h"
#include "tests/cache/fake.h"

#define LARGE ((uint64_t)1 << 30)

static void put(graft_disk_cache *c, const char *key, const char *text)
{
    graft_disk_cache_write(c, GRAFT_DISK_GRAPH, key_of(key), NULL, text, strlen(text));
}

/* True when the entry holds this text; NULL: when there is none. */
static bool holds(graft_disk_cache *c, const char *key, const char *text)
{
    char *data = NULL;
    size_t n = 0;
    if (graft_disk_cache_read(c, GRAFT_DISK_GRAPH, key_of(key), NULL, &data, &n)) return !text;
    bool same = text && n == strlen(text) && memcmp(data, text, n) == 0 && data[n] == 0;
    graft_free(data);
    return same;
}

static void path_of(const char *folder, const char *key, char out[700])
{
    char hex[33];
    graft_hash_hex(key_of(key), hex);
    snprintf(out, 700, "%s/%s.graft", folder, hex);
}

static size_t count(graft_disk_cache *c, bool verify, size_t *good)
{
    graft_disk_entry *list;
    size_t n, ok = 0;
    CHECK(graft_disk_cache_list(c, verify, &list, &n, NULL) == GRAFT_OK);
    for (size_t i = 0; i < n; i++) ok += list[i].good;
    if (good) *good = ok;
    graft_free(list);
    return n;
}

static void write_and_read(void)
{
    char folder[512];
    snprintf(folder, sizeof folder, "%s", fresh_folder("plain/below"));
    graft_disk_cache *c = open_cache(folder, LARGE);
    CHECK(holds(c, "a", NULL));
    CHECK(!graft_dir_exists(folder)); /* reading makes nothing */
    put(c, "a", "alpha");
    put(c, "b", "");
    put(c, "a", "alpha two");
    CHECK(holds(c, "a", "alpha two"));
    CHECK(holds(c, "b", ""));
    CHECK(holds(c, "c", NULL));
    graft_disk_cache_write(c, GRAFT_DISK_TUNING, key_of("a"), NULL, "times", 5);
    CHECK(holds(c, "a", "alpha two")); /* kinds do not meet */
    CHECK(count(c, true, NULL) == 3);
    size_t removed;
    graft_err e = GRAFT_ERR_INIT;
    char other[700];
    snprintf(other, sizeof other, "%s/notes.graft", folder);
    CHECK_OK(graft_file_write(other, "mine", 4, &e), &e);
    CHECK_OK(graft_disk_cache_clear(c, &removed, &e), &e);
    CHECK(removed == 3 && graft_file_exists(other)); /* other people's files stay */
    CHECK(warnings == 0);
    graft_disk_cache_destroy(c);
    *strstr(folder, "/below") = 0;
    remove_folder(folder);
}

static void expect_rebuilt(graft_disk_cache *c, const char *path, const char *why)
{
    int before = warnings;
    CHECK(holds(c, "a", NULL));
    CHECK(warnings == before + 1 && strstr(last_warning, why));
    if (!strstr(last_warning, why)) fprintf(stderr, "%s: %s\n", why, last_warning);
    CHECK(!graft_file_exists(path));
    put(c, "a", "alpha");
    CHECK(holds(c, "a", "alpha"));
}

static void damage(void)
{
    char path[700], folder[512], *data;
    size_t n, good;
    graft_err e = GRAFT_ERR_INIT;
    snprintf(folder, sizeof folder, "%s", fresh_folder("damage"));
    graft_disk_cache *c = open_cache(folder, LARGE);
    path_of(folder, "a", path);
    put(c, "a", "alpha");
    CHECK_OK(graft_file_read(path, 1 << 20, &data, &n, &e), &e);
    for (size_t cut = 0; cut < n; cut++) { /* every length */
        CHECK_OK(graft_file_write(path, data, cut, &e), &e);
        CHECK(holds(c, "a", NULL));
        CHECK(!graft_file_exists(path));
    }
    for (size_t i = 0; i < n; i++) { /* every byte */
        char was = data[i];
        data[i] = (char)(was ^ 0x10);
        CHECK_OK(graft_file_write(path, data, n, &e), &e);
        bool version = i >= 8 && i < 12;
        CHECK(count(c, true, &good) == 1 && good == version);
        CHECK(graft_disk_cache_old(c, strrchr(path, '/') + 1) == version);
        CHECK(holds(c, "a", NULL));
        data[i] = was;
    }
    CHECK_OK(graft_file_write(path, data, n, &e), &e);
    CHECK(holds(c, "a", "alpha"));
    CHECK_OK(graft_file_write(path, "", 0, &e), &e);
    expect_rebuilt(c, path, "cut short");
    CHECK_OK(graft_file_write(path, data, n - 1, &e), &e);
    expect_rebuilt(c, path, "cut short");
    data[0] = 'X';
    CHECK_OK(graft_file_write(path, data, n, &e), &e);
    expect_rebuilt(c, path, "no cache entry");
    data[0] = 'G';
    data[8]++;
    CHECK_OK(graft_file_write(path, data, n, &e), &e);
    expect_rebuilt(c, path, "another format version");
    data[8]--;
    data[n - 1] ^= 1;
    CHECK_OK(graft_file_write(path, data, n, &e), &e);
    expect_rebuilt(c, path, "damaged");
    graft_free(data);
    char foreign[700];
    path_of(folder, "b", foreign);
    put(c, "b", "beta");
    CHECK(rename(foreign, path) == 0);
    expect_rebuilt(c, path, "another key");
    /* Another entry under this one's key: the checksum knows whose it was. */
    const graft_hash key = key_of("a");
    put(c, "b", "beta");
    CHECK_OK(graft_file_read(foreign, 1 << 20, &data, &n, &e), &e);
    memcpy(data + 16, &key, sizeof key);
    CHECK_OK(graft_file_write(path, data, n, &e), &e);
    graft_free(data);
    expect_rebuilt(c, path, "damaged");
    graft_disk_cache_destroy(c);
    remove_folder(folder);
}

/* ------------------------------------------------------------------ the folder */

static void told_once(graft_disk_cache *c)
{
    for (int i = 0; i < 4; i++) {
        put(c, "a", "alpha");
        CHECK(holds(c, "a", NULL));
    }
    CHECK(warnings == 1 && strstr(last_warning, "going on without it"));
    graft_disk_cache_unlock(graft_disk_cache_lock(c));
    CHECK(warnings == 1);
}

static void unusable_folder(void)
{
    char folder[512], path[700];
    graft_err e = GRAFT_ERR_INIT;
    snprintf(folder, sizeof folder, "%s", fresh_folder("unusable"));
    CHECK_OK(graft_file_write(folder, "a file", 6, &e), &e);
    snprintf(path, sizeof path, "%s/below", folder);
    graft_disk_cache *c = open_cache(path, LARGE);
    told_once(c);
    graft_disk_cache_destroy(c);
    unlink(folder);
    if (geteuid() == 0) {
        c = open_cache("/proc/graft-cache", LARGE); /* root may write everywhere but here */
        told_once(c);
        graft_disk_cache_destroy(c);
        printf("     skipped: folder without permission: running as root\n");
        return;
    }
    CHECK(mkdir(folder, 0700) == 0);
    c = open_cache(folder, LARGE);
    put(c, "b", "beta");
    CHECK(chmod(folder, 0500) == 0);
    told_once(c);
    CHECK(holds(c, "b", "beta")); /* what is there is used */
    graft_disk_cache_destroy(c);
    remove_folder(folder);
}

static void vanished_folder(void)
{
    char folder[512];
    snprintf(folder, sizeof folder, "%s", fresh_folder("vanished"));
    graft_disk_cache *c = open_cache(folder, LARGE);
    put(c, "a", "alpha");
    remove_folder(folder);
    CHECK(holds(c, "a", NULL));
    CHECK(count(c, true, NULL) == 0);
    put(c, "a", "alpha"); /* made again */
    CHECK(holds(c, "a", "alpha"));
    CHECK(warnings == 0);
    graft_disk_cache_destroy(c);
    remove_folder(folder);
}

/* A file-size limit is the full disk that a test may have. */
static void full_disk(void)
{
    char folder[512], text[8192];
    snprintf(folder, sizeof folder, "%s", fresh_folder("full"));
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        const struct rlimit limit = {4096, 4096};
        signal(SIGXFSZ, SIG_IGN);
        graft_disk_cache *c = open_cache(folder, LARGE);
        put(c, "small", "fits");
        int bad = setrlimit(RLIMIT_FSIZE, &limit) != 0;
        for (int i = 0; i < 3; i++) put(c, "large", text);
        bad |= !holds(c, "large", NULL) || !holds(c, "small", "fits") || warnings != 1;
        bad |= count(c, true, NULL) != 1;
        graft_disk_cache_destroy(c);
        _exit(bad);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    CHECK(status == 0);
    char command[700];
    snprintf(command, sizeof command, "test -z \"$(ls -A '%s' | grep tmp)\"", folder);
    CHECK(system(command) == 0); /* no temporary stays */
    remove_folder(folder);
}

/* ------------------------------------------------------------------ processes */

static const char *text_of(int seed, char text[3000])
{
    memset(text, 'a' + seed % 26, 2999);
    text[2999 - seed % 100] = 0;
    return text;
}

static bool whole(const char *text, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (text[i] != text[0]) return false;
    return n >= 2890;
}

/* Writers of one entry: every reading is one of the texts, whole. */
static void two_processes(void)
{
    char folder[512], text[3000];
    snprintf(folder, sizeof folder, "%s", fresh_folder("two"));
    graft_disk_cache *c = open_cache(folder, LARGE);
    put(c, "a", text_of(0, text));
    fflush(NULL);
    pid_t pid[2];
    for (int k = 0; k < 2; k++)
        if ((pid[k] = fork()) == 0) {
            for (int i = 0; i < 150; i++) put(c, "a", text_of(2 * i + k, text));
            _exit(warnings != 0);
        }
    int readings = 0, left = 2, status;
    while (left) {
        char *data;
        size_t n;
        if (graft_disk_cache_read(c, GRAFT_DISK_GRAPH, key_of("a"), NULL, &data, &n) == GRAFT_OK) {
            CHECK(whole(data, n));
            graft_free(data);
            readings++;
        } else {
            CHECK(!"the entry is gone");
        }
        if (waitpid(-1, &status, WNOHANG) > 0) {
            CHECK(status == 0);
            left--;
        }
    }
    CHECK(readings > 10 && warnings == 0);
    graft_disk_cache_destroy(c);
    remove_folder(folder);
}

static void killed_writers(void)
{
    char folder[512], text[3000];
    snprintf(folder, sizeof folder, "%s", fresh_folder("killed"));
    graft_disk_cache *c = open_cache(folder, LARGE);
    put(c, "a", text_of(0, text));
    fflush(NULL);
    for (int round = 0; round < 25; round++) {
        pid_t pid = fork();
        if (pid == 0)
            for (int i = 0;; i++) put(c, "a", text_of(i, text));
        usleep((useconds_t)(200 * round));
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        char *data = NULL;
        size_t n = 0, good;
        CHECK(graft_disk_cache_read(c, GRAFT_DISK_GRAPH, key_of("a"), NULL, &data, &n) == GRAFT_OK);
        CHECK(data && whole(data, n));
        graft_free(data);
        CHECK(count(c, true, &good) == 1 && good == 1);
    }
    CHECK(warnings == 0);
    size_t removed;
    CHECK(graft_disk_cache_clear(c, &removed, NULL) == GRAFT_OK && removed == 1);
    CHECK(rmdir(folder) == 0); /* what the killed ones left is gone too */
    graft_disk_cache_destroy(c);
    remove_folder(folder);
}

/* ------------------------------------------------------------------ eviction */

static void age(const char *folder, const char *key, int64_t seconds)
{
    char path[700];
    path_of(folder, key, path);
    struct timespec t[2] = {{time(NULL) - seconds, 0}, {time(NULL) - seconds, 0}};
    CHECK(utimensat(AT_FDCWD, path, t, 0) == 0);
}

static void eviction(void)
{
    char folder[512], text[3000], name[16];
    snprintf(folder, sizeof folder, "%s", fresh_folder("evict"));
    graft_disk_cache *c = open_cache(folder, 16000); /* five of these */
    graft_disk_cache_write(c, GRAFT_DISK_TUNING, key_of("t"), NULL, "times", 5);
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "k%d", i);
        put(c, name, text_of(0, text));
        age(folder, name, 1000 - i);
    }
    CHECK(count(c, false, NULL) == 6);
    CHECK(holds(c, "k0", text_of(0, text))); /* used: k1 is the oldest now */
    put(c, "k5", text_of(0, text));
    CHECK(holds(c, "k0", text_of(0, text)) && holds(c, "k1", NULL) &&
          holds(c, "k2", text_of(0, text)));
    CHECK(count(c, false, NULL) == 6); /* the timings stay */
    /* The clock jumped back: entries of the future go first, the new one stays. */
    age(folder, "k2", -100000);
    put(c, "k6", text_of(0, text));
    CHECK(holds(c, "k2", NULL) && holds(c, "k6", text_of(0, text)));
    graft_disk_cache_destroy(c);
    c = open_cache(folder, 1); /* too small for anything: the newest stays */
    put(c, "k7", text_of(0, text));
    CHECK(holds(c, "k7", text_of(0, text)) && count(c, false, NULL) == 2);
    graft_disk_cache_destroy(c);
    remove_folder(folder);
}

static void old_leftovers(void)
{
    char folder[512], path[700], fresh[700];
    graft_err e = GRAFT_ERR_INIT;
    snprintf(folder, sizeof folder, "%s", fresh_folder("left"));
    graft_disk_cache *c = open_cache(folder, LARGE);
    put(c, "a", "alpha");
    snprintf(path, sizeof path, "%s/.graft-1-1.tmp", folder);
    snprintf(fresh, sizeof fresh, "%s/.graft-1-2.tmp", folder);
    CHECK_OK(graft_file_write(path, "x", 1, &e), &e);
    CHECK_OK(graft_file_write(fresh, "x", 1, &e), &e);
    struct timespec t[2] = {{time(NULL) - 7200, 0}, {time(NULL) - 7200, 0}};
    CHECK(utimensat(AT_FDCWD, path, t, 0) == 0);
    put(c, "b", "beta");
    CHECK(!graft_file_exists(path) && graft_file_exists(fresh));
    graft_disk_cache_destroy(c);
    remove_folder(folder);
}

static void out_of_memory(void)
{
    char folder[512];
    graft_alloc_stats before, after;
    snprintf(folder, sizeof folder, "%s", fresh_folder("oom"));
    graft_alloc_stats_get(&before);
    for (int64_t at = 1; at < 60; at++) {
        graft_disk_cache *c = NULL;
        graft_disk_entry *list = NULL;
        size_t n = 0;
        graft_alloc_fail_at(at);
        if (graft_disk_cache_create(folder, LARGE, NULL, &c, NULL) == GRAFT_OK) {
            put(c, "a", "alpha");
            if (!holds(c, "a", "alpha")) holds(c, "a", NULL);
            if (!graft_disk_cache_list(c, true, &list, &n, NULL)) graft_free(list);
            graft_disk_cache_clear(c, &n, NULL);
            graft_disk_cache_destroy(c);
        }
        graft_alloc_fail_at(0);
    }
    graft_alloc_stats_get(&after);
    CHECK(before.live_blocks == after.live_blocks);
    remove_folder(folder);
}

int main(void)
{
    RUN(write_and_read);
    RUN(damage);
    RUN(unusable_folder);
    RUN(vanished_folder);
    RUN(full_disk);
    RUN(two_processes);
    RUN(killed_writers);
    RUN(eviction);
    RUN(old_leftovers);
    RUN(out_of_memory);
    return test_end();
}
