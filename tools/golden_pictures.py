#!/usr/bin/env python3
"""Makes golden/pictures: small pictures and latents, and what PyTorch computes of them by plain
definitions: one window for each pixel, masks and weights written out, nothing separated or running.
golden/README.md lists the tensors.

    tools/golden_pictures.py OUTPUT-FOLDER     write the files
    tools/golden_pictures.py --check FILE...   hold what is computed here against such files

Edges and morphology follow kornia's definitions (https://kornia.readthedocs.io, Apache-2.0),
transparency Android's (android.graphics.PorterDuff.Mode).

Debian: python3-torch python3-numpy. Sums' last bits depend on PyTorch's version and the processor;
the files in the repository are from 1.13.
"""
import os
import sys

import torch
import torch.nn.functional as F

import train_demo as td
from golden_file import holds, main

MODES = ["ADD", "CLEAR", "DARKEN", "DST", "DST_ATOP", "DST_IN", "DST_OUT", "DST_OVER", "LIGHTEN",
         "MULTIPLY", "OVERLAY", "SCREEN", "SRC", "SRC_ATOP", "SRC_IN", "SRC_OUT", "SRC_OVER", "XOR"]


# ---------------------------------------------------------------- filters; pictures are (N,H,W,C)

def windows(x, before, after, mode="constant", value=0.0):
    """The square around each pixel: (N,C,H,W,K*K)."""
    x = F.pad(x.permute(0, 3, 1, 2), (before, after, before, after), mode=mode,
              **({"value": value} if mode == "constant" else {}))
    return x.unfold(2, before + after + 1, 1).unfold(3, before + after + 1, 1).flatten(4)


def bell(radius, sigma, reach):
    x = torch.linspace(-reach, reach, 2 * radius + 1)
    w = torch.exp(-(x[:, None] ** 2 + x[None] ** 2) / (2 * sigma ** 2))
    return w / w.sum()


def correlate(x, kernel, mode):
    r = kernel.shape[0] // 2
    return (windows(x, r, r, mode) * kernel.flatten()).sum(-1).permute(0, 2, 3, 1)


def blur(x, radius, sigma):
    return correlate(x, bell(int(radius), sigma, 1.0), "reflect")


def sharpen(x, radius, sigma, alpha):
    radius = int(radius)
    k = bell(radius, sigma, 1.0) * (-10 * alpha)
    k[radius, radius] += 1 - k.sum()
    return correlate(x, k, "reflect").clamp(0, 1)


def canny(x, low, high):
    """(N,H,W,3), and how near the nearest decision was to the other outcome."""
    grey = x if x.shape[3] < 3 else (x[..., :3] * torch.tensor([0.299, 0.587, 0.114])).sum(-1, True)
    grey = correlate(grey, bell(2, 1.0, 2.0), "reflect")
    sobel = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]])
    gx, gy = correlate(grey, sobel, "replicate"), correlate(grey, sobel.T, "replicate")
    size = torch.sqrt(gx * gx + gy * gy + 1e-6)
    turn = torch.atan2(gy, gx) / (torch.pi / 4)
    around = windows(size, 1, 1)[:, 0]  # (N,H,W,9)
    clockwise = [5, 8, 7, 6, 3, 0, 1, 2]
    ahead = torch.tensor([clockwise[d % 8] for d in range(8)])[turn.round().long() % 8]
    behind = 8 - ahead
    least = torch.minimum(size - around.gather(3, ahead), size - around.gather(3, behind))
    doubt = torch.stack([least.abs(), (size - low).abs(), (size - high).abs(),
                         ((turn - 0.5) - (turn - 0.5).round()).abs()])
    doubt = doubt[:, size > 0.9 * low].min().item()
    thin = size * (least > 0)
    edge, weak = thin > high, thin > low
    while True:
        more = weak & (windows(edge.float(), 1, 1).amax(-1).permute(0, 2, 3, 1) > 0)
        if (more | edge).equal(edge):
            return edge.float().expand(-1, -1, -1, 3).contiguous(), doubt
        edge = edge | more


def extreme(x, size, largest):
    before = size - 1 - size // 2 if largest else size // 2
    w = windows(x, before, size - 1 - before, value=-torch.inf if largest else torch.inf)
    return (w.amax(-1) if largest else w.amin(-1)).permute(0, 2, 3, 1).contiguous()


def morphology(x, size):
    size = int(size)
    low, high = extreme(x, size, False), extreme(x, size, True)
    opened, closed = extreme(low, size, True), extreme(high, size, False)
    return dict(erode=low, dilate=high, open=opened, close=closed, gradient=high - low,
                bottom_hat=closed - x, top_hat=x - opened)


# ---------------------------------------------------------------- two of them

def resized(x, h, w, mode):
    """(N,C,H,W), cut to the aspect of h x w in its middle first."""
    old, new = x.shape[3] / x.shape[2], w / h
    left = top = 0
    if old > new:
        left = round((x.shape[3] - x.shape[3] * (new / old)) / 2)
    elif old < new:
        top = round((x.shape[2] - x.shape[2] * (old / new)) / 2)
    x = x[:, :, top:x.shape[2] - top, left:x.shape[3] - left]
    return x if x.shape[2:] == (h, w) else F.interpolate(x, size=(h, w), mode=mode)


def fitted(x, like):
    """A picture (N,H,W,C) at the size of another."""
    if x.shape[1:3] == like.shape[1:3]:
        return x
    return resized(x.permute(0, 3, 1, 2), *like.shape[1:3], "bicubic").permute(0, 2, 3, 1)


def porter_duff(source, source_mask, destination, destination_mask):
    n = min(len(x) for x in (source, source_mask, destination, destination_mask))
    sm = fitted(source_mask[..., None], source)[:n]
    dm = fitted(fitted(destination_mask[..., None], destination), source)[:n]
    sa, da = 1 - sm, 1 - dm
    s, d = source[:n] * sa, fitted(destination, source)[:n] * da
    both, zero = sa + da - sa * da, torch.zeros_like(sa)
    outside = s * (1 - da) + d * (1 - sa)
    pairs = {
        "ADD": ((sa + da).clamp(0, 1), (s + d).clamp(0, 1)), "CLEAR": (zero, zero * s),
        "DARKEN": (both, outside + torch.minimum(s, d)),
        "LIGHTEN": (both, outside + torch.maximum(s, d)),
        "DST": (da, d), "DST_ATOP": (sa, sa * d + (1 - da) * s), "DST_IN": (sa * da, d * sa),
        "DST_OUT": ((1 - sa) * da, (1 - sa) * d), "DST_OVER": (both, d + (1 - da) * s),
        "MULTIPLY": (sa * da, s * d), "SCREEN": (both, s + d - s * d),
        "OVERLAY": (both, torch.where(2 * d < da, 2 * s * d, sa * da - 2 * (da - s) * (sa - d))),
        "SRC": (sa, s), "SRC_ATOP": (da, da * s + (1 - sa) * d), "SRC_IN": (sa * da, s * da),
        "SRC_OUT": ((1 - da) * sa, (1 - da) * s), "SRC_OVER": (both, s + (1 - sa) * d),
        "XOR": (sa + da - 2 * sa * da, outside)}
    out = {}
    for mode in MODES:
        a, colour = pairs[mode]
        plain = torch.where(a > 1e-5, colour / a.clamp(min=1e-5), torch.zeros_like(colour))
        out[mode], out[f"{mode}.mask"] = plain.clamp(0, 1), 1 - a[..., 0]
    return out


def interpolate(a, b, ratio):
    if a.shape[1:] != b.shape[1:]:
        b = resized(b, *a.shape[2:], "bilinear")
    b = torch.cat([b] * len(a))[:len(a)]
    length = lambda x: (x * x).sum(1, True).sqrt()
    unit = lambda x: torch.where(length(x) > 0, x / length(x), torch.zeros_like(x))
    return (unit(unit(a) * ratio + unit(b) * (1 - ratio)) *
            (length(a) * ratio + length(b) * (1 - ratio)))


# ---------------------------------------------------------------- files

def outputs(name, i):
    if name.startswith("blur"):
        return dict(output=blur(i["image"], *i["numbers"].tolist()))
    if name.startswith("sharpen"):
        return dict(output=sharpen(i["image"], *i["numbers"].tolist()))
    if name.startswith("canny"):
        return dict(output=canny(i["image"], *i["numbers"].tolist())[0])
    if name.startswith("morphology"):
        return morphology(i["image"], *i["numbers"].tolist())
    if name.startswith("porter_duff"):
        return porter_duff(*[i[key] for key in ("source", "source_mask", "destination",
                                                "destination_mask")])
    return dict(output=interpolate(i["a"], i["b"], i["numbers"].item()))


def picture(g, *shape):
    return torch.rand(shape, generator=g)


def shapes(g, n, h, w, c):
    """Noise with smooth edges of all strengths in it."""
    x = F.interpolate(torch.rand((n, c, h // 4, w // 4), generator=g), size=(h, w), mode="bicubic")
    x = x + 0.04 * torch.rand((n, c, h, w), generator=g)
    return x.clamp(0, 1).permute(0, 2, 3, 1).contiguous()


def filters(g):
    numbers = lambda *v: torch.tensor(v)
    yield "blur0", dict(image=picture(g, 2, 9, 7, 3), numbers=numbers(1.0, 1.0))
    yield "blur1", dict(image=picture(g, 1, 32, 33, 1), numbers=numbers(31.0, 0.7))
    yield "blur2", dict(image=picture(g, 1, 5, 12, 4), numbers=numbers(4.0, 10.0))
    yield "sharpen0", dict(image=picture(g, 2, 6, 9, 3), numbers=numbers(1.0, 1.0, 1.0))
    yield "sharpen1", dict(image=picture(g, 1, 8, 8, 3) * 0.1 + 0.4, numbers=numbers(7.0, 0.3, 5.0))
    for k, (n, h, w, c, low, high) in enumerate([(2, 23, 31, 3, 0.4, 0.8), (1, 40, 17, 1, 0.1, 0.9),
                                                 (1, 3, 24, 4, 0.2, 0.3)]):
        doubt = 0
        while doubt < 1e-5:  # no decision that rounding could turn
            image = shapes(g, n, h + 4, w, c)[:, :h].contiguous()
            doubt = canny(image, low, high)[1]
        yield f"canny{k}", dict(image=image, numbers=numbers(low, high))
    for k, (shape, size) in enumerate([((2, 7, 11, 3), 3.0), ((1, 9, 40, 1), 4.0),
                                       ((1, 12, 6, 4), 31.0)]):
        yield f"morphology{k}", dict(image=picture(g, *shape), numbers=numbers(size))


def pairs(g):
    masks = lambda *shape: (picture(g, *shape) * 2 - 0.5).clamp(0, 1)  # clear, opaque and between
    yield "porter_duff0", dict(source=picture(g, 2, 5, 6, 3), source_mask=masks(2, 5, 6),
                               destination=picture(g, 3, 5, 6, 3), destination_mask=masks(2, 5, 6))
    yield "porter_duff1", dict(source=picture(g, 1, 4, 6, 3), source_mask=masks(1, 3, 3),
                               destination=picture(g, 1, 9, 7, 3), destination_mask=masks(1, 4, 4))
    normal = lambda *shape: torch.randn(shape, generator=g)
    a = normal(3, 4, 5, 7)
    a[1, :, 2, 3] = 0
    b = normal(2, 4, 5, 7)
    b[1, :, 2, 3:5] = 0
    yield "interpolate0", dict(a=a, b=b, numbers=torch.tensor([0.3]))
    yield "interpolate1", dict(a=normal(1, 16, 4, 6), b=normal(1, 16, 9, 5),
                               numbers=torch.tensor([0.75]))


def make(folder):
    g = torch.Generator().manual_seed(1986)
    os.makedirs(folder, exist_ok=True)
    for file, cases in (("filters", filters(g)), ("pairs", pairs(g))):
        tensors = {}
        for name, i in cases:
            o = outputs(name, i)
            tensors.update({f"{name}.{key}": v for key, v in {**i, **o}.items()})
            print(name, ", ".join(f"{key} {v.mean():.3f}" for key, v in o.items()))
        td.st_save(f"{folder}/{file}.safetensors", tensors)


def check(path):
    """True when every output in the file is what its inputs give here."""
    t, ok = td.st_load(path), True
    names = sorted({key.split(".")[0] for key in t})
    for name in names:
        i = {key[len(name) + 1:]: v for key, v in t.items() if key.startswith(name + ".")}
        for key, v in outputs(name, i).items():
            ok = (v.equal(i[key]) or holds(path, f"{name}.{key}", v, i[key])) and ok
    return ok and len(names) > 0


if __name__ == "__main__":
    sys.exit(main(__doc__, make, check))
