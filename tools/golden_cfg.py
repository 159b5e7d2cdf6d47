#!/usr/bin/env python3
"""Makes golden/small/cfg.safetensors: changes of classifier-free guidance by the formulas of their
papers, in float64. golden/README.md lists the tensors.

    tools/golden_cfg.py OUTPUT-FOLDER     write the file
    tools/golden_cfg.py --check FILE...   hold what is computed here against such files

Debian: python3-torch python3-numpy. The generator's sequence depends on PyTorch's version; the file
in the repository is from 1.13.
"""
import json
import sys

import torch
import torch.nn.functional as F

import train_demo as td
from golden_file import config, holds, main

CFG, SHAPE = 6.5, (2, 4, 5, 7)
SIGMAS = (3.0, 1.5, 0.25)           # of calls of one run, in this order
NUMBERS = dict(projected=dict(eta=0.25, threshold=0.0, momentum=0.0),
               limited=dict(eta=1.0, threshold=5.0, momentum=0.0),
               slowed=dict(eta=-0.5, threshold=40.0, momentum=-0.5),
               renormed=dict(until=2.0, most=1.25), normed=dict(strength=0.875))


def per_picture(v, like):
    return v.reshape((-1,) + (1,) * (like.dim() - 1))


def dot(a, b):
    return per_picture((a * b).flatten(1).sum(1), a)


def length(v):
    return per_picture(v.flatten(1).norm(dim=1), v)


def guided(p, n):
    return n + CFG * (p - n)


def projected(p, n, before, eta, threshold, momentum):
    """D, and what the next call knows."""
    g = p - n + (momentum * before if momentum and before is not None else 0)
    known = g
    if threshold:
        g = g * torch.clamp(threshold / length(g), max=1)
    along = dot(g, p) / dot(p, p) * p
    return guided(n + g - along + eta * along + (p - n) / CFG, n), known


def tangential(x, p, n):
    rows = torch.stack([(x - n).flatten(1), (x - p).flatten(1)], 1)
    first = torch.linalg.svd(rows, full_matrices=False)[2][:, 0].reshape(x.shape)
    return guided(p, x - dot(x - n, first) * first)


def renormed(p, n, sigma, until, most):
    d = guided(p, n)
    if sigma >= until:
        return p
    return torch.where(length(d) > most * length(p), d * most * length(p) / length(d), d)


def zero_star(x, p, n):
    a = dot(x - p, x - n) / dot(x - n, x - n)
    return guided(p, n) + (a - 1) * n + CFG * (1 - a) * n


def normed(p, n, strength):
    d = guided(p, n)
    return strength * d * torch.clamp(p.norm(dim=1, keepdim=True) / d.norm(dim=1, keepdim=True),
                                      max=1)


def similar(p, n):
    d, root = guided(p, n), lambda v: v.sign() * v.abs().sqrt()
    s = 1 + per_picture(F.cosine_similarity(root(CFG * n), root((CFG * p + d) / 2), dim=1)
                        .flatten(1).mean(1), p)
    return s / 2 * d + (1 - s / 2) * CFG * p


def results(calls):
    before, out = {}, []
    for sigma, (x, p, n) in zip(SIGMAS, calls):
        x, p, n = x.double(), p.double(), n.double()
        r = dict(tangential=tangential(x, p, n), zero_star=zero_star(x, p, n),
                 similar=similar(p, n), normed=normed(p, n, **NUMBERS["normed"]),
                 renormed=renormed(p, n, sigma, **NUMBERS["renormed"]))
        for name in ("projected", "limited", "slowed"):
            r[name], before[name] = projected(p, n, before.get(name), **NUMBERS[name])
        out.append({name: v.float() for name, v in r.items()})
    return out


def make(folder):
    g = torch.Generator().manual_seed(2207)
    calls = []
    for sigma in SIGMAS:
        latent, noise, more = (torch.randn(SHAPE, generator=g) for _ in range(3))
        p = latent + 0.25 * sigma * more
        n = 0.5 * latent + 0.25 * sigma * torch.randn(SHAPE, generator=g)
        calls.append((latent + sigma * noise, p, n))
    tensors = {}
    for k, (call, r) in enumerate(zip(calls, results(calls))):
        for name, v in dict(zip(("x", "positive", "negative"), call), **r).items():
            tensors[f"case{k}.{name}"] = v.contiguous()
        tensors[f"case{k}.sigma"] = torch.tensor([SIGMAS[k]])
    td.st_save(f"{folder}/cfg.safetensors", tensors,
               {"golden": json.dumps(dict(NUMBERS, cfg=CFG))})


def check(path):
    t, ok = td.st_load(path), True
    for k, r in enumerate(results([[t[f"case{k}.{name}"] for name in ("x", "positive", "negative")]
                                   for k in range(len(SIGMAS))])):
        for name, v in r.items():
            ok = holds(path, f"case{k} {name}", v, t[f"case{k}.{name}"]) and ok
    return ok


if __name__ == "__main__":
    sys.exit(main(__doc__, make, check))
