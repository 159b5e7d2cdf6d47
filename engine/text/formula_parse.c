#include <ctype.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "engine/text/formula.h"

typedef struct parser {
    const char *text, *at;
    graft_formula_node *nodes; /* one for each byte is enough: each stands for some byte */
    int count, depth;
    graft_err *e;
} parser;

/* Names may hold letters of any script; they are compared byte by byte. */
static bool is_letter(char c)
{
    return isalpha((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

static void space(parser *p)
{
    while (isspace((unsigned char)*p->at)) p->at++;
}

static bool take(parser *p, const char *sign)
{
    size_t n = strlen(sign);
    space(p);
    if (strncmp(p->at, sign, n) != 0) return false;
    if (is_letter(*sign) && (is_letter(p->at[n]) || isdigit((unsigned char)p->at[n]))) return false;
    p->at += n;
    return true;
}

static graft_status wrong(parser *p, const char *what)
{
    space(p);
    int at = (int)(p->at - p->text) + 1;
    if (!*p->at) return graft_fail(p->e, GRAFT_E_FORMAT, "%s at the end of the formula", what);
    return graft_fail(p->e, GRAFT_E_FORMAT, "%s at place %d of the formula: \"%.20s\"", what, at,
                      p->at);
}

static int node(parser *p, graft_formula_op op, int a, int b)
{
    p->nodes[p->count] = (graft_formula_node){.op = op, .a = a, .b = b, .c = -1};
    return p->count++;
}

static graft_status whole(parser *p, int *out);

/* What stands within something. */
static graft_status inner(parser *p, graft_status read(parser *p, int *out), int *out)
{
    if (p->depth == GRAFT_FORMULA_MAX_DEPTH)
        return graft_fail(p->e, GRAFT_E_LIMIT, "the formula is nested more than %d deep",
                          GRAFT_FORMULA_MAX_DEPTH);
    p->depth++;
    graft_status st = read(p, out);
    p->depth--;
    return st;
}

/* Digits, with a point or an exponent a float. */
static graft_status number(parser *p, int *out)
{
    const char *begin = p->at;
    char *end;
    bool digits = begin[strspn(begin, "0123456789")] != '.';
    double f = graft_str_to_double(begin, &end);
    if (end == begin || is_letter(*end) || *end == '.') return wrong(p, "no number");
    for (const char *c = begin; c < end; c++) digits = digits && isdigit((unsigned char)*c);
    graft_formula_value v = {GRAFT_FORMULA_FLOAT, 0, f};
    if (digits) {
        v = (graft_formula_value){GRAFT_FORMULA_INT, 0, 0};
        for (const char *c = begin; c < end; c++)
            if (__builtin_mul_overflow(v.i, 10, &v.i) ||
                __builtin_add_overflow(v.i, *c - '0', &v.i))
                return graft_formula_too_large(p->e);
    }
    *out = node(p, GRAFT_FORMULA_NUMBER, -1, -1);
    p->nodes[*out].value = v;
    p->nodes[*out].known = true;
    p->at = end;
    return GRAFT_OK;
}

static graft_status arguments(parser *p, int call)
{
    int last = -1, value;
    if (take(p, ")")) return GRAFT_OK;
    do {
        graft_status st = inner(p, whole, &value);
        if (st) return st;
        int item = node(p, GRAFT_FORMULA_ITEM, value, -1);
        if (last < 0)
            p->nodes[call].a = item;
        else
            p->nodes[last].b = item;
        last = item;
    } while (take(p, ","));
    return take(p, ")") ? GRAFT_OK : wrong(p, "no )");
}

static bool is_word(const char *s, size_t n)
{
    static const char *const words[] = {"and", "or", "not", "if", "else"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (n == strlen(words[i]) && memcmp(s, words[i], n) == 0) return true;
    return false;
}

static graft_status name(parser *p, int *out)
{
    const char *begin = p->at;
    while (is_letter(*p->at) || isdigit((unsigned char)*p->at)) p->at++;
    size_t n = (size_t)(p->at - begin);
    if (is_word(begin, n)) {
        p->at = begin;
        return wrong(p, "no value");
    }
    bool yes = n == 4 && memcmp(begin, "True", n) == 0;
    bool no = n == 5 && memcmp(begin, "False", n) == 0;
    *out = node(p, yes || no ? GRAFT_FORMULA_NUMBER : GRAFT_FORMULA_NAME, -1, -1);
    p->nodes[*out].known = yes || no;
    p->nodes[*out].value = (graft_formula_value){GRAFT_FORMULA_BOOL, yes, 0};
    p->nodes[*out].text = begin;
    p->nodes[*out].n = n;
    if (yes || no || !take(p, "(")) return GRAFT_OK;
    p->nodes[*out].op = GRAFT_FORMULA_CALL;
    return arguments(p, *out);
}

static graft_status atom(parser *p, int *out)
{
    space(p);
    if (isdigit((unsigned char)*p->at) || *p->at == '.') return number(p, out);
    if (is_letter(*p->at)) return name(p, out);
    if (!take(p, "(")) return wrong(p, "no value");
    graft_status st = inner(p, whole, out);
    if (st) return st;
    return take(p, ")") ? GRAFT_OK : wrong(p, "no )");
}

/* Signs, and powers, which bind tighter than a sign before them and looser than one behind. */
static graft_status signs(parser *p, int *out)
{
    graft_formula_op op = GRAFT_FORMULA_NUMBER;
    graft_status st;
    int power;
    if (take(p, "-")) op = GRAFT_FORMULA_MINUS;
    if (op == GRAFT_FORMULA_NUMBER && take(p, "~")) op = GRAFT_FORMULA_FLIP;
    if (op != GRAFT_FORMULA_NUMBER || take(p, "+")) {
        st = inner(p, signs, out);
        if (!st && op != GRAFT_FORMULA_NUMBER) *out = node(p, op, *out, -1);
        return st;
    }
    st = atom(p, out);
    if (st || !take(p, "**")) return st;
    st = inner(p, signs, &power);
    if (!st) *out = node(p, GRAFT_FORMULA_POWER, *out, power);
    return st;
}

/* Operators with two operands, those that bind loosest first; longer ones before their beginnings.
 */
static const struct {
    const char *sign;
    graft_formula_op op;
    int level;
} operators[] = {
    {"|", GRAFT_FORMULA_BITS_OR, 0},      {"^", GRAFT_FORMULA_BITS_XOR, 1},
    {"&", GRAFT_FORMULA_BITS_AND, 2},     {"<<", GRAFT_FORMULA_SHIFT_LEFT, 3},
    {">>", GRAFT_FORMULA_SHIFT_RIGHT, 3}, {"+", GRAFT_FORMULA_ADD, 4},
    {"-", GRAFT_FORMULA_SUBTRACT, 4},     {"//", GRAFT_FORMULA_FLOOR_DIVIDE, 5},
    {"*", GRAFT_FORMULA_MULTIPLY, 5},     {"/", GRAFT_FORMULA_DIVIDE, 5},
    {"%", GRAFT_FORMULA_REMAINDER, 5},
};
enum { LEVELS = 6 };

static graft_formula_op operator_at(parser *p, int level)
{
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (operators[i].level == level && take(p, operators[i].sign)) return operators[i].op;
    return GRAFT_FORMULA_NUMBER;
}

static graft_status binary(parser *p, int level, int *out)
{
    if (level == LEVELS) return signs(p, out);
    graft_status st = binary(p, level + 1, out);
    for (graft_formula_op op; !st && (op = operator_at(p, level));) {
        int right;
        st = binary(p, level + 1, &right);
        if (!st) *out = node(p, op, *out, right);
    }
    return st;
}

/* a < b < c is a < b and b < c. Greater is less with its sides exchanged. */
static graft_status comparison(parser *p, int *out)
{
    int left, all = -1;
    graft_status st = binary(p, 0, &left);
    *out = left;
    while (!st) {
        bool turned = false;
        graft_formula_op op = GRAFT_FORMULA_NUMBER;
        if (take(p, "<="))
            op = GRAFT_FORMULA_LESS_EQUAL;
        else if (take(p, ">="))
            op = GRAFT_FORMULA_LESS_EQUAL, turned = true;
        else if (take(p, "<"))
            op = GRAFT_FORMULA_LESS;
        else if (take(p, ">"))
            op = GRAFT_FORMULA_LESS, turned = true;
        else if (take(p, "=="))
            op = GRAFT_FORMULA_EQUAL;
        else if (take(p, "!="))
            op = GRAFT_FORMULA_DIFFERENT;
        if (!op) break;
        int right;
        st = binary(p, 0, &right);
        if (st) break;
        int one = turned ? node(p, op, right, left) : node(p, op, left, right);
        all = all < 0 ? one : node(p, GRAFT_FORMULA_AND, all, one);
        *out = all;
        left = right;
    }
    return st;
}

static graft_status negation(parser *p, int *out)
{
    if (!take(p, "not")) return comparison(p, out);
    graft_status st = inner(p, negation, out);
    if (!st) *out = node(p, GRAFT_FORMULA_NOT, *out, -1);
    return st;
}

static graft_status both(parser *p, int *out)
{
    graft_status st = negation(p, out);
    while (!st && take(p, "and")) {
        int right;
        st = negation(p, &right);
        if (!st) *out = node(p, GRAFT_FORMULA_AND, *out, right);
    }
    return st;
}

static graft_status either(parser *p, int *out)
{
    graft_status st = both(p, out);
    while (!st && take(p, "or")) {
        int right;
        st = both(p, &right);
        if (!st) *out = node(p, GRAFT_FORMULA_OR, *out, right);
    }
    return st;
}

static graft_status whole(parser *p, int *out)
{
    int when, other;
    graft_status st = either(p, out);
    if (st || !take(p, "if")) return st;
    st = either(p, &when);
    if (!st && !take(p, "else")) st = wrong(p, "no else");
    if (!st) st = inner(p, whole, &other);
    if (st) return st;
    *out = node(p, GRAFT_FORMULA_IF, *out, when);
    p->nodes[*out].c = other;
    return GRAFT_OK;
}

graft_status graft_formula_parse(const char *text, graft_formula_node **nodes, int *root,
                                 graft_err *e)
{
    parser p = {.text = text, .at = text, .e = e};
    size_t n = strlen(text);
    *nodes = NULL;
    if (n > GRAFT_FORMULA_MAX_BYTES)
        return graft_fail(e, GRAFT_E_LIMIT, "a formula of %zu bytes; %d at most", n,
                          GRAFT_FORMULA_MAX_BYTES);
    /* Of an operator in a chain of comparisons come two nodes, of an argument an item as well. */
    p.nodes = graft_malloc_array(2 * n + 2, sizeof *p.nodes);
    if (!p.nodes) return graft_fail_nomem(e, "a formula");
    space(&p);
    graft_status st =
        *p.at ? whole(&p, root) : graft_fail(e, GRAFT_E_FORMAT, "the formula is empty");
    space(&p);
    if (!st && *p.at) st = wrong(&p, "something else");
    if (st)
        graft_free(p.nodes);
    else
        *nodes = p.nodes;
    return st;
}
