/* A formula taken apart (engine/formula.h): its operators as a tree, and the numbers that operators
 * and functions give. */
#ifndef GRAFT_TEXT_FORMULA_H
#define GRAFT_TEXT_FORMULA_H
#include "engine/formula.h"

typedef enum graft_formula_op {
    GRAFT_FORMULA_NUMBER, /* its value is known */
    GRAFT_FORMULA_NAME,   /* text, n */
    GRAFT_FORMULA_CALL,   /* text, n; a: its first argument, or -1 */
    GRAFT_FORMULA_ITEM,   /* of arguments: a, then b, the next one, or -1 */
    GRAFT_FORMULA_IF,     /* a if b else c */
    GRAFT_FORMULA_OR,
    GRAFT_FORMULA_AND,
    GRAFT_FORMULA_NOT, /* this and the next two have a alone */
    GRAFT_FORMULA_MINUS,
    GRAFT_FORMULA_FLIP, /* ~ */
    GRAFT_FORMULA_LESS,
    GRAFT_FORMULA_LESS_EQUAL,
    GRAFT_FORMULA_EQUAL,
    GRAFT_FORMULA_DIFFERENT,
    GRAFT_FORMULA_ADD,
    GRAFT_FORMULA_SUBTRACT,
    GRAFT_FORMULA_MULTIPLY,
    GRAFT_FORMULA_DIVIDE,
    GRAFT_FORMULA_FLOOR_DIVIDE,
    GRAFT_FORMULA_REMAINDER,
    GRAFT_FORMULA_POWER,
    GRAFT_FORMULA_BITS_AND,
    GRAFT_FORMULA_BITS_OR,
    GRAFT_FORMULA_BITS_XOR,
    GRAFT_FORMULA_SHIFT_LEFT,
    GRAFT_FORMULA_SHIFT_RIGHT
} graft_formula_op;

typedef struct graft_formula_node {
    graft_formula_op op;
    int a, b, c; /* numbers of other nodes */
    bool known;  /* what the operator gives is known: */
    graft_formula_value value;
    const char *text; /* in the formula */
    size_t n;
} graft_formula_node;

/* Of a whole number, without its sign. */
__extension__ typedef unsigned __int128 graft_formula_size;

enum { GRAFT_FORMULA_MAX_BYTES = 4096, GRAFT_FORMULA_MAX_DEPTH = 200 };

/* *nodes (graft_free); *root: the last operator's. Statuses as in engine/formula.h. */
graft_status graft_formula_parse(const char *text, graft_formula_node **nodes, int *root,
                                 graft_err *e);
/* GRAFT_E_ARG: a whole number of more bits than there are. */
graft_status graft_formula_too_large(graft_err *e);
/* An operator with one operand (b is not looked at) or two, of those behind NOT. */
graft_status graft_formula_apply(graft_formula_op op, graft_formula_value a, graft_formula_value b,
                                 graft_formula_value *out, graft_err *e);
/* A function of n numbers, by its name. */
graft_status graft_formula_call(const char *name, size_t length, const graft_formula_value *args,
                                size_t n, graft_formula_value *out, graft_err *e);
#endif
