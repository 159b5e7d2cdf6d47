/* Formulas: what Python makes of them (tools/golden_formulas.py), limits, memory that is not there.
 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/tree.h"
#include "engine/formula.h"
#include "tests/locale.h"
#include "tests/test.h"

static const graft_formula_name names[] = {{"a", {GRAFT_FORMULA_INT, 7, 0}},
                                           {"b", {GRAFT_FORMULA_FLOAT, 0, -2.5}},
                                           {"c", {GRAFT_FORMULA_INT, 4, 0}},
                                           {"d", {GRAFT_FORMULA_BOOL, 1, 0}}};
enum { NAMES = sizeof names / sizeof *names };

static bool same(const cJSON *want, graft_formula_value have)
{
    const cJSON *f = graft_tree_get(want, "float");
    int64_t i;
    if (cJSON_IsBool(want))
        return have.kind == GRAFT_FORMULA_BOOL && have.i == (cJSON_IsTrue(want) ? 1 : 0);
    if (!f) return have.kind == GRAFT_FORMULA_INT && graft_json_i64(want, &i) && have.i == i;
    return have.kind == GRAFT_FORMULA_FLOAT &&
           fabs(have.f - f->valuedouble) <= 4e-16 * fabs(f->valuedouble);
}

static void as_python(void)
{
    graft_err e = GRAFT_ERR_INIT;
    char *text = NULL;
    size_t n = 0;
    cJSON *all = NULL;
    CHECK_OK(graft_file_read(GRAFT_SOURCE_DIR "/tests/text/formulas.json", 1 << 20, &text, &n, &e),
             &e);
    CHECK_OK(graft_json_parse(text, n, "formulas.json", &all, &e), &e);
    CHECK(cJSON_GetArraySize(all) > 500);
    const cJSON *one;
    cJSON_ArrayForEach(one, all)
    {
        const char *formula = one->child->valuestring;
        const cJSON *want = one->child->next;
        graft_formula_value have = {GRAFT_FORMULA_FLOAT, 0, NAN};
        graft_err why = GRAFT_ERR_INIT;
        graft_status st = graft_formula_compute(formula, names, NAMES, &have, &why);
        bool right = cJSON_IsNull(want) ? st == GRAFT_E_FORMAT || st == GRAFT_E_ARG
                                        : st == GRAFT_OK && same(want, have);
        if (!right) fprintf(stderr, "%s: %s (%g)\n", formula, why.text, graft_formula_f64(have));
        CHECK(right);
        CHECK((st == GRAFT_OK) == !why.text[0]);
        CHECK((graft_formula_check(formula, NULL) == GRAFT_OK) == (st != GRAFT_E_FORMAT));
    }
    cJSON_Delete(all);
    graft_free(text);
}

static void says_what_is_wrong(void)
{
    static const struct {
        const char *formula, *says;
    } all[] = {{"", "the formula is empty"},
               {"a + * b", "no value at place 5 of the formula: \"* b\""},
               {"(a + b", "no ) at the end of the formula"},
               {"a b", "something else at place 3 of the formula: \"b\""},
               {"a if b", "no else at the end of the formula"},
               {"x + 1", "x has no value"},
               {"a / (c - 4)", "a division by 0"},
               {"half(a)", "there is no function half()"},
               {"abs(1, 2)", "abs() does not take 2 values"},
               {"1e300 * 1e300", "the result is not finite"},
               {"2 ** 4001", "an exponent of 4001; 4000 at most"},
               {"int(1e39)", "a whole number of more than 127 bits"},
               {"values + 1", "values stands for several, for example in sum()"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        graft_err e = GRAFT_ERR_INIT;
        graft_formula_value n;
        CHECK(graft_formula_compute(all[i].formula, names, NAMES, &n, &e) != GRAFT_OK);
        CHECK_STR(e.text, all[i].says);
    }
}

/* Python's whole numbers have no end, ours have 127 bits and are never rounded. */
static void large_numbers(void)
{
    graft_err e = GRAFT_ERR_INIT;
    static const struct {
        const char *formula;
        double want; /* as a float; 0: it is refused */
    } all[] = {{"9223372036854775807 + 1", 0x1p63},
               {"-9223372036854775807 - 2", -0x1p63},
               {"2 ** 100", 0x1p100},
               {"-(2 ** 126) * 2", -0x1p127},
               {"-(2 ** 126) - 2 ** 126", -0x1p127},
               {"-1 << 127", -0x1p127},
               {"(-1 << 127) // 2", -0x1p126},
               {"170141183460469231731687303715884105727", 0x1p127},
               {"170141183460469231731687303715884105728", 0},
               {"99999999999999999999999999999999999999999", 0},
               {"170141183460469231731687303715884105727 + 1", 0},
               {"-(-1 << 127)", 0},
               {"abs(-1 << 127)", 0},
               {"(-1 << 127) // -1", 0},
               {"(-1 << 127) - 1", 0},
               {"sum(2 ** 126, 2 ** 126)", 0},
               {"2 ** 127", 0},
               {"pow(-3, 81)", 0},
               {"1 << 127", 0},
               {"2 ** 64 * 2 ** 63", 0},
               {"int(1e39)", 0},
               {"round(-2e38)", 0},
               {"round(170141183460469231731687303715884105727, -18)", 0}};
    graft_formula_value n;
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        graft_err why = GRAFT_ERR_INIT;
        graft_status st = graft_formula_compute(all[k].formula, NULL, 0, &n, &why);
        CHECK_INT(st, all[k].want ? GRAFT_OK : GRAFT_E_ARG);
        CHECK_STR(why.text, all[k].want ? "" : "a whole number of more than 127 bits");
        if (st) continue;
        CHECK(n.kind == GRAFT_FORMULA_INT && graft_formula_f64(n) == all[k].want);
        if (graft_formula_f64(n) != all[k].want) fprintf(stderr, "  %s\n", all[k].formula);
    }
    CHECK_OK(graft_formula_compute("(-1 << 127) % -1", NULL, 0, &n, &e), &e);
    CHECK_INT(n.i, 0);
    CHECK_OK(graft_formula_compute("0 << 4000", NULL, 0, &n, &e), &e);
    CHECK_INT(n.i, 0);
    CHECK_OK(graft_formula_compute("2.0 ** 200", NULL, 0, &n, &e), &e);
    CHECK(n.kind == GRAFT_FORMULA_FLOAT && n.f == 0x1p200);
}

/* A quotient is rounded once: of these, numbers that were rounded before would give another. */
static void quotients(void)
{
    static const struct {
        const char *formula;
        double want;
    } all[] = {
        {"9007199254740993 / 9007199254740992", 1.0},
        {"-9007199254740995 / 9007199254740992", -0x1.0000000000002p0},
        {"18014398509481987 / 9007199254740993", 0x1.0000000000000p1},
        {"9223372036854775807 / 9223372036854774783", 0x1.0000000000001p0},
        {"5258986265376043509 / 870", 0x1.579b96c07c479p+52},
        {"-951886317312885410 / 926", -0x1.d375b5e6d7423p+49},
        {"7053584670082022960 / 2352596571770045650", 0x1.7fc56e26d7afap+1},
        {"39098739912098889811989275654574436925 / 1094856349054788848375", 0x1.fb7cf0c648d70p+54},
        {"(2 ** 126 + 1) / 2 ** 126", 1.0},
        {"(2 ** 53 + 1) / -1", -0x1p53},
        {"(2 ** 53 + 3) / 1", 0x1.0000000000002p53},
        {"1 / 3", 1.0 / 3},
        {"1 / 170141183460469231731687303715884105727", 0x1p-127}};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        graft_err e = GRAFT_ERR_INIT;
        graft_formula_value n;
        CHECK_OK(graft_formula_compute(all[k].formula, NULL, 0, &n, &e), &e);
        CHECK(n.kind == GRAFT_FORMULA_FLOAT && n.f == all[k].want);
        if (n.f != all[k].want) fprintf(stderr, "  %s: %a\n", all[k].formula, n.f);
    }
}

static void whole_numbers(void)
{
    graft_err e = GRAFT_ERR_INIT;
    const graft_formula_value floats[] = {{GRAFT_FORMULA_FLOAT, 0, -0x1p63},
                                          {GRAFT_FORMULA_FLOAT, 0, -2.9},
                                          {GRAFT_FORMULA_INT, INT64_MAX, 0},
                                          {GRAFT_FORMULA_INT, INT64_MIN, 0}};
    const int64_t want[] = {INT64_MIN, -2, INT64_MAX, INT64_MIN};
    const graft_formula_value none[] = {{GRAFT_FORMULA_FLOAT, 0, 0x1p63},
                                        {GRAFT_FORMULA_FLOAT, 0, NAN},
                                        {GRAFT_FORMULA_INT, (graft_formula_whole)INT64_MAX + 1, 0},
                                        {GRAFT_FORMULA_INT, (graft_formula_whole)INT64_MIN - 1, 0}};
    for (size_t k = 0; k < 4; k++) {
        int64_t i = 0;
        CHECK_OK(graft_formula_i64(floats[k], &i, &e), &e);
        CHECK_INT(i, want[k]);
        CHECK_INT(graft_formula_i64(none[k], &i, NULL), GRAFT_E_ARG);
    }
}

/* What may stand 200 deep within itself: a part before what is within, and one behind. */
static void depth(void)
{
    static const struct {
        const char *before, *behind;
        double want; /* of 200 with a 1 within */
    } all[] = {{"(", ")", 1},
               {"abs(", ")", 1},
               {"-", "", 1},
               {"not ", "", 1},
               {"1**", "", 1},
               {"0 if 0 else ", "", 1},
               {"(-", ")", 0} /* two of each: 100 are 200 deep */};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        const int most = strlen(all[k].before) == 2 && all[k].before[0] == '(' ? 100 : 200;
        for (int n = most; n <= most + 1; n++) {
            char text[4096] = "";
            size_t at = 0;
            graft_formula_value v;
            graft_err e = GRAFT_ERR_INIT;
            for (int i = 0; i < n; i++)
                at += (size_t)snprintf(text + at, sizeof text - at, "%s", all[k].before);
            at += (size_t)snprintf(text + at, sizeof text - at, "1");
            for (int i = 0; i < n; i++)
                at += (size_t)snprintf(text + at, sizeof text - at, "%s", all[k].behind);
            const graft_status st = graft_formula_compute(text, NULL, 0, &v, &e);
            CHECK_INT(st, n == most ? GRAFT_OK : GRAFT_E_LIMIT);
            CHECK_STR(e.text, n == most ? "" : "the formula is nested more than 200 deep");
            if (!st && all[k].want) CHECK(graft_formula_f64(v) == all[k].want);
        }
    }
}

static void limits(void)
{
    char text[4200];
    graft_formula_value n;
    graft_err e = GRAFT_ERR_INIT;
    memset(text, '(', sizeof text);
    text[4096] = 0;
    CHECK_INT(graft_formula_compute(text, NULL, 0, &n, &e), GRAFT_E_LIMIT);
    memset(text, '-', 4096);
    CHECK_INT(graft_formula_compute(text, NULL, 0, &n, &e), GRAFT_E_LIMIT);
    for (int i = 0; i < 4096; i++) text[i] = i % 2 ? '+' : '1';
    text[4095] = 0;
    CHECK_OK(graft_formula_compute(text, NULL, 0, &n, &e), &e);
    CHECK_INT(n.i, 2048);
    for (int i = 0; i < 4096; i++) text[i] = i % 2 ? '<' : '0';
    text[4095] = 0;
    CHECK_OK(graft_formula_compute(text, NULL, 0, &n, &e), &e);
    CHECK(n.kind == GRAFT_FORMULA_BOOL && n.i == 0);
    text[4095] = ' ';
    text[4096] = ' ';
    text[4097] = 0;
    CHECK_INT(graft_formula_compute(text, NULL, 0, &n, &e), GRAFT_E_LIMIT);
}

/* Each is in the middle of the next: computed for either side, the innermost would be 2^45 times.
 */
static void chains_within_chains(void)
{
    enum { DEEP = 45 };
    char text[DEEP * 8 + 2];
    size_t at = 0;
    graft_formula_value n;
    graft_err e = GRAFT_ERR_INIT;
    for (int i = 0; i < DEEP; i++, at += 4) memcpy(text + at, "0<=(", 4);
    text[at++] = '1';
    for (int i = 0; i < DEEP; i++, at += 4) memcpy(text + at, ")<=1", 4);
    text[at] = 0;
    CHECK_OK(graft_formula_compute(text, NULL, 0, &n, &e), &e);
    CHECK(n.kind == GRAFT_FORMULA_BOOL && n.i == 1);
}

static void without_memory(void)
{
    graft_formula_value n;
    int failed = 0;
    for (int at = 1; at < 10; at++) {
        graft_alloc_fail_at(at);
        graft_status st =
            graft_formula_compute("max(sum(values), round(b, 1))", names, NAMES, &n, NULL);
        graft_alloc_fail_at(0);
        CHECK(st == GRAFT_E_NOMEM || st == GRAFT_OK);
        failed += st != GRAFT_OK;
    }
    CHECK(failed >= 3 && failed < 9);
}

int main(void)
{
    RUN(as_python);
    RUN(says_what_is_wrong);
    RUN(large_numbers);
    RUN(quotients);
    RUN(whole_numbers);
    RUN(depth);
    RUN(limits);
    RUN(chains_within_chains);
    RUN(without_memory);
    if (locale_begin()) RUN(as_python);
    locale_end();
    return test_end();
}
