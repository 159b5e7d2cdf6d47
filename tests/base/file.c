#include "base/file.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tests/test.h"

static char root[64]; /* the folder of this run, removed at the end */

static const char *at(const char *name)
{
    static char path[4][PATH_MAX];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", root, name);
    return path[turn];
}

static void put(const char *name, const char *text)
{
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_file_write(at(name), text, strlen(text), &e), &e);
}

static size_t files_in(const char *folder)
{
    graft_err e = GRAFT_ERR_INIT;
    char **name;
    size_t n;
    CHECK_OK(graft_dir_list(at(folder), NULL, &name, &n, &e), &e);
    graft_names_free(name, n);
    return n;
}

static void reads_what_was_written(void)
{
    graft_err e = GRAFT_ERR_INIT;
    char *text;
    size_t n;
    graft_mapping m;
    put("a", "one");
    put("a", "two, longer");
    CHECK_OK(graft_file_read(at("a"), 100, &text, &n, &e), &e);
    CHECK_STR(text, "two, longer");
    CHECK_INT(n, 11);
    graft_free(text);
    CHECK_OK(graft_file_read(at("a"), 11, &text, &n, &e), &e);
    graft_free(text);
    CHECK_INT(graft_file_read(at("a"), 10, &text, &n, &e), GRAFT_E_LIMIT);
    CHECK(!text);
    CHECK_INT(graft_file_read(at("none"), 10, &text, &n, &e), GRAFT_E_NOTFOUND);
    CHECK_INT(graft_file_read(root, 10, &text, &n, &e), GRAFT_E_IO);
    CHECK_OK(graft_file_read("/proc/self/status", 1 << 20, &text, &n, &e), &e);
    CHECK(n > 500 && strlen(text) == n);
    graft_free(text);
    CHECK_OK(graft_file_map(at("a"), &m, &e), &e);
    unlink(at("a"));
    CHECK(m.size == 11 && memcmp(m.data, "two, longer", 11) == 0);
    graft_file_forget(&m, 0, 1000);
    graft_file_forget(&m, 20, 1);
    CHECK(memcmp(m.data, "two, longer", 11) == 0);
    graft_file_unmap(&m);
    graft_file_unmap(&m);
    graft_file_unmap(NULL);
    put("empty", "");
    CHECK_OK(graft_file_map(at("empty"), &m, &e), &e);
    CHECK(!m.data && !m.size);
    CHECK_INT(graft_file_map(at("none"), &m, &e), GRAFT_E_NOTFOUND);
    CHECK_INT(graft_file_map("/dev/null", &m, &e), GRAFT_E_IO);
    CHECK_INT(mkfifo(at("pipe"), 0600), 0);
    CHECK_INT(graft_file_map(at("pipe"), &m, &e), GRAFT_E_IO);
    CHECK(graft_file_exists(at("empty")) && !graft_file_exists(root) && graft_dir_exists(root));
    CHECK(!graft_file_exists(at("pipe")) && !graft_dir_exists(at("empty")));
    unlink(at("pipe"));
    unlink(at("empty"));
}

/* What has no size until it ends. */
static void reads_streams(void)
{
    graft_err e = GRAFT_ERR_INIT;
    char *text;
    size_t n;
    int fd[2];
    char path[40];
    CHECK(pipe(fd) == 0 && write(fd[1], "piped", 5) == 5 && close(fd[1]) == 0);
    snprintf(path, sizeof path, "/dev/fd/%d", fd[0]);
    CHECK_INT(graft_file_read(path, 100, &text, &n, &e), GRAFT_E_IO);
    CHECK_OK(graft_file_read_stream(path, 100, &text, &n, &e), &e);
    CHECK_STR(text, "piped");
    CHECK_INT(n, 5);
    graft_free(text);
    close(fd[0]);
    put("a", "a file");
    CHECK_OK(graft_file_read_stream(at("a"), 6, &text, &n, &e), &e);
    CHECK_STR(text, "a file");
    graft_free(text);
    CHECK_INT(graft_file_read_stream(at("a"), 5, &text, &n, &e), GRAFT_E_LIMIT);
    CHECK_INT(graft_file_read_stream("/dev/zero", 100000, &text, &n, &e), GRAFT_E_LIMIT);
    CHECK_INT(graft_file_read_stream(at("none"), 10, &text, &n, &e), GRAFT_E_NOTFOUND);
    CHECK_INT(graft_file_read_stream(root, 10, &text, &n, &e), GRAFT_E_IO);
    CHECK(!text && unlink(at("a")) == 0);
}

static void write_new_never_replaces(void)
{
    graft_err e = GRAFT_ERR_INIT;
    char *text;
    size_t n;
    CHECK_OK(graft_file_write_new(at("new"), "first", 5, &e), &e);
    CHECK_INT(graft_file_write_new(at("new"), "second", 6, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "exists") != NULL);
    CHECK_OK(graft_file_read(at("new"), 100, &text, &n, &e), &e);
    CHECK_STR(text, "first");
    graft_free(text);
    CHECK_INT(files_in("."), 1);
    unlink(at("new"));
}

static void failed_write_leaves_nothing(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_alloc_stats before, after;
    char *text, *big = calloc(1, 1 << 20);
    size_t n;
    put("kept", "old");
    struct rlimit was, small = {4096, 4096};
    getrlimit(RLIMIT_FSIZE, &was);
    small.rlim_max = was.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small); /* as a full disk */
    CHECK_INT(graft_file_write(at("kept"), big, 1 << 20, &e), GRAFT_E_IO);
    CHECK_INT(graft_file_write_new(at("fresh"), big, 1 << 20, &e), GRAFT_E_IO);
    setrlimit(RLIMIT_FSIZE, &was);
    CHECK_INT(files_in("."), 1);
    CHECK_INT(graft_file_write(at("no/folder"), "x", 1, &e), GRAFT_E_NOTFOUND);
    mkdir(at("taken"), 0700);
    CHECK(graft_file_write(at("taken"), "x", 1, &e) != GRAFT_OK);
    CHECK_INT(files_in("."), 1);
    rmdir(at("taken"));
    graft_alloc_stats_get(&before);
    for (int i = 1; i < 4; i++) {
        graft_alloc_fail_at(i);
        graft_status st = graft_file_write(at("kept"), "new", 3, &e);
        graft_alloc_fail_at(0);
        CHECK(st == GRAFT_OK || st == GRAFT_E_NOMEM);
    }
    graft_alloc_fail_at(1);
    CHECK_INT(graft_file_read(at("kept"), 100, &text, &n, &e), GRAFT_E_NOMEM);
    graft_alloc_fail_at(0);
    graft_alloc_stats_get(&after);
    CHECK_INT(after.live_blocks, before.live_blocks);
    CHECK_INT(files_in("."), 1);
    unlink(at("kept"));
    free(big);
}

static void *write_often(void *text)
{
    graft_err e = GRAFT_ERR_INIT;
    char page[8192], path[PATH_MAX];
    snprintf(path, sizeof path, "%s/shared", root);
    memset(page, *(char *)text, sizeof page);
    for (int i = 0; i < 60; i++)
        if (graft_file_write(path, page, sizeof page, &e)) return text;
    return NULL;
}

/* Readers see a whole file of one writer, however many write. */
static void writes_are_atomic(void)
{
    pthread_t thread[2];
    char letter[2] = {'a', 'b'}, path[PATH_MAX];
    void *failed;
    snprintf(path, sizeof path, "%s/shared", root);
    for (int i = 0; i < 2; i++) pthread_create(&thread[i], NULL, write_often, &letter[i]);
    for (int i = 0; i < 500; i++) {
        graft_err e = GRAFT_ERR_INIT;
        char *text;
        size_t n, same = 0;
        graft_status st = graft_file_read(path, 1 << 20, &text, &n, &e);
        if (st == GRAFT_E_NOTFOUND) continue;
        CHECK_INT(st, GRAFT_OK);
        if (!text) continue;
        while (same < n && text[same] == text[0]) same++;
        CHECK(n == 8192 && same == n);
        graft_free(text);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(thread[i], &failed);
        CHECK(!failed);
    }
    CHECK_INT(files_in("."), 1);
    unlink(path);
}

static void refused(const char *folder, const char *name)
{
    graft_err e = GRAFT_ERR_INIT;
    char *path = (char *)1;
    graft_status st = graft_path_inside(folder, name, &path, &e);
    if (st == GRAFT_OK) fprintf(stderr, "accepted: %s\n", name);
    CHECK(st != GRAFT_OK && !path && e.text[0]);
}

static void accepted(const char *folder, const char *name)
{
    graft_err e = GRAFT_ERR_INIT;
    char *path = NULL, *wanted = graft_path_join(folder, name);
    CHECK_OK(graft_path_inside(folder, name, &path, &e), &e);
    CHECK_STR(path, wanted);
    graft_free(path), graft_free(wanted);
}

/* Piece by piece: no name before the end, no trace without one. */
static void written_in_pieces(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_file_writer *w = NULL;
    char *text;
    size_t n, before = files_in(".");
    CHECK_OK(graft_file_writer_open(at("pieces"), &w, &e), &e);
    CHECK_OK(graft_file_writer_add(w, "one, ", 5, &e), &e);
    CHECK_OK(graft_file_writer_add(w, "two", 3, &e), &e);
    CHECK(!graft_file_exists(at("pieces")) && graft_file_exists(graft_file_writer_name(w)));
    CHECK_OK(graft_file_writer_commit(w, false, &e), &e);
    CHECK_STR(graft_file_writer_name(w), at("pieces"));
    graft_file_writer_close(w);
    CHECK_OK(graft_file_read(at("pieces"), 100, &text, &n, &e), &e);
    CHECK_STR(text, "one, two");
    graft_free(text);
    CHECK_OK(graft_file_writer_open(at("pieces"), &w, &e), &e);
    CHECK_OK(graft_file_writer_add(w, "three", 5, &e), &e);
    CHECK_INT(graft_file_writer_commit(w, false, &e), GRAFT_E_ARG); /* nothing is replaced */
    CHECK(strstr(e.text, "exists") != NULL);
    graft_file_writer_close(w);
    CHECK_OK(graft_file_writer_open(at("other"), &w, &e), &e);
    graft_file_writer_close(w);
    graft_file_writer_close(NULL);
    CHECK_INT(files_in("."), before + 1);
    CHECK_OK(graft_file_read(at("pieces"), 100, &text, &n, &e), &e);
    CHECK_STR(text, "one, two");
    graft_free(text);
}

static void paths_stay_inside(void)
{
    graft_err e = GRAFT_ERR_INIT;
    char in[PATH_MAX], twin[PATH_MAX], *big = malloc(70001);
    snprintf(in, sizeof in, "%s/in", root);
    snprintf(twin, sizeof twin, "%s/in-other", root);
    CHECK_OK(graft_dir_make(at("in/sub/deep"), &e), &e);
    CHECK_OK(graft_dir_make(twin, &e), &e);
    put("in/file", "x");
    put("in-other/secret", "x");
    put("secret", "x");
    CHECK(symlink("../secret", at("in/out")) == 0 && symlink("..", at("in/up")) == 0);
    CHECK(symlink("../in-other", at("in/twin")) == 0 && symlink("sub", at("in/alias")) == 0);
    CHECK(symlink("../nowhere", at("in/dangling")) == 0 && symlink("loop", at("in/loop")) == 0);
    enum { FIRST_LINK = 18 }; /* in the list below */
    static const char *const bad[] = {
        "",         ".",           "..",       "../secret",  "sub/../../secret",
        "sub/..",   "/etc/passwd", "//etc",    "/",          "sub//file",
        "sub/",     "./file",      "sub/./x",  "..\\secret", "a\\b",
        "a\nb",     "a\x7f",       "\x01",     "out",        "up/secret",
        "up/new",   "twin/secret", "twin/new", "twin",       "up",
        "dangling", "loop",        "loop/x",   "file/x",     "dangling/x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) refused(in, bad[i]);
    static const char *const good[] = {
        "file",   "sub",     "sub/new",    "new/deeper/still", "...", "..a",
        "a..",    ".hidden", "alias/deep", "alias/new",        "a b", "\xc3\xa9/\xe6\xa3\xae.png",
        "C:file", "~"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) accepted(in, good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) { /* the same names, links aside */
        bool link = i >= FIRST_LINK;
        char *path = NULL;
        CHECK((graft_path_below(in, bad[i], &path, &e) == GRAFT_OK) == link && !path == !link);
        graft_free(path);
    }
    for (int n = 250; n <= 70000; n *= 2) {
        memset(big, 'a', 70000);
        big[n] = 0;
        if (n < 256)
            accepted(in, big);
        else
            refused(in, big);
        for (int i = 1; i < n; i += 2) big[i] = '/';
        if (n % 2 == 0) big[n - 1] = 'a';
        if (n > PATH_MAX) refused(in, big);
    }
    refused(at("none"), "file");
    accepted("/", "tmp");
    for (int n = 1; n < 10; n++) {
        char *path = NULL;
        graft_alloc_fail_at(n);
        graft_status st = graft_path_inside(in, "sub/new", &path, &e);
        graft_alloc_fail_at(0);
        CHECK(st == GRAFT_OK ? path != NULL : st == GRAFT_E_NOMEM && !path);
        graft_free(path);
    }
    free(big);
}

static void lists_files(void)
{
    graft_err e = GRAFT_ERR_INIT;
    static const char *const suffix[] = {".sft", ".ckpt", NULL};
    char **name, deep[400] = "list";
    size_t n;
    CHECK_OK(graft_dir_make(at("list/b/c"), &e), &e);
    put("list/z.sft", "");
    put("list/b/c/a.ckpt", "");
    put("list/b/x.sft", "");
    put("list/B.sft", "");
    put("list/other.txt", "");
    CHECK(symlink("..", at("list/b/loop")) == 0 && symlink(".", at("list/b/self")) == 0);
    CHECK(symlink("../../in/file", at("list/b/linked.sft")) == 0);
    CHECK(symlink("nowhere", at("list/broken.sft")) == 0);
    put("list/\xff\xfe.sft", ""); /* no UTF-8, so that nothing could ask for it */
    CHECK_OK(graft_dir_list(at("list"), suffix, &name, &n, &e), &e);
    static const char *const wanted[] = {"B.sft", "b/c/a.ckpt", "b/linked.sft", "b/x.sft", "z.sft"};
    CHECK_INT(n, 5);
    for (size_t i = 0; i < n && i < 5; i++) CHECK_STR(name[i], wanted[i]);
    graft_names_free(name, n);
    CHECK_OK(graft_dir_list(at("none"), suffix, &name, &n, &e), &e);
    CHECK(n == 0 && !name);
    graft_names_free(name, n);
    for (int i = 0; i < 20; i++) {
        strcat(deep, "/d");
        mkdir(at(deep), 0700);
        char file[420];
        snprintf(file, sizeof file, "%s/%d.deep", deep, i);
        put(file, "");
    }
    static const char *const only[] = {".deep", NULL};
    CHECK_OK(graft_dir_list(at("list"), only, &name, &n, &e), &e);
    CHECK_INT(n, 16);
    graft_names_free(name, n);
    graft_alloc_stats before, after;
    graft_alloc_stats_get(&before);
    for (int i = 1; i < 60; i++) {
        graft_alloc_fail_at(i);
        graft_status st = graft_dir_list(at("list"), suffix, &name, &n, &e);
        graft_alloc_fail_at(0);
        CHECK(st == GRAFT_OK || (st == GRAFT_E_NOMEM && !name && !n));
        graft_names_free(name, n);
    }
    graft_alloc_stats_get(&after);
    CHECK_INT(after.live_blocks, before.live_blocks);
}

static void makes_folders(void)
{
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_dir_make(at("m/n/o"), &e), &e);
    CHECK_OK(graft_dir_make(at("m/n/o"), &e), &e);
    CHECK_OK(graft_dir_make(at("m//p/"), &e), &e);
    CHECK(graft_dir_exists(at("m/n/o")) && graft_dir_exists(at("m/p")));
    put("m/file", "");
    CHECK(graft_dir_make(at("m/file"), &e) != GRAFT_OK);
    CHECK(graft_dir_make(at("m/file/x"), &e) != GRAFT_OK);
    CHECK(graft_dir_make("", &e) != GRAFT_OK);
    char *joined = graft_path_join("a/", "b"), *bare = graft_path_join("", "b");
    CHECK_STR(joined, "a/b");
    CHECK_STR(bare, "b");
    graft_free(joined), graft_free(bare);
}

static void names_in_paths(void)
{
    static const char *const cases[][3] = {
        {"a/b/c.x", "c.x", "a/b/d"}, {"c.x", "c.x", "d"}, {"/c.x", "c.x", "/d"}, {"a/", "", "a/d"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *beside = graft_path_beside(cases[i][0], "d");
        CHECK_STR(graft_path_name(cases[i][0]), cases[i][1]);
        CHECK_STR(beside, cases[i][2]);
        graft_free(beside);
    }
}

int main(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(root, sizeof root, "%.40s/graft-test-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(root)) return 1;
    RUN(reads_what_was_written);
    RUN(reads_streams);
    RUN(write_new_never_replaces);
    RUN(failed_write_leaves_nothing);
    RUN(writes_are_atomic);
    RUN(written_in_pieces);
    RUN(paths_stay_inside);
    RUN(lists_files);
    RUN(makes_folders);
    RUN(names_in_paths);
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    CHECK(system(command) == 0);
    return test_end();
}
