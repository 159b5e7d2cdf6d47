"""OmniGen2's network (arXiv:2506.18871) as plain PyTorch, for reference tensors. Names are those of its
authors' files; a config is as zimage.py says, but that time_mlp is told, and

    key_heads       of keys and values, each of which several heads of queries read
    pictures        rows of the table that numbers the pictures which it is shown

Real ones: 16 channels, 21 heads of 120, key_heads 7, axes 40, 40, 40, mlp 10240, depth 32, refiners 2, told
1024, context_dim 2048, pictures 5.

Prompts and pictures are computed one by one, each of a length of its own, and places are those of the
authors' code: a token of the prompt at its number on all three axes, the pictures that are shown behind the
last of them on the first axis, each as far behind the one before as the longer side of that is, and then
the picture that is made.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from zimage import PATCH, WAVES, RMSNorm, picture, rotation, tokens, turn, waves

THETA = 10000


class Attention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.heads, self.shared, d = cfg["num_heads"], cfg["key_heads"], cfg["head_dim"]
        self.to_q = nn.Linear(self.heads * d, self.heads * d, False)
        self.to_k = nn.Linear(self.heads * d, self.shared * d, False)
        self.to_v = nn.Linear(self.heads * d, self.shared * d, False)
        self.to_out = nn.ModuleList([nn.Linear(self.heads * d, self.heads * d, False)])
        self.norm_q, self.norm_k = RMSNorm(d), RMSNorm(d)

    def forward(self, x, by):
        q = self.to_q(x).unflatten(1, (self.heads, -1)).transpose(0, 1)
        k, v = (f(x).unflatten(1, (self.shared, -1)).transpose(0, 1) for f in (self.to_k, self.to_v))
        q, k = turn(self.norm_q(q), by), turn(self.norm_k(k), by)
        out = torch.empty_like(q)
        for head in range(self.heads):
            own = head * self.shared // self.heads
            share = torch.softmax(q[head] @ k[own].T / math.sqrt(q.shape[2]), 1)
            out[head] = share @ v[own]
        return self.to_out[0](out.transpose(0, 1).flatten(1))


class FeedForward(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.linear_1, self.linear_3 = nn.Linear(width, inner, False), nn.Linear(width, inner, False)
        self.linear_2 = nn.Linear(inner, width, False)

    def forward(self, x):
        return self.linear_2(F.silu(self.linear_1(x)) * self.linear_3(x))


class ToldNorm(nn.Module):
    def __init__(self, width, told):
        super().__init__()
        self.linear, self.norm = nn.Linear(told, 4 * width), RMSNorm(width)


class Block(nn.Module):
    def __init__(self, cfg, told=True):
        super().__init__()
        width = cfg["num_heads"] * cfg["head_dim"]
        self.attn, self.feed_forward = Attention(cfg), FeedForward(width, cfg["mlp"])
        self.norm1 = ToldNorm(width, cfg["told"]) if told else RMSNorm(width)
        self.norm2, self.ffn_norm1, self.ffn_norm2 = RMSNorm(width), RMSNorm(width), RMSNorm(width)

    def forward(self, x, by, time=None):
        """time: behind its SiLU."""
        if time is None:
            x = x + self.norm2(self.attn(self.norm1(x), by))
            return x + self.ffn_norm2(self.feed_forward(self.ffn_norm1(x)))
        scale, gate, scale2, gate2 = self.norm1.linear(time).chunk(4)
        x = x + gate.tanh() * self.norm2(self.attn(self.norm1.norm(x) * (1 + scale), by))
        return x + gate2.tanh() * self.ffn_norm2(self.feed_forward(self.ffn_norm1(x) * (1 + scale2)))


class Out(nn.Module):
    def __init__(self, width, told, out):
        super().__init__()
        self.linear_1, self.linear_2 = nn.Linear(told, width), nn.Linear(width, out)

    def forward(self, x, time):
        return self.linear_2(F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + self.linear_1(time)))


class Told(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        width, told = cfg["num_heads"] * cfg["head_dim"], cfg["told"]
        self.timestep_embedder = nn.ModuleDict(dict(linear_1=nn.Linear(WAVES, told),
                                                    linear_2=nn.Linear(told, told)))
        self.caption_embedder = nn.Sequential(RMSNorm(cfg["context_dim"]),
                                              nn.Linear(cfg["context_dim"], width))

    def time(self, t):
        layer = self.timestep_embedder
        return F.silu(layer["linear_2"](F.silu(layer["linear_1"](waves(t)))))


def grid(first, h, w):
    """Places of a picture's tokens, of a latent of h x w."""
    return torch.cartesian_prod(torch.tensor([first]), torch.arange(h // PATCH),
                                torch.arange(w // PATCH)).double()


class OmniGen2(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        width, square = cfg["num_heads"] * cfg["head_dim"], cfg["channels"] * PATCH ** 2
        self.axes = cfg["axes"]
        self.x_embedder, self.ref_image_patch_embedder = nn.Linear(square, width), nn.Linear(square, width)
        self.time_caption_embed = Told(cfg)
        self.noise_refiner = nn.ModuleList(Block(cfg) for _ in range(cfg["refiners"]))
        self.ref_image_refiner = nn.ModuleList(Block(cfg) for _ in range(cfg["refiners"]))
        self.context_refiner = nn.ModuleList(Block(cfg, False) for _ in range(cfg["refiners"]))
        self.layers = nn.ModuleList(Block(cfg) for _ in range(cfg["depth"]))
        self.norm_out = Out(width, cfg["told"], square)
        self.image_index_embedding = nn.Parameter(torch.zeros(cfg["pictures"], width))

    def one(self, x, noise, words, references):
        """A latent (c,H,W), how much of it is noise in thousandths, (T,context_dim), latents of any size ->
        (c,H,W), the flow from the picture to the noise; the network itself gives that from the noise to
        the picture, and counts time from 0, all noise, to 1000."""
        h, w = x.shape[1:]
        time = self.time_caption_embed.time(1000 - noise)
        words = self.time_caption_embed.caption_embedder(words)
        first = words.shape[0]
        by = [rotation(torch.arange(first).double()[:, None].expand(-1, 3), self.axes, THETA)]
        for block in self.context_refiner:
            words = block(words, by[0])
        stream = [words]
        for i, r in enumerate(references):
            by.append(rotation(grid(first, *r.shape[1:]), self.axes, THETA))
            cells = self.ref_image_patch_embedder(tokens(r)) + self.image_index_embedding[i]
            for block in self.ref_image_refiner:
                cells = block(cells, by[-1], time)
            stream.append(cells)
            first += max(r.shape[1:]) // PATCH
        by.append(rotation(grid(first, h, w), self.axes, THETA))
        cells = self.x_embedder(tokens(x))
        for block in self.noise_refiner:
            cells = block(cells, by[-1], time)
        both, by = torch.cat([*stream, cells]), torch.cat(by)
        for block in self.layers:
            both = block(both, by, time)
        return -picture(self.norm_out(both[-cells.shape[0]:], time), h, w)

    def forward(self, x, timesteps, context, lengths, references):
        """(N,c,H,W), (N) in 0..1000, (N,L,context_dim), of which the first `lengths` count, and of each
        reference (N,c,H,W)."""
        return torch.stack([self.one(x[i], timesteps[i], context[i, :n], [r[i] for r in references])
                            for i, n in enumerate(lengths)])


def randomize(net, g):
    """As zimage.py does, by these names."""
    for name, p in net.named_parameters():
        r = torch.randn(p.shape, generator=g)
        if name == "image_index_embedding":
            pass
        elif p.dim() > 1:
            r = r / p[0].numel() ** 0.5
        elif "linear" in name or "embedder" in name and name.endswith("bias"):
            r = r * (0.4 if "norm1.linear" in name or "norm_out.linear_1" in name else 0.1)
        else:
            r = r * 0.3 + 1.0
        p.data.copy_(r.half().float())
