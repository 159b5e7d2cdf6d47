#include "plugin/loader.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "plugin/elf.h"
#include "tests/test.h"

typedef struct lines {
    int count[4];
    char last[4][1024];
} lines;

static void keep(void *ctx, int32_t level, const char *text)
{
    lines *l = ctx;
    l->count[level]++;
    snprintf(l->last[level], sizeof l->last[level], "%s", text);
}

static char failed_input[64];
static void on_fail(graft_job *j, graft_status why, const char *input, const char *text)
{
    (void)j, (void)why, (void)text;
    snprintf(failed_input, sizeof failed_input, "%s", input ? input : "");
}
static void on_progress(graft_job *j, uint64_t done, uint64_t total)
{
    (void)j, (void)done, (void)total;
}
static int32_t on_cancelled(graft_job *j)
{
    (void)j;
    return 0;
}
static void on_log(graft_job *j, int32_t level, const char *text)
{
    (void)j, (void)level, (void)text;
}
static void on_preview(graft_job *j, const graft_tensor *t)
{
    (void)j, (void)t;
}
static const void *host_query(const graft_host *h, const char *id)
{
    static const graft_job_api job = {on_progress, on_cancelled, on_log, on_fail, on_preview};
    (void)h;
    return strcmp(id, GRAFT_JOB_ID) == 0 ? &job : NULL;
}
static const graft_host host = {
    sizeof(graft_host), GRAFT_ABI_MAJOR, GRAFT_ABI_MINOR, 0, "test", "1", host_query};

static const char *part(const char *name)
{
    static char path[4][PATH_MAX];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s.so", PARTS, name);
    return path[turn];
}

static graft_registry *new_registry(void)
{
    graft_registry *r = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_registry_create(&host, &r, &e), &e);
    return r;
}

/* Loading fails with this status and a line that names the file and holds `text`. */
static void refused_path(const char *path, graft_status wanted, const char *text)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_registry *r = new_registry();
    graft_status st = graft_registry_load(r, path, NULL, &e);
    if (st != wanted || !strstr(e.text, path) || !strstr(e.text, text))
        fprintf(stderr, "%s: %d: %s\n", path, st, e.text);
    CHECK(st == wanted && strstr(e.text, path) && strstr(e.text, text));
    CHECK(!graft_registry_at(r, 0) && !graft_registry_find(r, "TestNode"));
    CHECK(!strchr(e.text, '\n'));
    graft_registry_destroy(r);
}

static void refused(const char *name, graft_status wanted, const char *text)
{
    refused_path(part(name), wanted, text);
}

static void versions_come_first(void)
{
    unsetenv("GRAFT_TEST_CODE_RAN");
    refused("bad_major", GRAFT_E_UNSUPPORTED, "ABI 2.0, this host speaks 1.0");
    refused("bad_minor", GRAFT_E_UNSUPPORTED, "ABI 1.1, this host speaks 1.0");
    refused("bad_small", GRAFT_E_FORMAT, "bytes, not 56"); /* sanitizers pad it */
    refused("no_symbol", GRAFT_E_FORMAT, "does not export graft_plugin_entry");
    refused("function_entry", GRAFT_E_FORMAT, "not a constant");
    CHECK(!getenv("GRAFT_TEST_CODE_RAN"));
    refused("bad_init", GRAFT_E_DEVICE, "device error");
    CHECK(getenv("GRAFT_TEST_CODE_RAN") != NULL);
}

static void broken_records_are_refused(void)
{
    refused("bad_id", GRAFT_E_FORMAT, "graft_plugin_entry.id is missing");
    refused("bad_no_init", GRAFT_E_FORMAT, "graft_plugin_entry.init is missing");
    refused("bad_node_size", GRAFT_E_FORMAT, "16 bytes");
    refused("bad_node_id", GRAFT_E_FORMAT, "without an id");
    refused("bad_category", GRAFT_E_FORMAT, "node TestNode: no category");
    refused("bad_inputs", GRAFT_E_FORMAT, "node TestNode: no inputs");
    refused("bad_outputs", GRAFT_E_FORMAT, "node TestNode: no outputs");
    refused("bad_create", GRAFT_E_FORMAT, "node TestNode: no create");
    refused("bad_execute", GRAFT_E_FORMAT, "node TestNode: no execute");
    refused("bad_input_size", GRAFT_E_FORMAT, "input 0: a record of 8 bytes");
    refused("bad_output_size", GRAFT_E_FORMAT, "output 0: a record of 4 bytes");
    refused("bad_input_type", GRAFT_E_FORMAT, "input count: no type");
    refused("bad_kind", GRAFT_E_FORMAT, "does not fit type INT");
    refused("bad_choices", GRAFT_E_FORMAT, "input choice: no choices");
    refused("bad_lazy", GRAFT_E_FORMAT, "lazy");
    refused("bad_many", GRAFT_E_FORMAT, "input count: many");
    refused("bad_when", GRAFT_E_FORMAT, "input choice: \"count=1\" is no choice before it");
    refused("bad_series", GRAFT_E_FORMAT, "input count: in a series, but the first");
    refused("bad_endless", GRAFT_E_LIMIT, "more than");
}

static void frozen_plugin_runs(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_registry *r = new_registry();
    CHECK_OK(graft_registry_load(r, part("frozen_v1"), NULL, &e), &e);
    const graft_registry_node *n = graft_registry_find(r, "FrozenAdd");
    CHECK(n && n == graft_registry_at(r, 0) && !graft_registry_at(r, 1));
    CHECK_STR(n->path, part("frozen_v1"));
    CHECK_STR(n->plugin->id, "frozen");
    CHECK_NEAR(GRAFT_FIELD(graft_input, n->node->inputs[0], round), 0.01, 0);
    void *self = NULL;
    graft_arg in[2] = {{GRAFT_FLOAT, 0, {.f = 2.5}}, {GRAFT_INT, 0, {.i = -1}}}, out[2] = {0};
    CHECK_INT(n->node->create(&host, &self), GRAFT_OK);
    CHECK_INT(n->node->execute(self, NULL, in, out), GRAFT_OK);
    CHECK_NEAR(out[0].u.f, 3.5, 0);
    CHECK(out[0].kind == GRAFT_FLOAT && (uint64_t)out[1].u.i == UINT64_MAX);
    in[0].u.f = -1;
    CHECK_INT(n->node->execute(self, NULL, in, out), GRAFT_E_ARG);
    CHECK_STR(failed_input, "value");
    n->node->destroy(self);
    graft_registry_destroy(r);
}

static void nested_registries_count(void)
{
    graft_err e = GRAFT_ERR_INIT;
    lines l = {0};
    const graft_log log = {&l, keep};
    graft_registry *a = new_registry(), *b = new_registry();
    CHECK_OK(graft_registry_load(a, part("frozen_v1"), &log, &e), &e);
    const graft_plugin *p = graft_registry_at(a, 0)->plugin;
    const int *inits = p->query("frozen.inits/1");
    CHECK_INT(*inits, 1);
    CHECK_OK(graft_registry_load(b, part("frozen_v1"), &log, &e), &e);
    CHECK_INT(*inits, 2);
    CHECK_OK(graft_registry_load(a, part("frozen_v1"), &log, &e), &e);
    CHECK_INT(*inits, 3);
    CHECK_INT(l.count[GRAFT_LOG_WARN], 1);
    CHECK(strstr(l.last[GRAFT_LOG_WARN], "FrozenAdd is skipped") != NULL);
    CHECK(graft_registry_at(a, 0) && !graft_registry_at(a, 1));
    graft_registry_destroy(a);
    CHECK_INT(*inits, 1);
    CHECK(p->node(0) != NULL);
    graft_registry_destroy(b);
    CHECK_INT(*inits, 0);
    graft_registry_destroy(NULL);
}

static void folder_takes_the_good_ones(void)
{
    graft_err e = GRAFT_ERR_INIT;
    lines l = {0};
    const graft_log log = {&l, keep};
    char dir[] = "/tmp/graft-plugins-XXXXXX", path[PATH_MAX];
    size_t n = 99;
    graft_registry *r = new_registry();
    CHECK(mkdtemp(dir) != NULL);
    static const char *const links[][2] = {{"frozen_v1", "b.so"},
                                           {"template", "a.so"},
                                           {"bad_major", "c.so"},
                                           {"bad_init", "d.so"},
                                           {"bad_init", "graft_kernels_x.so"},
                                           {"bad_init", "e.txt"}};
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, links[i][1]);
        CHECK_INT(symlink(part(links[i][0]), path), 0);
    }
    snprintf(path, sizeof path, "%s/f.so", dir);
    CHECK_OK(graft_file_write(path, "text", 4, &e), &e);
    CHECK_OK(graft_registry_load_folder(r, dir, &log, &n, &e), &e);
    CHECK_INT(n, 2);
    CHECK_INT(l.count[GRAFT_LOG_ERROR], 3);
    CHECK_STR(graft_registry_at(r, 0)->node->id, "TemplateRepeatText");
    CHECK_STR(graft_registry_at(r, 1)->node->id, "FrozenAdd");
    CHECK_OK(graft_registry_load_folder(r, "/nonexistent", &log, &n, &e), &e);
    CHECK_INT(n, 0);
    graft_registry_destroy(r);
    char command[PATH_MAX];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    CHECK_INT(system(command), 0);
}

/* Files that are no plugins, among them a good one cut at many places and with bytes changed: each
 * is refused before the system's loader sees it, or is read without harm. */
static void survives_damaged_files(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_mapping m;
    char path[] = "/tmp/graft-damaged-XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    refused_path(path, GRAFT_E_FORMAT, "not a shared object");
    refused_path("/nonexistent/x.so", GRAFT_E_NOTFOUND, "cannot open");
    refused_path("/tmp", GRAFT_E_IO, "not a regular file");
    CHECK_OK(graft_file_map(part("frozen_v1"), &m, &e), &e);
    for (size_t n = 1; n < m.size; n += 1 + n / 8) {
        graft_elf f;
        graft_elf_symbol s;
        CHECK_OK(graft_file_write(path, m.data, n, &e), &e);
        if (graft_elf_init(&f, path, &e) != GRAFT_OK) continue;
        graft_elf_find(&f, "no such symbol", &s);
        graft_elf_finish(&f);
    }
    uint8_t *copy = malloc(m.size);
    uint32_t x = 1;
    for (int i = 0; i < 400; i++) {
        graft_elf f;
        graft_elf_symbol s;
        memcpy(copy, m.data, m.size);
        for (int k = 0; k < 3; k++) {
            x = x * 1664525u + 1013904223u;
            copy[x % (m.size < 1500 ? m.size : 1500)] = (uint8_t)(x >> 24);
        }
        CHECK_OK(graft_file_write(path, copy, m.size, &e), &e);
        if (graft_elf_init(&f, path, &e) != GRAFT_OK) continue;
        if (graft_elf_find(&f, GRAFT_PLUGIN_SYMBOL, &s)) graft_elf_bytes(&f, s.address, s.size);
        graft_elf_find(&f, "no such symbol", &s);
        graft_elf_finish(&f);
    }
    CHECK_OK(graft_file_write(path, m.data, 700, &e), &e);
    refused_path(path, GRAFT_E_FORMAT, "cut short");
    CHECK_OK(graft_file_write(path, m.data, m.size / 2, &e), &e);
    refused_path(path, GRAFT_E_FORMAT, "");
    graft_file_unmap(&m);
    free(copy);
    unlink(path);
}

static void survives_no_memory(void)
{
    graft_alloc_stats before, after;
    graft_alloc_stats_get(&before);
    int failures = 0;
    for (int n = 1; n < 40; n++) {
        graft_err e = GRAFT_ERR_INIT;
        graft_registry *r = NULL;
        graft_alloc_fail_at(n);
        graft_status st = graft_registry_create(&host, &r, &e);
        if (st == GRAFT_OK) st = graft_registry_load(r, part("frozen_v1"), NULL, &e);
        graft_alloc_fail_at(0);
        CHECK(st == GRAFT_OK || st == GRAFT_E_NOMEM);
        if (r) CHECK((graft_registry_find(r, "FrozenAdd") != NULL) == (st == GRAFT_OK));
        failures += st != GRAFT_OK;
        graft_registry_destroy(r);
    }
    graft_alloc_stats_get(&after);
    CHECK(failures >= 6);
    CHECK_INT(after.live_blocks, before.live_blocks);
}

static void checked(const char *name, graft_status wanted, const char *text)
{
    graft_err e = GRAFT_ERR_INIT;
    lines l = {0};
    const graft_log log = {&l, keep};
    graft_status st = graft_plugin_check(part(name), &host, &log, &e);
    if (st != wanted || (st != GRAFT_OK && !strstr(l.last[3], text) && !strstr(e.text, text)))
        fprintf(stderr, "%s: %d: %s: %s\n", name, st, e.text, l.last[3]);
    CHECK_INT(st, wanted);
    CHECK((st != GRAFT_OK) == (e.text[0] != 0));
    CHECK(st == GRAFT_OK || strstr(l.last[3], text) || strstr(e.text, text));
    if (st == GRAFT_OK) CHECK_INT(l.count[3] + l.count[2], 0);
}

static void check_finds(void)
{
    checked("frozen_v1", GRAFT_OK, "");
    checked("template", GRAFT_OK, "");
    checked("two_symbols", GRAFT_E_FORMAT, "exports test_helper");
    checked("bad_twice", GRAFT_E_FORMAT, "two nodes have this id");
    checked("bad_range", GRAFT_E_FORMAT, "min is above max");
    checked("bad_initial", GRAFT_E_FORMAT, "outside 0 to 9");
    checked("bad_choices", GRAFT_E_FORMAT, "no choices");
    checked("bad_kind", GRAFT_E_FORMAT, "does not fit");
    checked("bad_text", GRAFT_E_FORMAT, "description is not UTF-8");
    checked("bad_init", GRAFT_E_FORMAT, "init() failed");
    checked("bad_major", GRAFT_E_UNSUPPORTED, "ABI 2.0");
    checked("no_symbol", GRAFT_E_FORMAT, "does not export");
}

static void check_warns(void)
{
    graft_err e = GRAFT_ERR_INIT;
    lines l = {0};
    const graft_log log = {&l, keep};
    CHECK_OK(graft_plugin_check(part("bad_shared_self"), &host, &log, &e), &e);
    CHECK(l.count[GRAFT_LOG_WARN] == 1 && strstr(l.last[GRAFT_LOG_WARN], "share one"));
}

int main(void)
{
    RUN(versions_come_first);
    RUN(broken_records_are_refused);
    RUN(frozen_plugin_runs);
    RUN(nested_registries_count);
    RUN(folder_takes_the_good_ones);
    RUN(survives_damaged_files);
    RUN(survives_no_memory);
    RUN(check_finds);
    RUN(check_warns);
    return test_end();
}
