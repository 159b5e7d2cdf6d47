"""ControlNets for Z-Image (alibaba-pai, Z-Image-Turbo-Fun-Controlnet-Union, 2025) as plain PyTorch, for
reference tensors: made of zimage.py's blocks, saved in the names of the published files. A config is
that of the network, and says besides

    control   blocks of the ControlNet
    planes    of its hint
    refining  0: its refiner sees the hint alone (version 1); 1: its blocks run twice, first in the
              refiner's place (2.0); 2: its refiner steers the network's (2.1)

A stream's tokens are in the order in which Graft has them: the prompt's, the picture's, and what fills
these up. That of the published code is another; what a block makes of tokens does not depend on it.
"""
import torch
import torch.nn as nn

import zimage


class Stream:
    """A picture and a prompt on their way through the network."""

    def __init__(self, net, x, noise, words):
        h, w = x.shape[1:]
        self.size, self.time = (h, w), net.t_embedder(1000 - noise)
        words = zimage.filled(net.cap_embedder(words), net.cap_pad_token)
        n = words.shape[0]
        place = torch.zeros(n, 3, dtype=torch.float64)
        place[:, 0] = torch.arange(n) + 1
        self.of_words = zimage.rotation(place, net.axes)
        self.cells = net.x_embedder(zimage.tokens(x))
        self.count = self.cells.shape[0]
        self.cells = zimage.filled(self.cells, net.x_pad_token)
        place = torch.zeros(self.cells.shape[0], 3, dtype=torch.float64)
        place[:self.count] = torch.cartesian_prod(torch.tensor([n + 1]),
                                                  torch.arange(h // zimage.PATCH),
                                                  torch.arange(w // zimage.PATCH))
        self.of_cells = zimage.rotation(place, net.axes)
        for block in net.context_refiner:
            words = block(words, self.of_words)
        self.words = words

    def both(self, cells):
        return torch.cat([self.words, cells])

    def rotation(self):
        return torch.cat([self.of_words, self.of_cells])


class Control(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        width = cfg["num_heads"] * cfg["head_dim"]
        self.refining = cfg["refining"]
        self.control_all_x_embedder = nn.ModuleDict(
            {"2-1": nn.Linear(cfg["planes"] * zimage.PATCH ** 2, width)})
        self.control_layers = nn.ModuleList(self.block(cfg, width, i) for i in range(cfg["control"]))
        self.control_noise_refiner = nn.ModuleList(
            self.block(cfg, width, i) if self.refining else zimage.Block(cfg)
            for i in range(cfg["refiners"]))

    @staticmethod
    def block(cfg, width, i):
        block = zimage.Block(cfg)
        if i == 0:
            block.before_proj = nn.Linear(width, width)
        block.after_proj = nn.Linear(width, width)
        return block

    @staticmethod
    def run(blocks, c, x, by, time):
        """(what each gives, the stream behind them)."""
        c, out = blocks[0].before_proj(c) + x, []
        for block in blocks:
            c = block(c, by, time)
            out.append(block.after_proj(c))
        return out, c

    def refine(self, net, s, hint):
        """(residuals behind the network's refiner, the hint's stream)."""
        c = self.control_all_x_embedder["2-1"](zimage.tokens(hint))
        c = zimage.filled(c, net.x_pad_token)
        if self.refining:
            blocks = self.control_layers if self.refining == 1 else self.control_noise_refiner
            out, c = self.run(blocks, c, s.cells, s.of_cells, s.time)
            return out[:len(net.noise_refiner)], c
        for block in self.control_noise_refiner:
            c = block(c, s.of_cells, s.time)
        return [], c

    def steer(self, s, hint, cells):
        """Residuals behind the network's layers, whose stream begins with these cells."""
        return self.run(self.control_layers, s.both(hint), s.both(cells), s.rotation(), s.time)[0]


class SteeredZImage(zimage.ZImage):
    def steered(self, x, noise, words, control, hints):
        """hints: pairs of a hint and its strength. (the flow, residuals: their sums)."""
        s = Stream(self, x, noise, words)
        firsts, streams, first = [], [], []
        for hint, strength in hints:
            residuals, stream = control.refine(self, s, hint)
            firsts.append([strength * r for r in residuals])
            streams.append(stream)
        if firsts:
            first = [sum(r) for r in zip(*firsts)]
        cells = s.cells
        for i, block in enumerate(self.noise_refiner):
            cells = block(cells, s.of_cells, s.time)
            cells = cells + (first[i] if i < len(first) else 0)
        seconds = [[strength * r for r in control.steer(s, stream, cells)]
                   for stream, (_, strength) in zip(streams, hints)]
        second = [sum(r) for r in zip(*seconds)]
        both, by = s.both(cells), s.rotation()
        step = len(self.layers) // len(second) if second else 1
        for i, block in enumerate(self.layers):
            both = block(both, by, s.time)
            if second and i % step == 0 and i // step < len(second):
                both = both + second[i // step]
        n = s.words.shape[0]
        out = self.final_layer(both[n:n + s.count], s.time)
        return -zimage.picture(out, *s.size), first + second


def published_names(state):
    """Queries, keys and values apart, and a few layers called otherwise."""
    out = {}
    for name, t in state.items():
        if name.endswith("attention.qkv.weight"):
            for part, rows in zip("qkv", t.chunk(3)):
                out[name.replace("qkv", "to_" + part)] = rows.contiguous()
            continue
        for ours, theirs in (("q_norm", "norm_q"), ("k_norm", "norm_k"), (".out.", ".to_out.0.")):
            name = name.replace("attention." + ours.strip("."), "attention." + theirs.strip("."))
        out[name] = t
    return out


def from_published(net, tensors):
    """Loads what published_names() made of the net's tensors."""
    state, names = {}, net.state_dict()
    for name, t in names.items():
        theirs = published_names({name: t})
        state[name] = torch.cat([tensors[k].float() for k in theirs])
    net.load_state_dict(state)
    return net
