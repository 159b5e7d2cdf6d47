#!/usr/bin/env python3
"""Makes golden/lora/*: LoRA files of the forms that are no plain product (LoHa, LoKr, whole
differences, DoRA), and want.safetensors, which has what PyTorch makes of golden/small/unet_sd1's
weights with each of them at some strengths. golden/README.md lists the tensors.

    tools/golden_lora.py OUTPUT-FOLDER     write the files
    tools/golden_lora.py --check FOLDER    hold what is computed here against such a folder

Debian: python3-torch python3-numpy. The generator's sequence depends on PyTorch's version; the files
in the repository are from 1.13.
"""
import os
import sys

import torch

import train_demo as td
from golden_file import holds, main

BASE = os.path.join(os.path.dirname(__file__), "../golden/small/unet_sd1.safetensors")
PREFIX = "model.diffusion_model."
BLOCK = "input_blocks.1.1.transformer_blocks.0."
QUERY, KEY, FF, CONV, CONV1, TIME, NORM = (
    BLOCK + "attn1.to_q", BLOCK + "attn2.to_k", BLOCK + "ff.net.0.proj", "input_blocks.3.0.in_layers.2",
    "input_blocks.1.1.proj_in", "time_embed.2", "input_blocks.3.0.out_layers.0")
STRENGTHS = [1.0, 0.6]


def stem(layer):
    return "lora_unet_" + layer.replace(".", "_")


def tucker(core, a, b):
    """a (rank,rows) x core (rank,rank,h,w) x b (rank,columns) -> (rows,columns,h,w)"""
    return torch.einsum("ijhw,ip,jq->pqhw", core, a, b)


class Maker:
    """One LoRA file: `keys`. `delta` has what it adds to each tensor at strength 1, and `length` the
    magnitudes."""

    def __init__(self, base, g):
        self.base, self.g, self.keys = base, g, {}

    def random(self, key, *shape, scale=0.4):
        v = (torch.randn(shape, generator=self.g) * scale).half()
        self.keys[key] = v
        return v

    def shape(self, layer):
        return tuple(self.base[f"{PREFIX}{layer}.weight"].shape)

    def alpha(self, layer, value):
        self.keys[stem(layer) + ".alpha"] = torch.tensor(float(value))

    def lora(self, layer, rank=3):
        o, *i = self.shape(layer)
        self.random(stem(layer) + ".lora_up.weight", o, rank, *([1] * (len(i) - 1)))
        self.random(stem(layer) + ".lora_down.weight", rank, *i)
        self.alpha(layer, 2)

    def loha(self, layer, rank=3, core=False):
        o, i, *k = self.shape(layer)
        n = i * (k[0] * k[1] if k and not core else 1)
        for part in "12":
            self.random(f"{stem(layer)}.hada_w{part}_a", *((rank, o) if core else (o, rank)))
            self.random(f"{stem(layer)}.hada_w{part}_b", rank, n)
            if core:
                self.random(f"{stem(layer)}.hada_t{part}", rank, rank, *k)
        self.alpha(layer, 1.5)

    def lokr(self, layer, split, rank=2, first=False, second=False, core=False):
        """split: rows and columns of the first part; first, second: that part is in factors."""
        o, i, *k = self.shape(layer)
        rows, columns = o // split[0], i // split[1]
        if first:
            self.random(f"{stem(layer)}.lokr_w1_a", split[0], rank)
            self.random(f"{stem(layer)}.lokr_w1_b", rank, split[1])
        else:
            self.random(f"{stem(layer)}.lokr_w1", *split)
        if core:
            self.random(f"{stem(layer)}.lokr_w2_a", rank, rows)
            self.random(f"{stem(layer)}.lokr_w2_b", rank, columns)
            self.random(f"{stem(layer)}.lokr_t2", rank, rank, *k)
        elif second:
            self.random(f"{stem(layer)}.lokr_w2_a", rows, rank)
            self.random(f"{stem(layer)}.lokr_w2_b", rank, columns * (k[0] * k[1] if k else 1))
        else:
            self.random(f"{stem(layer)}.lokr_w2", rows, columns, *k)
        self.alpha(layer, 3)

    def magnitude(self, layer, key="dora_scale", by_input=False):
        w = self.base[f"{PREFIX}{layer}.weight"].float()
        one = [1] * (w.dim() - 2)
        length = (w.transpose(0, 1) if by_input else w).flatten(1).norm(dim=1)
        length = length * (1 + 0.3 * torch.randn(length.shape, generator=self.g))
        shape = (1, -1, *one) if by_input else (-1, 1, *one) if key == "dora_scale" else (-1,)
        self.keys[f"{stem(layer)}.{key}"] = length.reshape(shape)


def files(base, g):
    m = {name: Maker(base, g) for name in ("loha", "lokr", "difference", "dora")}
    for layer in (QUERY, FF, CONV1, CONV):
        m["loha"].loha(layer)
    m["loha"].loha("input_blocks.3.0.out_layers.3", core=True)
    m["lokr"].lokr(QUERY, (4, 8))
    m["lokr"].lokr(KEY, (2, 6), second=True)
    m["lokr"].lokr(FF, (16, 4), first=True, second=True)
    m["lokr"].lokr(TIME, (8, 8), first=True)
    m["lokr"].lokr(CONV, (8, 4))
    m["lokr"].lokr("input_blocks.1.0.in_layers.2", (4, 4), second=True)
    m["lokr"].lokr("input_blocks.3.0.out_layers.3", (8, 8), core=True)
    for layer in (QUERY, CONV, NORM):
        m["difference"].random(f"{stem(layer)}.{'w_norm' if layer == NORM else 'diff'}",
                               *m["difference"].shape(layer), scale=0.1)
    for layer in (FF, CONV, TIME):
        m["difference"].random(f"{stem(layer)}.diff_b", m["difference"].shape(layer)[0], scale=0.1)
    m["difference"].random(f"{stem(NORM)}.b_norm", *m["difference"].shape(NORM), scale=0.1)
    m["difference"].lora(FF)
    for layer, key, by_input in ((QUERY, "dora_scale", False), (KEY, "dora_scale", True),
                                 (TIME, "lora_magnitude_vector", False), (CONV, "dora_scale", True),
                                 ("input_blocks.1.0.in_layers.2", "dora_scale", False)):
        m["dora"].lora(layer)
        m["dora"].magnitude(layer, key, by_input)
    m["dora"].loha(FF)
    m["dora"].magnitude(FF, by_input=True)
    m["dora"].lokr(CONV1, (4, 4))
    m["dora"].magnitude(CONV1)
    return {name: maker.keys for name, maker in m.items()}


def part(k, name, n, core):
    """LoHa's and LoKr's part `n`."""
    get = lambda what: k.get(f"{name}_{what}", torch.empty(0)).float()
    if f"{name}_w{n}" in k:
        return get(f"w{n}")
    a, b = get(f"w{n}_a"), get(f"w{n}_b")
    return tucker(get(f"t{n}"), a, b) if core else a @ b


def scale(k, rank):
    return float(k["alpha"]) / rank if "alpha" in k and rank else 1.0


def delta(k, shape):
    """What the layer's keys, without its name, add to a weight of this shape; None: nothing."""
    if "lora_up.weight" in k:
        up, down = k["lora_up.weight"].float(), k["lora_down.weight"].float()
        return (up.flatten(1) @ down.flatten(1)).reshape(shape) * scale(k, down.shape[0])
    if "hada_w1_a" in k:
        core = "hada_t1" in k
        both = [part(k, "hada", n, core).reshape(shape) for n in (1, 2)]
        return both[0] * both[1] * scale(k, k["hada_w1_b"].shape[0])
    if any(key.startswith("lokr_") for key in k):
        one, two = part(k, "lokr", 1, False), part(k, "lokr", 2, "lokr_t2" in k)
        if two.dim() == 2 and len(shape) == 4:
            two = two.reshape(two.shape[0], -1, *shape[2:])
        rank = next((k[f"lokr_w{n}_b"].shape[0] for n in (1, 2) if f"lokr_w{n}_b" in k), 0)
        one = one.reshape(*one.shape, *[1] * (two.dim() - 2))
        return torch.kron(one.contiguous(), two.contiguous()).reshape(shape) * scale(k, rank)
    whole = k.get("diff", k.get("w_norm"))
    return None if whole is None else whole.float().reshape(shape)


def decomposed(w, v, m):
    """DoRA: v with the lengths m."""
    m = m.float()
    by_input = m.dim() > 1 and m.shape[0] == 1
    flat = (v.transpose(0, 1) if by_input else v).flatten(1)
    one = [1] * (w.dim() - 2)
    length = flat.norm(dim=1).reshape((1, -1, *one) if by_input else (-1, 1, *one))
    return v * m.reshape(length.shape) / length


def merged(base, keys, strength):
    """The tensors that the file changes, with it."""
    out = {}
    for name, w in base.items():
        if not name.startswith(PREFIX):
            continue
        layer, kind = name[len(PREFIX):].rsplit(".", 1)
        k = {key[len(stem(layer)) + 1:]: v for key, v in keys.items()
             if key.startswith(stem(layer) + ".")}
        bias = k.get("diff_b", k.get("b_norm"))
        if kind == "bias" and bias is not None:
            out[name] = w.float() + strength * bias.float()
        d = delta(k, w.shape) if kind == "weight" and k else None
        if d is None:
            continue
        magnitude = k.get("dora_scale", k.get("lora_magnitude_vector"))
        w = w.float()
        out[name] = (w + strength * d if magnitude is None
                     else w + strength * (decomposed(w, w + d, magnitude) - w))
    return out


def wanted(base, keys):
    return {f"{strength}.{name}": v for strength in STRENGTHS
            for name, v in merged(base, keys, strength).items()}


def make(folder):
    os.makedirs(folder, exist_ok=True)
    base, want = td.st_load(BASE), {}
    for name, keys in files(base, torch.Generator().manual_seed(2402)).items():
        td.st_save(f"{folder}/{name}.safetensors", keys)
        want.update({f"{name}.{key}": v for key, v in wanted(base, keys).items()})
    td.st_save(f"{folder}/want.safetensors", want)


def check(folder):
    """True when want.safetensors has what the files give here."""
    base, want = td.st_load(BASE), td.st_load(f"{folder}/want.safetensors")
    names, ok = sorted({key.split(".")[0] for key in want}), True
    for name in names:
        for key, v in wanted(base, td.st_load(f"{folder}/{name}.safetensors")).items():
            ok = holds(folder, f"{name}.{key}", v, want.pop(f"{name}.{key}")) and ok
    return ok and not want


if __name__ == "__main__":
    sys.exit(main(__doc__, make, check))
