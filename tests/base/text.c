/* str, map, hash, error and log: what holds and names text. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/map.h"
#include "base/str.h"
#include "tests/locale.h"
#include "tests/test.h"

static int64_t live(void)
{
    graft_alloc_stats s;
    graft_alloc_stats_get(&s);
    return s.live_blocks;
}

static void str_builds(void)
{
    graft_str s = GRAFT_STR_INIT;
    for (int i = 0; i < 100; i++) graft_str_printf(&s, "%d,", i);
    graft_str_append(&s, "\0x", 2);
    CHECK_INT(s.len, 292);
    char *text = graft_str_take(&s);
    CHECK(text && graft_str_starts(text, "0,1,2,") && graft_str_ends(text, "98,99,"));
    CHECK(!s.data && !s.len);
    graft_free(text);
    text = graft_str_take(&s);
    CHECK_STR(text, "");
    graft_free(text);
    graft_str_json(&s, "a\"b\\c\n\t\x01/\xc3\xa9");
    CHECK_STR(s.data, "\"a\\\"b\\\\c\\n\\u0009\\u0001/\xc3\xa9\"");
    graft_str_finish(&s);
    graft_str_json(&s, "\xc3\xa9\xe9\xf0\x9f\"\xc3"); /* one character, and pieces of three */
    CHECK_STR(s.data, "\"\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\\\"\xef\xbf\xbd\"");
    graft_str_finish(&s);
    CHECK(!graft_str_starts("ab", "abc") && !graft_str_ends("ab", "cab"));
    CHECK(graft_str_starts("ab", "") && graft_str_ends("ab", ""));
}

/* Messages are UTF-8 wherever they were cut. */
static void messages_are_text(void)
{
    graft_err e = GRAFT_ERR_INIT;
    char name[1200];
    for (size_t shift = 0; shift < 4; shift++) {
        memset(name, 'x', shift);
        for (size_t i = shift; i + 4 < sizeof name; i += 4) memcpy(name + i, "\xf0\x9f\x8c\xb3", 5);
        CHECK_INT(graft_fail(&e, GRAFT_E_IO, "%.201s: %s", name, name), GRAFT_E_IO);
        CHECK(graft_str_is_utf8(e.text, strlen(e.text)) && strlen(e.text) > 900);
        CHECK_INT(graft_err_prefix(&e, GRAFT_E_ARG, "%.30s", name), GRAFT_E_ARG);
        CHECK(graft_str_is_utf8(e.text, strlen(e.text)));
    }
    graft_fail(&e, GRAFT_E_IO, "a\xff\xfe\xc3\xa9\x80");
    CHECK_STR(e.text, "a?\xc3\xa9?");
}

/* What is written is read by other programs, and by this one in another locale. */
static void numbers_have_a_point(void)
{
    graft_str s = GRAFT_STR_INIT;
    char *end;
    CHECK_NEAR(graft_str_to_double("1.25e1x", &end), 12.5, 0);
    CHECK_STR(end, "x");
    if (locale_begin()) {
        char text[16];
        snprintf(text, sizeof text, "%.1f", 0.5);
        CHECK_STR(text, "0,5");
        graft_str_printf(&s, "%.9g %a %s", 0.5, 1.5, text);
        CHECK_STR(s.data, "0.5 0x1.8p+0 0,5");
        CHECK_NEAR(graft_str_to_double("2.5", &end), 2.5, 0);
        CHECK_STR(end, "");
        CHECK_NEAR(graft_str_to_double("0x1.8p+0", &end), 1.5, 0);
        CHECK_NEAR(graft_str_to_double("2,5", &end), 2, 0);
        snprintf(text, sizeof text, "%.1f", 0.5); /* the caller's locale is as it was */
        CHECK_STR(text, "0,5");
    }
    locale_end();
    graft_str_finish(&s);
}

static void str_remembers_failure(void)
{
    int64_t before = live();
    for (int n = 1; n < 6; n++) {
        graft_str s = GRAFT_STR_INIT;
        graft_alloc_fail_at(n);
        for (int i = 0; i < 40; i++) graft_str_printf(&s, "number %d", i);
        graft_alloc_fail_at(0);
        graft_str_puts(&s, "more");
        CHECK(s.failed);
        CHECK(!graft_str_take(&s));
        CHECK(!s.failed);
    }
    CHECK_INT(live(), before);
}

static void map_keeps(void)
{
    graft_map m = GRAFT_MAP_INIT;
    char key[24];
    static int values[3000];
    CHECK(!graft_map_get(&m, "x") && !graft_map_has(&m, "x"));
    for (int i = 0; i < 3000; i++) {
        snprintf(key, sizeof key, "key %d", i);
        CHECK(graft_map_put(&m, key, &values[i]) == 0);
    }
    CHECK(graft_map_put(&m, "key 7", NULL) == 0);
    CHECK(graft_map_has(&m, "key 7") && !graft_map_get(&m, "key 7"));
    CHECK_INT(m.count, 3000);
    for (int i = 8; i < 3000; i++) {
        snprintf(key, sizeof key, "key %d", i);
        CHECK(graft_map_get(&m, key) == &values[i]);
    }
    CHECK(!graft_map_has(&m, "key 3000") && !graft_map_has(&m, ""));
    size_t pos = 0, seen = 0;
    while (graft_map_next(&m, &pos)) seen++;
    CHECK_INT(seen, 3000);
    graft_map_finish(&m);
    graft_map_finish(&m);
}

static void map_survives_failure(void)
{
    int64_t before = live();
    for (int n = 1; n < 80; n++) {
        graft_map m = GRAFT_MAP_INIT;
        char key[24];
        size_t put = 0;
        graft_alloc_fail_at(n);
        for (int i = 0; i < 60; i++) {
            snprintf(key, sizeof key, "%d", i);
            if (graft_map_put(&m, key, &m) == 0) put++;
        }
        graft_alloc_fail_at(0);
        CHECK(m.count == put && put >= 59);
        graft_map_finish(&m);
    }
    CHECK_INT(live(), before);
}

static void hash_is_xxh3(void)
{
    char hex[33];
    /* The empty input's XXH3-128, as `xxhsum -H128` prints it. */
    graft_hash_hex(graft_hash128("", 0), hex);
    CHECK_STR(hex, "99aa06d3014798d86001c324468d497f");
    CHECK(graft_hash64("", 0) == 0x2d06800538d394c2ull);
    graft_hash zero = {0, 0};
    graft_hash ab = graft_hash_mix(graft_hash_mix(zero, "a", 1), "b", 1);
    CHECK(!graft_hash_equal(ab, graft_hash_mix(graft_hash_mix(zero, "b", 1), "a", 1)));
    CHECK(!graft_hash_equal(ab, graft_hash_mix(zero, "ab", 2)));
    CHECK(!graft_hash_equal(ab, graft_hash_mix(graft_hash_mix(zero, "ab", 2), "", 0)));
    CHECK(graft_hash_equal(ab, graft_hash_mix(graft_hash_mix(zero, "a", 1), "b", 1)));
}

static void errors_say(void)
{
    graft_err e = GRAFT_ERR_INIT;
    CHECK_INT(graft_fail(&e, GRAFT_E_IO, "%s is %d", "this", 3), GRAFT_E_IO);
    CHECK_STR(e.text, "this is 3");
    graft_err_prefix(&e, GRAFT_E_FORMAT, "file %s", "x");
    CHECK_STR(e.text, "file x: this is 3");
    CHECK_INT(e.code, GRAFT_E_FORMAT);
    CHECK_INT(graft_fail(NULL, GRAFT_E_ARG, "nobody reads this"), GRAFT_E_ARG);
    char *big = malloc(5001);
    memset(big, 'a', 5000);
    big[5000] = 0;
    graft_fail(&e, GRAFT_E_ARG, "%s", big);
    CHECK_INT(strlen(e.text), sizeof e.text - 1);
    graft_err_prefix(&e, GRAFT_E_ARG, "%s", big);
    graft_err_prefix(&e, GRAFT_E_ARG, "p");
    CHECK(strlen(e.text) < sizeof e.text);
    free(big);
    CHECK_STR(graft_status_text(GRAFT_E_LIMIT), "over a limit");
    CHECK_STR(graft_status_text(-999), "unknown error");
    CHECK_STR(graft_status_text(5), "unknown error");
}

static void keep_line(void *ctx, int32_t level, const char *text)
{
    snprintf(ctx, 100, "%d %s", level, text);
}

static void log_lines(void)
{
    char got[100] = "";
    const graft_log log = {got, keep_line}, silent = {NULL, NULL};
    graft_log_printf(&log, GRAFT_LOG_WARN, "%s!", "hot");
    CHECK_STR(got, "2 hot!");
    graft_log_printf(&silent, GRAFT_LOG_WARN, "x");
    graft_log_printf(NULL, GRAFT_LOG_WARN, "x");
}

int main(void)
{
    RUN(str_builds);
    RUN(messages_are_text);
    RUN(numbers_have_a_point);
    RUN(str_remembers_failure);
    RUN(map_keeps);
    RUN(map_survives_failure);
    RUN(hash_is_xxh3);
    RUN(errors_say);
    RUN(log_lines);
    return test_end();
}
