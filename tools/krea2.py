"""Krea 2's network (krea.ai, 2026) as plain PyTorch, for reference tensors. Names are those of its
authors' files; a config says

    channels        of the latent
    num_heads, num_kv_heads, head_dim   of every attention; the width is the first times the last
    axes            numbers of a head that turn with a token's place along three axes: picture, row,
                    column
    mlp             width between the two layers behind attention
    depth           blocks
    text_layers, text_width   numbers of a text token: of so many layers of the language model
    text_heads, text_kv_heads, text_mlp   of the blocks of the text alone
    layerwise, refiner   how many of these see the layers of one token, and all tokens

Real ones: 16 channels, 48 and 12 heads of 128, axes 32, 48, 48, mlp 16384, depth 28; 12 layers of 2560
numbers, 20 and 20 heads, mlp 6912, 2 and 2 blocks.

Prompts and pictures are computed one by one, each prompt with all of its tokens.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

PATCH, WAVES, THETA, EPS = 2, 256, 1000, 1e-5


def waves(t):
    """A number in 0..1000 -> (256): cosines, then sines."""
    half = WAVES // 2
    angle = t * torch.exp(-math.log(10000) * torch.arange(half, dtype=t.dtype) / half)
    return torch.cat([angle.cos(), angle.sin()])


def gelu(x):
    return F.gelu(x, approximate="tanh")


def turn(x, places, axes):
    """(heads,T,d): pairs of each axis' values by angles of its own."""
    parts, at = [], 0
    for axis, width in enumerate(axes):
        rate = THETA ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
        angle = places[:, axis, None] * rate
        cos, sin = angle.cos(), angle.sin()
        a, b = x[..., at:at + width:2].double(), x[..., at + 1:at + width:2].double()
        parts.append(torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2))
        at += width
    return torch.cat(parts, -1).to(x.dtype)


class RMSNorm(nn.Module):
    """Its weight is stored by how far it is from 1."""

    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return x * (x.square().mean(-1, keepdim=True) + EPS).rsqrt() * (1 + self.scale)


class QKNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qnorm, self.knorm = RMSNorm(width), RMSNorm(width)


class Attention(nn.Module):
    def __init__(self, width, heads, shared):
        super().__init__()
        self.heads, self.shared, head = heads, shared, width // heads
        self.wq, self.gate, self.wo = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.wk, self.wv = (nn.Linear(width, shared * head, bias=False) for _ in range(2))
        self.qknorm = QKNorm(head)

    def forward(self, x, places=None, axes=None):
        """(T,width)."""
        q = self.qknorm.qnorm(self.wq(x).view(len(x), self.heads, -1).transpose(0, 1))
        k = self.qknorm.knorm(self.wk(x).view(len(x), self.shared, -1).transpose(0, 1))
        v = self.wv(x).view(len(x), self.shared, -1).transpose(0, 1)
        if places is not None:
            q, k = turn(q, places, axes), turn(k, places, axes)
        out = []
        for head in range(self.heads):
            own = head * self.shared // self.heads
            share = torch.softmax(q[head] @ k[own].T / math.sqrt(q.shape[2]), 1)
            out.append(share @ v[own])
        return self.wo(torch.cat(out, 1) * torch.sigmoid(self.gate(x)))


class Gated(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Vectors(nn.Module):
    def __init__(self, *shape):
        super().__init__()
        self.lin = nn.Parameter(torch.zeros(shape))


class TextBlock(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        width = cfg["text_width"]
        self.prenorm, self.postnorm = RMSNorm(width), RMSNorm(width)
        self.attn = Attention(width, cfg["text_heads"], cfg["text_kv_heads"])
        self.mlp = Gated(width, cfg["text_mlp"])

    def forward(self, x):
        x = x + self.attn(self.prenorm(x))
        return x + self.mlp(self.postnorm(x))


class TextFusion(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.layerwise_blocks = nn.ModuleList(TextBlock(cfg) for _ in range(cfg["layerwise"]))
        self.projector = nn.Linear(cfg["text_layers"], 1, bias=False)
        self.refiner_blocks = nn.ModuleList(TextBlock(cfg) for _ in range(cfg["refiner"]))

    def token(self, x):
        """(layers,width) -> (width)."""
        for block in self.layerwise_blocks:
            x = block(x)
        return self.projector(x.T)[:, 0]

    def forward(self, x):
        """(T,layers,width) -> (T,width)."""
        x = torch.stack([self.token(layers) for layers in x])
        for block in self.refiner_blocks:
            x = block(x)
        return x


class Block(nn.Module):
    def __init__(self, cfg, width):
        super().__init__()
        self.mod = Vectors(6 * width)
        self.prenorm, self.postnorm = RMSNorm(width), RMSNorm(width)
        self.attn = Attention(width, cfg["num_heads"], cfg["num_kv_heads"])
        self.mlp = Gated(width, cfg["mlp"])

    def forward(self, x, vector, places, axes):
        scale, shift, gate, mlp_scale, mlp_shift, mlp_gate = (vector + self.mod.lin).chunk(6)
        x = x + gate * self.attn((1 + scale) * self.prenorm(x) + shift, places, axes)
        return x + mlp_gate * self.mlp((1 + mlp_scale) * self.postnorm(x) + mlp_shift)


class Last(nn.Module):
    def __init__(self, width, square):
        super().__init__()
        self.modulation = Vectors(2, width)
        self.norm = RMSNorm(width)
        self.linear = nn.Linear(width, square)

    def forward(self, x, time):
        scale, shift = time + self.modulation.lin
        return self.linear((1 + scale) * self.norm(x) + shift)


class GELU(nn.Module):
    def forward(self, x):
        return gelu(x)


def tokens(x):
    """(c,H,W) -> (T,4c): (channel, row, column) of a square each."""
    c, h, w = x.shape
    x = x.view(c, h // PATCH, PATCH, w // PATCH, PATCH)
    return x.permute(1, 3, 0, 2, 4).reshape(-1, PATCH * PATCH * c)


def picture(x, h, w):
    """And back."""
    c = x.shape[1] // PATCH ** 2
    x = x.view(h // PATCH, w // PATCH, c, PATCH, PATCH)
    return x.permute(2, 0, 3, 1, 4).reshape(c, h, w)


class Krea2(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        width, square = cfg["num_heads"] * cfg["head_dim"], cfg["channels"] * PATCH ** 2
        self.axes, self.layers = cfg["axes"], cfg["text_layers"]
        self.first = nn.Linear(square, width)
        self.tmlp = nn.Sequential(nn.Linear(WAVES, width), GELU(), nn.Linear(width, width))
        self.tproj = nn.Sequential(GELU(), nn.Linear(width, 6 * width))
        self.txtfusion = TextFusion(cfg)
        self.txtmlp = nn.Sequential(RMSNorm(cfg["text_width"]), nn.Linear(cfg["text_width"], width),
                                    GELU(), nn.Linear(width, width))
        self.blocks = nn.ModuleList(Block(cfg, width) for _ in range(cfg["depth"]))
        self.last = Last(width, square)

    def one(self, x, noise, words):
        """(c,H,W), how much of it is noise, in thousandths, (T,layers*width) -> (c,H,W)."""
        rows, columns = x.shape[1] // PATCH, x.shape[2] // PATCH
        time = self.tmlp(waves(noise))
        vector = self.tproj(time)
        text = self.txtmlp(self.txtfusion(words.view(len(words), self.layers, -1)))
        places = torch.cartesian_prod(torch.zeros(1, dtype=torch.float64),
                                      torch.arange(rows, dtype=torch.float64),
                                      torch.arange(columns, dtype=torch.float64))
        places = torch.cat([torch.zeros(len(text), 3, dtype=torch.float64), places])
        both = torch.cat([text, self.first(tokens(x))])
        for block in self.blocks:
            both = block(both, vector, places, self.axes)
        return picture(self.last(both[len(text):], time), *x.shape[1:])

    def forward(self, x, timesteps, context):
        """(N,c,H,W), (N) in 0..1000, (N,T,layers*width)."""
        return torch.stack([self.one(*each) for each in zip(x, timesteps, context)])


def randomize(net, g):
    """Values of a size that keeps activations near 1, rounded to what a file stores; nothing is left
    at 0, or a mistake behind it could not be seen."""
    for name, p in net.named_parameters():
        r = torch.randn(p.shape, generator=g)
        if name.endswith(".lin"):
            r = r * 0.4
        elif p.dim() > 1:
            r = r / p[0].numel() ** 0.5
        elif name.endswith("scale"):
            r = r * 0.3
        else:
            r = r * 0.1
        p.data.copy_(r.half().float())
