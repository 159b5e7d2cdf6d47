#!/usr/bin/env python3
"""Makes golden/pictures/operations.safetensors: operations on latents, in float64 and from their
definitions (engine/latents.h tells them). golden/README.md lists the tensors.

    tools/golden_operations.py OUTPUT-FOLDER     write the file
    tools/golden_operations.py --check FILE...   hold what is computed here against such files

Debian: python3-torch python3-numpy.
"""
import sys

import numpy as np
import torch

import train_demo as td
from golden_file import holds, main

TONEMAP, SHARPEN = 0, 1
# Shape of the latent; kind, multiplier, radius, sigma, alpha.
CASES = [((2, 4, 12, 10), (TONEMAP, 1, 0, 0, 0)),
         ((1, 16, 5, 9), (TONEMAP, 0.3, 0, 0, 0)),
         ((3, 4, 4, 4), (TONEMAP, 40, 0, 0, 0)),
         ((2, 4, 1, 1), (TONEMAP, 1, 0, 0, 0)),
         ((2, 4, 12, 10), (SHARPEN, 0, 9, 1, 0.1)),
         ((1, 16, 3, 7), (SHARPEN, 0, 1, 0.5, 2)),
         ((2, 3, 9, 6), (SHARPEN, 0, 5, 10, 0.7)),
         ((1, 4, 33, 32), (SHARPEN, 0, 31, 0.3, 0.25))]
CFG = 3.5


def tonemap(x, multiplier):
    """Each sample's vectors of channels by Reinhard's L / (1 + L), L in units of the top."""
    out = np.empty_like(x)
    for i, sample in enumerate(x):
        length = np.sqrt((sample ** 2).sum(0)) + 1e-10
        deviation = length.std(ddof=1) if length.size > 1 else 0.0
        top = multiplier * (length.mean() + 5 * deviation)
        light = length / top
        out[i] = sample / length * (light / (1 + light) * top)
    return out


def sharpen(x, radius, sigma, alpha):
    """The direction of each vector, filtered with a square kernel of the sum 1 whose surroundings
    of the middle are a bell times -10 alpha, and its length."""
    at = np.linspace(-1, 1, 2 * radius + 1)
    kernel = np.exp(-(at[:, None] ** 2 + at[None, :] ** 2) / (2 * sigma ** 2))
    kernel *= -10 * alpha / kernel.sum()
    kernel[radius, radius] += 1 - kernel.sum()
    length = np.sqrt((x ** 2).sum(1, keepdims=True)) + 1e-6
    wide = np.pad(x / length, ((0, 0), (0, 0), (radius, radius), (radius, radius)), "reflect")
    out, (h, w) = np.zeros_like(x), x.shape[2:]
    for j in range(2 * radius + 1):
        for i in range(2 * radius + 1):
            out += kernel[j, i] * wide[:, :, j:j + h, i:i + w]
    return out * length


def operate(x, numbers):
    kind, multiplier, radius, sigma, alpha = numbers
    return tonemap(x, multiplier) if kind == TONEMAP else sharpen(x, int(radius), sigma, alpha)


def results(inputs):
    """Of pairs of latents: the operation on the first, and guidance between both with it."""
    out = {}
    for k, ((a, b), (_, numbers)) in enumerate(zip(inputs, CASES)):
        a, b = a.astype(np.float64), b.astype(np.float64)
        out[f"operation{k}.output"] = operate(a, numbers)
        out[f"operation{k}.guided"] = b + CFG * operate(a - b, numbers)
    return out


def make(folder):
    draw = np.random.RandomState(2301)
    inputs = [[draw.standard_normal(shape).astype(np.float32) for _ in range(2)]
              for shape, _ in CASES]
    tensors = {k: torch.from_numpy(v).float() for k, v in results(inputs).items()}
    for k, ((a, b), (_, numbers)) in enumerate(zip(inputs, CASES)):
        tensors[f"operation{k}.samples"] = torch.from_numpy(a)
        tensors[f"operation{k}.negative"] = torch.from_numpy(b)
        tensors[f"operation{k}.numbers"] = torch.tensor(numbers, dtype=torch.float32)
    td.st_save(f"{folder}/operations.safetensors", tensors)


def check(path):
    t, ok = td.st_load(path), True
    inputs = [[t[f"operation{k}.{name}"].numpy() for name in ("samples", "negative")]
              for k in range(len(CASES))]
    for name, v in results(inputs).items():
        ok = holds(path, name, torch.from_numpy(v), t[name].double()) and ok
    return ok


if __name__ == "__main__":
    sys.exit(main(__doc__, make, check))
