#include <math.h>
#include <string.h>

#include "base/str.h"
#include "engine/text/formula.h"

enum { MAX_EXPONENT = 4000 };

static graft_formula_value from_f64(double f)
{
    return (graft_formula_value){GRAFT_FORMULA_FLOAT, 0, f};
}
static graft_formula_value from_whole(graft_formula_whole i)
{
    return (graft_formula_value){GRAFT_FORMULA_INT, i, 0};
}
static graft_formula_value from_bool(bool b)
{
    return (graft_formula_value){GRAFT_FORMULA_BOOL, b, 0};
}
static graft_status give(graft_formula_value n, graft_formula_value *out)
{
    *out = n;
    return GRAFT_OK;
}

double graft_formula_f64(graft_formula_value n)
{
    return n.kind == GRAFT_FORMULA_FLOAT ? n.f : (double)n.i;
}

bool graft_formula_truth(graft_formula_value n)
{
    return n.kind == GRAFT_FORMULA_FLOAT ? n.f != 0 : n.i != 0;
}

static bool is_whole(graft_formula_value n)
{
    return n.kind != GRAFT_FORMULA_FLOAT;
}

graft_status graft_formula_i64(graft_formula_value n, int64_t *out, graft_err *e)
{
    const bool holds =
        is_whole(n) ? n.i >= INT64_MIN && n.i <= INT64_MAX : n.f >= -0x1p63 && n.f < 0x1p63;
    if (!holds)
        return graft_fail(e, GRAFT_E_ARG, "%g is no whole number of 64 bits", graft_formula_f64(n));
    *out = is_whole(n) ? (int64_t)n.i : (int64_t)n.f;
    return GRAFT_OK;
}

graft_status graft_formula_too_large(graft_err *e)
{
    return graft_fail(e, GRAFT_E_ARG, "a whole number of more than %d bits", GRAFT_FORMULA_BITS);
}

/* -1, 0 or 1, as exact as Python; 2 where f is no number. */
static int compare_mixed(graft_formula_whole i, double f)
{
    if (isnan(f)) return 2;
    if (f >= 0x1p127) return -1;
    if (f < -0x1p127) return 1;
    const double whole = trunc(f);
    const graft_formula_whole other = (graft_formula_whole)whole;
    if (i != other) return i < other ? -1 : 1;
    return (f < whole) - (f > whole);
}

static int compare(graft_formula_value a, graft_formula_value b)
{
    if (is_whole(a) && is_whole(b)) return (a.i > b.i) - (a.i < b.i);
    if (is_whole(a)) return compare_mixed(a.i, b.f);
    if (!is_whole(b)) return a.f < b.f ? -1 : a.f > b.f ? 1 : a.f == b.f ? 0 : 2;
    const int turned = compare_mixed(b.i, a.f);
    return turned == 2 ? 2 : -turned;
}

/* + - * */
static graft_status combine(graft_formula_op op, graft_formula_value a, graft_formula_value b,
                            graft_formula_value *out, graft_err *e)
{
    double x = graft_formula_f64(a), y = graft_formula_f64(b);
    graft_formula_whole i = 0;
    bool over = op == GRAFT_FORMULA_ADD        ? __builtin_add_overflow(a.i, b.i, &i)
                : op == GRAFT_FORMULA_SUBTRACT ? __builtin_sub_overflow(a.i, b.i, &i)
                                               : __builtin_mul_overflow(a.i, b.i, &i);
    if (is_whole(a) && is_whole(b))
        return over ? graft_formula_too_large(e) : give(from_whole(i), out);
    return give(from_f64(op == GRAFT_FORMULA_ADD        ? x + y
                         : op == GRAFT_FORMULA_SUBTRACT ? x - y
                                                        : x * y),
                out);
}

static graft_status by_zero(graft_err *e)
{
    return graft_fail(e, GRAFT_E_ARG, "a division by 0");
}

/* Python's floor division: a == quotient * b + remainder, which has b's sign. */
static void divide_f64(double a, double b, double *quotient, double *remainder)
{
    double mod = fmod(a, b), div = (a - mod) / b;
    if (mod != 0 && (b < 0) != (mod < 0)) {
        mod += b;
        div -= 1;
    }
    if (mod == 0) mod = copysign(0, b);
    double down = floor(div);
    if (div - down > 0.5) down += 1;
    *quotient = div != 0 ? down : copysign(0, a / b);
    *remainder = mod;
}

static graft_status divide(graft_formula_value a, graft_formula_value b, bool remainder,
                           graft_formula_value *out, graft_err *e)
{
    double q, r;
    if (!graft_formula_truth(b)) return by_zero(e);
    if (!is_whole(a) || !is_whole(b)) {
        divide_f64(graft_formula_f64(a), graft_formula_f64(b), &q, &r);
        *out = from_f64(remainder ? r : q);
        return GRAFT_OK;
    }
    if (b.i == -1) /* the quotient of the lowest number has no room */
        return remainder ? give(from_whole(0), out)
                         : combine(GRAFT_FORMULA_SUBTRACT, from_whole(0), a, out, e);
    graft_formula_whole div = a.i / b.i, mod = a.i % b.i;
    if (mod && (mod < 0) != (b.i < 0)) {
        mod += b.i;
        div--;
    }
    return give(from_whole(remainder ? mod : div), out);
}

static graft_formula_size size_of(graft_formula_whole i)
{
    return i < 0 ? -(graft_formula_size)i : (graft_formula_size)i;
}

/* a / b, rounded once: the quotient's first bits, and whether anything is behind them. */
static double quotient(graft_formula_whole a, graft_formula_whole b)
{
    const graft_formula_size divisor = size_of(b), enough = (graft_formula_size)1 << 55;
    graft_formula_size q = size_of(a) / divisor, rest = size_of(a) % divisor;
    int exponent = 0;
    for (; q < enough && rest; exponent--) {
        q *= 2;
        rest *= 2;
        if (rest < divisor) continue;
        rest -= divisor;
        q++;
    }
    const double size = ldexp((double)(q | (rest != 0)), exponent);
    return (a < 0) != (b < 0) ? -size : size;
}

static graft_status power(graft_formula_value a, graft_formula_value b, graft_formula_value *out,
                          graft_err *e)
{
    double x = graft_formula_f64(a), y = graft_formula_f64(b);
    if (!(fabs(y) <= MAX_EXPONENT))
        return graft_fail(e, GRAFT_E_ARG, "an exponent of %g; %d at most", y, MAX_EXPONENT);
    if (x == 0 && y < 0) return graft_fail(e, GRAFT_E_ARG, "0 to the power of %g", y);
    if (x < 0 && y != floor(y))
        return graft_fail(e, GRAFT_E_ARG, "%g to the power of %g is not real", x, y);
    graft_formula_whole all = 1;
    if (!is_whole(a) || !is_whole(b) || b.i < 0) return give(from_f64(pow(x, y)), out);
    for (int64_t i = 0; i < b.i; i++)
        if (__builtin_mul_overflow(all, a.i, &all)) return graft_formula_too_large(e);
    return give(from_whole(all), out);
}

static graft_status bits(graft_formula_op op, graft_formula_value a, graft_formula_value b,
                         graft_formula_value *out, graft_err *e)
{
    bool shift = op == GRAFT_FORMULA_SHIFT_LEFT || op == GRAFT_FORMULA_SHIFT_RIGHT;
    if (!is_whole(a) || !is_whole(b))
        return graft_fail(e, GRAFT_E_ARG, "& | ^ ~ << >> are for whole numbers");
    if (shift && (b.i < 0 || b.i > MAX_EXPONENT))
        return graft_fail(e, GRAFT_E_ARG, "a shift by %lld bits", (long long)b.i);
    switch (op) {
    case GRAFT_FORMULA_BITS_AND:
        *out = from_whole(a.i & b.i);
        break;
    case GRAFT_FORMULA_BITS_OR:
        *out = from_whole(a.i | b.i);
        break;
    case GRAFT_FORMULA_BITS_XOR:
        *out = from_whole(a.i ^ b.i);
        break;
    case GRAFT_FORMULA_FLIP:
        *out = from_whole(~a.i);
        break;
    case GRAFT_FORMULA_SHIFT_RIGHT: /* down to -1 for those below 0 */
        *out = from_whole(b.i > GRAFT_FORMULA_BITS ? (a.i < 0 ? -1 : 0) : a.i >> b.i);
        break;
    default:
        for (int64_t i = 0; i < b.i; i++)
            if (__builtin_add_overflow(a.i, a.i, &a.i)) return graft_formula_too_large(e);
        *out = from_whole(a.i);
    }
    return GRAFT_OK;
}

graft_status graft_formula_apply(graft_formula_op op, graft_formula_value a, graft_formula_value b,
                                 graft_formula_value *out, graft_err *e)
{
    switch (op) {
    case GRAFT_FORMULA_NOT:
        return give(from_bool(!graft_formula_truth(a)), out);
    case GRAFT_FORMULA_MINUS:
        return is_whole(a) ? combine(GRAFT_FORMULA_SUBTRACT, from_whole(0), a, out, e)
                           : give(from_f64(-a.f), out);
    case GRAFT_FORMULA_LESS:
        return give(from_bool(compare(a, b) == -1), out);
    case GRAFT_FORMULA_LESS_EQUAL:
        return give(from_bool(compare(a, b) <= 0), out);
    case GRAFT_FORMULA_EQUAL:
        return give(from_bool(compare(a, b) == 0), out);
    case GRAFT_FORMULA_DIFFERENT:
        return give(from_bool(compare(a, b) != 0), out);
    case GRAFT_FORMULA_ADD:
    case GRAFT_FORMULA_SUBTRACT:
    case GRAFT_FORMULA_MULTIPLY:
        return combine(op, a, b, out, e);
    case GRAFT_FORMULA_DIVIDE:
        if (!graft_formula_truth(b)) return by_zero(e);
        *out = from_f64(is_whole(a) && is_whole(b) ? quotient(a.i, b.i)
                                                   : graft_formula_f64(a) / graft_formula_f64(b));
        return GRAFT_OK;
    case GRAFT_FORMULA_FLOOR_DIVIDE:
    case GRAFT_FORMULA_REMAINDER:
        return divide(a, b, op == GRAFT_FORMULA_REMAINDER, out, e);
    case GRAFT_FORMULA_POWER:
        return power(a, b, out, e);
    case GRAFT_FORMULA_FLIP:
        return bits(op, a, a, out, e);
    default:
        return bits(op, a, b, out, e);
    }
}

/* ------------------------------------------------------------------ functions */

typedef graft_status function(const graft_formula_value *args, size_t n, graft_formula_value *out,
                              graft_err *e);

static graft_status to_whole(double f, graft_formula_value *out, graft_err *e)
{
    if (isnan(f)) return graft_fail(e, GRAFT_E_ARG, "what is no number as a whole number");
    if (!(f >= -0x1p127 && f < 0x1p127)) return graft_formula_too_large(e);
    return give(from_whole((graft_formula_whole)f), out);
}

static graft_status call_sum(const graft_formula_value *args, size_t n, graft_formula_value *out,
                             graft_err *e)
{
    graft_status st = GRAFT_OK;
    *out = from_whole(0);
    for (size_t i = 0; i < n && !st; i++) st = combine(GRAFT_FORMULA_ADD, *out, args[i], out, e);
    return st;
}

static graft_status call_min(const graft_formula_value *args, size_t n, graft_formula_value *out,
                             graft_err *e)
{
    (void)e;
    *out = args[0];
    for (size_t i = 1; i < n; i++)
        if (compare(args[i], *out) == -1) *out = args[i];
    return GRAFT_OK;
}

static graft_status call_max(const graft_formula_value *args, size_t n, graft_formula_value *out,
                             graft_err *e)
{
    (void)e;
    *out = args[0];
    for (size_t i = 1; i < n; i++)
        if (compare(args[i], *out) == 1) *out = args[i];
    return GRAFT_OK;
}

static graft_status call_abs(const graft_formula_value *args, size_t n, graft_formula_value *out,
                             graft_err *e)
{
    (void)n;
    bool below = is_whole(args[0]) && args[0].i < 0;
    if (below) return graft_formula_apply(GRAFT_FORMULA_MINUS, args[0], args[0], out, e);
    return give(is_whole(args[0]) ? from_whole(args[0].i) : from_f64(fabs(args[0].f)), out);
}

/* To a multiple of the unit, which is even. */
static graft_status round_whole(graft_formula_whole i, graft_formula_whole unit,
                                graft_formula_value *out, graft_err *e)
{
    graft_formula_whole times = i / unit, rest = i % unit;
    const graft_formula_whole half = rest < 0 ? -rest : rest, step = i < 0 ? -1 : 1;
    if (half > unit / 2 || (half == unit / 2 && times % 2)) times += step;
    return combine(GRAFT_FORMULA_MULTIPLY, from_whole(times), from_whole(unit), out, e);
}

/* To so many places behind the point, or before it; a half goes to the even side. Decimal digits of
 * a double are exact, and printf() rounds them so. */
static graft_status call_round(const graft_formula_value *args, size_t n, graft_formula_value *out,
                               graft_err *e)
{
    graft_str text = GRAFT_STR_INIT;
    int64_t places = 0;
    if (n == 1 && is_whole(args[0])) return give(from_whole(args[0].i), out);
    if (n == 1) return to_whole(nearbyint(args[0].f), out, e);
    if (!is_whole(args[1]) || args[1].i < -18 || args[1].i > 300)
        return graft_fail(e, GRAFT_E_ARG, "round() takes -18 to 300 places");
    places = (int64_t)args[1].i;
    if (is_whole(args[0]) && places >= 0) return give(from_whole(args[0].i), out);
    if (places >= 0) {
        graft_str_printf(&text, "%.*f", (int)places, args[0].f);
        if (text.failed) return graft_fail_nomem(e, "a number");
        *out = from_f64(graft_str_to_double(text.data, NULL));
        graft_str_finish(&text);
        return GRAFT_OK;
    }
    double unit = pow(10, (double)-places);
    if (is_whole(args[0])) return round_whole(args[0].i, (graft_formula_whole)unit, out, e);
    return give(from_f64(nearbyint(args[0].f / unit) * unit), out);
}

static graft_status call_pow(const graft_formula_value *args, size_t n, graft_formula_value *out,
                             graft_err *e)
{
    (void)n;
    return power(args[0], args[1], out, e);
}

static graft_status call_sqrt(const graft_formula_value *args, size_t n, graft_formula_value *out,
                              graft_err *e)
{
    (void)n;
    double x = graft_formula_f64(args[0]);
    if (!(x >= 0)) return graft_fail(e, GRAFT_E_ARG, "the square root of %g", x);
    return give(from_f64(sqrt(x)), out);
}

static graft_status call_ceil(const graft_formula_value *args, size_t n, graft_formula_value *out,
                              graft_err *e)
{
    (void)n;
    if (is_whole(args[0])) return give(from_whole(args[0].i), out);
    return to_whole(ceil(args[0].f), out, e);
}

static graft_status call_floor(const graft_formula_value *args, size_t n, graft_formula_value *out,
                               graft_err *e)
{
    (void)n;
    if (is_whole(args[0])) return give(from_whole(args[0].i), out);
    return to_whole(floor(args[0].f), out, e);
}

static graft_status logarithm(double x, double value, graft_formula_value *out, graft_err *e)
{
    if (!(x > 0)) return graft_fail(e, GRAFT_E_ARG, "the logarithm of %g", x);
    return give(from_f64(value), out);
}

static graft_status call_log(const graft_formula_value *args, size_t n, graft_formula_value *out,
                             graft_err *e)
{
    double x = graft_formula_f64(args[0]), base = n > 1 ? graft_formula_f64(args[1]) : 0;
    if (n > 1 && !(base > 0 && base != 1))
        return graft_fail(e, GRAFT_E_ARG, "a logarithm of base %g", base);
    return logarithm(x, n > 1 ? log(x) / log(base) : log(x), out, e);
}

static graft_status call_log2(const graft_formula_value *args, size_t n, graft_formula_value *out,
                              graft_err *e)
{
    (void)n;
    double x = graft_formula_f64(args[0]);
    return logarithm(x, log2(x), out, e);
}

static graft_status call_log10(const graft_formula_value *args, size_t n, graft_formula_value *out,
                               graft_err *e)
{
    (void)n;
    double x = graft_formula_f64(args[0]);
    return logarithm(x, log10(x), out, e);
}

static graft_status call_sin(const graft_formula_value *args, size_t n, graft_formula_value *out,
                             graft_err *e)
{
    (void)n, (void)e;
    return give(from_f64(sin(graft_formula_f64(args[0]))), out);
}

static graft_status call_cos(const graft_formula_value *args, size_t n, graft_formula_value *out,
                             graft_err *e)
{
    (void)n, (void)e;
    return give(from_f64(cos(graft_formula_f64(args[0]))), out);
}

static graft_status call_tan(const graft_formula_value *args, size_t n, graft_formula_value *out,
                             graft_err *e)
{
    (void)n, (void)e;
    return give(from_f64(tan(graft_formula_f64(args[0]))), out);
}

static graft_status call_int(const graft_formula_value *args, size_t n, graft_formula_value *out,
                             graft_err *e)
{
    (void)n;
    if (is_whole(args[0])) return give(from_whole(args[0].i), out);
    return to_whole(args[0].f, out, e);
}

static graft_status call_float(const graft_formula_value *args, size_t n, graft_formula_value *out,
                               graft_err *e)
{
    (void)n, (void)e;
    return give(from_f64(graft_formula_f64(args[0])), out);
}

graft_status graft_formula_call(const char *name, size_t length, const graft_formula_value *args,
                                size_t n, graft_formula_value *out, graft_err *e)
{
    static const struct {
        const char *name;
        function *call;
        size_t least, most;
    } all[] = {
        {"sum", call_sum, 0, SIZE_MAX}, {"min", call_min, 1, SIZE_MAX},
        {"max", call_max, 1, SIZE_MAX}, {"abs", call_abs, 1, 1},
        {"round", call_round, 1, 2},    {"pow", call_pow, 2, 2},
        {"sqrt", call_sqrt, 1, 1},      {"ceil", call_ceil, 1, 1},
        {"floor", call_floor, 1, 1},    {"log", call_log, 1, 2},
        {"log2", call_log2, 1, 1},      {"log10", call_log10, 1, 1},
        {"sin", call_sin, 1, 1},        {"cos", call_cos, 1, 1},
        {"tan", call_tan, 1, 1},        {"int", call_int, 1, 1},
        {"float", call_float, 1, 1},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (strlen(all[i].name) != length || memcmp(all[i].name, name, length) != 0) continue;
        if (n >= all[i].least && n <= all[i].most) return all[i].call(args, n, out, e);
        return graft_fail(e, GRAFT_E_ARG, "%s() does not take %zu values", all[i].name, n);
    }
    return graft_fail(e, GRAFT_E_ARG, "there is no function %.*s()",
                      (int)(length > 40 ? 40 : length), name);
}
