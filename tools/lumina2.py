"""Lumina-Image 2.0's network (arXiv:2503.21758) as plain PyTorch, for reference tensors; what it has in
common with Z-Image's is taken from there. Names are those of its single file; a config is as zimage.py
says, and

    key_heads       of keys and values, each of which several heads of queries read

Real ones: 16 channels, 24 heads of 96, key_heads 8, axes 32, 32, 32, mlp 9216, depth 26, refiners 2, told
1024, time_mlp 1024, context_dim 2304.

Prompts and pictures are computed one by one, each of a length of its own, and places are those of the
authors' code: the prompt's tokens from 0 on, the picture behind the last of them.
"""
import math

import torch
import torch.nn as nn

import zimage
from zimage import PATCH, FeedForward, Final, RMSNorm, Time, picture, tokens, turn

THETA = 10000


class Attention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.heads, self.shared, d = cfg["num_heads"], cfg["key_heads"], cfg["head_dim"]
        self.qkv = nn.Linear(self.heads * d, (self.heads + 2 * self.shared) * d, False)
        self.out = nn.Linear(self.heads * d, self.heads * d, False)
        self.q_norm, self.k_norm = RMSNorm(d), RMSNorm(d)

    def forward(self, x, by):
        parts = self.qkv(x).view(x.shape[0], self.heads + 2 * self.shared, -1).transpose(0, 1)
        q, k, v = parts.split([self.heads, self.shared, self.shared])
        q, k = turn(self.q_norm(q), by), turn(self.k_norm(k), by)
        out = torch.empty_like(q)
        for head in range(self.heads):
            own = head * self.shared // self.heads
            share = torch.softmax(q[head] @ k[own].T / math.sqrt(q.shape[2]), 1)
            out[head] = share @ v[own]
        return self.out(out.transpose(0, 1).flatten(1))


class Block(nn.Module):
    def __init__(self, cfg, told=True):
        super().__init__()
        width = cfg["num_heads"] * cfg["head_dim"]
        self.attention, self.feed_forward = Attention(cfg), FeedForward(width, cfg["mlp"])
        self.attention_norm1, self.attention_norm2 = RMSNorm(width), RMSNorm(width)
        self.ffn_norm1, self.ffn_norm2 = RMSNorm(width), RMSNorm(width)
        if told:
            self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(cfg["told"], 4 * width))

    def forward(self, x, by, time=None):
        scale, gate, scale2, gate2 = [0] * 4
        if time is not None:
            scale, gate, scale2, gate2 = self.adaLN_modulation(time).chunk(4)
            gate, gate2 = gate.tanh(), gate2.tanh()
        else:
            gate = gate2 = 1
        x = x + gate * self.attention_norm2(self.attention(self.attention_norm1(x) * (1 + scale), by))
        return x + gate2 * self.ffn_norm2(self.feed_forward(self.ffn_norm1(x) * (1 + scale2)))


class Lumina2(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        width, square = cfg["num_heads"] * cfg["head_dim"], cfg["channels"] * PATCH ** 2
        self.axes = cfg["axes"]
        self.x_embedder = nn.Linear(square, width)
        self.cap_embedder = nn.Sequential(RMSNorm(cfg["context_dim"]),
                                          nn.Linear(cfg["context_dim"], width))
        self.t_embedder = Time(cfg)
        self.noise_refiner = nn.ModuleList(Block(cfg) for _ in range(cfg["refiners"]))
        self.context_refiner = nn.ModuleList(Block(cfg, False) for _ in range(cfg["refiners"]))
        self.layers = nn.ModuleList(Block(cfg) for _ in range(cfg["depth"]))
        self.final_layer = Final(width, cfg["told"], square)

    def one(self, x, noise, words):
        """A latent (c,H,W), how much of it is noise in thousandths, (T,context_dim) -> (c,H,W), the flow
        from the picture to the noise; the network itself gives that from the noise to the picture, and
        counts time from 0, all noise, to 1."""
        h, w = x.shape[1:]
        time = self.t_embedder(1 - noise / 1000)
        words, cells = self.cap_embedder(words), self.x_embedder(tokens(x))
        n = words.shape[0]
        place = torch.zeros(n, 3, dtype=torch.float64)
        place[:, 0] = torch.arange(n)
        of_words = zimage.rotation(place, self.axes, THETA)
        place = torch.cartesian_prod(torch.tensor([n]), torch.arange(h // PATCH), torch.arange(w // PATCH))
        of_cells = zimage.rotation(place.double(), self.axes, THETA)
        for block in self.context_refiner:
            words = block(words, of_words)
        for block in self.noise_refiner:
            cells = block(cells, of_cells, time)
        both, by = torch.cat([words, cells]), torch.cat([of_words, of_cells])
        for block in self.layers:
            both = block(both, by, time)
        return -picture(self.final_layer(both[n:], time), h, w)

    def forward(self, x, timesteps, context, lengths):
        """(N,c,H,W), (N) in 0..1000, (N,L,context_dim), of which the first `lengths` count."""
        return torch.stack([self.one(x[i], timesteps[i], context[i, :n])
                            for i, n in enumerate(lengths)])
