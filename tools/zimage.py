"""Z-Image's network (Tongyi-MAI, 2025) as plain PyTorch, for reference tensors. Names are those of its
single file; a config says

    channels        of the latent
    num_heads, head_dim   of every attention; the width is their product
    axes            numbers of a head that turn with a token's place along three axes: its number in
                    the sequence, row, column
    mlp             width of the gated layers
    depth, refiners blocks of prompt and picture together; of either alone, before these
    told, time_mlp  numbers that tell blocks the time, and between the layers that make them
    context_dim     numbers of a text token

Real ones: 16 channels, 30 heads of 128, axes 32, 48, 48, mlp 10240, depth 30, refiners 2, told 256,
time_mlp 1024, context_dim 2560.

Prompts and pictures are computed one by one, each of a length of its own.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

PATCH, WAVES, THETA, MULTIPLE = 2, 256, 256, 32


def waves(t):
    """A number in 0..1000 -> (256): cosines, then sines."""
    half = WAVES // 2
    angle = t * torch.exp(-math.log(10000) * torch.arange(half, dtype=t.dtype) / half)
    return torch.cat([angle.cos(), angle.sin()])


def rotation(places, axes, theta=THETA):
    """(T,3) -> complex (T,d/2): the angles of pairs, in float64."""
    angles = []
    for axis, width in enumerate(axes):
        rate = theta ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
        angles.append(places[:, axis, None] * rate)
    angle = torch.cat(angles, 1)
    return torch.polar(torch.ones_like(angle), angle)


def turn(x, by):
    """(heads,T,d), pairs as complex numbers times (T,d/2)."""
    z = torch.view_as_complex(x.double().reshape(*x.shape[:-1], -1, 2).contiguous())
    return torch.view_as_real(z * by).flatten(2).to(x.dtype)


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * self.weight


class Attention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.heads, width = cfg["num_heads"], cfg["num_heads"] * cfg["head_dim"]
        self.qkv, self.out = nn.Linear(width, 3 * width, False), nn.Linear(width, width, False)
        self.q_norm, self.k_norm = RMSNorm(cfg["head_dim"]), RMSNorm(cfg["head_dim"])

    def forward(self, x, by):
        q, k, v = self.qkv(x).view(x.shape[0], 3, self.heads, -1).permute(1, 2, 0, 3)
        q, k = turn(self.q_norm(q), by), turn(self.k_norm(k), by)
        share = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(q.shape[2]), 2)
        return self.out((share @ v).transpose(0, 1).flatten(1))


class FeedForward(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.w1, self.w3 = nn.Linear(width, inner, False), nn.Linear(width, inner, False)
        self.w2 = nn.Linear(inner, width, False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, cfg, told=True):
        super().__init__()
        width = cfg["num_heads"] * cfg["head_dim"]
        self.attention, self.feed_forward = Attention(cfg), FeedForward(width, cfg["mlp"])
        self.attention_norm1, self.attention_norm2 = RMSNorm(width), RMSNorm(width)
        self.ffn_norm1, self.ffn_norm2 = RMSNorm(width), RMSNorm(width)
        if told:
            self.adaLN_modulation = nn.Sequential(nn.Linear(cfg["told"], 4 * width))

    def forward(self, x, by, time=None):
        if time is None:
            x = x + self.attention_norm2(self.attention(self.attention_norm1(x), by))
            return x + self.ffn_norm2(self.feed_forward(self.ffn_norm1(x)))
        scale, gate, scale2, gate2 = self.adaLN_modulation(time).chunk(4)
        branch = self.attention(self.attention_norm1(x) * (1 + scale), by)
        x = x + gate.tanh() * self.attention_norm2(branch)
        branch = self.feed_forward(self.ffn_norm1(x) * (1 + scale2))
        return x + gate2.tanh() * self.ffn_norm2(branch)


class Final(nn.Module):
    def __init__(self, width, told, out):
        super().__init__()
        self.linear = nn.Linear(width, out)
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(told, width))

    def forward(self, x, time):
        return self.linear(F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + self.adaLN_modulation(time)))


class Time(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(WAVES, cfg["time_mlp"]), nn.SiLU(),
                                 nn.Linear(cfg["time_mlp"], cfg["told"]))

    def forward(self, t):
        return self.mlp(waves(t))


def tokens(x):
    """(c,H,W) -> (T,4c): (row, column, channel) of a square each."""
    c, h, w = x.shape
    x = x.view(c, h // PATCH, PATCH, w // PATCH, PATCH)
    return x.permute(1, 3, 2, 4, 0).reshape(-1, PATCH * PATCH * c)


def picture(x, h, w):
    """And back."""
    c = x.shape[1] // PATCH ** 2
    x = x.view(h // PATCH, w // PATCH, PATCH, PATCH, c)
    return x.permute(4, 0, 2, 1, 3).reshape(c, h, w)


def filled(x, token):
    """A sequence, with this token behind it until there are a multiple of 32."""
    return torch.cat([x, token.expand(-x.shape[0] % MULTIPLE, -1)])


class ZImage(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        width, square = cfg["num_heads"] * cfg["head_dim"], cfg["channels"] * PATCH ** 2
        self.axes = cfg["axes"]
        self.x_embedder = nn.Linear(square, width)
        self.cap_embedder = nn.Sequential(RMSNorm(cfg["context_dim"]),
                                          nn.Linear(cfg["context_dim"], width))
        self.t_embedder = Time(cfg)
        self.x_pad_token = nn.Parameter(torch.zeros(1, width))
        self.cap_pad_token = nn.Parameter(torch.zeros(1, width))
        self.noise_refiner = nn.ModuleList(Block(cfg) for _ in range(cfg["refiners"]))
        self.context_refiner = nn.ModuleList(Block(cfg, False) for _ in range(cfg["refiners"]))
        self.layers = nn.ModuleList(Block(cfg) for _ in range(cfg["depth"]))
        self.final_layer = Final(width, cfg["told"], square)

    def one(self, x, noise, words):
        """A latent (c,H,W), how much of it is noise in thousandths, (T,context_dim) -> (c,H,W), the flow
        from the picture to the noise; the network itself gives that from the noise to the picture."""
        h, w = x.shape[1:]
        time = self.t_embedder(1000 - noise)
        words = filled(self.cap_embedder(words), self.cap_pad_token)
        n = words.shape[0]
        place = torch.zeros(n, 3, dtype=torch.float64)
        place[:, 0] = torch.arange(n) + 1
        of_words = rotation(place, self.axes)
        cells = self.x_embedder(tokens(x))
        count = cells.shape[0]
        cells = filled(cells, self.x_pad_token)
        place = torch.zeros(cells.shape[0], 3, dtype=torch.float64)
        place[:count] = torch.cartesian_prod(torch.tensor([n + 1]), torch.arange(h // PATCH),
                                             torch.arange(w // PATCH))
        of_cells = rotation(place, self.axes)
        for block in self.context_refiner:
            words = block(words, of_words)
        for block in self.noise_refiner:
            cells = block(cells, of_cells, time)
        both, by = torch.cat([cells, words]), torch.cat([of_cells, of_words])
        for block in self.layers:
            both = block(both, by, time)
        return -picture(self.final_layer(both[:count], time), h, w)

    def forward(self, x, timesteps, context, lengths):
        """(N,c,H,W), (N) in 0..1000, (N,L,context_dim), of which the first `lengths` count."""
        return torch.stack([self.one(x[i], timesteps[i], context[i, :n])
                            for i, n in enumerate(lengths)])


def randomize(net, g):
    """Values of a size that keeps activations near 1, rounded to what a file stores; nothing is left
    at 0 or 1, or a mistake behind it could not be seen."""
    for name, p in net.named_parameters():
        r = torch.randn(p.shape, generator=g)
        if name.endswith("_pad_token"):
            pass
        elif p.dim() > 1:
            r = r / p[0].numel() ** 0.5
        elif "norm" in name or name == "cap_embedder.0.weight":
            r = r * 0.3 + 1.0
        else:
            r = r * (0.4 if "adaLN" in name else 0.1)
        p.data.copy_(r.half().float())
