#!/usr/bin/env python3
"""Writes tests/text/formulas.json: what Python makes of formulas, with a = 7, b = -2.5, c = 4 and
d = True. A result is a whole number, a number with a fraction, true or false, or null where Python
raises an error or gives what is no number.

    python3 tools/golden_formulas.py > tests/text/formulas.json
"""
import json
import math
import random

NAMES = {"a": 7, "b": -2.5, "c": 4, "d": True}


def total(*args):
    return sum(args[0]) if len(args) == 1 and isinstance(args[0], list) else sum(args)


FUNCTIONS = {
    "sum": total, "min": min, "max": max, "abs": abs, "round": round, "pow": pow,
    "sqrt": math.sqrt, "ceil": math.ceil, "floor": math.floor, "log": math.log,
    "log2": math.log2, "log10": math.log10, "sin": math.sin, "cos": math.cos, "tan": math.tan,
    "int": int, "float": float,
}
WRITTEN = [
    "a + b", "a+b*c", "(a+b)*c", "-a ** 2", "(-a) ** 2", "2 ** -1", "2 ** 3 ** 2", "a // c",
    "-a // c",
    "a % c", "-a % c", "a % -c", "b // 2", "b % 2", "-7.5 % -2", "7.5 // -2", "a / c", "1e3", ".5",
    "5.", "1.5e-3", "00", "a if d else 1 / 0", "1 / 0 if not d else c", "d and a", "0 or b",
    "not a",
    "not not a", "1 < 2 < 3", "1 < 3 < 2", "3 > 2 >= 2 == 2 != 1", "a < b or c > 3 and d",
    "True + True",
    "False * 5", "~a", "a & c", "a | 8", "a ^ 2", "1 << 10", "-9 >> 1", "-9 >> 70", "1 << 62",
    "round(2.5)", "round(3.5)", "round(-2.5)", "round(2.675, 2)", "round(1234, -2)",
    "round(1250, -2)",
    "round(1350, -2)", "round(2.5, 0)", "round(7, 1)", "round(1234.5, -2)", "floor(b)", "ceil(b)",
    "int(b)", "int(-b)", "float(a)", "abs(b)", "abs(-a)", "abs(d)", "min(a, b, c)", "max(a, b, c)",
    "min(2, 2.0)", "max(1, True)", "sum(values)", "min(values)", "max(values)", "sum(a, b)",
    "sum()",
    "pow(2, 10)", "pow(2, 0.5)", "sqrt(2)", "log(8, 2)", "log(10)", "log2(8)", "log10(1000)",
    "sin(1)",
    "cos(1)", "tan(1)", "floor((a - 1) / 4) * 4 + 1", "max(5, 4*floor((a-1)/4)+1)",
    "(a + 22) + (5 - ((a + 22) % 17)) % 17", "round(a * 1.5 / 8) * 8", "a * 0.5", "+a", "- - a",
    "+-+a", "2**-2**2", "a<b", "a\n+\tc", "  a  ", "9007199254740993 + 0",
    "4611686018427387904 * 1",
    "0.1 + 0.2",
    # wholes that 64 bits do not hold, on the way
    "2 ** 63 - 1", "-9223372036854775808", "-9223372036854775808 + 1", "2 ** 64 // 3",
    "-2 ** 64 // 7", "2 ** 64 % 1000", "-2 ** 100 % 1000", "1 << 64 >> 64", "-1 << 90 >> 88",
    "2 ** 126 - 2 ** 126 + 1", "-(2 ** 63) // -1 - 1", "~(2 ** 63) + 1",
    "(2 ** 100 ^ 2 ** 100 - 1) >> 90", "2 ** 100 + 5 & 2 ** 70 - 1", "10 ** 30 // 10 ** 20",
    "99999999999999999999 - 99999999999999999990", "-(-2 ** 63) - 2 ** 63",
    "9007199254740993 == 9007199254740992.0", "9007199254740993 > 9007199254740992.0",
    "9007199254740992.0 < 9007199254740993", "2 ** 100 == 2.0 ** 100", "-2 ** 100 < -1e31",
    "2 ** 100 + 1 == 2.0 ** 100", "1e300 > 2 ** 100", "max(9007199254740993, 9007199254740992.0)",
    "min(9007199254740991, 9007199254740992.0)", "round(9007199254740993, -1)",
    "round(9223372036854775807, -18)", "round(-25, -1)", "round(-35, -1)", "round(15, -1)",
    "round(-14, -1)", "round(4, -1)", "round(-149, -2)", "9007199254740993 / 3",
    "4611686018427387905 / 3", "9223372036854775807 / 9223372036854775806", "10 ** 20 / 3",
    "0 / -5", "int(1e20) // 70", "int(-1e20) % 7", "floor(1e25) // 10 ** 18",
    "ceil(-1e25) // 10 ** 18", "round(1e20) - 10 ** 20", "sum(2 ** 63, -1, -2 ** 63)",
    "pow(2, 70) // pow(2, 60)", "abs(-2 ** 63) - 1",
    # what is an error
    "", "   ", "a +", "+", "(a", "a)", "a b", "1 2", "1.2.3", "a, b", "f(1)", "e", "1 / 0",
    "1 // 0",
    "1 % 0", "0 ** -1", "(-2) ** 0.5", "sqrt(-1)", "log(0)", "abs()", "abs(1, 2)", "min()",
    "a if c",
    "if", "not", "a and", "1..2", "2x", "a = 1", "a == ", "'a'", "values", "round(1.5, 2.5)", "()",
    "1e400", "10 ** 400 / 1", "5 < ", "a ? b : c", "max", "sum(", "sum(1,,2)", "a !b", "~1.5",
    "1 << -1",
]


def made(rng, depth):
    if depth <= 0 or rng.random() < 0.15:
        number = f"{rng.random() * 9:.3f}"
        return rng.choice(["a", "b", "c", "d", str(rng.randrange(20)), number, "2.5"])
    one = made(rng, depth - 1)
    two = made(rng, depth - 1)
    kind = rng.randrange(8)
    if kind < 4:
        sign = rng.choice(["+", "-", "*", "/", "//", "%", "<", "<=", ">", ">=", "==", "!=", " and ",
                           " or "])
        return f"{one}{sign}{two}"
    if kind == 4:
        return f"({one})"
    if kind == 5:
        return f"-{one}" if rng.random() < 0.7 else f"(not {one})"
    if kind == 6:
        return f"({one} if {two} else {made(rng, depth - 1)})"
    name = rng.choice(["min", "max", "sum", "abs", "round", "floor", "ceil", "int", "float"])
    return f"{name}({one}, {two})" if name in ("min", "max", "sum") else f"{name}({one})"


def large(rng):
    """Of three wholes, whose products have up to 126 bits."""
    numbers = [str(rng.choice([-1, 1]) * rng.randrange(2**42)) for _ in range(3)]
    signs = [rng.choice(["+", "-", "*", "/", "//", "%", "&", "|", "^", "<", "=="])
             for _ in range(2)]
    return "({0} {3} {1}) {4} {2}".format(*numbers, *signs)


def result(text):
    scope = {**FUNCTIONS, **NAMES, "values": list(NAMES.values()), "__builtins__": {}}
    try:
        value = eval(" ".join(text.split()), scope)
    except Exception:
        return None
    if isinstance(value, (bool, int)):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return {"float": value}
    return None


def main():
    rng = random.Random(7)
    texts = list(WRITTEN)
    while len(texts) < len(WRITTEN) + 400:
        text = made(rng, 4)
        value = result(text)
        whole = not isinstance(value, (bool, int)) or abs(value) < 2**62
        if text not in texts and whole and len(text) < 120:
            texts.append(text)
    while len(texts) < len(WRITTEN) + 500:
        text = large(rng)
        value = result(text)
        if value is not None and (isinstance(value, dict) or abs(value) < 2**63):
            texts.append(text)
    lines = ",\n".join(json.dumps([text, result(text)]) for text in texts)
    print(f"[\n{lines}\n]")


main()
