/* Regular expressions and cases of letters against what Python makes of the same texts:
 * tests/nodes/texts.json, by tools/golden_texts.py. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/tree.h"
#include "tests/nodes/fake_host.h"
#include "tests/test.h"

static fake_host host;
static cJSON *golden;

static const char *text_at(const cJSON *row, int i)
{
    return cJSON_GetStringValue(cJSON_GetArrayItem(row, i));
}

static int64_t number_at(const cJSON *row, int i)
{
    int64_t n = 0;
    graft_json_i64(cJSON_GetArrayItem(row, i), &n);
    return n;
}

/* Sets an input by its name. */
static graft_arg *input(const graft_node *n, graft_arg *in, const char *name)
{
    return &in[fake_host_input(n, name)];
}

static graft_status run(const graft_node *n, const graft_arg *in, graft_arg *out, char *text)
{
    text[0] = 0;
    fake_host_clear(&host);
    return fake_host_run(&host, n, in, out, text, 4096);
}

static void check_text(const cJSON *row, const char *got, const char *want)
{
    if (strcmp(got, want) != 0) {
        char *said = graft_json_print(row);
        fprintf(stderr, "%s\n", said);
        graft_free(said);
    }
    CHECK_STR(got, want);
}

static void cases_are_pythons(void)
{
    const graft_node *n = fake_host_node("CaseConverter");
    static const char *const mode[] = {"UPPERCASE", "lowercase", "Capitalize", "Title Case"};
    const cJSON *row;
    graft_arg in[8], out[4];
    char text[4096];
    fake_host_defaults(n, in);
    cJSON_ArrayForEach(row, graft_tree_get(golden, "cases")) for (int i = 0; i < 4; i++)
    {
        input(n, in, "string")->u.s = text_at(row, 0);
        input(n, in, "mode")->u.s = mode[i];
        CHECK_INT(run(n, in, out, text), GRAFT_OK);
        check_text(row, text, text_at(row, 1 + i));
    }
}

static void set_pattern(const graft_node *n, graft_arg *in, const cJSON *row)
{
    fake_host_defaults(n, in);
    input(n, in, "regex_pattern")->u.s = text_at(row, 0);
    input(n, in, "string")->u.s = text_at(row, 1);
    input(n, in, "case_insensitive")->u.i = (number_at(row, 2) & 1) != 0;
    input(n, in, "multiline")->u.i = (number_at(row, 2) & 2) != 0;
    input(n, in, "dotall")->u.i = (number_at(row, 2) & 4) != 0;
}

static void extracts(const cJSON *row, const char *mode, int64_t group, const char *want)
{
    const graft_node *n = fake_host_node("RegexExtract");
    graft_arg in[8], out[4];
    char text[4096];
    set_pattern(n, in, row);
    input(n, in, "mode")->u.s = mode;
    input(n, in, "group_index")->u.i = group;
    CHECK_INT(run(n, in, out, text), GRAFT_OK);
    check_text(row, text, want);
}

/* A pattern that is none finds nothing, and a warning says so. */
static void searches_are_pythons(void)
{
    const graft_node *n = fake_host_node("RegexMatch");
    const cJSON *row;
    int bad = 0, good = 0;
    cJSON_ArrayForEach(row, graft_tree_get(golden, "searches"))
    {
        graft_arg in[8], out[4];
        char text[4096];
        const cJSON *found = cJSON_GetArrayItem(row, 3);
        set_pattern(n, in, row);
        CHECK_INT(run(n, in, out, text), GRAFT_OK);
        if (cJSON_IsNull(found) != (strstr(host.log, "no expression") != NULL))
            fprintf(stderr, "%s: %s\n", text_at(row, 0), host.log);
        CHECK(cJSON_IsNull(found) == (strstr(host.log, "no expression") != NULL));
        CHECK(out[0].kind == GRAFT_BOOL);
        if (out[0].u.i != cJSON_IsTrue(found)) fprintf(stderr, "%s\n", text_at(row, 0));
        CHECK_INT(out[0].u.i, cJSON_IsTrue(found));
        bad += cJSON_IsNull(found);
        if (cJSON_IsNull(found)) {
            extracts(row, "First Match", 1, "");
            continue;
        }
        good++;
        extracts(row, "First Match", 1, text_at(row, 4));
        extracts(row, "All Matches", 1, text_at(row, 5));
        for (int i = 0; i < 3; i++) {
            const cJSON *groups = cJSON_GetArrayItem(row, 6 + i);
            extracts(row, "First Group", i, text_at(groups, 0));
            extracts(row, "All Groups", i, text_at(groups, 1));
        }
        extracts(row, "First Group", 100, "");
    }
    CHECK(bad > 20 && good > 200);
}

static void replacing_is_pythons(void)
{
    const graft_node *n = fake_host_node("RegexReplace");
    const cJSON *row;
    int refused = 0;
    cJSON_ArrayForEach(row, graft_tree_get(golden, "replaced"))
    {
        graft_arg in[8], out[4];
        char text[4096];
        const char *want = text_at(row, 5);
        set_pattern(n, in, row);
        input(n, in, "replace")->u.s = text_at(row, 3);
        input(n, in, "count")->u.i = number_at(row, 4);
        CHECK_INT(run(n, in, out, text), want ? GRAFT_OK : GRAFT_E_FORMAT);
        if (want) check_text(row, text, want);
        if (!want) CHECK_STR(host.fail_input, "replace");
        refused += !want;
    }
    CHECK(refused > 20);
}

/* Neither time nor memory without an end, whatever somebody thinks of. */
static void hostile_patterns_end(void)
{
    static const char *const patterns[] = {"(a+)+$", "(a|aa)+$",         "(a*)*b",
                                           "(.*)*x", "(?:a?){30}a{30}b", "(?R)?a*(?R)b"};
    const graft_node *match = fake_host_node("RegexMatch"), *n = fake_host_node("RegexReplace");
    char text[4096], *large = graft_malloc(200001);
    graft_arg in[8], out[4];
    CHECK(large != NULL);
    memset(large, 'a', 200000);
    strcpy(large + 40, "!");
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        fake_host_defaults(match, in);
        input(match, in, "string")->u.s = large;
        input(match, in, "regex_pattern")->u.s = patterns[i];
        const double before = graft_clock_now();
        const graft_status st = run(match, in, out, text);
        CHECK(st == GRAFT_OK || st == GRAFT_E_LIMIT);
        CHECK(graft_clock_now() - before < 60);
    }
    memset(large, 'a', 200000);
    large[200000] = 0;
    fake_host_defaults(n, in);
    input(n, in, "string")->u.s = input(n, in, "replace")->u.s = large;
    input(n, in, "regex_pattern")->u.s = "a";
    CHECK_INT(run(n, in, out, text), GRAFT_E_LIMIT);
    input(n, in, "string")->u.s = "\xff a";
    CHECK_INT(run(n, in, out, text), GRAFT_E_FORMAT);
    graft_free(large);
}

static void memory_may_end_anywhere(void)
{
    const graft_node *n = fake_host_node("RegexReplace");
    graft_alloc_stats before, after;
    graft_status st = GRAFT_E_NOMEM;
    graft_arg in[8], out[4];
    char text[4096] = "";
    fake_host_defaults(n, in);
    input(n, in, "string")->u.s = "one two three";
    input(n, in, "regex_pattern")->u.s = "(\\w)(\\w+)";
    input(n, in, "replace")->u.s = "\\2\\1";
    graft_alloc_stats_get(&before);
    for (int i = 1; st != GRAFT_OK && i < 2000; i++) {
        graft_alloc_fail_at(i);
        st = fake_host_run(&host, n, in, out, text, sizeof text);
        graft_alloc_fail_at(0);
        CHECK(st == GRAFT_OK || st == GRAFT_E_NOMEM);
    }
    CHECK_INT(st, GRAFT_OK);
    CHECK_STR(text, "neo wot hreet");
    graft_alloc_stats_get(&after);
    CHECK_INT(after.live_blocks, before.live_blocks);
}

int main(void)
{
    graft_err e = GRAFT_ERR_INIT;
    char *text = NULL;
    size_t n = 0;
    if (fake_host_init(&host)) return 1;
    CHECK_INT(graft_plugin_entry.init(&host.host, "/"), GRAFT_OK);
    CHECK_OK(graft_file_read(GRAFT_SOURCE_DIR "/tests/nodes/texts.json", 1 << 22, &text, &n, &e),
             &e);
    if (text) CHECK_OK(graft_json_parse(text, n, "texts.json", &golden, &e), &e);
    graft_free(text);
    if (golden) {
        RUN(cases_are_pythons);
        RUN(searches_are_pythons);
        RUN(replacing_is_pythons);
        RUN(hostile_patterns_end);
        RUN(memory_may_end_anywhere);
    }
    cJSON_Delete(golden);
    graft_plugin_entry.deinit();
    fake_host_finish(&host);
    return test_end();
}
