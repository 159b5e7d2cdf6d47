/* ComfyMathExpression: what a formula gives for numbers of other nodes. */
#include <stdio.h>

#include "nodes/node.h"

enum { EXPRESSION, FIRST, LETTERS = 26 };

/* Each is the formula's name for itself. */
#define LETTER(letter_, flags_)                                                                    \
    IN_OBJECT("values." #letter_, "FLOAT,INT,BOOLEAN", "What " #letter_ " stands for.",            \
              .flags = (flags_))
#define LATER(letter_) LETTER(letter_, GRAFT_INPUT_OPTIONAL | GRAFT_INPUT_SERIES)
static const graft_input *const inputs[] = {
    [EXPRESSION] = IN_TEXT(
        "expression", "a + b",
        "The formula, of a, b, c, …, numbers, + - * / // % **, comparisons, and, or, not, "
        "x if y else z, and sum, min, max, abs, round, pow, sqrt, ceil, floor, log, log2, log10, "
        "sin, cos, tan, int, float. sum(values) adds up all that is connected.",
        .flags = GRAFT_INPUT_MULTILINE),
    LETTER(a, 0),
    LATER(b),
    LATER(c),
    LATER(d),
    LATER(e),
    LATER(f),
    LATER(g),
    LATER(h),
    LATER(i),
    LATER(j),
    LATER(k),
    LATER(l),
    LATER(m),
    LATER(n),
    LATER(o),
    LATER(p),
    LATER(q),
    LATER(r),
    LATER(s),
    LATER(t),
    LATER(u),
    LATER(v),
    LATER(w),
    LATER(x),
    LATER(y),
    LATER(z),
    NULL};
static const graft_output *const outputs[] = {
    OUT("FLOAT", "FLOAT", "The result."),
    OUT("INT", "INT", "The result without what is behind its point."),
    OUT("BOOL", "BOOLEAN", "Whether the result is true, or a number that is not 0."), NULL};

static graft_status check(const graft_host *h, const graft_arg *in, const char **input, char *text,
                          uint64_t n)
{
    graft_err e = GRAFT_ERR_INIT;
    (void)h;
    *input = inputs[EXPRESSION]->name;
    if (in[EXPRESSION].kind != GRAFT_STRING) return GRAFT_OK;
    graft_status st = graft_formula_check(in[EXPRESSION].u.s, &e);
    if (st != GRAFT_OK) snprintf(text, n, "%s", e.text);
    return st;
}

QUERY_CHECK()

static graft_formula_value number_of(const graft_arg *a)
{
    if (a->kind == GRAFT_FLOAT) return (graft_formula_value){GRAFT_FORMULA_FLOAT, 0, a->u.f};
    return (graft_formula_value){a->kind == GRAFT_BOOL ? GRAFT_FORMULA_BOOL : GRAFT_FORMULA_INT,
                                 a->u.i, 0};
}

static graft_status run(graft_call *c)
{
    graft_formula_name names[LETTERS];
    graft_formula_value result = {GRAFT_FORMULA_INT, 0, 0};
    size_t n = 0;
    int64_t whole = 0;
    for (int i = FIRST; i < FIRST + LETTERS; i++)
        if (c->in[i].kind != GRAFT_NONE)
            names[n++] =
                (graft_formula_name){strchr(inputs[i]->name, '.') + 1, number_of(&c->in[i])};
    graft_status st =
        graft_formula_compute(graft_arg_text(c, EXPRESSION), names, n, &result, &c->err);
    if (st == GRAFT_OK) st = graft_formula_i64(result, &whole, &c->err);
    if (st != GRAFT_OK) {
        graft_call_blame(c, EXPRESSION);
        return st;
    }
    st = graft_call_out_f64(c, 0, graft_formula_f64(result));
    if (st == GRAFT_OK) st = graft_call_out_i64(c, 1, whole);
    return st != GRAFT_OK ? st : graft_call_out_bool(c, 2, graft_formula_truth(result));
}

GRAFT_NODE(math_expression, .id = "ComfyMathExpression", .title = "Math Expression",
           .category = "utils", .query = query,
           .description = "Computes a formula of numbers that other nodes give, with Python's "
                          "rules, for example (a + 7) // 8 * 8.");
