"""ERNIE-Image's network (Baidu, 2026) as plain PyTorch, for reference tensors. Names are those of its
authors' files, which are diffusers'; a config says

    channels        numbers of a token, which is a cell of the latent
    num_heads, head_dim   of every attention; the width is their product
    turned          values of a head for a token's row, and as many for its column
    mlp             width between the two layers behind attention
    depth           blocks
    text_width      numbers of a text token

Real ones: 128 channels, 32 heads of 128, 48 values, mlp 12288, depth 36, text_width 3072.

Prompts and pictures are computed one by one, each prompt with all of its tokens.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from mmdit import RMSNorm

THETA = 256


def waves(t, width):
    """A number -> (width): sines, then cosines, of it at half as many frequencies from 1 on."""
    half = width // 2
    angle = t * torch.exp(torch.arange(half, dtype=t.dtype) * (-math.log(10000) / half))
    return torch.cat([angle.sin(), angle.cos()])


def angles(places, sizes):
    """(T,3) and how many values of a head each of the three is for -> (T,d/2), in float64."""
    parts = [places[:, i, None] * THETA ** (-torch.arange(0, n, 2, dtype=torch.float64) / n)
             for i, n in enumerate(sizes)]
    return torch.cat(parts, 1)


def turn(x, angle):
    """(heads,T,d) by (T,d/2). Each angle counts for two values that stand beside each other, while a
    value is turned against that of the head's other half: the two halves of a pair are turned by
    angles of their own, so that this is no rotation."""
    each = angle.repeat_interleave(2, 1)
    wide, half = x.double(), x.shape[2] // 2
    other = torch.cat([-wide[..., half:], wide[..., :half]], 2)
    return (wide * each.cos() + other * each.sin()).to(x.dtype)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.to_q, self.to_k, self.to_v = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.norm_q, self.norm_k = RMSNorm(width // heads), RMSNorm(width // heads)
        self.to_out = nn.ModuleList([nn.Linear(width, width, bias=False)])

    def forward(self, x, angle):
        q, k, v = (layer(x).unflatten(1, (self.heads, -1)).transpose(0, 1)
                   for layer in (self.to_q, self.to_k, self.to_v))
        q, k = turn(self.norm_q(q), angle), turn(self.norm_k(k), angle)
        share = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(q.shape[2]), 2)
        return self.to_out[0]((share @ v).transpose(0, 1).flatten(1))


class Gated(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.linear_fc2 = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        return self.linear_fc2(self.up_proj(x) * F.gelu(self.gate_proj(x)))


class Block(nn.Module):
    def __init__(self, cfg, width):
        super().__init__()
        self.adaLN_sa_ln, self.adaLN_mlp_ln = RMSNorm(width), RMSNorm(width)
        self.self_attention = Attention(width, cfg["num_heads"])
        self.mlp = Gated(width, cfg["mlp"])

    def forward(self, x, told, angle):
        shift, scale, gate, mlp_shift, mlp_scale, mlp_gate = told
        x = x + gate * self.self_attention(self.adaLN_sa_ln(x) * (1 + scale) + shift, angle)
        return x + mlp_gate * self.mlp(self.adaLN_mlp_ln(x) * (1 + mlp_scale) + mlp_shift)


class Embedder(nn.Module):
    def __init__(self, channels, width):
        super().__init__()
        self.proj = nn.Conv2d(channels, width, 1)

    def forward(self, x):
        """(c,H,W) -> (H*W,width)."""
        return self.proj(x[None]).flatten(2)[0].t()


class Time(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width
        self.linear_1, self.linear_2 = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, t):
        return self.linear_2(F.silu(self.linear_1(waves(t, self.width))))


class FinalNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, 2 * width)

    def forward(self, x, told):
        scale, shift = self.linear(told).chunk(2)
        return F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale) + shift


class ErnieImage(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        width, text = cfg["num_heads"] * cfg["head_dim"], cfg["text_width"]
        self.sizes = [cfg["head_dim"] - 2 * cfg["turned"]] + 2 * [cfg["turned"]]
        self.x_embedder = Embedder(cfg["channels"], width)
        self.text_proj = nn.Linear(text, width, bias=False) if text != width else None
        self.time_embedding = Time(width)
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))
        self.layers = nn.ModuleList(Block(cfg, width) for _ in range(cfg["depth"]))
        self.final_norm = FinalNorm(width)
        self.final_linear = nn.Linear(width, cfg["channels"])

    def one(self, x, t, words):
        """(c,H,W), how much of it is noise in thousandths, (T,text_width) -> (c,H,W). All of the
        picture stands behind the last word."""
        c, rows, columns = x.shape
        place = torch.zeros((rows * columns + len(words), 3), dtype=torch.float64)
        place[:rows * columns, 0] = len(words)
        place[:rows * columns, 1:] = torch.cartesian_prod(torch.arange(rows), torch.arange(columns))
        place[rows * columns:, 0] = torch.arange(len(words))
        angle = angles(place, self.sizes)
        time = self.time_embedding(t)
        told = self.adaLN_modulation(time).chunk(6)
        text = words if self.text_proj is None else self.text_proj(words)
        both = torch.cat([self.x_embedder(x), text])
        for block in self.layers:
            both = block(both, told, angle)
        y = self.final_linear(self.final_norm(both[:rows * columns], time))
        return y.t().reshape(c, rows, columns)

    def forward(self, x, timesteps, context):
        """(N,c,H,W), (N) in 0..1000, (N,T,text_width)."""
        return torch.stack([self.one(*each) for each in zip(x, timesteps, context)])


def randomize(net, g):
    """Values of a size that keeps activations near 1, rounded to what a file stores; nothing is left
    at 0 or 1, or a mistake behind it could not be seen."""
    for name, p in net.named_parameters():
        r = torch.randn(p.shape, generator=g)
        if p.dim() > 1:
            r = r / p[0].numel() ** 0.5
        elif name.endswith("_ln.weight") or ".norm_" in name:
            r = 1 + r * 0.3
        else:
            r = r * 0.2
        p.data.copy_(r.half().float())
