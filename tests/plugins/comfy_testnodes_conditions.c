/* Lazy inputs, results that change, conditions, arithmetic, blocked outputs. */
#include <math.h>
#include <regex.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "tests/plugins/comfy_testnodes.h"

enum { IMAGE1, IMAGE2, MASK };
static graft_status mix_needed(void *self, const graft_arg *in, uint64_t *needed)
{
    const graft_tensor *m = tensor_of(&in[MASK]);
    float least = 1, most = 0;
    (void)self;
    for (size_t i = 0; m && i < count_of(m); i++) {
        least = fminf(least, at(m, i));
        most = fmaxf(most, at(m, i));
    }
    *needed = (least < 1 ? 1u << IMAGE1 : 0) | (most > 0 ? 1u << IMAGE2 : 0);
    return GRAFT_OK;
}
static graft_status run_mix(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    const graft_tensor *a = tensor_of(&in[IMAGE1]), *b = tensor_of(&in[IMAGE2]);
    const graft_tensor *m = tensor_of(&in[MASK]);
    (void)self;
    if (!a || !b) {
        pass(out, a ? &in[IMAGE1] : &in[IMAGE2]);
        return GRAFT_OK;
    }
    if (!same_shape(a, b) || !m || count_of(m) * 3 != count_of(a))
        return fail(j, "the sizes differ");
    picture *p = picture_create(&image_ops, 4, a->shape);
    if (!p) return no_memory(j);
    for (size_t i = 0, n = count_of(a); i < n; i++)
        p->data[i] = at(a, i) * (1 - at(m, i / 3)) + at(b, i) * at(m, i / 3);
    give(out, &p->value);
    return GRAFT_OK;
}
static const void *mix_query(const char *id)
{
    static const graft_lazy_api api = {mix_needed};
    return strcmp(id, GRAFT_LAZY_ID) == 0 ? &api : NULL;
}

/* ---- results that change */

static graft_status changed_print(const graft_host *h, const graft_arg *in, char *text, uint64_t n)
{
    (void)h;
    snprintf(text, n, "same");
    return in[1].kind == GRAFT_BOOL && in[1].u.i ? GRAFT_E_ARG : GRAFT_OK; /* never the same */
}
/* BOOL is no type that the host knows, so what is written there comes as it is. */
static graft_status changed_check(const graft_host *h, const graft_arg *in,
                                  const char *const *types, char *text, uint64_t n)
{
    (void)h, (void)types;
    if (in[1].kind == GRAFT_NONE || in[1].kind == GRAFT_BOOL) return GRAFT_OK;
    snprintf(text, n, "neither true nor false");
    return GRAFT_E_ARG;
}
static const void *changed_query(const char *id)
{
    static const graft_fingerprint_api api = {changed_print};
    static const char *const taken[] = {"should_change", NULL};
    static const graft_validate2_api check = {0, 0, taken, changed_check};
    if (strcmp(id, GRAFT_VALIDATE2_ID) == 0) return &check;
    return strcmp(id, GRAFT_FINGERPRINT_ID) == 0 ? &api : NULL;
}

/* Nothing but a constant: the second run finds the first one's result. */
static graft_status constants_print(const graft_host *h, const graft_arg *in, char *text,
                                    uint64_t n)
{
    (void)h;
    snprintf(text, n, "%.17g", in[1].kind == GRAFT_FLOAT ? in[1].u.f : 0.0);
    return GRAFT_OK;
}
static const void *constants_query(const char *id)
{
    static const graft_fingerprint_api api = {constants_print};
    return strcmp(id, GRAFT_FINGERPRINT_ID) == 0 ? &api : NULL;
}
static graft_status run_scaled(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    const graft_tensor *t = tensor_of(&in[0]);
    (void)self;
    if (!t || t->ndim != 4) return fail(j, "image is no picture");
    picture *p = picture_create(&image_ops, 4, t->shape);
    if (!p) return no_memory(j);
    for (size_t i = 0, n = count_of(t); i < n; i++) p->data[i] = at(t, i) * (float)in[1].u.f;
    give(out, &p->value);
    return GRAFT_OK;
}

/* ---- conditions and arithmetic */

/* `order`: -1, 0 or 1 for smaller, equal and larger. */
static bool holds(int order, const char *op)
{
    if (op[0] == '!') return order != 0;
    if (op[0] == '=') return order == 0;
    return (order < 0 && op[0] == '<') || (order > 0 && op[0] == '>') || (order == 0 && op[1]);
}
static graft_status give_bool(graft_arg *out, bool v)
{
    out->kind = GRAFT_BOOL;
    out->u.i = v;
    return GRAFT_OK;
}
static graft_status run_ints(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    int64_t a = in[0].u.i, b = in[1].u.i;
    (void)self, (void)j;
    return give_bool(out, holds((a > b) - (a < b), in[2].u.s));
}
static graft_status run_floats(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    double a = in[0].u.f, b = in[1].u.f;
    (void)self, (void)j;
    return give_bool(out, holds((a > b) - (a < b), in[2].u.s));
}
/* Whether `b` is where `a` begins. */
static bool begins(const char *a, const char *b, bool exact)
{
    size_t n = strlen(b);
    return exact ? strncmp(a, b, n) == 0 : strncasecmp(a, b, n) == 0;
}
/* A match at the start of `a`; a bad pattern matches nothing. */
static bool matches(const char *a, const char *pattern, bool exact)
{
    regex_t r;
    regmatch_t where;
    if (regcomp(&r, pattern, REG_EXTENDED | (exact ? 0 : REG_ICASE))) return false;
    bool found = regexec(&r, a, 1, &where, 0) == 0 && where.rm_so == 0;
    regfree(&r);
    return found;
}
static graft_status run_strings(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    const char *a = in[0].u.s, *b = in[1].u.s, *op = in[2].u.s;
    bool exact = in[3].u.i, found = false;
    size_t n = strlen(a), m = strlen(b);
    (void)self, (void)j;
    if (strcmp(op, "a == b") == 0) return give_bool(out, n == m && begins(a, b, exact));
    if (strcmp(op, "a != b") == 0) return give_bool(out, n != m || !begins(a, b, exact));
    if (strcmp(op, "a MATCH REGEX(b)") == 0) return give_bool(out, matches(a, b, exact));
    if (strcmp(op, "a BEGINSWITH b") == 0) return give_bool(out, begins(a, b, exact));
    if (strcmp(op, "a ENDSWITH b") == 0)
        return give_bool(out, n >= m && begins(a + n - m, b, exact));
    for (const char *p = b; n <= m && p <= b + m - n && !found; p++) found = begins(p, a, exact);
    return give_bool(out, found); /* a IN b */
}
static bool truth(const graft_arg *a)
{
    if (a->kind == GRAFT_STRING || a->kind == GRAFT_CHOICE) return a->u.s && *a->u.s;
    if (a->kind == GRAFT_FLOAT) return a->u.f != 0;
    const graft_tensor *t = tensor_of(a);
    for (size_t i = 0, n = t ? count_of(t) : 0; i < n; i++)
        if (at(t, i) != 0) return true;
    if (a->kind == GRAFT_OBJECT) return !t;
    return a->kind != GRAFT_NONE && a->u.i;
}
static graft_status run_to_bool(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)self, (void)j;
    return give_bool(out, truth(&in[0]) != (in[1].kind == GRAFT_BOOL && in[1].u.i));
}
static graft_status run_bools(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    bool a = in[0].u.i, b = in[1].u.i;
    const char *op = in[2].u.s;
    (void)self, (void)j;
    return give_bool(out, strcmp(op, "a AND b") == 0   ? a && b
                          : strcmp(op, "a OR b") == 0  ? a || b
                          : strcmp(op, "a XOR b") == 0 ? a != b
                                                       : !a);
}
/* In 64 bits, which wrap; a negative exponent gives the power rounded down. */
static int64_t power(int64_t a, int64_t b)
{
    uint64_t v = 1, f = (uint64_t)a;
    if (b < 0) return a == 1 || (a == -1 && b % 2 == 0) ? 1 : a == -1 || (a < 0 && b % 2) ? -1 : 0;
    for (; b; b >>= 1, f *= f)
        if (b & 1) v *= f;
    return (int64_t)v;
}
/* Rounds down; *rest has the divisor's sign. */
static int64_t divide(int64_t a, int64_t b, int64_t *rest)
{
    *rest = 0;
    if (b == -1) return (int64_t)(0 - (uint64_t)a); /* the one quotient that may not fit */
    *rest = a % b;
    if (!*rest || (*rest < 0) == (b < 0)) return a / b;
    *rest += b;
    return a / b - 1;
}
static graft_status run_math(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    uint64_t a = (uint64_t)in[0].u.i, b = (uint64_t)in[1].u.i;
    const char *op = in[2].u.s;
    int64_t rest = 0, quotient = 0;
    bool divides = strcmp(op, "divide") == 0 || strcmp(op, "modulo") == 0;
    (void)self;
    if ((divides && !b) || (strcmp(op, "power") == 0 && !a && in[1].u.i < 0))
        return fail(j, "division by zero");
    if (divides) quotient = divide(in[0].u.i, in[1].u.i, &rest);
    out->kind = GRAFT_INT;
    out->u.i = strcmp(op, "add") == 0        ? (int64_t)(a + b)
               : strcmp(op, "subtract") == 0 ? (int64_t)(a - b)
               : strcmp(op, "multiply") == 0 ? (int64_t)(a * b)
               : strcmp(op, "divide") == 0   ? quotient
               : strcmp(op, "modulo") == 0   ? rest
                                             : power(in[0].u.i, in[1].u.i);
    return GRAFT_OK;
}

/* ---- blocking */

static graft_status run_block(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)self, (void)j;
    if (in[1].u.i)
        give_constant(out, in[2].u.i ? &loud_block : &silent_block);
    else
        pass(out, in);
    return GRAFT_OK;
}

static const char *const compares[] = {"==", "!=", "<", ">", "<=", ">=", NULL};
static const char *const operations[] = {"add",    "subtract", "multiply", "divide",
                                         "modulo", "power",    NULL};
static const char *const on_strings[] = {
    "a == b", "a != b", "a IN b", "a MATCH REGEX(b)", "a BEGINSWITH b", "a ENDSWITH b", NULL};
static const char *const on_bools[] = {"a AND b", "a OR b", "a XOR b", "NOT a", NULL};
/* Beyond the numbers that a value can be. */
#define WHOLE .kind = GRAFT_INT, .min = -0x1p64, .max = 0x1p64, .step = 1
#define REAL  .kind = GRAFT_FLOAT, .min = -999999999999.0, .max = 999999999999.0
IN(in_lazy1, "image1", "IMAGE", .kind = GRAFT_OBJECT, .flags = GRAFT_INPUT_LAZY);
IN(in_lazy2, "image2", "IMAGE", .kind = GRAFT_OBJECT, .flags = GRAFT_INPUT_LAZY);
IN(in_mask, "mask", "MASK", .kind = GRAFT_OBJECT);
IN(in_image, "image", "IMAGE", .kind = GRAFT_OBJECT);
IN(in_change, "should_change", "BOOL", .kind = GRAFT_OBJECT, .flags = GRAFT_INPUT_OPTIONAL);
IN(in_scale, "value", "FLOAT", .kind = GRAFT_FLOAT, .initial.f = 1, .min = 0, .max = 10);
IN(in_any, "value", "*", .kind = GRAFT_OBJECT);
IN(in_invert, "invert", "BOOLEAN", .kind = GRAFT_BOOL, .flags = GRAFT_INPUT_OPTIONAL);
IN(in_blocked, "input", "*", .kind = GRAFT_OBJECT);
IN(in_block, "block", "BOOLEAN", .kind = GRAFT_BOOL);
IN(in_verbose, "verbose", "BOOLEAN", .kind = GRAFT_BOOL);
IN(in_a, "a", "INT", WHOLE);
IN(in_b, "b", "INT", WHOLE);
IN(in_fa, "a", "FLOAT", REAL);
IN(in_fb, "b", "FLOAT", REAL);
IN(in_sa, "a", "STRING", .kind = GRAFT_STRING);
IN(in_sb, "b", "STRING", .kind = GRAFT_STRING);
IN(in_ba, "a", "BOOLEAN", .kind = GRAFT_BOOL);
IN(in_bb, "b", "BOOLEAN", .kind = GRAFT_BOOL);
IN(in_compare, "operation", "COMBO", .kind = GRAFT_CHOICE, .choices = compares);
IN(in_strings, "operation", "COMBO", .kind = GRAFT_CHOICE, .choices = on_strings);
IN(in_bools, "op", "COMBO", .kind = GRAFT_CHOICE, .choices = on_bools);
IN(in_exact, "case_sensitive", "BOOLEAN", .kind = GRAFT_BOOL, .initial.i = 1);
IN(in_operation, "operation", "COMBO", .kind = GRAFT_CHOICE, .choices = operations);
OUT(out_image, "IMAGE", 0);
OUT(out_int, "INT", 0);
OUT(out_bool, "BOOLEAN", 0);
OUT(out_any, "*", 0);

static const graft_node nodes[] = {
    NODE("TestLazyMixImages", 0, INS(&in_lazy1, &in_lazy2, &in_mask), OUTS(&out_image), run_mix,
         mix_query),
    NODE("TestCustomIsChanged", 0, INS(&in_image, &in_change), OUTS(&out_image), run_same,
         changed_query),
    NODE("TestIsChangedWithConstants", 0, INS(&in_image, &in_scale), OUTS(&out_image), run_scaled,
         constants_query),
    NODE("TestIntConditions", 0, INS(&in_a, &in_b, &in_compare), OUTS(&out_bool), run_ints, NULL),
    NODE("TestFloatConditions", 0, INS(&in_fa, &in_fb, &in_compare), OUTS(&out_bool), run_floats,
         NULL),
    NODE("TestStringConditions", 0, INS(&in_sa, &in_sb, &in_strings, &in_exact), OUTS(&out_bool),
         run_strings, NULL),
    NODE("TestToBoolNode", 0, INS(&in_any, &in_invert), OUTS(&out_bool), run_to_bool, NULL),
    NODE("TestBoolOperationNode", 0, INS(&in_ba, &in_bb, &in_bools), OUTS(&out_bool), run_bools,
         NULL),
    NODE("TestIntMathOperation", 0, INS(&in_a, &in_b, &in_operation), OUTS(&out_int), run_math,
         NULL),
    NODE("TestExecutionBlocker", 0, INS(&in_blocked, &in_block, &in_verbose), OUTS(&out_any),
         run_block, NULL),
};
NODE_LIST(condition_nodes, nodes)
