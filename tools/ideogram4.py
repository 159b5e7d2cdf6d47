"""Ideogram 4's network (ideogram.ai, 2026) as plain PyTorch, for reference tensors. Names are those
of its authors' files; a config says

    channels        numbers of a token: of 2x2 cells of the VAE's latent
    num_heads, head_dim   of every attention; the width is their product
    turned          pairs of a head that turn with a token's row, and as many with its column
    mlp             width between the two layers behind attention
    depth           blocks
    told            numbers that tell a block the time
    text_width      of each of the 13 layers of the language model in a text token

Real ones: 128 channels, 18 heads of 256, 20 pairs, mlp 12288, depth 34, told 512, text_width 4096.

Prompts and pictures are computed one by one, each prompt with all of its tokens, or with none.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

LAYERS, SQUARE, THETA, EPS, TEXT_EPS, PLACE = 13, 4, 5e6, 1e-5, 1e-6, 65536


def waves(x, width):
    """A number -> (width): sines, then cosines, of it times numbers from 1 to 1/10000. These and the
    angles are rounded to float32, as where the network was trained."""
    half = width // 2
    exponent = -torch.tensor(math.log(10000)) * torch.arange(half) / (half - 1)
    angle = (x.float() * exponent.double().exp().float()).double()
    return torch.cat([angle.sin(), angle.cos()]).to(x.dtype)


def turn(x, places, turned):
    """(heads,T,d) at places (T,3): value i of a head against value i of its other half, by angles of
    an axis that changes from one to the next."""
    half = x.shape[2] // 2
    axis = [k % 3 if k < 3 * turned else 0 for k in range(half)]
    rate = THETA ** (-torch.arange(half, dtype=torch.float64) / half)
    angle = places[:, axis] * rate
    cos, sin = angle.cos(), angle.sin()
    a, b = x[..., :half].double(), x[..., half:].double()
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1).to(x.dtype)


class RMSNorm(nn.Module):
    def __init__(self, width, eps=EPS):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        return x * (x.square().mean(-1, keepdim=True) + self.eps).rsqrt() * self.weight


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.o = nn.Linear(width, width, bias=False)
        self.norm_q, self.norm_k = RMSNorm(width // heads), RMSNorm(width // heads)

    def forward(self, x, places, turned):
        """(T,width)."""
        q, k, v = (part.view(len(x), self.heads, -1).transpose(0, 1)
                   for part in self.qkv(x).chunk(3, 1))
        q, k = (turn(norm(part), places, turned)
                for norm, part in ((self.norm_q, q), (self.norm_k, k)))
        share = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(q.shape[2]), 2)
        return self.o((share @ v).transpose(0, 1).flatten(1))


class Gated(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.w1, self.w3 = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.w2 = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, cfg, width):
        super().__init__()
        self.attention = Attention(width, cfg["num_heads"])
        self.feed_forward = Gated(width, cfg["mlp"])
        self.attention_norm1, self.attention_norm2 = RMSNorm(width), RMSNorm(width)
        self.ffn_norm1, self.ffn_norm2 = RMSNorm(width), RMSNorm(width)
        self.adaln_modulation = nn.Linear(cfg["told"], 4 * width)

    def forward(self, x, told, places, turned):
        scale, gate, mlp_scale, mlp_gate = self.adaln_modulation(told).chunk(4)
        y = self.attention((1 + scale) * self.attention_norm1(x), places, turned)
        x = x + gate.tanh() * self.attention_norm2(y)
        y = self.feed_forward((1 + mlp_scale) * self.ffn_norm1(x))
        return x + mlp_gate.tanh() * self.ffn_norm2(y)


class Time(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width
        self.mlp_in, self.mlp_out = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, share):
        """How much of the picture there is, in ten thousandths."""
        return self.mlp_out(F.silu(self.mlp_in(waves(share, self.width))))


class Final(nn.Module):
    def __init__(self, cfg, width):
        super().__init__()
        self.linear = nn.Linear(width, cfg["channels"])
        self.adaln_modulation = nn.Linear(cfg["told"], width)

    def forward(self, x, told):
        x = F.layer_norm(x, x.shape[-1:], eps=1e-6)
        return self.linear(x * (1 + self.adaln_modulation(F.silu(told))))


class Ideogram4(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        width, text = cfg["num_heads"] * cfg["head_dim"], LAYERS * cfg["text_width"]
        self.turned = cfg["turned"]
        self.input_proj = nn.Linear(cfg["channels"], width)
        self.llm_cond_norm = RMSNorm(text, TEXT_EPS)
        self.llm_cond_proj = nn.Linear(text, width)
        self.t_embedding = Time(width)
        self.adaln_proj = nn.Linear(width, cfg["told"])
        self.embed_image_indicator = nn.Embedding(2, width)
        self.layers = nn.ModuleList(Block(cfg, width) for _ in range(cfg["depth"]))
        self.final_layer = Final(cfg, width)

    def one(self, x, noise, words):
        """(c,H,W), plane 4 c + i being channel c of cell i; how much of it is noise, in thousandths;
        (T,layers*width), layer after layer, T may be 0 -> (c,H,W), from the picture to the noise."""
        c, rows, columns = x.shape
        told = F.silu(self.adaln_proj(self.t_embedding(10000 - 10 * noise)))
        words = words.unflatten(1, (LAYERS, -1)).transpose(1, 2).flatten(1)
        text = self.llm_cond_proj(self.llm_cond_norm(words)) + self.embed_image_indicator.weight[0]
        cells = x.view(c // SQUARE, SQUARE, rows * columns).permute(2, 1, 0).flatten(1)
        cells = self.input_proj(cells) + self.embed_image_indicator.weight[1]
        word = torch.arange(len(text), dtype=torch.float64)[:, None].expand(-1, 3)
        grid = torch.cartesian_prod(torch.zeros(1, dtype=torch.float64),
                                    torch.arange(rows, dtype=torch.float64),
                                    torch.arange(columns, dtype=torch.float64)) + PLACE
        places, both = torch.cat([word, grid.view(-1, 3)]), torch.cat([text, cells])
        for block in self.layers:
            both = block(both, told, places, self.turned)
        y = -self.final_layer(both[len(text):], told)
        return y.view(rows * columns, SQUARE, c // SQUARE).permute(2, 1, 0).reshape(c, rows, columns)

    def forward(self, x, timesteps, context):
        """(N,c,H,W), (N) in 0..1000, (N,T,layers*width)."""
        return torch.stack([self.one(*each) for each in zip(x, timesteps, context)])


def randomize(net, g):
    """Values of a size that keeps activations near 1, rounded to what a file stores; nothing is left
    at 0 or 1, or a mistake behind it could not be seen."""
    for name, p in net.named_parameters():
        r = torch.randn(p.shape, generator=g)
        if "indicator" in name:
            r = r * 0.7
        elif p.dim() > 1:
            r = r / p[0].numel() ** 0.5
        elif "norm" in name:
            r = 1 + r * 0.3
        else:
            r = r * 0.2
        p.data.copy_(r.half().float())
