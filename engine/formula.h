/* Formulas: the part of engine.h, whose rules hold here, that computes what a text says, in the
 * syntax and by the rules of Python's expressions of numbers. */
#ifndef GRAFT_FORMULA_H
#define GRAFT_FORMULA_H
#include "engine/types.h"

/* As wide as whole numbers are on the way from operator to operator. */
__extension__ typedef __int128 graft_formula_whole;
#define GRAFT_FORMULA_BITS 127 /* without the sign */

typedef enum graft_formula_kind {
    GRAFT_FORMULA_INT,  /* i */
    GRAFT_FORMULA_BOOL, /* i: 0 or 1 */
    GRAFT_FORMULA_FLOAT /* f */
} graft_formula_kind;
typedef struct graft_formula_value {
    graft_formula_kind kind;
    graft_formula_whole i;
    double f;
} graft_formula_value;
double graft_formula_f64(graft_formula_value n);
/* Cut after the point. GRAFT_E_ARG where 64 bits do not hold it. */
graft_status graft_formula_i64(graft_formula_value n, int64_t *out, graft_err *e);
bool graft_formula_truth(graft_formula_value n); /* it is not 0 */

/* What a formula may speak of; borrowed. */
typedef struct graft_formula_name {
    const char *name;
    graft_formula_value value;
} graft_formula_name;

/* Computes a formula: + - * / // % ** with parentheses, & | ^ ~ << >>, comparisons in chains, and,
 * or, not, "x if y else z", True, False, the names given, and sum, min, max, abs, round, pow, sqrt,
 * ceil, floor, log, log2, log10, sin, cos, tan, int and float. As arguments of a function, `values`
 * stands for all names' values.
 *
 * Whole numbers stay whole and exact, as Python's do, up to 127 bits; one beyond, on the way or as
 * the result, is refused, never rounded: who wants a float writes a point (2.0 ** 200). What is
 * divided or compared is exact, too, as far as a float can say it. Powers have exponents of at most
 * 4000.
 *
 * GRAFT_E_FORMAT says what is not understood and where, GRAFT_E_ARG what cannot be computed (a
 * division by 0, a name that is not given, a whole number that is too large, a result that is not
 * finite), GRAFT_E_LIMIT that it is longer than 4096 bytes or nested too deep: parentheses, those
 * of functions among them, signs, `not`, exponents and what is behind `else` may stand 200 deep
 * within each other, as Python's parentheses may. */
graft_status graft_formula_compute(const char *text, const graft_formula_name *names, size_t n,
                                   graft_formula_value *out, graft_err *e);
/* Whether a formula is understood; names may be any. */
graft_status graft_formula_check(const char *text, graft_err *e);
#endif
