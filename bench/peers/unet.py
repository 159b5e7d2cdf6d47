"""The UNet of Stable Diffusion 1.x, 2.x and XL as PyTorch modules with the checkpoints' names."""
import math

import torch
import torch.nn.functional as F
from torch import nn

import attention
from checkpoint import Checkpoint, Weights
from tensors import heads_rule

PREFIX = "model.diffusion_model."


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
        self.heads, self.fastest = heads, attention.fastest(w.dtype)
        self.q, self.k, self.v = (w.at(n).linear() for n in ("to_q", "to_k", "to_v"))
        self.out = w.at("to_out.0").linear()

    def forward(self, x, context):
        n, t, c = x.shape
        split = [y.view(n, -1, self.heads, c // self.heads).transpose(1, 2)
                 for y in (self.q(x), self.k(context), self.v(context))]
        y = attention.attend(*split, self.fastest)
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
        self.linear = len(w.at("proj_in").shape("weight")) == 2
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
    """Takes latents (N,C,h,w), steps (N), text (N,tokens,width) and, where the model has it, what
    is known of the picture (N,adm)."""

    def __init__(self, path, dtype=torch.float32):
        super().__init__()
        checkpoint = Checkpoint(path, PREFIX)
        w, heads_of = Weights(checkpoint, dtype), heads_rule(checkpoint)
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
