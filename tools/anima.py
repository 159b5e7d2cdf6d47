"""Anima's network (CircleStone Labs with Comfy Org, 2026: NVIDIA's Cosmos-Predict2,
arXiv:2511.00062, and an adapter for prompts) as plain PyTorch, for reference tensors. Names are
those of its files; a config says

    channels        of the latent
    num_heads, head_dim   of every attention; the width is their product
    mlp             width between the two layers behind attention
    told            width between the two that tell a branch the time
    depth           blocks
    context_dim     numbers of a text token
    adapter         num_heads, head_dim, mlp, depth of the adapter, and words of its table

Real ones: 16 channels, 16 heads of 128, mlp 8192, told 256, depth 28, context_dim 1024, adapter 16
heads of 64, mlp 4096, depth 6, 32128 words.

Pictures are computed one by one, each with the tokens and words that its prompt has, and zeros
behind what the adapter gives up to WORDS.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

PATCH, THETA, EPS, WORDS = 2, 10000.0, 1e-6, 512
STRETCH = 4.0       # of rotations by rows and columns


def waves(t, width):
    """A number in 0..1 -> (width): cosines, then sines."""
    half = width // 2
    angle = t * torch.exp(-math.log(10000) * torch.arange(half, dtype=t.dtype) / half)
    return torch.cat([angle.cos(), angle.sin()])


def rates(values, stretch=1.0):
    """Of the angles of so many values, two of which turn by each."""
    theta = THETA * stretch ** (values / (values - 2)) if values > 2 else THETA
    return theta ** (-torch.arange(0, values, 2, dtype=torch.float64) / values)


def in_a_row(count, head_dim):
    """(T,head_dim/2) angles."""
    return torch.arange(count, dtype=torch.float64)[:, None] * rates(head_dim)


def on_a_grid(rows, columns, head_dim):
    """The same, row by row: the first of a head's angles are time's, which stands still."""
    side = head_dim // 6 * 2
    still = torch.zeros(rows, columns, (head_dim - 2 * side) // 2, dtype=torch.float64)
    row = torch.arange(rows, dtype=torch.float64)[:, None, None] * rates(side, STRETCH)
    column = torch.arange(columns, dtype=torch.float64)[None, :, None] * rates(side, STRETCH)
    both = [still, row.expand(-1, columns, -1), column.expand(rows, -1, -1)]
    return torch.cat(both, 2).flatten(0, 1)


def turn(x, angle):
    """(heads,T,d): value i of a head against value i of its other half."""
    a, b = x.double().chunk(2, -1)
    cos, sin = angle.cos(), angle.sin()
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * (x.square().mean(-1, keepdim=True) + EPS).rsqrt() * self.weight


def plain(inputs, outputs):
    return nn.Linear(inputs, outputs, bias=False)


class Attention(nn.Module):
    def __init__(self, heads, head_dim, seen, out):
        super().__init__()
        self.heads, self.out, width = heads, out, heads * head_dim
        self.q_proj = plain(width, width)
        self.k_proj, self.v_proj = plain(seen, width), plain(seen, width)
        self.q_norm, self.k_norm = RMSNorm(head_dim), RMSNorm(head_dim)
        setattr(self, out, plain(width, width))

    def split(self, x):
        return x.view(x.shape[0], self.heads, -1).transpose(0, 1)

    def forward(self, x, seen, of_query=None, of_key=None):
        """(T,width), (S,any), angles of both or none."""
        q = self.q_norm(self.split(self.q_proj(x)))
        k = self.k_norm(self.split(self.k_proj(seen)))
        if of_query is not None:
            q, k = turn(q, of_query), turn(k, of_key)
        share = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(q.shape[2]), 2)
        y = (share @ self.split(self.v_proj(seen))).transpose(0, 1).flatten(1)
        return getattr(self, self.out)(y)


# ------------------------------------------------------------------ the adapter

class AdapterBlock(nn.Module):
    def __init__(self, cfg, context_dim):
        super().__init__()
        heads, head_dim = cfg["num_heads"], cfg["head_dim"]
        width = heads * head_dim
        self.norm_self_attn, self.norm_cross_attn = RMSNorm(width), RMSNorm(width)
        self.norm_mlp = RMSNorm(width)
        self.self_attn = Attention(heads, head_dim, width, "o_proj")
        self.cross_attn = Attention(heads, head_dim, context_dim, "o_proj")
        self.mlp = nn.Sequential(nn.Linear(width, cfg["mlp"]), nn.GELU(),
                                 nn.Linear(cfg["mlp"], width))

    def forward(self, x, tokens, of_words, of_tokens):
        y = self.norm_self_attn(x)
        x = x + self.self_attn(y, y, of_words, of_words)
        x = x + self.cross_attn(self.norm_cross_attn(x), tokens, of_words, of_tokens)
        return x + self.mlp(self.norm_mlp(x))


class Adapter(nn.Module):
    def __init__(self, cfg, context_dim):
        super().__init__()
        self.head_dim, width = cfg["head_dim"], cfg["num_heads"] * cfg["head_dim"]
        self.embed = nn.Embedding(cfg["words"], width)
        self.blocks = nn.ModuleList(AdapterBlock(cfg, context_dim) for _ in range(cfg["depth"]))
        self.out_proj, self.norm = nn.Linear(width, width), RMSNorm(width)

    def forward(self, tokens, words, weights):
        """(S,context_dim), (T) numbers, (T) -> (WORDS,width)."""
        of_words, of_tokens = (in_a_row(len(v), self.head_dim) for v in (words, tokens))
        x = self.embed(words)
        for block in self.blocks:
            x = block(x, tokens, of_words, of_tokens)
        x = self.norm(self.out_proj(x)) * weights[:, None]
        return F.pad(x, (0, 0, 0, WORDS - len(words)))


# ------------------------------------------------------------------ the transformer

def told(width, inner, vectors):
    return nn.Sequential(nn.SiLU(), plain(width, inner), plain(inner, vectors * width))


class MLP(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.layer1, self.layer2 = plain(width, inner), plain(inner, width)

    def forward(self, x):
        return self.layer2(F.gelu(self.layer1(x)))


def seen(x, shift, scale):
    return F.layer_norm(x, x.shape[-1:], eps=EPS) * (1 + scale) + shift


class Block(nn.Module):
    def __init__(self, cfg, text):
        super().__init__()
        heads, head_dim = cfg["num_heads"], cfg["head_dim"]
        width = heads * head_dim
        for name in ("self_attn", "cross_attn", "mlp"):
            setattr(self, "adaln_modulation_" + name, told(width, cfg["told"], 3))
        self.self_attn = Attention(heads, head_dim, width, "output_proj")
        self.cross_attn = Attention(heads, head_dim, text, "output_proj")
        self.mlp = MLP(width, cfg["mlp"])

    def forward(self, x, text, time, shared, angle):
        shift, scale, gate = (self.adaln_modulation_self_attn(time) + shared).chunk(3)
        y = seen(x, shift, scale)
        x = x + gate * self.self_attn(y, y, angle, angle)
        shift, scale, gate = (self.adaln_modulation_cross_attn(time) + shared).chunk(3)
        x = x + gate * self.cross_attn(seen(x, shift, scale), text)
        shift, scale, gate = (self.adaln_modulation_mlp(time) + shared).chunk(3)
        return x + gate * self.mlp(seen(x, shift, scale))


class Embedder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear_1, self.linear_2 = plain(width, width), plain(width, 3 * width)

    def forward(self, t):
        return self.linear_2(F.silu(self.linear_1(t)))


class Last(nn.Module):
    def __init__(self, width, inner, square):
        super().__init__()
        self.adaln_modulation, self.linear = told(width, inner, 2), plain(width, square)

    def forward(self, x, time, shared):
        shift, scale = (self.adaln_modulation(time) + shared[:2 * x.shape[1]]).chunk(2)
        return self.linear(seen(x, shift, scale))


class Squares(nn.Module):
    """The latent's planes and one of zeros, as tokens: (plane, row, column) of a square each."""

    def __init__(self, channels, width):
        super().__init__()
        self.proj = nn.Sequential(nn.Identity(), plain((channels + 1) * PATCH ** 2, width))

    def forward(self, x):
        x = torch.cat([x, torch.zeros_like(x[:1])])
        c, h, w = x.shape
        x = x.view(c, h // PATCH, PATCH, w // PATCH, PATCH)
        return self.proj(x.permute(1, 3, 0, 2, 4).reshape(-1, c * PATCH ** 2))


def picture(x, h, w):
    """Tokens, (row, column, plane) of a square each, as a latent."""
    c = x.shape[1] // PATCH ** 2
    x = x.view(h // PATCH, w // PATCH, PATCH, PATCH, c)
    return x.permute(4, 0, 2, 1, 3).reshape(c, h, w)


class Anima(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        width, text = cfg["num_heads"] * cfg["head_dim"], cfg["adapter"]
        self.width, self.head_dim = width, cfg["head_dim"]
        self.x_embedder = Squares(cfg["channels"], width)
        self.t_embedder = nn.Sequential(nn.Identity(), Embedder(width))
        self.t_embedding_norm = RMSNorm(width)
        self.blocks = nn.ModuleList(Block(cfg, text["num_heads"] * text["head_dim"])
                                    for _ in range(cfg["depth"]))
        self.final_layer = Last(width, cfg["told"], cfg["channels"] * PATCH ** 2)
        self.llm_adapter = Adapter(text, cfg["context_dim"])

    def one(self, x, t, tokens, y):
        """(c,H,W), how much of it is noise in thousandths, (S,context_dim), y as the engine has it:
        numbers of WORDS words, their weights, and how many these are -> (c,H,W)."""
        count, (_, h, w) = int(y[-1]), x.shape
        text = self.llm_adapter(tokens, y[:count].long(), y[WORDS:WORDS + count])
        time = waves(t / 1000, self.width)
        shared, time = self.t_embedder(time), self.t_embedding_norm(time)
        angle = on_a_grid(h // PATCH, w // PATCH, self.head_dim)
        x = self.x_embedder(x)
        for block in self.blocks:
            x = block(x, text, time, shared, angle)
        return picture(self.final_layer(x, time, shared), h, w)

    def forward(self, x, timesteps, context, y):
        return torch.stack([self.one(*row) for row in zip(x, timesteps, context, y)])


def randomize(net, g):
    """Values of a size that keeps activations near 1, rounded to what a file stores; nothing is
    left at 0 or 1, or a mistake behind it could not be seen."""
    for name, p in net.named_parameters():
        r = torch.randn(p.shape, generator=g)
        if name == "llm_adapter.embed.weight":
            pass
        elif p.dim() > 1:
            r = r / p[0].numel() ** 0.5
        elif "norm" in name:
            r = r * 0.3 + 1.0
        else:
            r = r * 0.1
        p.data.copy_(r.half().float())
