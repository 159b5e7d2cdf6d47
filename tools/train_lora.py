#!/usr/bin/env python3
"""Trains a LoRA for the demo checkpoint (Hu et al. 2021, arXiv:2106.09685): it prints what the
model knows in cobalt blue on white.

  train_lora.py train   trains low-rank factors, the checkpoint stays as it is;
                                    writes --file, in float16
  train_lora.py eval                how blue, and how like the wanted pictures, samples are by the
                                    written file at strengths 0, 0.5 and 1; --work/lora_eval.png

Needs the demo's pictures (--pack, see train_demo.py) and CLIP's merges (--bpe; a build has them in
generated/clip_merges.txt). Debian: python3-torch python3-numpy python3-pil.
"""
import argparse
import json
import os
import sys
import time

import numpy as np
import torch
import torch.nn as nn
from PIL import Image

import train_demo as td
from train_controlnet import SEEN_WHITE, SIZE, Demo, as_bytes, background, encode, load_pictures

# From the darkest ink to the paper. The demo's VAE has seen pictures on white only and makes a
# dark ground a muddle, so the paper is white.
INK = np.array([(8, 10, 80), (30, 60, 190), (90, 140, 240), (190, 220, 255), (255, 255, 255)])
DARKEST, LIGHTEST = 0.05, 0.85      # where on INK the darkest and lightest part of a thing are
# Ends of their names. A style leaves alone which part of the picture looks at which.
LAYERS = ("to_v", "to_out.0", "attn2.to_k", "ff.net.0.proj", "ff.net.2", "proj_in", "proj_out",
          "out.2")


# --------------------------------------------------------------------------
# the style
# --------------------------------------------------------------------------
def printed(rgb):
    """A picture (H,W,3) in 0..255 on white as a print in one ink, bytes: its brightness
    Y = (0.299 R + 0.587 G + 0.114 B) / 255 gives the place on INK. All but the background is
    spread over it, the 3rd percentile of Y becoming DARKEST and the 97th LIGHTEST; but what is
    bright all over stays bright (the dark end counts as 0.35 at most), and what has one brightness
    keeps it (the ends count as 0.25 apart at least)."""
    y = rgb.astype(float) @ np.array([0.299, 0.587, 0.114]) / 255
    back = background(rgb[None])[0]
    dark, light = np.percentile(y[~back], (3, 97))
    dark = min(dark, 0.35)
    y = np.clip((y - dark) / max(light - dark, 0.25), 0, 1) * (LIGHTEST - DARKEST) + DARKEST
    y[back] = 1
    at = np.linspace(0, 1, len(INK))
    return np.stack([np.interp(y, at, INK[:, k]) for k in range(3)], -1).round().astype(np.uint8)


def wanted(a):
    """The checkpoint's pictures (N,H,W,3) in that style, and their prompts."""
    images, prompts = load_pictures(a)
    small = [np.asarray(im.resize((SIZE, SIZE), Image.LANCZOS)) for im in images]
    return np.stack([printed(rgb) for rgb in small]), prompts


# --------------------------------------------------------------------------
# the factors
# --------------------------------------------------------------------------
class LowRank(nn.Module):
    """`layer`, linear or a convolution, with scale * up(down(x)) added: at first 0, since `up` is.
    alpha is the rank, so `scale` is the strength."""

    def __init__(self, layer, rank):
        super().__init__()
        self.layer, self.scale = layer, 1.0
        rows, columns = layer.weight.shape[:2]
        if isinstance(layer, nn.Conv2d):
            self.down = nn.Conv2d(columns, rank, layer.kernel_size, layer.stride, layer.padding,
                                  bias=False)
            self.up = nn.Conv2d(rank, rows, 1, bias=False)
        else:
            self.down = nn.Linear(columns, rank, bias=False)
            self.up = nn.Linear(rank, rows, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.layer(x) + self.scale * self.up(self.down(x))


def add_factors(unet, rank):
    """Puts a LowRank around each of LAYERS: {the layer's name: LowRank}."""
    names = [n for n, m in unet.named_modules() if n.endswith(LAYERS)]
    out = {}
    for name in names:
        where, _, leaf = name.rpartition(".")
        out[name] = LowRank(unet.get_submodule(name), rank)
        setattr(unet.get_submodule(where), leaf, out[name])
    return out


def stem(name):
    """kohya's name of a layer of LDM's UNet."""
    return "lora_unet_" + name.replace(".", "_")


def save_factors(a, factors, trained):
    tensors = {}
    for name, f in factors.items():
        tensors[stem(name) + ".lora_up.weight"] = f.up.weight.half()
        tensors[stem(name) + ".lora_down.weight"] = f.down.weight.half()
        tensors[stem(name) + ".alpha"] = torch.tensor(float(a.rank)).half()
    conf = dict(name=os.path.basename(a.file).split(".")[0], license="Apache-2.0",
                base=os.path.basename(a.checkpoint), trained=trained)
    os.makedirs(os.path.dirname(a.file) or ".", exist_ok=True)
    td.st_save(a.file, tensors, {"format": "pt", "config": json.dumps(conf)})
    print(sum(t.numel() for t in tensors.values()), "values", os.path.getsize(a.file), "bytes")


def load_factors(a, unet):
    """Puts the factors of --file around the layers of `unet`, and gives them."""
    tensors = td.st_load(a.file)
    factors = add_factors(unet, int(next(v for k, v in tensors.items() if k.endswith(".alpha"))))
    for name, f in factors.items():
        f.up.weight.data.copy_(tensors.pop(stem(name) + ".lora_up.weight"))
        f.down.weight.data.copy_(tensors.pop(stem(name) + ".lora_down.weight"))
        del tensors[stem(name) + ".alpha"]
    assert not tensors, list(tensors)
    return factors


# --------------------------------------------------------------------------
# training
# --------------------------------------------------------------------------
def batch(a, latents, contexts, ac, g):
    """Noised latents, times, contexts, and the noise to be found. Times lean towards the noisy end,
    where colours are decided."""
    who = torch.randint(len(latents), (a.batch,), generator=g)
    x0, noise = latents[who], torch.randn(a.batch, *latents.shape[1:], generator=g)
    who[torch.rand(a.batch, generator=g) < 0.15] = len(latents)    # the last one: the empty prompt
    t = (1000 * torch.rand(a.batch, generator=g).sqrt()).long().clamp(max=999)
    at = ac[t][:, None, None, None]
    return at.sqrt() * x0 + (1 - at).sqrt() * noise, t, contexts[who], noise


def train(a):
    model = Demo(a)
    rgb, prompts = wanted(a)
    model.vae = model.vae.to(memory_format=torch.channels_last)
    latents = torch.cat([encode(model.vae, rgb[i:i + 42]) for i in range(0, len(rgb), 42)])
    contexts = model.ctx(prompts + [""])
    factors = add_factors(model.unet, a.rank)
    unet = model.unet.to(memory_format=torch.channels_last)
    free = [p for f in factors.values() for p in (f.up.weight, f.down.weight)]
    ema = td.EMA([nn.ModuleList([m for f in factors.values() for m in (f.up, f.down)])], a.ema)
    opt = torch.optim.AdamW(free, lr=a.lr, betas=(0.9, 0.99), weight_decay=1e-3)
    g = torch.Generator().manual_seed(a.seed)
    run, t0 = [], time.time()
    print(len(factors), "layers,", sum(p.numel() for p in free), "values", flush=True)
    for step in range(a.steps):
        for group in opt.param_groups:
            group["lr"] = td.lr_at(step / a.steps, a.lr)
        x, t, context, noise = batch(a, latents, contexts, model.ac, g)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            eps = unet(x.contiguous(memory_format=torch.channels_last), t, context)
        loss = (eps.float() - noise).pow(2).mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(free, 1.0)
        opt.step()
        ema.step()
        run.append(loss.item())
        if len(run) % 25 == 0:
            print(f"step {len(run)} {time.time() - t0:.0f} s, loss {np.mean(run[-25:]):.4f}",
                  flush=True)
    with torch.no_grad():
        for p, s in zip(ema.p, ema.s):
            p.copy_(s)
    save_factors(a, factors, dict(steps=a.steps, batch=a.batch, seed=a.seed))


# --------------------------------------------------------------------------
# what came of it
# --------------------------------------------------------------------------
def blueness(rgb):
    """Of pictures (N,H,W,3) in 0..255: B - (R + G) / 2, its mean over what is no background."""
    c = rgb.astype(float)
    blue, thing = c[..., 2] - (c[..., 0] + c[..., 1]) / 2, ~background(rgb, SEEN_WHITE)
    return (blue * thing).sum((1, 2)) / np.maximum(thing.sum((1, 2)), 1)


def evaluate(a):
    model = Demo(a)
    rgb, prompts = wanted(a)
    factors = load_factors(a, model.unet)
    pick = np.arange(0, len(rgb), max(1, len(rgb) // a.pictures))[:a.pictures]
    rgb, rows = rgb[pick], []
    print(f"wanted: blueness {blueness(rgb).mean():.0f}")
    for strength in (0.0, 0.5, 1.0):
        for f in factors.values():
            f.scale = strength
        with torch.autocast("cpu", dtype=torch.bfloat16):
            drawn = [model.sample([prompts[k] for k in pick[i:i + 42]], 20, 4.0, seed=a.seed + i)
                     for i in range(0, len(pick), 42)]
        rows.append(torch.cat([picture.float() for _, picture in drawn]))
        seen = as_bytes(rows[-1])
        blue, far = blueness(seen), np.abs(seen.astype(float) - rgb).mean() / 255
        print(f"strength {strength}: blueness mean {blue.mean():.0f} least {blue.min():.0f}, "
              f"mean difference from the wanted pictures {far:.3f}", flush=True)
    rows.append(torch.from_numpy(rgb).permute(0, 3, 1, 2) / 127.5 - 1)
    n = min(len(pick), 36)
    tiles = [row[k] for i in range(0, n, 18) for row in rows for k in range(i, min(i + 18, n))]
    td.grid(tiles, min(18, n), f"{a.work}/lora_eval.png", 1)


COMMANDS = dict(train=train, eval=evaluate)


def main():
    ap = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("cmd", choices=list(COMMANDS))
    ap.add_argument("--checkpoint", default="models/checkpoints/emoji-64.safetensors")
    ap.add_argument("--file", default="models/loras/emoji-64-cobalt.safetensors")
    ap.add_argument("--pack", default="emoji_pack128.npz")
    ap.add_argument("--bpe", default="build/generated/clip_merges.txt")
    ap.add_argument("--work", default="work", help="eval: the folder of its picture")
    ap.add_argument("--steps", type=int, default=1300)
    ap.add_argument("--rank", type=int, default=4)
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--lr", type=float, default=4e-3)
    ap.add_argument("--ema", type=float, default=0.99)
    ap.add_argument("--pictures", type=int, default=252, help="eval: how many")
    ap.add_argument("--threads", type=int, default=1)
    ap.add_argument("--seed", type=int, default=0)
    a = ap.parse_args()
    os.makedirs(a.work, exist_ok=True)
    torch.manual_seed(a.seed)
    torch.set_num_threads(a.threads)
    torch.set_flush_denormal(True)
    COMMANDS[a.cmd](a)


if __name__ == "__main__":
    sys.exit(main())
