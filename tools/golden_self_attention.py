#!/usr/bin/env python3
"""Makes golden/guidance/self_attention.safetensors: a small random UNet, and denoised pictures of it
by self-attention guidance (arXiv:2210.00939), as PyTorch computes them in float32.
golden/README.md lists the tensors.

    tools/golden_self_attention.py OUTPUT-FOLDER     write the file
    tools/golden_self_attention.py --check FILE...   hold what is computed here against such files

The paper's formulas are in the noise that is predicted, e; here as there,

    x0 = x - sigma e(x),  x' = b + sigma e(x),  e = guided e + s (e(x) - e(x'))

with b as blurred where the attention says so. The third case has HyperTile's tiles, by
golden_hypertile.py; the attention that is looked at is that of the whole picture. Debian: python3-torch python3-numpy. The generator's
sequence and the last bits of sums depend on PyTorch's version and the processor; the file in the
repository is from 1.13.
"""
import json
import math
import sys

import torch
import torch.nn.functional as F

import golden_hypertile as tiles
import train_demo as td
from controlnet import UNET, UNet
from golden_controlnet import randomize
from golden_file import config, error, holds, load, main

CONFIG = dict(model_channels=32, channel_mult=[1, 1], num_res_blocks=1, num_heads=4,
              context_dim=16, transformer_depth=[1, 0], transformer_depth_output=[1, 1, 0, 0],
              transformer_depth_middle=2, use_linear_in_transformer=False)
TOKENS = 77
CASES = [dict(n=2, h=10, w=14, t=601, cfg=5.0, scale=0.75, blur=2.0, prompts=1),
         dict(n=1, h=8, w=12, t=250, cfg=1.0, scale=-1.5, blur=0.8, prompts=2),
         dict(n=1, h=16, w=16, t=930, cfg=7.5, scale=2.0, blur=6.0, prompts=1,
              hypertile=[32, 1, 1, 0, 0], grids={(16, 16): (4, 4), (8, 8): (2, 2)})]


def sigma_of(t):
    betas = torch.linspace(0.00085 ** 0.5, 0.012 ** 0.5, 1000, dtype=torch.float64) ** 2
    a = torch.cumprod(1 - betas, 0)[t].item()
    return ((1 - a) / a) ** 0.5


def noise(net, x, case, context):
    """e of each picture, and what its keys get in the middle of all queries."""
    seen, sigma = [], sigma_of(case["t"])
    layer = [m for m in net.middle_block.modules() if isinstance(m, td.BasicTransformerBlock)][0]

    def look(module, inputs, y):
        a = layer.attn1
        sp = lambda v: v.unflatten(-1, (a.heads, a.hd)).transpose(1, 2)
        q, k = sp(a.to_q(y)), sp(a.to_k(y))
        w = (q @ k.transpose(-1, -2) / math.sqrt(a.hd)).softmax(-1)
        seen.append(w.mean(1).sum(1))

    hook = layer.norm1.register_forward_hook(look)
    rows = len(x)
    e = tiles.output(net, dict(x=x / (sigma ** 2 + 1) ** 0.5,
                               timesteps=torch.full((rows,), float(case["t"])),
                               context=context[None].expand(rows, -1, -1)), case.get("grids", {}))
    hook.remove()
    return e, seen[0]


def blurred(x, deviation):
    g = torch.exp(-torch.arange(-4, 5).double() ** 2 / (2 * deviation ** 2))
    kernel = torch.outer(g, g)
    kernel = (kernel / kernel.sum()).float().expand(x.shape[1], 1, 9, 9)
    return F.conv2d(F.pad(x, (4, 4, 4, 4), mode="reflect"), kernel, groups=x.shape[1])


@torch.no_grad()
def output(net, i, case):
    """The denoised pictures, and how close to 1 what a key gets comes."""
    x, sigma, many = i["x"], sigma_of(case["t"]), range(case["prompts"])
    positive, _ = noise(net, x, case, i["positive"])
    pairs = [noise(net, x, case, i[f"negative{k}"]) for k in many]
    negative = sum(p[0] for p in pairs) / len(pairs)
    got = sum(p[1] for p in pairs) / len(pairs)
    side = (x.shape[0], 1, case["h"] // 2, case["w"] // 2)
    mask = F.interpolate((got > 1).float().reshape(side), x.shape[2:], mode="nearest")
    x0 = x - sigma * negative
    b = mask * blurred(x0, case["blur"]) + (1 - mask) * x0
    again = sum(noise(net, b + sigma * negative, case, i[f"negative{k}"])[0] for k in many)
    guided = negative + case["cfg"] * (positive - negative)
    guided = guided + case["scale"] * (negative - again / len(pairs))
    return x - sigma * guided, (got - 1).abs().min().item(), mask.mean().item()


def inputs(case, g):
    r = lambda *shape: torch.randn(shape, generator=g)
    i = dict(x=r(case["n"], 4, case["h"], case["w"]) * (1 + sigma_of(case["t"]) ** 2) ** 0.5,
             positive=r(TOKENS, CONFIG["context_dim"]))
    for k in range(case["prompts"]):
        i[f"negative{k}"] = r(TOKENS, CONFIG["context_dim"])
    i["numbers"] = torch.tensor([sigma_of(case["t"]), case["cfg"], case["scale"], case["blur"]])
    if "hypertile" in case:
        i["hypertile"] = torch.tensor(case["hypertile"], dtype=torch.float32)
    return i


def make(folder):
    g = torch.Generator().manual_seed(2210)
    net = UNet(CONFIG)
    randomize(net, g)
    first = [m for m in net.middle_block.modules() if isinstance(m, td.BasicTransformerBlock)][0]
    for layer in (first.attn1.to_q, first.attn1.to_k):  # so that attention has something to choose
        layer.weight.data *= 3
    state = {k: v.half().float() for k, v in net.state_dict().items()}
    net.load_state_dict(state)
    tensors = {UNET + k: v.half() for k, v in state.items()}
    for k, case in enumerate(CASES):
        i = inputs(case, g)
        i["output"], margin, share = output(net, i, case)
        plain = output(net, i, dict(case, scale=0))[0]
        print(f"case{k}: {error(i['output'], plain):.2f} away, {share:.2f} blurred, keys are "
              f"{margin:.4f} from the edge")
        assert margin > 1e-3
        tensors.update({f"case{k}.{key}": v.contiguous() for key, v in i.items()})
    td.st_save(f"{folder}/self_attention.safetensors", tensors, {"config": json.dumps(CONFIG)})


def check(path):
    """True when every output in the file is what its inputs give here."""
    t, ok = td.st_load(path), True
    net = load(UNet(config(path)), t, UNET)
    for k, case in enumerate(CASES):
        i = {key[len(f"case{k}."):]: v for key, v in t.items() if key.startswith(f"case{k}.")}
        ok = holds(path, f"case{k}", output(net, i, case)[0], i["output"]) and ok
    return ok


if __name__ == "__main__":
    sys.exit(main(__doc__, make, check))
