#include "base/json.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "tests/locale.h"
#include "tests/test.h"

static cJSON *parse(const char *text)
{
    graft_err e = GRAFT_ERR_INIT;
    cJSON *item;
    CHECK_OK(graft_json_parse(text, strlen(text), "test", &item, &e), &e);
    return item;
}

/* The text that printing gives back. */
static void prints(const char *text, const char *wanted)
{
    cJSON *item = parse(text);
    char *got = item ? graft_json_print(item) : NULL;
    CHECK_STR(got, wanted);
    graft_free(got);
    cJSON_Delete(item);
}

static void integers_survive(void)
{
    static const char *const same[] = {
        "0",
        "-1",
        "999999999999999",
        "1000000000000000",
        "-9007199254740991",
        "9007199254740991",
        "9007199254740992",
        "9007199254740993",
        "18446744073709551615",
        "-9223372036854775808",
        "18446744073709551616",
        "1234567890123456789012345678901234567890123456789012345678901234567890",
        "[1,9007199254740993,{\"seed\":18446744073709551615}]"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) prints(same[i], same[i]);
    cJSON *o =
        parse("{\"a\":9007199254740993,\"b\":18446744073709551615,\"c\":-9223372036854775808,"
              "\"d\":18446744073709551616,\"e\":7,\"f\":7.0,\"g\":7.5,\"h\":\"7\",\"i\":1e3,"
              "\"j\":-9223372036854775809,\"k\":null,\"l\":-1,\"m\":1e300}");
    uint64_t u = 1;
    int64_t i = 1;
    double f = 0;
#define ITEM(name) cJSON_GetObjectItem(o, name)
    CHECK(graft_json_i64(ITEM("a"), &i) && i == 9007199254740993);
    CHECK(graft_json_u64(ITEM("a"), &u) && u == 9007199254740993u);
    CHECK(graft_json_u64(ITEM("b"), &u) && u == UINT64_MAX && !graft_json_i64(ITEM("b"), &i));
    CHECK(graft_json_i64(ITEM("c"), &i) && i == INT64_MIN && !graft_json_u64(ITEM("c"), &u));
    CHECK(!graft_json_u64(ITEM("d"), &u) && !graft_json_i64(ITEM("d"), &i));
    CHECK(graft_json_f64(ITEM("d"), &f) && f == 0x1p64);
    CHECK(graft_json_i64(ITEM("e"), &i) && i == 7);
    CHECK(graft_json_i64(ITEM("f"), &i) && i == 7);
    CHECK(!graft_json_i64(ITEM("g"), &i) && graft_json_f64(ITEM("g"), &f) && f == 7.5);
    CHECK(!graft_json_i64(ITEM("h"), &i) && !graft_json_f64(ITEM("h"), &f));
    CHECK(graft_json_u64(ITEM("i"), &u) && u == 1000);
    CHECK(!graft_json_i64(ITEM("j"), &i) && graft_json_is_number(ITEM("j")));
    CHECK(!graft_json_is_number(ITEM("k")) && !graft_json_u64(ITEM("l"), &u));
    CHECK(!graft_json_i64(ITEM("m"), &i) && !graft_json_i64(NULL, &i) && !graft_json_f64(NULL, &f));
    CHECK(graft_json_int(o, "b", 5) == 5 && graft_json_int(o, "e", 5) == 7);
    CHECK(graft_json_num(o, "g", 0) == 7.5 && graft_json_num(o, "none", 2) == 2);
    CHECK_STR(graft_json_str(o, "h", "x"), "7");
    CHECK_STR(graft_json_str(o, "b", "x"), "x");
#undef ITEM
    cJSON_Delete(o);
}

static void new_integers_print(void)
{
    static const uint64_t u[] = {
        0, 999999999999999, 1000000000000000, 9007199254740991, 9007199254740993, UINT64_MAX};
    static const int64_t s[] = {0, -1, INT64_MIN, INT64_MAX, -9007199254740991, 1234567890123457};
    char wanted[40];
    for (size_t i = 0; i < 6; i++) {
        uint64_t ub;
        int64_t sb;
        cJSON *a = graft_json_new_u64(u[i]), *b = graft_json_new_i64(s[i]);
        char *at = graft_json_print(a), *bt = cJSON_PrintUnformatted(b);
        snprintf(wanted, sizeof wanted, "%llu", (unsigned long long)u[i]);
        CHECK_STR(at, wanted);
        snprintf(wanted, sizeof wanted, "%lld", (long long)s[i]);
        CHECK_STR(bt, wanted);
        CHECK(graft_json_u64(a, &ub) && ub == u[i] && graft_json_i64(b, &sb) && sb == s[i]);
        graft_free(at), cJSON_free(bt), cJSON_Delete(a), cJSON_Delete(b);
    }
}

/* Whether a number was written with a point or an exponent is known, however often it is copied. */
static void fractions_survive(void)
{
    static const struct {
        const char *text, *prints;
        bool fraction;
    } c[] = {{"5", "5", false},
             {"5.0", "5.0", true},
             {"-5.00", "-5.0", true},
             {"5.5", "5.5", true},
             {"1e3", "1000.0", true},
             {"1E+30", "1e+30", true},
             {"0.0", "0.0", true},
             {"1e-400", "0.0", true},
             {"9007199254740993", "9007199254740993", false},
             {"9007199254740993.0", "9007199254740992.0", true},
             {"1.00000000000000000000000000000000000000000000000000000000000000",
              "1.00000000000000000000000000000000000000000000000000000000000000", true},
             {"\"5.0\"", "\"5.0\"", false}};
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        prints(c[i].text, c[i].prints);
        cJSON *item = parse(c[i].text), *copy = cJSON_Duplicate(item, 1);
        double v, w;
        CHECK(graft_json_is_fraction(item) == c[i].fraction);
        CHECK(graft_json_is_fraction(copy) == c[i].fraction);
        if (graft_json_f64(item, &v)) CHECK(graft_json_f64(copy, &w) && v == w);
        cJSON_Delete(item), cJSON_Delete(copy);
    }
    static const double made[] = {0, -0.0, 5, 0.5, -1e300, 0x1p53};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        cJSON *item = graft_json_new_fraction(made[i]);
        char *text = graft_json_print(item);
        cJSON *back = parse(text);
        CHECK(graft_json_is_fraction(item) && graft_json_is_fraction(back));
        CHECK(back && back->valuedouble == made[i]);
        graft_free(text), cJSON_Delete(item), cJSON_Delete(back);
    }
}

static void round_trips(void)
{
    prints("  {\"a\" : [ ] , \"b\":{ },\"c\":[true,false,null]}\r\n\t",
           "{\"a\":[],\"b\":{},\"c\":[true,false,null]}");
    prints("[0.1,0.30000000000000004,-0.0,1e-7,1E+30,2.5e2,5e-324,1.7976931348623157e308]",
           "[0.1,0.30000000000000004,-0.0,1e-07,1e+30,250.0,4.94065645841247e-324,"
           "1.7976931348623157e+308]");
    prints("\"\\u00e9\\ud83d\\ude00\\/\\b\\f\\n\\r\\t\\\"\\\\\"",
           "\"\xc3\xa9\xf0\x9f\x98\x80/\\u0008\\u000c\\n\\u000d\\u0009\\\"\\\\\"");
    prints("\"\\ud83d x \\ude00\"", "\"\xef\xbf\xbd x \xef\xbf\xbd\"");
    prints("{\"9007199254740993\":\"9007199254740993\"}",
           "{\"9007199254740993\":\"9007199254740993\"}");
    prints("\"\xf4\x8f\xbf\xbf\xed\x9f\xbf\xe0\xa0\x80\"",
           "\"\xf4\x8f\xbf\xbf\xed\x9f\xbf\xe0\xa0\x80\"");
    double f;
    cJSON *item = parse("0.1000000000000000000000000000000000000000000000000000000000000000000001");
    CHECK(graft_json_f64(item, &f) && f == 0.1);
    cJSON_Delete(item);
    if (locale_begin()) prints("[0.5,9007199254740993]", "[0.5,9007199254740993]");
    locale_end();
}

static const char *const garbage[] = {"",
                                      " ",
                                      "{",
                                      "}",
                                      "[",
                                      "]",
                                      "[1,]",
                                      "[,1]",
                                      "{\"a\":1,}",
                                      "{\"a\"}",
                                      "{a:1}",
                                      "{1:2}",
                                      "[1 2]",
                                      "01",
                                      "-01",
                                      "00",
                                      "+1",
                                      "-",
                                      ".5",
                                      "1.",
                                      "1e",
                                      "1e+",
                                      "0x10",
                                      "NaN",
                                      "nan",
                                      "Infinity",
                                      "-Infinity",
                                      "inf",
                                      "[NaN]",
                                      "tru",
                                      "nulll",
                                      "True",
                                      "None",
                                      "'a'",
                                      "\"a",
                                      "\"\\\"",
                                      "\"\\x\"",
                                      "\"\\u12\"",
                                      "\"\\u123g\"",
                                      "\"\\u0000\"",
                                      "\"a\nb\"",
                                      "\"\t\"",
                                      "\"\xff\"",
                                      "\"\xff"
                                      "9007199254740993\"",
                                      "\"\xc0\x80\"",
                                      "\"\xed\xa0\x80\"",
                                      "\"\xf4\x90\x80\x80\"",
                                      "\"\xe2\x82\"",
                                      "1 2",
                                      "{} {}",
                                      "[]x",
                                      "//c\n1",
                                      "[1/*c*/]",
                                      "{\"a\":1 \"b\":2}",
                                      "\x0b"
                                      "1",
                                      "\xef\xbb\xbf{}"};

static void refuses_garbage(void)
{
    for (size_t i = 0; i < sizeof garbage / sizeof *garbage; i++) {
        graft_err e = GRAFT_ERR_INIT;
        cJSON *item = NULL;
        graft_status st = graft_json_parse(garbage[i], strlen(garbage[i]), "bad.json", &item, &e);
        if (st != GRAFT_E_FORMAT) fprintf(stderr, "accepted: %s\n", garbage[i]);
        CHECK_INT(st, GRAFT_E_FORMAT);
        CHECK(!item && strncmp(e.text, "bad.json: line ", 15) == 0);
    }
    graft_err e = GRAFT_ERR_INIT;
    cJSON *item = NULL;
    CHECK(graft_json_parse("\"a\0b\"", 5, "x", &item, &e) == GRAFT_E_FORMAT);
    CHECK(graft_json_parse("\"\\\0\"", 4, "x", &item, &e) == GRAFT_E_FORMAT);
    CHECK(graft_json_parse("1\0", 2, "x", &item, &e) == GRAFT_E_FORMAT);
    graft_json_parse("{\n \"a\": 1,\n \"b\": NaN}", 22, "w.json", &item, &e);
    CHECK_STR(e.text, "w.json: line 3, column 7: a value was expected");
    graft_json_parse("[1,", 3, "w.json", &item, &e);
    CHECK_STR(e.text, "w.json: line 1, column 4: the text ends too early");
    CHECK(graft_json_parse("1", GRAFT_JSON_MAX_BYTES + 1, "x", &item, &e) == GRAFT_E_LIMIT);
    CHECK_OK(graft_json_parse("12345", 2, "not terminated", &item, &e), &e);
    CHECK(item && item->valuedouble == 12);
    cJSON_Delete(item);
}

/* Python's json writes numbers that JSON does not have. */
static void reads_python(void)
{
    static const char text[] =
        "{\"a\": NaN, \"b\": [Infinity,-Infinity], \"c\": \"NaN\", \"d\": -1}";
    static const char *const bad[] = {"nan", "NaNa", "-NaN", "+Infinity",
                                      "Inf", "-",    "[N",   "-Infinit"};
    graft_err e = GRAFT_ERR_INIT;
    cJSON *item = NULL;
    CHECK_OK(graft_json_parse_python(text, strlen(text), "x", &item, &e), &e);
    char *back = graft_json_print(item);
    CHECK_STR(back, "{\"a\":null,\"b\":[null,null],\"c\":\"NaN\",\"d\":-1}");
    graft_free(back);
    cJSON_Delete(item);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_INT(graft_json_parse_python(bad[i], strlen(bad[i]), "x", &item, &e), GRAFT_E_FORMAT);
    CHECK_INT(graft_json_parse("Infinity", 8, "x", &item, &e), GRAFT_E_FORMAT);
    CHECK_INT(graft_json_parse("-Infinity", 9, "x", &item, &e), GRAFT_E_FORMAT);
}

/* An object with other things around it; of several that are whole the first. */
static void finds_objects(void)
{
    static const struct {
        const char *text, *want; /* NULL: there is none */
    } all[] = {{"{\"a\": 1}", "{\"a\":1}"},
               {"x {\"a\": [2, 5.0]} y", "{\"a\":[2,5.0]}"},
               {"{ {\"b\":\"}\"}", "{\"b\":\"}\"}"},
               {"{\"a\": {\"b\": 1}", "{\"b\":1}"},
               {"{\"a\": NaN}{}", "{\"a\":null}"},
               {"[1, {}]", "{}"},
               {"{a: 1}", NULL},
               {"[]", NULL},
               {"", NULL}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        graft_err e = GRAFT_ERR_INIT;
        cJSON *object = NULL;
        CHECK_OK(graft_json_find_object(all[i].text, strlen(all[i].text), "text", &object, &e), &e);
        CHECK(!object == !all[i].want);
        char *printed = object ? graft_json_print(object) : NULL;
        if (all[i].want) CHECK_STR(printed, all[i].want);
        graft_free(printed);
        cJSON_Delete(object);
    }
    enum { MANY = 200000 }; /* is no work of hours */
    char *many = malloc(MANY);
    graft_err e = GRAFT_ERR_INIT;
    cJSON *object = NULL;
    if (!many) abort();
    memset(many, '{', MANY);
    CHECK_OK(graft_json_find_object(many, MANY, "text", &object, &e), &e);
    CHECK(!object);
    free(many);
}

static void limits_depth(void)
{
    char text[2 * GRAFT_JSON_MAX_DEPTH + 8];
    for (int depth = GRAFT_JSON_MAX_DEPTH; depth <= GRAFT_JSON_MAX_DEPTH + 1; depth++) {
        graft_err e = GRAFT_ERR_INIT;
        cJSON *item = NULL;
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        graft_status st = graft_json_parse(text, 2 * (size_t)depth, "deep", &item, &e);
        CHECK_INT(st, depth == GRAFT_JSON_MAX_DEPTH ? GRAFT_OK : GRAFT_E_FORMAT);
        cJSON_Delete(item);
    }
}

static void survives_no_memory(void)
{
    const char text[] = "{\"seed\":18446744073709551615,\"list\":[1.5,\"some longer text here\"]}";
    graft_alloc_stats before, after;
    graft_alloc_stats_get(&before);
    int failures = 0;
    for (int n = 1; n < 20; n++) {
        graft_err e = GRAFT_ERR_INIT;
        cJSON *item = NULL;
        graft_alloc_fail_at(n);
        graft_status st = graft_json_parse(text, sizeof text - 1, "x", &item, &e);
        char *printed = item ? graft_json_print(item) : NULL;
        graft_alloc_fail_at(0);
        CHECK(st == GRAFT_OK || (st == GRAFT_E_NOMEM && !item));
        failures += st != GRAFT_OK || !printed;
        graft_free(printed);
        cJSON_Delete(item);
    }
    graft_alloc_stats_get(&after);
    CHECK(failures >= 2);
    CHECK_INT(after.live_blocks, before.live_blocks);
}

/* Every prefix of a text, and every single changed byte, is either refused or printable. */
static void survives_damage(void)
{
    const char text[] = "{\"a\":[1,-2.5e3,9007199254740993,\"\\u00e9\\ud83d\\ude00\xc3\xa9\"],"
                        "\"b\":{\"c\":null,\"d\":true}}";
    for (size_t i = 0; i < sizeof text - 1; i++)
        for (int c = -1; c < 256; c++) {
            char damaged[sizeof text];
            graft_err e = GRAFT_ERR_INIT;
            cJSON *item = NULL;
            memcpy(damaged, text, sizeof text);
            if (c >= 0) damaged[i] = (char)c;
            size_t n = c >= 0 ? sizeof text - 1 : i;
            graft_status st = graft_json_parse(damaged, n, "x", &item, &e);
            CHECK((st == GRAFT_OK) == (item != NULL) && st != GRAFT_E_NOMEM);
            if (c < 0) CHECK(st == GRAFT_E_FORMAT);
            char *printed = item ? graft_json_print(item) : NULL;
            CHECK(!item || printed);
            graft_free(printed);
            cJSON_Delete(item);
        }
}

int main(void)
{
    RUN(integers_survive);
    RUN(new_integers_print);
    RUN(fractions_survive);
    RUN(round_trips);
    RUN(refuses_garbage);
    RUN(reads_python);
    RUN(finds_objects);
    RUN(limits_depth);
    RUN(survives_no_memory);
    RUN(survives_damage);
    return test_end();
}
