"""Qwen-Image's network (Alibaba, 2025, arXiv:2508.02324) as plain PyTorch, for reference tensors.
Names are those of its files; a config says

    channels        of the latent
    num_heads, head_dim   of every attention; the width is their product
    axes            numbers of a head that turn with a token's place along three axes: picture, row,
                    column
    mlp             width between the two layers behind attention
    depth           blocks
    context_dim     numbers of a text token
    layered         it is Qwen-Image-Layered's (arXiv:2512.15603)

Real ones: 16 channels, 24 heads of 128, axes 16, 56, 56, mlp 12288, depth 60, context_dim 3584.

Prompts and pictures are computed one by one, each prompt with all of its tokens. References, which
Qwen-Image-Edit sees, are pictures behind the one that is made; `clean` ones are conditioned on a time
of 0 (Edit-2511). A layered network makes several pictures of one size, and is shown the one that
consists of them; what its pictures have, which is an alpha channel, is embedded beside the time.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

PATCH, WAVES, THETA, EPS = 2, 256, 10000, 1e-6


def waves(t):
    """A number in 0..1000 -> (256): cosines, then sines."""
    half = WAVES // 2
    angle = t * torch.exp(-math.log(10000) * torch.arange(half, dtype=t.dtype) / half)
    return torch.cat([angle.cos(), angle.sin()])


def picture_places(number, rows, columns):
    """(T,3): half of an axis' places, rounded up, are below 0."""
    def along(n):
        return torch.arange(n, dtype=torch.float64) - (n - n // 2)
    number = torch.full((1,), number, dtype=torch.float64)
    return torch.cartesian_prod(number, along(rows), along(columns))


def text_places(words, grids, least=0):
    """(T,3): the same number on all axes, from half of the longest side on."""
    place = torch.arange(words, dtype=torch.float64)
    place += max([least] + [n // 2 for grid in grids for n in grid])
    return place[:, None].expand(-1, 3)


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
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * (x.square().mean(-1, keepdim=True) + EPS).rsqrt() * self.weight


class Attention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.heads, width = cfg["num_heads"], cfg["num_heads"] * cfg["head_dim"]
        for name in ("to_q", "to_k", "to_v", "add_q_proj", "add_k_proj", "add_v_proj", "to_add_out"):
            setattr(self, name, nn.Linear(width, width))
        self.to_out = nn.ModuleList([nn.Linear(width, width)])
        for name in ("norm_q", "norm_k", "norm_added_q", "norm_added_k"):
            setattr(self, name, RMSNorm(cfg["head_dim"]))

    def split(self, x):
        return x.view(x.shape[0], self.heads, -1).transpose(0, 1)

    def forward(self, text, picture, turn_text, turn_picture):
        q = torch.cat([turn_text(self.norm_added_q(self.split(self.add_q_proj(text)))),
                       turn_picture(self.norm_q(self.split(self.to_q(picture))))], 1)
        k = torch.cat([turn_text(self.norm_added_k(self.split(self.add_k_proj(text)))),
                       turn_picture(self.norm_k(self.split(self.to_k(picture))))], 1)
        v = torch.cat([self.split(self.add_v_proj(text)), self.split(self.to_v(picture))], 1)
        share = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(q.shape[2]), 2)
        out = (share @ v).transpose(0, 1).flatten(1)
        words = text.shape[0]
        return self.to_add_out(out[:words]), self.to_out[0](out[words:])


class Projection(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.proj = nn.Linear(width, inner)

    def forward(self, x):
        return F.gelu(self.proj(x), approximate="tanh")


class MLP(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.net = nn.Sequential(Projection(width, inner), nn.Identity(), nn.Linear(inner, width))

    def forward(self, x):
        return self.net(x)


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        width = cfg["num_heads"] * cfg["head_dim"]
        self.img_mod, self.txt_mod = (nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))
                                      for _ in range(2))
        self.attn = Attention(cfg)
        self.img_mlp, self.txt_mlp = (MLP(width, cfg["mlp"]) for _ in range(2))

    def forward(self, text, picture, time, times, turn_text, turn_picture):
        """times (T,width): of each of the pictures' tokens."""
        t, p = self.txt_mod(time).chunk(6), self.img_mod(times).chunk(6, 1)
        of_text, of_picture = self.attn(seen(text, t[0], t[1]), seen(picture, p[0], p[1]), turn_text,
                                        turn_picture)
        text, picture = text + t[2] * of_text, picture + p[2] * of_picture
        return (text + t[5] * self.txt_mlp(seen(text, t[3], t[4])),
                picture + p[5] * self.img_mlp(seen(picture, p[3], p[4])))


def seen(x, shift, scale):
    return F.layer_norm(x, x.shape[-1:], eps=EPS) * (1 + scale) + shift


class Embedder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear_1, self.linear_2 = nn.Linear(WAVES, width), nn.Linear(width, width)

    def forward(self, t):
        return self.linear_2(F.silu(self.linear_1(waves(t))))


class Time(nn.Module):
    def __init__(self, width, layered):
        super().__init__()
        self.timestep_embedder = Embedder(width)
        if layered:
            self.addition_t_embedding = nn.Embedding(2, width)   # with an alpha channel, without

    def forward(self, t):
        time = self.timestep_embedder(t)
        return time + self.addition_t_embedding.weight[0] if hasattr(self, "addition_t_embedding") else time


class Last(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, 2 * width)

    def forward(self, x, time):
        scale, shift = self.linear(F.silu(time)).chunk(2)
        return seen(x, shift, scale)


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


class QwenImage(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        width, square = cfg["num_heads"] * cfg["head_dim"], cfg["channels"] * PATCH ** 2
        self.axes, self.layered = cfg["axes"], cfg.get("layered", False)
        self.img_in, self.txt_in = nn.Linear(square, width), nn.Linear(cfg["context_dim"], width)
        self.txt_norm = RMSNorm(cfg["context_dim"])
        self.time_text_embed = Time(width, self.layered)
        self.transformer_blocks = nn.ModuleList(Block(cfg) for _ in range(cfg["depth"]))
        self.norm_out = Last(width)
        self.proj_out = nn.Linear(width, square)

    def one(self, noise, words, pictures, clean):
        """How much of the first latent (c,H,W) is noise, in thousandths, (T,context_dim), the latent
        and its references -> (c,H,W). Of a layered network the latent is (c,layers,H,W)."""
        layers = list(pictures[0].unbind(1)) if self.layered else [pictures[0]]
        shown = list(pictures[1:])
        numbers = list(range(len(layers))) + ([-1] if self.layered else list(range(1, 1 + len(shown))))
        grids = [(p.shape[1] // PATCH, p.shape[2] // PATCH) for p in layers + shown]
        embed = self.time_text_embed
        time = embed(noise)
        own = len(layers) * grids[0][0] * grids[0][1]
        of_text = text_places(words.shape[0], grids, len(layers) if self.layered else 0)
        of_pictures = torch.cat([picture_places(i, *grid) for i, grid in zip(numbers, grids)])
        text = self.txt_in(self.txt_norm(words))
        cells = self.img_in(torch.cat([tokens(p) for p in layers + shown]))
        times = time.expand(len(cells), -1).clone()
        if clean:
            times[own:] = embed(torch.zeros_like(noise))
        for block in self.transformer_blocks:
            text, cells = block(text, cells, time, times, lambda v: turn(v, of_text, self.axes),
                                lambda v: turn(v, of_pictures, self.axes))
        made = self.proj_out(self.norm_out(cells[:own], time)).chunk(len(layers))
        made = [picture(p, *layers[0].shape[1:]) for p in made]
        return torch.stack(made, 1) if self.layered else made[0]

    def forward(self, x, timesteps, context, references=(), clean=False):
        """(N,c,H,W) or (N,c,layers,H,W), (N) in 0..1000, (N,T,context_dim), each reference
        (N,c,H,W)."""
        return torch.stack([self.one(noise, words, pictures, clean)
                            for noise, words, *pictures in zip(timesteps, context, x, *references)])


def randomize(net, g):
    """Values of a size that keeps activations near 1, rounded to what a file stores; nothing is left
    at 0 or 1, or a mistake behind it could not be seen."""
    for name, p in net.named_parameters():
        r = torch.randn(p.shape, generator=g)
        if "addition" in name:
            pass
        elif p.dim() > 1:
            r = r / p[0].numel() ** 0.5
        elif "attn.norm_" in name or name == "txt_norm.weight":
            r = r * 0.3 + 1.0
        else:
            r = r * (0.4 if "_mod." in name or "norm_out" in name else 0.1)
        p.data.copy_(r.half().float())
