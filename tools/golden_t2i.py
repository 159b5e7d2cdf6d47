#!/usr/bin/env python3
"""Makes golden/small/t2i_*.safetensors: small random T2I-Adapters (Mou et al. 2023,
arXiv:2302.08453), pictures, and the features that PyTorch computes of them in float32.
golden/README.md lists the tensors.

    tools/golden_t2i.py OUTPUT-FOLDER     write the files
    tools/golden_t2i.py --check FILE...   hold the modules below against such files

Debian: python3-torch python3-numpy. The generator's sequence depends on PyTorch's version; that in
the repository is from 1.13.
"""
import json
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

import train_demo as td
from golden_file import config, holds, load, main


def conv(i, o, k):
    return nn.Conv2d(i, o, k, padding=k // 2)


class Residual(nn.Module):
    """Two convolutions beside x. The authors' full adapter has the layer that changes channels in
    the first residual block of a feature, and diffusers before all of them."""

    def __init__(self, width, kernel, before=None):
        super().__init__()
        if before not in (None, width):
            self.in_conv = conv(before, width, kernel)
        self.block1, self.block2 = conv(width, width, 3), conv(width, width, kernel)

    def forward(self, x):
        x = self.in_conv(x) if hasattr(self, "in_conv") else x
        return x + self.block2(F.relu(self.block1(x)))


class Stage(nn.Module):
    """What makes one feature where it is a module of its own: diffusers' AdapterBlock, and either
    form of a light adapter's, which is a quarter as wide within."""

    def __init__(self, before, width, blocks, light, inner):
        super().__init__()
        mid = width // 4 if light else width
        if light or before != width:
            self.in_conv = conv(before, mid, 1)
        chain = nn.Sequential(*[Residual(mid, 3 if light else 1) for _ in range(blocks)])
        setattr(self, inner, chain)
        self.chain = [chain]
        if light:
            self.out_conv = conv(mid, width, 1)

    def forward(self, x):
        x = self.in_conv(x) if hasattr(self, "in_conv") else x
        x = self.chain[0](x)
        return self.out_conv(x) if hasattr(self, "out_conv") else x


class Adapter(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg, c, n = cfg, cfg["channels"], cfg["blocks"]
        before = cfg["colours"] * cfg["factor"] ** 2
        if not cfg["light"]:
            self.conv_in = conv(before, c[0], 3)
            before = c[0]
        body = []
        for width in c:
            if cfg["light"] or cfg["diffusers"]:
                inner = "resnets" if cfg["diffusers"] else "body"
                body.append(Stage(before, width, n, cfg["light"], inner))
            else:
                body += [Residual(width, cfg["kernel"], before if i == 0 else None)
                         for i in range(n)]
            before = width
        self.body = nn.ModuleList(body)

    def stage(self, k):
        if self.cfg["light"] or self.cfg["diffusers"]:
            return [self.body[k]]
        n = self.cfg["blocks"]
        return list(self.body[k * n:(k + 1) * n])

    def forward(self, picture):
        """picture (N,3,H,W) in 0..1."""
        cfg, out = self.cfg, []
        if cfg["colours"] == 1:
            picture = picture.mean(1, keepdim=True)
        x = F.pixel_unshuffle(picture, cfg["factor"])
        x = x if cfg["light"] else self.conv_in(x)
        for k in range(len(cfg["channels"])):
            if k == 2 if cfg["factor"] == 16 else k > 0:
                x = F.avg_pool2d(x, 2, 2, ceil_mode=True)
            for part in self.stage(k):
                x = part(x)
            out.append(x)
        return out


# Latents of odd sizes, which are odd again when halved. XL's pictures are larger than the latent
# where that is odd: a place is two of its cells.
CONFIGS = {
    "sd1": dict(factor=8, colours=3, channels=[8, 16, 16, 24], blocks=2, kernel=1, light=False,
                diffusers=False, places=[5, 3]),
    "light": dict(factor=8, colours=3, channels=[8, 16, 16, 24], blocks=2, kernel=1, light=True,
                  diffusers=False, places=[3, 5]),
    "xl": dict(factor=16, colours=1, channels=[8, 16, 24, 24], blocks=2, kernel=1, light=False,
               diffusers=True, places=[3, 2]),
    "xl_authors": dict(factor=16, colours=1, channels=[8, 8, 16, 16], blocks=1, kernel=3,
                       light=False, diffusers=False, places=[1, 3]),
}
PICTURES = [1, 2]           # of each case; what is put behind them in the second is one for both
STRENGTHS = (1.0, 0.5)      # of the two together


def prefix(cfg):
    return "adapter." if cfg["diffusers"] else ""


def randomize(net, g):
    """Values that keep activations near 1, rounded to what the file stores."""
    for p in net.parameters():
        r = torch.randn(p.shape, generator=g)
        r = r * 1.2 / p[0].numel() ** 0.5 if p.dim() > 1 else r * 0.2
        p.data.copy_(r.half().float())


def pictures(cfg, n, g):
    """Colours that vary with every pixel, in 256 steps."""
    h, w = (cfg["factor"] * side for side in cfg["places"])
    return (torch.rand((n, 3, h, w), generator=g) * 255).round() / 256


@torch.no_grad()
def outputs(net, i):
    a, *b = (net(v.permute(0, 3, 1, 2).float()) for v in i.values())
    if not b:
        return {f"feature.{k}": v for k, v in enumerate(a)}
    return {f"both.{k}": STRENGTHS[0] * v + STRENGTHS[1] * w for k, (v, w) in enumerate(zip(a, *b))}


def make(name, seed, folder):
    cfg, g = CONFIGS[name], torch.Generator().manual_seed(seed)
    net = Adapter(cfg)
    randomize(net, g)
    tensors = {prefix(cfg) + k: v.half() for k, v in net.state_dict().items()}
    for k, n in enumerate(PICTURES):
        i = {key: pictures(cfg, m, g).permute(0, 2, 3, 1).half()
             for key, m in (("image", n), ("image2", 1))[:n]}
        o = outputs(net, i)
        tensors.update({f"case{k}.{key}": v for key, v in {**i, **o}.items()})
        print(name, f"case{k}:", " ".join(f"{key} {v.abs().max():.2f}" for key, v in o.items()))
    td.st_save(f"{folder}/t2i_{name}.safetensors", tensors, {"config": json.dumps(cfg)})


def make_all(folder):
    for seed, name in enumerate(CONFIGS):
        make(name, 2302_08453 + seed, folder)


def check(path):
    """True when every feature in the file is what its pictures give here."""
    t, ok, k, cfg = td.st_load(path), True, 0, config(path)
    weights = {key: v for key, v in t.items() if not key.startswith("case")}
    net = load(Adapter(cfg), weights, prefix(cfg))
    while f"case{k}.image" in t:
        i = {key: t[f"case{k}.{key}"] for key in ("image", "image2") if f"case{k}.{key}" in t}
        for key, v in outputs(net, i).items():
            ok = holds(path, f"case{k}.{key}", v, t[f"case{k}.{key}"]) and ok
        k += 1
    return ok and k > 0


if __name__ == "__main__":
    sys.exit(main(__doc__, make_all, check))
