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
               {"int(1e30)", "1e+30 is no whole number of 64 bits"},
               {"values + 1", "values stands for several, for example in sum()"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        graft_err e = GRAFT_ERR_INIT;
        graft_formula_value n;
        CHECK(graft_formula_compute(all[i].formula, names, NAMES, &n, &e) != GRAFT_OK);
        CHECK_STR(e.text, all[i].says);
    }
}

/* Python's whole numbers have no end, ours become floating where 64 bits do not hold them. */
static void large_numbers(void)
{
    graft_err e = GRAFT_ERR_INIT;
    static const struct {
        const char *formula;
        double want;
    } all[] = {{"9223372036854775807 + 1", 0x1p63},      {"-9223372036854775807 - 2", -0x1p63},
               {"3037000500 ** 2", 9.22337203700025e18}, {"2 ** 100", 0x1p100},
               {"99999999999999999999", 1e20},           {"1 << 64", 0x1p64},
               {"-(-9223372036854775807 - 1)", 0x1p63}};
    graft_formula_value n;
    int64_t i;
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        CHECK_OK(graft_formula_compute(all[k].formula, NULL, 0, &n, &e), &e);
        CHECK(n.kind == GRAFT_FORMULA_FLOAT);
        CHECK(n.f == all[k].want);
    }
    CHECK_OK(graft_formula_compute("9223372036854775806 + 1", NULL, 0, &n, &e), &e);
    CHECK_INT(n.i, INT64_MAX);
    CHECK_OK(graft_formula_compute("(-9223372036854775807 - 1) // -1", NULL, 0, &n, &e), &e);
    CHECK(n.kind == GRAFT_FORMULA_FLOAT && n.f == 0x1p63);
    CHECK_INT(graft_formula_i64((graft_formula_value){GRAFT_FORMULA_FLOAT, 0, 0x1p63}, &i, NULL),
              GRAFT_E_ARG);
    CHECK_INT(graft_formula_i64((graft_formula_value){GRAFT_FORMULA_FLOAT, 0, NAN}, &i, NULL),
              GRAFT_E_ARG);
    CHECK_OK(graft_formula_i64((graft_formula_value){GRAFT_FORMULA_FLOAT, 0, -0x1p63}, &i, &e), &e);
    CHECK_INT(i, INT64_MIN);
    CHECK_OK(graft_formula_i64((graft_formula_value){GRAFT_FORMULA_FLOAT, 0, -2.9}, &i, &e), &e);
    CHECK_INT(i, -2);
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
    RUN(limits);
    RUN(chains_within_chains);
    RUN(without_memory);
    if (locale_begin()) RUN(as_python);
    locale_end();
    return test_end();
}
