#!/usr/bin/env python3
"""Makes golden/small/t5.safetensors: a small random encoder of T5 v1.1 (arXiv:1910.10683, with the
gated GELU of arXiv:2002.05202), token ids, and what PyTorch computes of them in float32; and
golden/small/umt5.safetensors, one whose layers have a bias of their own each (arXiv:2304.09151), as
Pile-T5's have; and golden/small/t5_masked.safetensors, texts of which the first tokens alone are
attended to, as HiDream-I1 has them. golden/README.md lists the tensors.

    tools/golden_t5.py OUTPUT-FOLDER     write the files
    tools/golden_t5.py --check FILE...   hold what is computed here against such files

Debian: python3-torch python3-numpy. The generator's sequence and the last bits of sums depend on
PyTorch's version and the processor; the files in the repository are from 1.13.
"""
import json
import math
import sys

import torch
import torch.nn as nn

import train_demo as td
from golden_file import config, error, holds, load, main
from mmdit import RMSNorm

BUCKETS, FARTHEST = 32, 128
CONFIGS = {
    "t5": dict(vocab_size=60, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=3),
    "umt5": dict(vocab_size=520, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, own_bias=True),
}
# 40 tokens: most buckets of either side; 140: also the last one, and what is cut to it.
CASES = [dict(n=2, tokens=40), dict(n=1, tokens=140), dict(n=1, tokens=1)]
MASKED = [(5, 32), (32, 32), (1, 40)]   # words and tokens


def bucket(distance):
    """Of a key so many tokens behind its query, or before it if negative: half of the buckets for
    either side, half of those for one distance each, the others wider and wider up to FARTHEST."""
    side, single, far = BUCKETS // 2, BUCKETS // 4, abs(distance)
    if far >= single:
        # In whole numbers: single * (FARTHEST/single)^(k/single) <= far, for the largest such k.
        steps = side - single
        k = max(k for k in range(steps)
                if single ** steps * (FARTHEST // single) ** k <= far ** steps)
        far = single + k
    return far + (side if distance > 0 else 0)


class SelfAttention(nn.Module):
    def __init__(self, cfg, first):
        super().__init__()
        self.heads, inner = cfg["num_heads"], cfg["num_heads"] * cfg["d_kv"]
        self.q, self.k, self.v = (nn.Linear(cfg["d_model"], inner, bias=False) for _ in range(3))
        self.o = nn.Linear(inner, cfg["d_model"], bias=False)
        if first:
            self.relative_attention_bias = nn.Embedding(BUCKETS, self.heads)

    def bias(self, tokens):
        """(heads, queries, keys), added to the scores of every layer."""
        which = torch.tensor([[bucket(key - query) for key in range(tokens)]
                              for query in range(tokens)])
        return self.relative_attention_bias(which).permute(2, 0, 1)

    def forward(self, x, bias):
        n, tokens, _ = x.shape
        q, k, v = (part(x).view(n, tokens, self.heads, -1).transpose(1, 2)
                   for part in (self.q, self.k, self.v))
        share = torch.softmax(q @ k.transpose(2, 3) + bias, 3)
        return self.o((share @ v).transpose(1, 2).flatten(2))


class DenseReluDense(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        wide = lambda: nn.Linear(cfg["d_model"], cfg["d_ff"], bias=False)
        self.wi_0, self.wi_1 = wide(), wide()
        self.wo = nn.Linear(cfg["d_ff"], cfg["d_model"], bias=False)

    def forward(self, x):
        x, gate = self.wi_1(x), self.wi_0(x)
        tanh = torch.tanh(math.sqrt(2 / math.pi) * (gate + 0.044715 * gate ** 3))
        return self.wo(0.5 * gate * (1 + tanh) * x)


class Part(nn.Module):
    """A norm and what comes behind it, by its name in checkpoints."""

    def __init__(self, width, name, body):
        super().__init__()
        self.layer_norm, self.name = RMSNorm(width), name
        self.add_module(name, body)

    def forward(self, x, *more):
        return x + self.get_submodule(self.name)(self.layer_norm(x), *more)


class Block(nn.Module):
    def __init__(self, cfg, first):
        super().__init__()
        width = cfg["d_model"]
        self.layer = nn.ModuleList([Part(width, "SelfAttention", SelfAttention(cfg, first)),
                                    Part(width, "DenseReluDense", DenseReluDense(cfg))])

    def forward(self, x, bias):
        return self.layer[1](self.layer[0](x, bias))


class Stack(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        own = cfg.get("own_bias", False)
        self.block = nn.ModuleList(Block(cfg, own or i == 0) for i in range(cfg["num_layers"]))
        self.final_layer_norm = RMSNorm(cfg["d_model"])


class T5Encoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.own_bias = cfg.get("own_bias", False)
        self.shared = nn.Embedding(cfg["vocab_size"], cfg["d_model"])
        self.encoder = Stack(cfg)

    def masked(self, tokens, words):
        """Ids (T), of which the first so many are attended to -> hidden (T,d_model)."""
        x = self.shared(tokens[None])
        bias = self.encoder.block[0].layer[0].SelfAttention.bias(len(tokens)).clone()
        bias[:, :, words:] = -math.inf
        for block in self.encoder.block:
            x = block(x, bias)
        return self.encoder.final_layer_norm(x)[0]

    def forward(self, tokens):
        """Ids (N,T) -> embedded (N,T,d_model), bias (heads,T,T) where all layers share it, hidden
        (N,T,d_model). Nothing is masked, and nothing scaled: neither embeddings nor scores."""
        embedded = x = self.shared(tokens)
        for block in self.encoder.block:
            own = block.layer[0].SelfAttention
            if hasattr(own, "relative_attention_bias"):
                bias = own.bias(tokens.shape[1])
            x = block(x, bias)
        shared = {} if self.own_bias else dict(bias=bias)
        return dict(embedded=embedded, **shared, hidden=self.encoder.final_layer_norm(x))


def randomize(net, g, cfg):
    """Values of a size that keeps activations near 1, rounded to what the file stores. Embeddings
    are so small that the first norm's epsilon matters."""
    for name, p in net.named_parameters():
        r = torch.randn(p.shape, generator=g)
        if name.endswith("norm.weight"):
            r = r * 0.3 + 1.0
        elif ".q." in name:
            r = r / (cfg["d_model"] * cfg["d_kv"]) ** 0.5
        elif "shared" in name:
            r = r * 0.2
        elif "relative" not in name:
            r = r / p.shape[1] ** 0.5
        p.data.copy_(r.half().float())


def make_one(path, cfg, seed):
    g = torch.Generator().manual_seed(seed)
    net = T5Encoder(cfg)
    randomize(net, g, cfg)
    tensors = {k: v.half() for k, v in net.state_dict().items()}
    wide = load(T5Encoder(cfg), tensors, "").double()
    for k, case in enumerate(CASES):
        tokens = torch.randint(cfg["vocab_size"], (case["n"], case["tokens"]), generator=g)
        with torch.no_grad():
            out, exact = net(tokens), wide(tokens)["hidden"]
        print(f"case{k}: largest value {out['hidden'].abs().max():.2f},",
              f"{error(out['hidden'], exact):.1g} from float64")
        tensors[f"case{k}.tokens"] = tokens
        tensors.update({f"case{k}.{key}": v for key, v in out.items()})
    td.st_save(path, tensors, {"golden": json.dumps(cfg)})


def make_masked(path, cfg, seed):
    g = torch.Generator().manual_seed(seed)
    net = T5Encoder(cfg)
    randomize(net, g, cfg)
    tensors = {k: v.half() for k, v in net.state_dict().items()}
    for k, (words, count) in enumerate(MASKED):
        tokens = torch.randint(cfg["vocab_size"], (count,), generator=g)
        tokens[words:] = 0
        with torch.no_grad():
            tensors.update({f"case{k}.tokens": tokens, f"case{k}.words": torch.tensor([words]),
                            f"case{k}.masked": net.masked(tokens, words)})
    td.st_save(path, tensors, {"golden": json.dumps(cfg)})


def make(folder):
    make_masked(f"{folder}/t5_masked.safetensors", CONFIGS["t5"], 1920)
    for i, (name, cfg) in enumerate(CONFIGS.items()):
        make_one(f"{folder}/{name}.safetensors", cfg, 1914 + i)


@torch.no_grad()
def check(path):
    """True when every output in the file is what its inputs give here."""
    t, ok, k = td.st_load(path), True, 0
    net = load(T5Encoder(config(path, "golden")),
               {key: v for key, v in t.items() if not key.startswith("case")}, "")
    while f"case{k}.masked" in t:
        got = net.masked(t[f"case{k}.tokens"], t[f"case{k}.words"].item())
        ok = holds(path, f"case{k}", got, t[f"case{k}.masked"]) and ok
        k += 1
    while f"case{k}.tokens" in t:
        for key, v in net(t[f"case{k}.tokens"]).items():
            ok = holds(path, f"case{k} {key}", v, t[f"case{k}.{key}"]) and ok
        k += 1
    return ok and k > 0


if __name__ == "__main__":
    sys.exit(main(__doc__, make, check))
