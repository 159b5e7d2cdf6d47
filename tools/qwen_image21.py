"""Qwen-Image 2.1's network (Alibaba, 2026) as plain PyTorch, for reference tensors. Names are those
of ComfyUI's files; a config says

    channels        of the latent, of which each cell is a token
    num_heads, head_dim   of all attentions
    axes            numbers of a head that turn with a token's place along three axes: number, row,
                    column
    mlp             width behind the gate
    depth           blocks
    context_dim     numbers of a text token

Real ones: 64 channels, 32 heads of 128, axes 16, 56, 56, mlp 12288, depth 32, 4096 numbers.

Prompts and pictures are computed one by one, each prompt with all of its tokens, as one sequence with
a mask: a token sees what is before it and itself, and those of a picture all of that, too. References
are pictures that stand within the text, the one that is made behind it. All but the latter are told a
time of 0.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

WAVES, THETA, EPS = 256, 10000, 1e-6


def waves(t):
    """A number in 0..1000 -> (256): cosines, then sines."""
    half = WAVES // 2
    angle = t * torch.exp(-math.log(10000) * torch.arange(half, dtype=t.dtype) / half)
    return torch.cat([angle.cos(), angle.sin()])


def turn(x, places, axes):
    """(heads,T,d): pairs of each axis' values by angles of its own."""
    parts, at = [], 0
    for axis, width in enumerate(axes):
        rate = THETA ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
        angle = places[:, axis, None] * rate
        pairs = x[..., at:at + width].double().unflatten(-1, (-1, 2))
        turned = torch.view_as_complex(pairs.contiguous()) * torch.polar(torch.ones_like(angle), angle)
        parts.append(torch.view_as_real(turned).flatten(-2))
        at += width
    return torch.cat(parts, -1).to(x.dtype)


def rms(x):
    return x * (x.square().mean(-1, keepdim=True) + EPS).rsqrt()


def plain(inputs, outputs):
    return nn.Linear(inputs, outputs, bias=False)


class RMSNorm(nn.Module):
    """A weight that is stored as it is, or (less=1) by how far it is from 1."""

    def __init__(self, width, less=0):
        super().__init__()
        self.weight, self.less = nn.Parameter(torch.ones(width)), less

    def forward(self, x):
        return rms(x) * (self.weight + self.less)


class Attention(nn.Module):
    def __init__(self, heads, head):
        super().__init__()
        self.heads, width = heads, heads * head
        self.to_q, self.to_k, self.to_v = (plain(width, width) for _ in range(3))
        self.to_out = nn.ModuleList([plain(width, width)])
        self.norm_q, self.norm_k = RMSNorm(head), RMSNorm(head)

    def forward(self, x, places, axes, seen):
        q, k, v = (layer(x).view(len(x), self.heads, -1).transpose(0, 1)
                   for layer in (self.to_q, self.to_k, self.to_v))
        q, k = turn(self.norm_q(q), places, axes), turn(self.norm_k(k), places, axes)
        score = (q @ k.transpose(1, 2) / math.sqrt(q.shape[2])).masked_fill(~seen, -torch.inf)
        return self.to_out[0]((torch.softmax(score, 2) @ v).transpose(0, 1).flatten(1))


class Gated(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.gate_up, self.out = plain(width, 2 * inner), plain(inner, width)

    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, 1)
        return self.out(F.silu(gate) * up)


class Block(nn.Module):
    def __init__(self, cfg, width):
        super().__init__()
        self.attn = Attention(cfg["num_heads"], cfg["head_dim"])
        self.img_mlp = Gated(width, cfg["mlp"])

    def forward(self, x, vectors, places, axes, seen):
        """vectors: (T,4 width), what each token is told."""
        scale, gate, mlp_scale, mlp_gate = vectors.chunk(4, 1)
        seen_of = F.layer_norm(x, x.shape[1:], eps=EPS) * (1 + scale)
        x = x + torch.tanh(gate) * self.attn(seen_of, places, axes, seen)
        seen_of = F.layer_norm(x, x.shape[1:], eps=EPS) * (1 + mlp_scale)
        return x + torch.tanh(mlp_gate) * self.img_mlp(seen_of)


class Embedder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear_1, self.linear_2 = plain(WAVES, width), plain(width, width)

    def forward(self, t):
        return self.linear_2(F.silu(self.linear_1(waves(t))))


class Time(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.timestep_embedder = Embedder(width)


class Text(nn.Module):
    def __init__(self, context, width):
        super().__init__()
        self.text_norm = RMSNorm(context, 1)
        self.in_layer, self.out_layer = plain(context, width), plain(width, width)

    def forward(self, x):
        return self.out_layer(F.gelu(self.in_layer(self.text_norm(x)), approximate="tanh"))


class Last(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = plain(width, width)


def tokens(x):
    """(c,H,W) -> (T,c)."""
    return x.flatten(1).T


def centred(n):
    """Numbers of n in a row, with their middle at 0."""
    return torch.arange(n, dtype=torch.float64) - (n - n // 2)


class QwenImage21(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        width = cfg["num_heads"] * cfg["head_dim"]
        self.axes = cfg["axes"]
        self.img_in = plain(cfg["channels"], width)
        self.txt_in = Text(cfg["context_dim"], width)
        self.time_text_embed = Time(width)
        self.modulation = nn.Sequential(nn.SiLU(), plain(width, 4 * width))
        self.transformer_blocks = nn.ModuleList(Block(cfg, width) for _ in range(cfg["depth"]))
        self.norm_out, self.proj_out = Last(width), plain(width, cfg["channels"])

    def one(self, x, noise, words, references=(), within=()):
        """(c,H,W), how much of it is noise, in thousandths, (T,context), [(c,H,W)], and how many words
        stand before each of these -> (c,H,W)."""
        _, rows, columns = x.shape
        words, parts, places, picture, at, done = self.txt_in(words), [], [], [], 0, 0
        for number, (shown, until) in enumerate([*zip(references, within), (x, len(words))]):
            parts += [words[done:until], self.img_in(tokens(shown))]
            places.append((at + torch.arange(until - done, dtype=torch.float64))[:, None].expand(-1, 3))
            at, done = at + until - done, until
            sides = shown.shape[1:]
            places.append(torch.cartesian_prod(torch.tensor([float(at)], dtype=torch.float64),
                                               *map(centred, sides)))
            at += max(sides)
            picture += [-1] * len(parts[-2]) + [number] * len(parts[-1])
        both, places, picture = torch.cat(parts), torch.cat(places), torch.tensor(picture)
        order = torch.arange(len(both))
        seen = order[:, None] >= order
        seen |= (picture[:, None] == picture) & (picture >= 0)
        time = self.time_text_embed.timestep_embedder
        told = [self.modulation(time(t)) for t in (torch.zeros_like(noise), noise)]
        text = len(both) - rows * columns
        vectors = torch.cat([told[0].expand(text, -1), told[1].expand(rows * columns, -1)])
        for block in self.transformer_blocks:
            both = block(both, vectors, places, self.axes, seen)
        out = F.layer_norm(both[text:], both.shape[1:], eps=EPS)
        out = self.proj_out(out * (1 + self.norm_out.linear(F.silu(time(noise)))))
        return out.T.reshape(-1, rows, columns)

    def forward(self, x, timesteps, context, references=(), within=()):
        """(N,c,H,W), (N) in 0..1000, (N,T,context), [(N,c,H,W)], and places of these in the text."""
        return torch.stack([self.one(*each, [r[k] for r in references], within)
                            for k, each in enumerate(zip(x, timesteps, context))])


def randomize(net, g):
    """Values of a size that keeps activations near 1, rounded to what a file stores; nothing is left
    at 0, or a mistake behind it could not be seen."""
    for name, p in net.named_parameters():
        r = torch.randn(p.shape, generator=g)
        if name.endswith("text_norm.weight"):
            r = r * 0.3
        elif p.dim() > 1:
            r = r / p[0].numel() ** 0.5
        else:
            r = r * 0.3 + 1.0
        p.data.copy_(r.half().float())
