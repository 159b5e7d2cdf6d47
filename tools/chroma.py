"""Chroma's network (lodestones, 2025) as plain PyTorch, for reference tensors: that of flux.py, whose
blocks are told nothing by layers of their own. All vectors are what one small network makes of the
timestep and of each vector's number. Names are those of its author's files; a config says what
flux.py's does, without pooled_dim and guidance, and

    approximator, layers   width and depth of that network
    time                   numbers that tell it the timestep

Real ones: approximator 5120, layers 5, time 16.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

import flux
from flux import PATCH, RMSNorm, grid, rotation, tokens


def waves(t, width):
    """(...) -> (...,width): cosines, then sines. Exponents, rates and angles are each rounded to
    float32 as in training, which has an effect where numbers are as large as those of the vectors.
    """
    half = width // 2
    rate = (-math.log(10000) * torch.arange(half).float() / half).double().exp().float()
    angle = (t.float()[..., None] * rate).to(t.dtype)
    return torch.cat([angle.cos(), angle.sin()], -1)


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.in_layer, self.out_layer = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        return self.out_layer(F.silu(self.in_layer(x)))


class Approximator(nn.Module):
    def __init__(self, cfg, width):
        super().__init__()
        inner, self.time = cfg["approximator"], cfg["time"]
        self.in_proj = nn.Linear(4 * self.time, inner)
        self.layers = nn.ModuleList(Layer(inner) for _ in range(cfg["layers"]))
        self.norms = nn.ModuleList(RMSNorm(inner) for _ in range(cfg["layers"]))
        self.out_proj = nn.Linear(inner, width)

    def forward(self, t, count):
        """(N) in 0..1000 -> (N,count,width)."""
        number = waves(torch.arange(count, dtype=t.dtype) * 1000, 2 * self.time)
        told = torch.cat([waves(t, self.time), waves(torch.zeros_like(t), self.time)], 1)
        x = torch.cat([told[:, None].expand(-1, count, -1), number.expand(len(t), -1, -1)], 2)
        x = self.in_proj(x)
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x))
        return self.out_proj(x)


def attend(q, k, v, by, seen):
    """flux.py's; seen: None, or (N,T), which tokens are attended to."""
    q, k = flux.turn(q, by), flux.turn(k, by)
    score = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])
    if seen is not None:
        score = score.masked_fill(~seen[:, None, None], -math.inf)
    return (torch.softmax(score, 3) @ v).transpose(1, 2).flatten(2)


class Given(nn.Module):
    """In the place of a layer that makes a block's vectors: they are what it is called with."""

    def forward(self, vectors):
        return [v[:, None] for v in vectors.unbind(1)]


class Double(flux.DoubleBlock):
    def __init__(self, cfg):
        super().__init__(cfg)
        self.img_mod = self.txt_mod = Given()

    def forward(self, txt, img, of_txt, of_img, by, seen):
        told_txt, qkv_txt = self.before("txt", txt, of_txt)
        told_img, qkv_img = self.before("img", img, of_img)
        joint = attend(*(torch.cat(pair, 2) for pair in zip(qkv_txt, qkv_img)), by, seen)
        words = txt.shape[1]
        return (self.after("txt", txt, joint[:, :words], told_txt),
                self.after("img", img, joint[:, words:], told_img))


class Single(flux.SingleBlock):
    def __init__(self, cfg):
        super().__init__(cfg)
        self.modulation = Given()

    def forward(self, x, vectors, by, seen):
        shift, scale, gate = self.modulation(vectors)
        width = x.shape[2]
        qkv, mlp = self.linear1(flux.normed(x, shift, scale)).split([3 * width, 4 * width], 2)
        joint = attend(*flux.split(qkv, self.heads, self.norm), by, seen)
        return x + gate * self.linear2(torch.cat([joint, flux.gelu(mlp)], 2))


class Chroma(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        width, squares = cfg["num_heads"] * cfg["head_dim"], cfg["channels"] * PATCH ** 2
        self.axes = cfg["axes"]
        self.distilled_guidance_layer = Approximator(cfg, width)
        self.img_in, self.txt_in = nn.Linear(squares, width), nn.Linear(cfg["context_dim"], width)
        self.double_blocks = nn.ModuleList(Double(cfg) for _ in range(cfg["depth"]))
        self.single_blocks = nn.ModuleList(Single(cfg) for _ in range(cfg["single"]))
        self.final_layer = nn.Module()
        self.final_layer.linear = nn.Linear(width, squares)

    def forward(self, x, timesteps, context, seen=None):
        """Latents (N,c,H,W), (N) in 0..1000, (N,L,context_dim) -> (N,c,H,W). seen: (N,L), which of a
        prompt's tokens are attended to, as its padding is masked in training; None: all."""
        one, two = len(self.single_blocks), len(self.double_blocks)
        vectors = self.distilled_guidance_layer(timesteps, 3 * one + 12 * two + 2)
        of_single, of_img, of_txt, last = vectors.split([3 * one, 6 * two, 6 * two, 2], 1)
        img, txt = self.img_in(tokens(x)), self.txt_in(context)
        by = rotation(torch.cat([torch.zeros(txt.shape[1], 3), grid(x)]).double(), self.axes)
        if seen is not None:
            seen = torch.cat([seen, torch.ones(img.shape[:2], dtype=torch.bool)], 1)
        for i, block in enumerate(self.double_blocks):
            mine = slice(6 * i, 6 * i + 6)
            txt, img = block(txt, img, of_txt[:, mine], of_img[:, mine], by, seen)
        both = torch.cat([txt, img], 1)
        for i, block in enumerate(self.single_blocks):
            both = block(both, of_single[:, 3 * i:3 * i + 3], by, seen)
        img = flux.normed(both[:, txt.shape[1]:], last[:, :1], last[:, 1:])
        out = self.final_layer.linear(img)
        return F.fold(out.transpose(1, 2), x.shape[2:], PATCH, stride=PATCH)


def randomize(net, g):
    """As flux.py's: vectors of the size that those of its layers have."""
    flux.randomize(net, g)
    with torch.no_grad():
        net.distilled_guidance_layer.out_proj.weight.mul_(0.25)
        net.distilled_guidance_layer.out_proj.bias.copy_(
            (torch.randn(net.distilled_guidance_layer.out_proj.bias.shape, generator=g) * 0.2)
            .half().float())
