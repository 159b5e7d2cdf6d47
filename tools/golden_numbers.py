#!/usr/bin/env python3
"""Makes tests/sampling/numbers_values.inc: where samplers with numbers of their own end, in float64
and from their definitions, on the toy problem of tests/sampling/numbers.c.

    tools/golden_numbers.py > tests/sampling/numbers_values.inc

dpm_adaptive: DPM-Solver-12 and -23 (arXiv:2206.00927) with k-diffusion's controller of step lengths.
sa_solver: SA-Solver (arXiv:2309.05019), whose integrals are taken numerically.
"""
import math
import struct
import sys

N, STEPS = 8, 6


def float32(v):
    return struct.unpack("f", struct.pack("f", v))[0]


# sa_solver's, for steps enough of a high order.
FINE = [float32(10 * 0.02 ** (i / 11)) for i in range(12)] + [0.0]
SIGMA = [float32(10 * 0.02 ** (i / (STEPS - 1))) for i in range(STEPS)] + [0.0]


def start():
    return [float32(SIGMA[0] * math.sin(1 + i)) for i in range(N)]


class Model:
    def __init__(self):
        self.calls = 0

    def __call__(self, x, s):
        self.calls += 1
        return [v / (1 + s * s) + 0.1 * math.sin(i + s) for i, v in enumerate(x)]

    def noise(self, s, t):
        return [math.cos(3 * s + 5 * t + 7 * i) for i in range(N)]


def lerp(*terms):
    """Sum of factor times vector."""
    return [sum(f * v[i] for f, v in terms) for i in range(N)]


# ---------------------------------------------------------------- dpm_adaptive


def solver(model, x, a, b, order, eps, inner):
    """DPM-Solver-1 to -3 from lambda = a to b; eps: at a; inner: place of the first inner point, and
    of the second. Algorithms 1, 4 and 5 of the paper with alpha = 1."""
    h = b - a
    s = lambda t: math.exp(-t)
    predict = lambda y, t: lerp((1 / s(t), y), (-1 / s(t), model(y, s(t))))
    if order == 1:
        return lerp((1, x), (-s(b) * math.expm1(h), eps))
    r1 = inner[0]
    u1 = lerp((1, x), (-s(a + r1 * h) * math.expm1(r1 * h), eps))
    eps1 = predict(u1, a + r1 * h)
    change1 = lerp((1, eps1), (-1, eps))
    if order == 2:
        return lerp((1, x), (-s(b) * math.expm1(h), eps), (-s(b) / (2 * r1) * math.expm1(h), change1))
    r2 = inner[1]
    phi = lambda z: math.expm1(z) / z - 1
    u2 = lerp((1, x), (-s(a + r2 * h) * math.expm1(r2 * h), eps),
              (-s(a + r2 * h) * r2 / r1 * phi(r2 * h), change1))
    change2 = lerp((1, predict(u2, a + r2 * h)), (-1, eps))
    return lerp((1, x), (-s(b) * math.expm1(h), eps), (-s(b) / r2 * phi(h), change2))


def dpm_adaptive(order, rtol, atol, h_init, p, i, d, safety, eta, s_noise):
    model, x = Model(), start()
    at, end, h = -math.log(SIGMA[0]), -math.log(SIGMA[STEPS - 1]), h_init
    before, history, refused = x, None, 0
    k = 1.5 if eta else order
    while at < end - 1e-5:
        to = min(end, at + h)
        goal, up = to, 0.0
        if eta:
            s, t = math.exp(-at), math.exp(-to)
            up = min(t, eta * math.sqrt(t * t * (s * s - t * t)) / s)
            down = math.sqrt(t * t - up * up)
            goal = min(end, -math.log(down)) if down > 0 else end
            up = math.sqrt(t * t - math.exp(-2 * goal))
        calls = model.calls
        eps = lerp((math.exp(at), x), (-math.exp(at), model(x, math.exp(-at))))
        if order == 2:
            low = solver(model, x, at, goal, 1, eps, None)
            high = solver(model, x, at, goal, 2, eps, (1 / 2,))
        else:
            low = solver(model, x, at, goal, 2, eps, (1 / 3,))
            high = solver(model, x, at, goal, 3, eps, (1 / 3, 2 / 3))
        model.calls = calls + order  # the inner point of both orders is the same
        ratio = [(l - v) / max(atol, rtol * max(abs(l), abs(b))) for l, v, b in zip(low, high, before)]
        e = 1 / (math.sqrt(sum(v * v for v in ratio) / N) + 1e-8)
        history = history or [e, e]
        factor = e ** ((p + i + d) / k) * history[0] ** (-(p + 2 * d) / k) * history[1] ** (d / k)
        factor = 1 + math.atan(factor - 1)
        h *= factor
        if factor >= safety:
            history = [e, history[0]]
            noise = model.noise(math.exp(-at), math.exp(-to))
            before, x, at = low, lerp((1, high), (up * s_noise, noise)), to
        else:
            refused += 1
    return x, model.calls, refused


ADAPTIVE = [
    # order, rtol, atol, h_init, pcoeff, icoeff, dcoeff, accept_safety, eta, s_noise
    (3, 0.05, 0.0078, 0.05, 0, 1, 0, 0.81, 0, 1),
    (2, 0.05, 0.0078, 0.05, 0, 1, 0, 0.81, 0, 1),
    (3, 0.01, 0.001, 0.7, 0.2, 0.8, 0.1, 0.95, 0, 1),
    (2, 0.02, 0.002, 1.5, 0.3, 0.6, 0.2, 0.97, 0, 1),
    (3, 0.05, 0.0078, 0.05, 0, 1, 0, 0.81, 1, 1),
    (2, 0.05, 0.0078, 0.9, 0.1, 0.9, 0, 0.9, 0.6, 1.3),
    (3, 0.05, 0.0078, 0.3, 0, 1, 0, 0.81, 1.1, 0.5),
    (3, 0.0, 0.01, 0.2, 0, 0.5, 0, 0.5, 0, 0),
]


# ---------------------------------------------------------------- sa_solver


def integral(f, a, b, pieces=2000):
    """Simpson's rule."""
    w = (b - a) / pieces
    odd = sum(f(a + i * w) for i in range(1, pieces, 2))
    even = sum(f(a + i * w) for i in range(2, pieces, 2))
    return w / 3 * (f(a) + 4 * odd + 2 * even + f(b))


def adams(known, a, b, tau, simple):
    """The predictions' share of the state at lambda = b, coming from a; known: (lambda, D), newest
    last. Eq. 14 and 17 of the paper; simple: its appendix D for two predictions."""
    rate = 1 + tau * tau
    kernel = lambda v: rate * math.exp(rate * (v - b))
    if simple and len(known) == 2:
        (l0, _), (l1, _) = known
        zeroth, first = integral(kernel, a, b), rate * (b - a) ** 2 / 2
        # kernel times the line through both points, whose moment about a is the short one
        weights = [(zeroth * (l1 - a) - first) / (l1 - l0), (zeroth * (a - l0) + first) / (l1 - l0)]
    else:
        def basis(j):
            def value(v):
                f = kernel(v)
                for m, (l, _) in enumerate(known):
                    f *= (v - l) / (known[j][0] - l) if m != j else 1
                return f
            return value
        weights = [integral(basis(j), a, b) for j in range(len(known))]
    return lerp(*((w, d) for w, (_, d) in zip(weights, known)))


def sa_solver(eta, noise_from, noise_to, s_noise, predictor, corrector, pece, simple, to_zero):
    model, sigma = Model(), FINE if to_zero else FINE[:-1]
    x = ahead = start()
    known, tau, noise = [], 0.0, None
    steps = len(sigma) - 1

    def move(order, a, b):
        s, t = sigma[a], sigma[b]
        h = math.log(s / t)
        moved = lerp((t / s * math.exp(-tau * tau * h), x),
                     (1, adams(known[-order:], -math.log(s), -math.log(t), tau, simple)))
        if tau == 0:
            return moved
        return lerp((1, moved), (s_noise * t * math.sqrt(1 - math.exp(-2 * tau * tau * h)), noise))

    for i in range(steps):
        s, t = sigma[i], sigma[i + 1]
        known.append((-math.log(s), model(ahead, s)))
        left = steps - i if to_zero else 99
        order = min(corrector, i + 1, left)
        if i == 0 or order == 0 or (t == 0 and not pece):
            x = ahead
        else:
            x = move(order, i - 1, i)
            if pece:
                known[-1] = (-math.log(s), model(x, s))
        if t == 0:
            return known[-1][1], model.calls
        tau = eta if noise_from >= t >= noise_to else 0.0
        noise = model.noise(s, t)
        ahead = move(min(predictor, i + 1, left - 1), i, i + 1)
    return ahead, model.calls


SA = [
    # eta, noise_from, noise_to, s_noise, predictor, corrector, pece, simple, to_zero
    (1, 5, 0.4, 1, 3, 4, 0, 0, 1),
    (1, 5, 0.4, 1, 3, 4, 1, 0, 1),
    (0, 5, 0.4, 1, 6, 6, 0, 0, 0),
    (0.5, 100, 0, 1.3, 6, 6, 0, 0, 0),
    (1.5, 3, 1, 0.7, 5, 6, 1, 0, 1),
    (1, 100, 0, 1, 1, 0, 0, 0, 1),
    (2, 100, 0.3, 1, 4, 1, 0, 0, 0),
    (1, 100, 0, 0, 3, 0, 1, 0, 1),
    (0.8, 100, 0, 1, 2, 2, 0, 1, 0),
    (0.8, 100, 0, 1, 2, 2, 0, 0, 0),
    (0, 100, 0, 1, 3, 2, 1, 1, 1),
]


def row(out, case, calls, x):
    out.write("    {" + ", ".join(f"{v:g}" for v in case) + f",\n     {calls},\n     {{")
    out.write(",\n      ".join(", ".join(f"{v:.17g}" for v in x[i:i + 4]) for i in (0, 4)) + "}},\n")


def main():
    out = sys.stdout
    out.write("/* Written by tools/golden_numbers.py. */\n")
    out.write("static const struct adaptive_case {\n")
    out.write("    int order;\n    double rtol, atol, h_init, p, i, d, safety, eta, s_noise;\n")
    out.write("    int calls;\n    double x[N];\n} adaptive_cases[] = {\n")
    for case in ADAPTIVE:
        x, calls, refused = dpm_adaptive(*case)
        sys.stderr.write(f"dpm_adaptive {case}: {calls} evaluations, {refused} refused\n")
        row(out, case, calls, x)
    out.write("};\n\nstatic const struct sa_case {\n    double eta, from, to, s_noise;\n")
    out.write("    int predictor, corrector, pece, simple, to_zero, calls;\n    double x[N];\n")
    out.write("} sa_cases[] = {\n")
    for case in SA:
        x, calls = sa_solver(*case)
        row(out, case, calls, x)
    out.write("};\n")


main()
