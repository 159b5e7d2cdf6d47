#!/usr/bin/env python3
"""Makes golden/hypernetwork/*: a small random UNet, hypernetworks as AUTOMATIC1111's web UI saves
them (.pt), and denoised pictures of both, as PyTorch computes them in float32. golden/README.md
lists the tensors.

    tools/golden_hypernetwork.py OUTPUT-FOLDER       write the files
    tools/golden_hypernetwork.py --check UNET-FILE   hold what is computed here against that file

Hypernetworks are built here as modules, of which the file has what state_dict() gives. Debian:
python3-torch python3-numpy. The generator's sequence and the last bits of sums depend on PyTorch's
version and the processor; the files in the repository are from 1.13.
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
              context_dim=16, transformer_depth=[1, 0], transformer_depth_output=[1, 1, 0, 0],
              transformer_depth_middle=2, use_linear_in_transformer=False)
TOKENS, SHAPE, T, CFG = 77, (2, 4, 8, 12), 421, 3.0
# What a file says of itself. `layers`: widths, as multiples of the first; `widths`: of contexts.
NETS = dict(
    relu=dict(widths=[16, 32], layers=[1, 2, 1], activation_func="relu"),
    swish=dict(widths=[16, 32], layers=[1, 2, 0.5, 1], activation_func="swish",
               is_layer_norm=True, activate_output=True, use_dropout=True),
    leaky=dict(widths=[32], layers=[1, 3, 1], activation_func="leakyrelu", use_dropout=True),
    sigmoid=dict(widths=[16], layers=[1, 1, 1], activation_func="sigmoid", activate_output=True),
    old=dict(widths=[16, 32, 48], layers=[1, 2, 1], old=True),
)
ACTS = dict(relu=nn.ReLU, swish=nn.Hardswish, leakyrelu=nn.LeakyReLU, sigmoid=nn.Sigmoid)
# Which network, and its strength.
CASES = [("relu", 1.0), ("swish", -0.75), ("leaky", 2.0), ("sigmoid", 0.5), ("old", 1.25)]


def module(net, width):
    """The layers as their trainer numbers them: activations and dropout count."""
    parts, sizes = [], [int(width * k) for k in net["layers"]]
    for i, (a, b) in enumerate(zip(sizes, sizes[1:])):
        parts.append(nn.Linear(a, b))
        last = i + 2 == len(sizes)
        if "activation_func" in net and (not last or net.get("activate_output")):
            parts.append(ACTS[net["activation_func"]]())
        if net.get("is_layer_norm"):
            parts.append(nn.LayerNorm(b))
        if net.get("use_dropout") and not last:
            parts.append(nn.Dropout(0.3))
    return nn.Sequential(*parts).eval()


def make_net(net, g):
    nets = {w: [module(net, w) for _ in range(2)] for w in net["widths"]}
    for pair in nets.values():
        for m in pair:
            for p in m.parameters():
                p.data = torch.randn(p.shape, generator=g) * (0.8 / p.shape[-1] ** 0.5)
                p.data += 1.0 if p.dim() == 1 and net.get("is_layer_norm") else 0.0
    return nets


def state(net, nets):
    """The dictionary that is saved."""
    def named(m):
        if net.get("old"):
            return {f"linear{int(k[0]) + 1}{k[1:]}": v for k, v in m.state_dict().items()}
        return {f"linear.{k}": v for k, v in m.state_dict().items()}

    d = {w: tuple(named(m) for m in pair) for w, pair in nets.items()}
    d.update(step=1000, name="net", layer_structure=net["layers"])
    if not net.get("old"):
        d.update(activation_func=net["activation_func"], weight_initialization="Normal",
                 is_layer_norm=net.get("is_layer_norm", False), sd_checkpoint=None,
                 activate_output=net.get("activate_output", False),
                 use_dropout=net.get("use_dropout", False), last_layer_dropout=False)
    return d


def attend(self, x, c=None):
    c = x if c is None else c
    k = v = c
    if c.shape[-1] in self.nets:
        k, v = (c + self.strength * h(c) for h in self.nets[c.shape[-1]])
    b, n, _ = x.shape
    sp = lambda t: t.view(b, -1, self.heads, self.hd).transpose(1, 2)
    q, k, v = sp(self.to_q(x)), sp(self.to_k(k)), sp(self.to_v(v))
    w = (q @ k.transpose(-1, -2) * self.hd ** -0.5).softmax(-1)
    return self.to_out((w @ v).transpose(1, 2).reshape(b, n, -1))


@torch.no_grad()
def output(net, i, nets, strength):
    for m in net.modules():
        if isinstance(m, td.CrossAttention):
            m.nets, m.strength = nets, strength
            m.forward = types.MethodType(attend, m)
    sigma, rows = sigma_of(T), len(i["x"])
    noise = lambda c: net(i["x"] / (sigma ** 2 + 1) ** 0.5, torch.full((rows,), float(T)),
                          c[None].expand(rows, -1, -1))
    positive, negative = noise(i["positive"]), noise(i["negative"])
    return i["x"] - sigma * (negative + CFG * (positive - negative))


def make(folder):
    g = torch.Generator().manual_seed(2022)
    unet = UNet(CONFIG)
    randomize(unet, g)
    unet.load_state_dict({k: v.half().float() for k, v in unet.state_dict().items()})
    tensors = {UNET + k: v.half() for k, v in unet.state_dict().items()}
    i = dict(x=torch.randn(SHAPE, generator=g) * (1 + sigma_of(T) ** 2) ** 0.5,
             positive=torch.randn(TOKENS, 16, generator=g),
             negative=torch.randn(TOKENS, 16, generator=g))
    tensors.update(i, numbers=torch.tensor([sigma_of(T), CFG]))
    tensors["plain"] = output(unet, i, {}, 0)
    made = {name: make_net(net, g) for name, net in NETS.items()}
    for name, nets in made.items():
        torch.save(state(NETS[name], nets), f"{folder}/{name}.pt")
    for name, strength in CASES:
        tensors[f"out.{name}"] = output(unet, i, made[name], strength).contiguous()
        tensors[f"strength.{name}"] = torch.tensor([strength])
        print(f"{name}: {error(tensors[f'out.{name}'], tensors['plain']):.2f} away")
    td.st_save(f"{folder}/unet.safetensors", tensors, {"config": json.dumps(CONFIG)})


def read_net(folder, name):
    d = torch.load(f"{folder}/{name}.pt")
    nets = {w: [module(NETS[name], w) for _ in range(2)] for w in NETS[name]["widths"]}
    for w, pair in nets.items():
        for m, saved in zip(pair, d[w]):
            new = lambda k: k[7:] if k[6] == "." else f"{int(k[6]) - 1}{k[7:]}"
            m.load_state_dict({new(k): v for k, v in saved.items()})
    return nets


def check(path):
    """True when every output in the file is what its inputs give here."""
    t, ok = td.st_load(path), True
    unet = load(UNet(config(path)), t, UNET)
    for name, strength in CASES:
        got = output(unet, t, read_net(os.path.dirname(path) or ".", name), strength)
        ok = holds(path, name, got, t[f"out.{name}"]) and ok
    return ok


if __name__ == "__main__":
    sys.exit(main(__doc__, make, check))
