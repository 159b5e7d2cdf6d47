#!/usr/bin/env python3
"""PyTorch beside Graft: one step of the same UNets with the same weights, eager and compiled.

    gpu_torch.py [--json FILE] [--models DIR] [--autotune] sd15|sdxl ...
    gpu_torch.py --check FILE

The network is written out here as plain modules with the checkpoints' names. It runs in bfloat16,
channels last, with scaled_dot_product_attention. Figures go to the JSON file that graft-bench-gpu
wrote, with the ratio to its step. --check runs a small checkpoint on the CPU: it only shows that
this file works.
"""
import argparse
import json
import math
import os
import struct
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

PREFIX = "model.diffusion_model."
TYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


def read_checkpoint(path):
    """The UNet's tensors of a safetensors file."""
    with open(path, "rb") as f:
        (size,) = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(size))
        start = 8 + size
        out = {}
        for name, t in header.items():
            if not name.startswith(PREFIX):
                continue
            first, end = t["data_offsets"]
            f.seek(start + first)
            data = torch.frombuffer(bytearray(f.read(end - first)), dtype=TYPES[t["dtype"]])
            out[name[len(PREFIX):]] = data.reshape(t["shape"])
    return out


class Weights:
    """Makes layers from the tensors whose names begin with a prefix."""

    def __init__(self, tensors, prefix=""):
        self.tensors, self.prefix = tensors, prefix

    def at(self, name):
        return Weights(self.tensors, f"{self.prefix}{name}.")

    def has(self, name):
        return any(k.startswith(f"{self.prefix}{name}") for k in self.tensors)

    def get(self, name):
        return self.tensors.get(self.prefix + name)

    def fill(self, layer):
        layer.weight.data = self.get("weight").clone()
        if layer.bias is not None:
            layer.bias.data = self.get("bias").clone()
        return layer

    def linear(self):
        w = self.get("weight")
        return self.fill(nn.Linear(w.shape[1], w.shape[0], bias=self.get("bias") is not None))

    def conv(self, stride=1):
        w = self.get("weight")
        pad = w.shape[2] // 2
        return self.fill(nn.Conv2d(w.shape[1], w.shape[0], w.shape[2], stride, pad))

    def group_norm(self, eps=1e-5):
        return self.fill(nn.GroupNorm(min(32, self.get("weight").shape[0]),
                                      self.get("weight").shape[0], eps))

    def layer_norm(self):
        return self.fill(nn.LayerNorm(self.get("weight").shape[0]))


class Res(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.norm1, self.conv1 = w.at("in_layers.0").group_norm(), w.at("in_layers.2").conv()
        self.emb = w.at("emb_layers.1").linear()
        self.norm2, self.conv2 = w.at("out_layers.0").group_norm(), w.at("out_layers.3").conv()
        self.skip = w.at("skip_connection").conv() if w.has("skip_connection.") else None

    def forward(self, x, emb, context):
        h = self.conv1(F.silu(self.norm1(x))) + self.emb(F.silu(emb))[:, :, None, None]
        h = self.conv2(F.silu(self.norm2(h)))
        return h + (self.skip(x) if self.skip is not None else x)


class Attention(nn.Module):
    def __init__(self, w, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = (w.at(n).linear() for n in ("to_q", "to_k", "to_v"))
        self.out = w.at("to_out.0").linear()

    def forward(self, x, context):
        n, t, c = x.shape
        split = [y.view(n, -1, self.heads, c // self.heads).transpose(1, 2)
                 for y in (self.q(x), self.k(context), self.v(context))]
        y = F.scaled_dot_product_attention(*split)
        return self.out(y.transpose(1, 2).reshape(n, t, c))


class Block(nn.Module):
    def __init__(self, w, heads):
        super().__init__()
        self.norm1, self.norm2, self.norm3 = (w.at(f"norm{i}").layer_norm() for i in (1, 2, 3))
        self.attn1, self.attn2 = Attention(w.at("attn1"), heads), Attention(w.at("attn2"), heads)
        self.up, self.down = w.at("ff.net.0.proj").linear(), w.at("ff.net.2").linear()

    def forward(self, x, context):
        y = self.norm1(x)
        x = x + self.attn1(y, y)
        x = x + self.attn2(self.norm2(x), context)
        a, gate = self.up(self.norm3(x)).chunk(2, dim=-1)
        return x + self.down(a * F.gelu(gate))


class Transformer(nn.Module):
    def __init__(self, w, heads_of):
        super().__init__()
        self.norm = w.at("norm").group_norm(1e-6)
        self.linear = w.at("proj_in").get("weight").dim() == 2
        self.proj_in = w.at("proj_in").linear() if self.linear else w.at("proj_in").conv()
        self.proj_out = w.at("proj_out").linear() if self.linear else w.at("proj_out").conv()
        heads = heads_of(self.proj_in.weight.shape[0])
        self.blocks = nn.ModuleList()
        while w.has(f"transformer_blocks.{len(self.blocks)}."):
            self.blocks.append(Block(w.at(f"transformer_blocks.{len(self.blocks)}"), heads))

    def forward(self, x, emb, context):
        n, c, h, width = x.shape
        y = self.norm(x)
        if not self.linear:
            y = self.proj_in(y)
        y = y.permute(0, 2, 3, 1).reshape(n, h * width, -1)
        if self.linear:
            y = self.proj_in(y)
        for b in self.blocks:
            y = b(y, context)
        if self.linear:
            y = self.proj_out(y)
        y = y.reshape(n, h, width, -1).permute(0, 3, 1, 2)
        return x + (y if self.linear else self.proj_out(y))


class Plain(nn.Module):
    """A convolution that takes no notice of time and text; doubles its input first if `up`."""

    def __init__(self, conv, up=False):
        super().__init__()
        self.conv, self.up = conv, up

    def forward(self, x, emb, context):
        return self.conv(F.interpolate(x, scale_factor=2.0, mode="nearest") if self.up else x)


def stage(w, heads_of):
    """The parts of input_blocks.N or the like, by what their tensors are called."""
    parts = nn.ModuleList()
    while w.has(f"{len(parts)}."):
        p = w.at(str(len(parts)))
        if p.has("in_layers."):
            parts.append(Res(p))
        elif p.has("transformer_blocks."):
            parts.append(Transformer(p, heads_of))
        elif p.has("op."):
            parts.append(Plain(p.at("op").conv(stride=2)))
        elif p.has("conv."):
            parts.append(Plain(p.at("conv").conv(), up=True))
        else:
            parts.append(Plain(p.conv()))
    return parts


class UNet(nn.Module):
    def __init__(self, tensors, heads_of):
        super().__init__()
        w = Weights(tensors)
        self.time0, self.time2 = w.at("time_embed.0").linear(), w.at("time_embed.2").linear()
        adm = w.has("label_emb.")
        self.label0 = w.at("label_emb.0.0").linear() if adm else None
        self.label2 = w.at("label_emb.0.2").linear() if adm else None
        self.inputs, self.outputs = nn.ModuleList(), nn.ModuleList()
        while w.has(f"input_blocks.{len(self.inputs)}."):
            self.inputs.append(stage(w.at(f"input_blocks.{len(self.inputs)}"), heads_of))
        self.middle = stage(w.at("middle_block"), heads_of)
        while w.has(f"output_blocks.{len(self.outputs)}."):
            self.outputs.append(stage(w.at(f"output_blocks.{len(self.outputs)}"), heads_of))
        self.norm, self.conv = w.at("out.0").group_norm(), w.at("out.2").conv()

    def forward(self, x, t, context, y=None):
        half = self.time0.weight.shape[1] // 2
        f = torch.exp(-math.log(10000) * torch.arange(half, device=x.device) / half)
        angle = t[:, None].float() * f[None]
        emb = torch.cat([angle.cos(), angle.sin()], dim=-1).to(x.dtype)
        emb = self.time2(F.silu(self.time0(emb)))
        if y is not None and self.label0 is not None:
            emb = emb + self.label2(F.silu(self.label0(y)))
        kept = []
        for parts in self.inputs:
            for p in parts:
                x = p(x, emb, context)
            kept.append(x)
        for p in self.middle:
            x = p(x, emb, context)
        for parts in self.outputs:
            x = torch.cat([x, kept.pop()], dim=1)
            for p in parts:
                x = p(x, emb, context)
        return self.conv(F.silu(self.norm(x)))


def inputs_of(net, side, device, dtype):
    context = next(m for m in net.modules() if isinstance(m, Block)).attn2.k.weight.shape[1]
    first = net.inputs[0][0].conv.weight.shape[1]
    x = torch.randn(2, first, side, side, device=device, dtype=dtype)
    y = None
    if net.label0 is not None:
        y = torch.randn(2, net.label0.weight.shape[1], device=device, dtype=dtype)
    return (x.contiguous(memory_format=torch.channels_last),
            torch.full((2,), 500.0, device=device),
            torch.randn(2, 77, context, device=device, dtype=dtype), y)


def median_ms(run, repeats=30):
    for _ in range(5):
        run()
    times = []
    for _ in range(repeats):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        run()
        b.record()
        b.synchronize()
        times.append(a.elapsed_time(b))
    return sorted(times)[repeats // 2]


def note(path, name, value, unit, how):
    print(f"  {name:28s} {value:12.4g} {unit}", flush=True)
    if not path:
        return
    figures = json.load(open(path)) if os.path.exists(path) else {}
    figures[name] = {"value": value, "unit": unit, "how": how, "date": time.strftime("%Y-%m-%d")}
    with open(path + ".part", "w") as f:
        json.dump(figures, f, indent=1)
    os.replace(path + ".part", path)


def bench(kind, args):
    side = 128 if kind == "sdxl" else 64
    heads_of = (lambda c: c // 64) if kind == "sdxl" else (lambda c: 8)
    tensors = read_checkpoint(os.path.join(args.models, kind + ".safetensors"))
    net = UNet(tensors, heads_of).to(args.device, torch.bfloat16)
    net = net.to(memory_format=torch.channels_last).eval().requires_grad_(False)
    del tensors
    given = inputs_of(net, side, args.device, torch.bfloat16)
    how = f"bench/gpu_torch.py, torch {torch.__version__} on {torch.cuda.get_device_name()}"
    with torch.inference_mode():
        note(args.json, f"torch_eager_{kind}_ms", median_ms(lambda: net(*given)), "ms", how)
        fast = torch.compile(net, mode="max-autotune-no-cudagraphs" if args.autotune else None)
        started = time.time()
        fast(*given)
        torch.cuda.synchronize()
        print(f"  compiled in {time.time() - started:.1f} s")
        step = median_ms(lambda: fast(*given))
    note(args.json, f"torch_compile_{kind}_ms", step, "ms", how)
    figures = json.load(open(args.json)) if args.json and os.path.exists(args.json) else {}
    own = figures.get(f"{kind}_step_ms", {}).get("value")
    if own:
        note(args.json, f"{kind}_vs_compile", step / own, "times as fast", how)


def check(path):
    net = UNet(read_checkpoint(path), lambda c: 4)
    with torch.inference_mode():
        y = net.float()(*inputs_of(net.float(), 8, "cpu", torch.float32))
    print("built and run:", tuple(y.shape), "finite" if torch.isfinite(y).all() else "NOT FINITE")
    return 0 if torch.isfinite(y).all() else 1


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--json")
    p.add_argument("--models", default="build/gpu/models")
    p.add_argument("--device", default="cuda")
    p.add_argument("--autotune", action="store_true")
    p.add_argument("--check", metavar="FILE")
    p.add_argument("kinds", nargs="*", help="sd15, sdxl")
    args = p.parse_args()
    if args.check:
        return check(args.check)
    if not torch.cuda.is_available():
        print("gpu_torch.py: PyTorch sees no CUDA device", file=sys.stderr)
        return 3
    for kind in args.kinds:
        try:
            bench(kind, args)
        except Exception as e:  # one kind must not cost the other
            print(f"{kind}: {type(e).__name__}: {e}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
