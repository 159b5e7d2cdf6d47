#!/usr/bin/env python3
"""Makes golden/gligen/*: a small random UNet, a GLIGEN (Li et al. 2023, arXiv:2301.07093) for it in
a file of its own, texts in boxes, and denoised pictures of both, as PyTorch computes them in
float32. golden/README.md lists the tensors.

    tools/golden_gligen.py OUTPUT-FOLDER       write the files
    tools/golden_gligen.py --check UNET-FILE   hold what is computed here against that file

The parts have their authors' names (gligen/GLIGEN, MIT). Debian: python3-torch python3-numpy. The
generator's sequence and the last bits of sums depend on PyTorch's version and the processor; the
files in the repository are from 1.13.
"""
import json
import os
import sys
import types

import torch
from torch import nn

import train_demo as td
from controlnet import UNET, UNet
from golden_controlnet import randomize
from golden_file import config, error, holds, load, main
from golden_self_attention import sigma_of

CONFIG = dict(model_channels=32, channel_mult=[1, 1], num_res_blocks=1, num_heads=4,
              context_dim=24, transformer_depth=[1, 0], transformer_depth_output=[1, 1, 0, 0],
              transformer_depth_middle=2, use_linear_in_transformer=False)
TEXT, FREQUENCIES, HIDDEN, WIDTH, PLACES = 24, 8, 20, 18, 30
TOKENS, SHAPE, T, CFG = 77, (2, 4, 8, 12), 421, 3.0
# Left, top, width and height in pixels of a picture of 96 x 64.
BOXES = dict(one=[(8, 16, 40, 32)],
             three=[(0, 0, 96, 64), (48, 8, 24, 40), (80, 40, 32, 48)],
             full=[(8 * (i % 6), 8 * (i % 5), 16 + 8 * (i % 4), 8 + 8 * (i % 3))
                   for i in range(PLACES)])


class PositionNet(nn.Module):
    def __init__(self):
        super().__init__()
        waves = FREQUENCIES * 2 * 4
        self.linears = nn.Sequential(nn.Linear(TEXT + waves, HIDDEN), nn.SiLU(),
                                     nn.Linear(HIDDEN, HIDDEN), nn.SiLU(),
                                     nn.Linear(HIDDEN, WIDTH))
        self.null_positive_feature = nn.Parameter(torch.zeros(TEXT))
        self.null_position_feature = nn.Parameter(torch.zeros(waves))

    def forward(self, texts, boxes):
        """texts (n,TEXT), boxes (n,4) in shares of the picture -> (PLACES,WIDTH)"""
        n = len(texts)
        waves = []
        for k in range(FREQUENCIES):
            turned = boxes * 100 ** (k / FREQUENCIES)
            waves += [turned.sin(), turned.cos()]
        rows = torch.cat([texts, *waves], 1)
        none = torch.cat([self.null_positive_feature, self.null_position_feature])
        return self.linears(torch.cat([rows, none.expand(PLACES - n, -1)]))


class Fuser(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.linear = nn.Linear(WIDTH, d)
        self.attn, self.ff = td.CrossAttention(d, d, heads, d // heads), td.FeedForward(d)
        self.norm1, self.norm2 = td.LayerNorm(d), td.LayerNorm(d)
        self.alpha_attn = nn.Parameter(torch.tensor(0.0))
        self.alpha_dense = nn.Parameter(torch.tensor(0.0))

    def forward(self, x, tokens):
        n = x.shape[1]
        both = self.norm1(torch.cat([x, self.linear(tokens)], 1))
        x = x + self.alpha_attn.tanh() * self.attn(both)[:, :n]
        return x + self.alpha_dense.tanh() * self.ff(self.norm2(x))


def blocks(unet):
    return [(name, m) for name, m in unet.named_modules()
            if isinstance(m, td.BasicTransformerBlock)]


class Gligen(nn.Module):
    def __init__(self, unet):
        super().__init__()
        self.position_net = PositionNet()
        self.fusers = nn.ModuleList(Fuser(m.norm1.weight.shape[0], CONFIG["num_heads"])
                                    for _, m in blocks(unet))


def stored(gligen, unet):
    """Its tensors by their names in files."""
    t = {f"position_net.{k}": v for k, v in gligen.position_net.state_dict().items()}
    for (name, _), fuser in zip(blocks(unet), gligen.fusers):
        t.update({f"{name}.fuser.{k}": v for k, v in fuser.state_dict().items()})
    return t


def fill(gligen, g):
    randomize(gligen, g)
    for f in gligen.fusers:
        f.alpha_attn.data = (0.4 + 0.4 * torch.rand((), generator=g)).half().float()
        f.alpha_dense.data = (-0.2 - 0.4 * torch.rand((), generator=g)).half().float()
    # Of a text's size, or little of a mistake in it would be seen.
    for p in (gligen.position_net.null_positive_feature, gligen.position_net.null_position_feature):
        p.data = torch.randn(p.shape, generator=g).half().float()
    return gligen


def fused(self, x, c):
    x = self.attn1(self.norm1(x)) + x
    x = self.fuse(x)
    x = self.attn2(self.norm2(x), c) + x
    return self.ff(self.norm3(x)) + x


@torch.no_grad()
def output(unet, gligen, i, texts=None, boxes=None):
    """The denoised latent; without texts that of the UNet alone."""
    sigma, rows = sigma_of(T), len(i["x"])

    def noise(context, tokens):
        for (_, m), fuser in zip(blocks(unet), gligen.fusers):
            own = lambda x, f=fuser: f(x, tokens.expand(rows, -1, -1))
            m.__dict__["fuse"] = own if tokens is not None else (lambda x: x)
            m.forward = types.MethodType(fused, m)
        return unet(i["x"] / (sigma ** 2 + 1) ** 0.5, torch.full((rows,), float(T)),
                    context[None].expand(rows, -1, -1))

    at = none = None
    if texts is not None:
        width, height = 8 * SHAPE[3], 8 * SHAPE[2]
        shares = torch.tensor([[x / width, y / height, (x + w) / width, (y + h) / height]
                               for x, y, w, h in boxes])
        at = gligen.position_net(texts, shares)[None]
        none = gligen.position_net(texts[:0], shares[:0])[None]
    positive, negative = noise(i["positive"], at), noise(i["negative"], none)
    return i["x"] - sigma * (negative + CFG * (positive - negative))


def make(folder):
    g = torch.Generator().manual_seed(2301)
    unet = UNet(CONFIG)
    randomize(unet, g)
    gligen = fill(Gligen(unet), g)
    tensors = {UNET + k: v.half() for k, v in unet.state_dict().items()}
    i = dict(x=torch.randn(SHAPE, generator=g) * (1 + sigma_of(T) ** 2) ** 0.5,
             positive=torch.randn(TOKENS, 24, generator=g),
             negative=torch.randn(TOKENS, 24, generator=g))
    tensors.update(i, numbers=torch.tensor([sigma_of(T), CFG]))
    tensors["texts"] = torch.randn(PLACES, TEXT, generator=g)
    tensors["plain"] = output(unet, gligen, i)
    for name, boxes in BOXES.items():
        tensors[f"out.{name}"] = output(unet, gligen, i, tensors["texts"][:len(boxes)], boxes)
        tensors[f"boxes.{name}"] = torch.tensor(boxes, dtype=torch.float32)
        print(f"{name}: {error(tensors[f'out.{name}'], tensors['plain']):.2f} away")
    td.st_save(f"{folder}/unet.safetensors", tensors, {"config": json.dumps(CONFIG)})
    td.st_save(f"{folder}/boxes.safetensors",
               {k: v.half() for k, v in stored(gligen, unet).items()}, {})


def check(path):
    """True when every output in the file is what its inputs give here."""
    t, ok = td.st_load(path), True
    unet = load(UNet(config(path)), t, UNET)
    gligen = Gligen(unet)
    parts = td.st_load(os.path.join(os.path.dirname(path) or ".", "boxes.safetensors"))
    for name, to in stored(gligen, unet).items():
        to.copy_(parts[name].float())
    ok = holds(path, "plain", output(unet, gligen, t), t["plain"])
    for name, boxes in BOXES.items():
        got = output(unet, gligen, t, t["texts"][:len(boxes)], boxes)
        ok = holds(path, name, got, t[f"out.{name}"]) and ok
    return ok


if __name__ == "__main__":
    sys.exit(main(__doc__, make, check))
