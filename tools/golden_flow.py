#!/usr/bin/env python3
"""Makes golden/small/flow.safetensors: sigmas of rectified flow models by every scheduler, and whole
runs of two samplers with the network of mmdit_sd3.safetensors. golden/README.md lists the tensors.

    tools/golden_flow.py OUTPUT-FOLDER     write the file; reads golden/small/mmdit_sd3.safetensors
    tools/golden_flow.py --check FILE...   hold what is computed here against such files, and the
                                           schedulers against golden/small/schedules.safetensors

A noisy latent is sigma * noise + (1 - sigma) * latent (arXiv:2403.03206, section 2); the network
gives v = noise - latent and is told 1000 * sigma. Schedules are computed in float64.

Debian: python3-torch python3-numpy. The generator's sequence and the last bits of sums depend on
PyTorch's version and the processor; the file in the repository is from 1.13.
"""
import json
import math
import os
import sys

import torch

import train_demo as td
from golden_file import PREFIX, config, error, holds, load, main
from mmdit import CHANNELS, MMDiT

SMALL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "small")
TIMESTEPS = 1000
SHIFTS, STEPS = (3.0, 1.0), (7, 20)
GUIDANCE, RUN_SHIFT = 5.0, 3.0
SHAPE, TOKENS = (2, CHANNELS, 8, 12), 5
# The sampler and the scheduler of a run, and how many of its steps: all, or the last ones only.
RUNS = [("euler", "simple", 6, 6), ("dpmpp_2m", "simple", 6, 6), ("euler", "sgm_uniform", 6, 4),
        ("dpmpp_2m", "beta", 6, 4)]


def shifted(t, shift):
    return shift * t / (1 + (shift - 1) * t)


class FlowTable:
    """Sigmas of timesteps 1 to 1000. A sigma's own timestep, 1000 * sigma, is what the network is
    told: with a shift it is not the timestep that the sigma is of."""

    def __init__(self, shift):
        self.shift = shift
        self.sigmas = [shifted(i / TIMESTEPS, shift) for i in range(1, TIMESTEPS + 1)]

    def sigma(self, timestep):
        return shifted(timestep / TIMESTEPS, self.shift)

    def timestep(self, sigma):
        return sigma * TIMESTEPS


class NoiseTable:
    """That of noise-predicting models, whose schedules are known: sigmas of timesteps 0 to 999, the
    logarithm linear in between."""

    def __init__(self, sigmas):
        self.sigmas = sigmas

    def sigma(self, timestep):
        low = min(int(timestep), len(self.sigmas) - 2)
        share = timestep - low
        a, b = math.log(self.sigmas[low]), math.log(self.sigmas[low + 1])
        return math.exp(a * (1 - share) + b * share)

    def timestep(self, sigma):
        return float(min(range(len(self.sigmas)), key=lambda i: abs(self.sigmas[i] - sigma)))


# ---------------------------------------------------------------------------------- schedulers

def simple(table, n):
    """Every so many-th of the table, from its end."""
    count = len(table.sigmas)
    return [table.sigmas[count - 1 - int(i * count / n)] for i in range(n)] + [0.0]


def even_timesteps(table, n, last):
    first, end = table.timestep(table.sigmas[-1]), table.timestep(table.sigmas[0])
    steps = n - 1 if last else n
    return [table.sigma(first + (end - first) * i / max(steps, 1)) for i in range(n)] + [0.0]


def normal(table, n):
    """Even timesteps from first to last, as in Stability AI's description of SD 3's sampling."""
    return even_timesteps(table, n, True)


def sgm_uniform(table, n):
    """The same without the last, as trained SDXL and its relatives are sampled."""
    return even_timesteps(table, n, False)


def ddim_uniform(table, n):
    """DDIM's (arXiv:2010.02502) even choice: as many as there are when every k-th is taken."""
    every = max(len(table.sigmas) // n, 1)
    return table.sigmas[1::every][::-1] + [0.0]


def karras(table, n):
    """arXiv:2206.00364, equation 5, rho 7."""
    high, low = table.sigmas[-1] ** (1 / 7), table.sigmas[0] ** (1 / 7)
    return [(high + i / max(n - 1, 1) * (low - high)) ** 7 for i in range(n)] + [0.0]


def exponential(table, n):
    """Even logarithms."""
    high, low = math.log(table.sigmas[-1]), math.log(table.sigmas[0])
    return [math.exp(high + i / max(n - 1, 1) * (low - high)) for i in range(n)] + [0.0]


def beta_share(x, a):
    """The beta distribution of twice the same parameter: the share below x, by its power series."""
    if x > 0.5:
        return 1 - beta_share(1 - x, a)
    total, term, k = 0.0, 1.0, 0
    while term > 1e-18:
        total += term / (a + k)
        term *= x * (1 - a + k) / (k + 1)
        k += 1
    return x ** a * total * math.gamma(2 * a) / math.gamma(a) ** 2


def beta_quantile(share, a):
    if share == 0.5:
        return 0.5      # exactly, since whole timesteps are rounded to even where two are as near
    low, high = 0.0, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if beta_share(middle, a) < share else (low, middle)
    return (low + high) / 2


def beta(table, n):
    """arXiv:2407.12173: timesteps by the quantiles of the beta distribution with 0.6 and 0.6."""
    top = len(table.sigmas) - 1
    at = [round(top * beta_quantile(1 - i / n, 0.6)) for i in range(n)]
    return [table.sigmas[t] for i, t in enumerate(at) if i == 0 or t != at[i - 1]] + [0.0]


def kl_optimal(table, n):
    """arXiv:2404.14507, theorem 3.1: even angles whose tangents are the sigmas."""
    high, low = math.atan(table.sigmas[-1]), math.atan(table.sigmas[0])
    return [math.tan(high + i / max(n - 1, 1) * (low - high)) for i in range(n)] + [0.0]


def linear_quadratic(table, n):
    """Mochi 1's: half of the steps take 0.025 off evenly, the others what is left, faster and
    faster, with the same slope where they meet."""
    high, half, part = table.sigmas[-1], n // 2, 0.025
    if n == 1:
        return [high, 0.0]
    rest = n - half
    slope = part / half
    curve = (1 - part - slope * rest) / rest ** 2
    done = [slope * i for i in range(half)]
    done += [part + slope * i + curve * i * i for i in range(rest)]
    return [high * (1 - d) for d in done] + [0.0]


SCHEDULERS = dict(simple=simple, normal=normal, sgm_uniform=sgm_uniform, beta=beta, karras=karras,
                  exponential=exponential, ddim_uniform=ddim_uniform, kl_optimal=kl_optimal,
                  linear_quadratic=linear_quadratic)


def schedules():
    out = {}
    for shift in SHIFTS:
        table = FlowTable(shift)
        out[f"shift{shift:g}.sigmas_table"] = table.sigmas
        for name, scheduler in SCHEDULERS.items():
            for n in STEPS:
                out[f"shift{shift:g}.{name}.{n}"] = scheduler(table, n)
    return {k: torch.tensor(v) for k, v in out.items()}


# ---------------------------------------------------------------------------------- samplers

def euler(denoise, x, sigmas):
    """arXiv:2206.00364, algorithm 1 without its second half."""
    for now, then in zip(sigmas, sigmas[1:]):
        x = x + (x - denoise(x, now)) / now * (then - now)
    return x


def dpmpp_2m(denoise, x, sigmas):
    """arXiv:2211.01095, algorithm 2, with the logarithm of 1/sigma for lambda and 1 for alpha; to
    sigma 0 by the first order."""
    before = step_before = None
    for now, then in zip(sigmas, sigmas[1:]):
        d = denoised = denoise(x, now)
        step = math.log(now / then) if then > 0 else math.inf
        if before is not None and then > 0:
            share = step / (2 * step_before)
            d = denoised + share * (denoised - before)
        x = then / now * x + (1 - then / now) * d
        before, step_before = denoised, step
    return x


SAMPLERS = dict(euler=euler, dpmpp_2m=dpmpp_2m)


def denoiser(net, t):
    """What guidance makes of both prompts: D = x - sigma v of each."""
    def denoise(x, sigma):
        n = len(x)
        told = torch.full((n,), TIMESTEPS * sigma, dtype=x.dtype)
        pos, neg = (x - sigma * net(x, told, t[f"{kind}.context"].expand(n, -1, -1),
                                    t[f"{kind}.y"].expand(n, -1))
                    for kind in ("positive", "negative"))
        return neg + GUIDANCE * (pos - neg)
    return denoise


@torch.no_grad()
def runs(net, t):
    """What RUNS give, by their names, in the precision of the tensors."""
    out, denoise, table = {}, denoiser(net, t), FlowTable(RUN_SHIFT)
    for sampler, scheduler, n, steps in RUNS:
        name = f"run.{sampler}.{scheduler}.{steps}"
        kept = torch.tensor(SCHEDULERS[scheduler](table, n)[-(steps + 1):])
        sigmas = kept.tolist()
        start = sigmas[0] * t["noise"] + (1 - sigmas[0]) * t["latent"]
        out.update({f"{name}.sigmas": kept, f"{name}.start": start,
                    f"{name}.denoised": denoise(start, sigmas[0]),
                    f"{name}.out": SAMPLERS[sampler](denoise, start, sigmas)})
    return out


def make(folder):
    source, g = f"{SMALL}/mmdit_sd3.safetensors", torch.Generator().manual_seed(2407)
    cfg, weights = config(source, "golden"), td.st_load(source)
    t = {k: v for k, v in weights.items() if k.startswith(PREFIX)}
    r = lambda *shape: torch.randn(shape, generator=g)
    for kind in ("positive", "negative"):
        t[f"{kind}.context"] = r(1, TOKENS, cfg["context_dim"])
        t[f"{kind}.y"] = r(1, cfg["pooled_dim"])
    t["noise"], t["latent"] = r(*SHAPE), r(*SHAPE)
    net = load(MMDiT(cfg), t, PREFIX)
    ran = runs(net, t)
    exact = runs(net.double(), {k: v.double() for k, v in t.items()})
    for name, v in ran.items():
        if name.endswith(".out"):
            print(f"{name}: largest value {v.abs().max():.2f},",
                  f"{error(v, exact[name]):.1g} from float64")
    td.st_save(f"{folder}/flow.safetensors", {**t, **schedules(), **ran},
               {"config": json.dumps(config(source)), "golden": json.dumps(cfg),
                "flow": json.dumps(dict(shifts=SHIFTS, steps=STEPS, schedulers=list(SCHEDULERS),
                                        guidance=GUIDANCE, run_shift=RUN_SHIFT))})


def known_schedules():
    """Whether the schedulers give what is known of them with another table."""
    path, ok = f"{SMALL}/schedules.safetensors", True
    t = td.st_load(path)
    table = NoiseTable([float(s) for s in t["sigmas_table"]])
    for key, want in t.items():
        name, _, n = key.partition(".")
        if name in SCHEDULERS and not want.isnan().any():
            got = torch.tensor(SCHEDULERS[name](table, int(n)))
            ok = len(got) == len(want) and holds(path, key, got, want) and ok
    return ok


def check(path):
    """True when every output in the file is what its inputs give here."""
    t, ok = td.st_load(path), known_schedules()
    net = load(MMDiT(config(path, "golden")), t, PREFIX)
    for key, v in {**schedules(), **runs(net, t)}.items():
        ok = holds(path, key, v, t[key]) and ok
    return ok


if __name__ == "__main__":
    sys.exit(main(__doc__, make, check))
