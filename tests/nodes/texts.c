/* The nodes that change and compare texts do what Python's str does. */
#include <string.h>

#include "base/alloc.h"
#include "tests/nodes/fake_engine.h"
#include "tests/nodes/fake_host.h"
#include "tests/test.h"

static fake_host host;

/* Runs a node on its texts, in their order; choice and numbers for inputs of other kinds. */
static graft_arg run(const char *id, const char *const *texts, const char *choice,
                     const int64_t *numbers, char *text, size_t n_text)
{
    const graft_node *n = fake_host_node(id);
    graft_arg in[24], out[4];
    fake_host_defaults(n, in);
    for (int i = 0; n->inputs[i]; i++) {
        if (n->inputs[i]->kind == GRAFT_STRING) in[i].u.s = *texts++;
        if (n->inputs[i]->kind == GRAFT_CHOICE) in[i].u.s = choice;
        if (n->inputs[i]->kind == GRAFT_INT || n->inputs[i]->kind == GRAFT_BOOL)
            in[i].u.i = *numbers++;
    }
    fake_engine_reset();
    fake_host_clear(&host);
    CHECK_INT(fake_host_run(&host, n, in, out, text, n_text), GRAFT_OK);
    return out[0];
}

static void expect(const char *id, const char *const *texts, const char *choice,
                   const int64_t *numbers, const char *want)
{
    char text[256] = "";
    CHECK(run(id, texts, choice, numbers, text, sizeof text).kind == GRAFT_STRING);
    CHECK_STR(text, want);
}

#define TEXTS(...)   ((const char *const[]){__VA_ARGS__})
#define NUMBERS(...) ((const int64_t[]){__VA_ARGS__})

static void lengths(void)
{
    static const struct {
        const char *text;
        int64_t n;
    } all[] = {{"", 0},          {"abc", 3},         {"a b\n", 4},
               {"\u00fcber", 4}, {"\U0001f431!", 2}, {"\xff\xfe", 2}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        graft_arg n = run("StringLength", TEXTS(all[i].text), NULL, NULL, NULL, 0);
        CHECK(n.kind == GRAFT_INT);
        CHECK_INT(n.u.i, all[i].n);
    }
}

/* The first object of a text that has one; of a name twice the last, as Python's json has it. */
static void json_values(void)
{
    static const struct {
        const char *text, *key, *want;
    } all[] = {{"{\"a\": \"b c\", \"n\": 20}", "a", "b c"},
               {"{\"a\": \"b c\", \"n\": 20}", "n", "20"},
               {"{\"a\": \"b c\", \"n\": 20}", "N", ""},
               {"{\"std\": 1.75, \"mu\": -0.5}", "std", "1.75"},
               {"{\"std\": 1.75, \"mu\": -0.5}", "mu", "-0.5"},
               {"{\"x\": 20.0}", "x", "20.0"},
               {"{\"x\": 18446744073709551615}", "x", "18446744073709551615"},
               {"{\"x\": 1E400, \"y\": -1e999}", "x", "inf"},
               {"{\"x\": 1E400, \"y\": -1e999}", "y", "-inf"},
               {"{\"x\": null, \"y\": true, \"z\": false}", "x", ""},
               {"{\"x\": null, \"y\": true, \"z\": false}", "y", "True"},
               {"{\"x\": null, \"y\": true, \"z\": false}", "z", "False"},
               {"{\"a\": 1, \"a\": 2}", "a", "2"},
               {"{\"a\": [1, {\"b\": \"c\"}]}", "a", "[1,{\"b\":\"c\"}]"},
               {"Sure!\n```json\n{\"prompt\": \"a cat\"}\n```\nEnjoy {it}", "prompt", "a cat"},
               {"{no {\"a\": {\"b\": 1}} {\"b\": 2}", "b", ""},
               {"{\"a\": {\"b\": 3}, oops {\"b\": 4}", "b", "3"},
               {"{\"a\": \"\\u00fc\\n\"}", "a", "\u00fc\n"},
               {"[1, 2]", "a", ""},
               {"no JSON", "a", ""},
               {"{", "a", ""},
               {"", "", ""}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        expect("JsonExtractString", TEXTS(all[i].text, all[i].key), NULL, NULL, all[i].want);
}

static void combos(void)
{
    expect("CustomCombo", TEXTS("Turbo"), NULL, NUMBERS(2), "Turbo");
    char text[64];
    graft_arg in[24], out[4];
    const graft_node *n = fake_host_node("CustomCombo");
    fake_host_defaults(n, in);
    in[0].u.s = "Quality";
    in[1].u.i = 7;
    fake_engine_reset();
    fake_host_clear(&host);
    CHECK_INT(fake_host_run(&host, n, in, out, text, sizeof text), GRAFT_OK);
    CHECK(out[1].kind == GRAFT_INT);
    CHECK_INT(out[1].u.i, 7);
}

static void parts(void)
{
    static const struct {
        int64_t start, end;
        const char *want;
    } all[] = {{0, 3, "abc"},  {1, -1, "bcd"},
               {-2, 5, "de"},  {0, 99, "abcde"},
               {-99, 2, "ab"}, {3, 1, ""},
               {5, 9, ""},     {0, 0, ""},
               {-1, -3, ""},   {INT64_MIN, INT64_MAX, "abcde"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        expect("StringSubstring", TEXTS("abcde"), NULL, NUMBERS(all[i].start, all[i].end),
               all[i].want);
    expect("StringSubstring", TEXTS("\u00e4\u00f6\u00fc\U0001f431"), NULL, NUMBERS(1, -1),
           "\u00f6\u00fc");
    expect("StringSubstring", TEXTS("a\xffz"), NULL, NUMBERS(1, 3), "\xffz");
}

static void trimmed(void)
{
    static const char *const t[] = {" \t\na b\r\n \u3000"};
    expect("StringTrim", t, "Both", NULL, "a b");
    expect("StringTrim", t, "Left", NULL, "a b\r\n \u3000");
    expect("StringTrim", t, "Right", NULL, " \t\na b");
    expect("StringTrim", TEXTS(" \n "), "Both", NULL, "");
    expect("StringTrim", TEXTS(" \n "), "Left", NULL, "");
    expect("StringTrim", TEXTS(" \n "), "Right", NULL, "");
    expect("StringTrim", TEXTS("x"), "Both", NULL, "x");
    expect("StringTrim", TEXTS(""), "Both", NULL, "");
}

static void replaced(void)
{
    expect("StringReplace", TEXTS("a NAME, NAME!", "NAME", "cat"), NULL, NULL, "a cat, cat!");
    expect("StringReplace", TEXTS("aaa", "aa", "b"), NULL, NULL, "ba");
    expect("StringReplace", TEXTS("abc", "x", "y"), NULL, NULL, "abc");
    expect("StringReplace", TEXTS("abc", "abc", ""), NULL, NULL, "");
    expect("StringReplace", TEXTS("Cat cat", "cat", "catcat"), NULL, NULL, "Cat catcat");
    expect("StringReplace", TEXTS("a\u00fc", "", "-"), NULL, NULL, "-a-\u00fc-");
    expect("StringReplace", TEXTS("", "", "-"), NULL, NULL, "-");
}

static bool answer(const char *id, const char *a, const char *b, const char *mode, bool sensitive)
{
    graft_arg r = run(id, TEXTS(a, b), mode, NUMBERS(sensitive), NULL, 0);
    CHECK(r.kind == GRAFT_BOOL);
    return r.u.i != 0;
}

static void contained(void)
{
    CHECK(answer("StringContains", "a red cat", "red", NULL, true));
    CHECK(!answer("StringContains", "a red cat", "Red", NULL, true));
    CHECK(answer("StringContains", "a red cat", "Red", NULL, false));
    CHECK(!answer("StringContains", "a red cat", "blue", NULL, false));
    CHECK(answer("StringContains", "abc", "", NULL, true));
    CHECK(answer("StringContains", "GR\u00dcN", "gr\u00fcn", NULL, false));
}

static void compared(void)
{
    CHECK(answer("StringCompare", "red cat", "red", "Starts With", true));
    CHECK(!answer("StringCompare", "red cat", "cat", "Starts With", true));
    CHECK(answer("StringCompare", "red cat", "cat", "Ends With", true));
    CHECK(!answer("StringCompare", "red cat", "red", "Ends With", true));
    CHECK(!answer("StringCompare", "red cat", "red", "Equal", true));
    CHECK(answer("StringCompare", "red cat", "red cat", "Equal", true));
    CHECK(!answer("StringCompare", "Red Cat", "red cat", "Equal", true));
    CHECK(answer("StringCompare", "Red Cat", "rED", "Starts With", false));
    CHECK(answer("StringCompare", "Red Cat", "CAT", "Ends With", false));
    CHECK(answer("StringCompare", "\u0416", "\u0436", "Equal", false));
}

int main(void)
{
    graft_alloc_stats stats;
    if (fake_host_init(&host)) return 1;
    CHECK_INT(graft_plugin_entry.init(&host.host, "/"), GRAFT_OK);
    RUN(lengths);
    RUN(json_values);
    RUN(combos);
    RUN(parts);
    RUN(trimmed);
    RUN(replaced);
    RUN(contained);
    RUN(compared);
    graft_plugin_entry.deinit();
    fake_host_finish(&host);
    graft_alloc_stats_get(&stats);
    CHECK_INT(stats.live_blocks, 0);
    return test_end();
}
