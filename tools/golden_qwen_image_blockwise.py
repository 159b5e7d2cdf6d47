#!/usr/bin/env python3
"""Makes golden/small/control_blockwise.safetensors: a small random network of Qwen-Image's kind, inputs,
and what it makes in float32 with DiffSynth's ControlNets within its blocks; and below control/ two of
these in their authors' names, of which the second sees a mask. golden/README.md lists the tensors.

    tools/golden_qwen_image_blockwise.py OUTPUT-FOLDER     write the files
    tools/golden_qwen_image_blockwise.py --check FILE...   hold what is computed here against such files,
                                                           but those below control/

Debian: python3-torch python3-numpy. The generator's sequence and the last bits of sums depend on
PyTorch's version and the processor; those in the repository are from 1.13.
"""
import json
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

import qwen_image as qi
import train_demo as td
from golden_file import PREFIX, config, error, holds, load, main

CONFIG = dict(channels=16, num_heads=2, head_dim=16, axes=[4, 6, 6], mlp=40, depth=3, context_dim=16)
PLANES = (16, 17)           # of the two ControlNets' hints
NAMES = ("control/blockwise.safetensors", "control/blockwise_inpaint.safetensors")
# The second: one picture, with two prompts.
CASES = [dict(h=6, w=8, tokens=5, t=[501.0, 37.25], pictures=2),
         dict(h=10, w=4, tokens=3, t=[333.0, 333.0], pictures=1),
         dict(h=6, w=4, tokens=4, t=[710.0], pictures=1, shown=[(4, 6), (8, 4)]),
         dict(h=4, w=4, tokens=4, t=[88.0], pictures=1, shown=[(6, 6)], clean=True)]
# Which ControlNet sees which hint how strongly.
RUNS = {"output": [], "output_1.0": [(0, "hint", 1.0)], "output_0.6": [(0, "hint", 0.6)],
        "output_inpaint": [(1, "hint2", 1.0)], "output_two": [(0, "hint", 1.0), (1, "hint2", 0.6)]}


class Behind(nn.Module):
    """What stands behind one block: of its tokens x and the hint's y, (T,width) both."""

    def __init__(self, width):
        super().__init__()
        self.x_rms, self.y_rms = qi.RMSNorm(width), qi.RMSNorm(width)
        self.input_proj, self.output_proj = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x, y):
        return self.output_proj(F.gelu(self.input_proj(self.x_rms(x) + self.y_rms(y))))


class Control(nn.Module):
    def __init__(self, cfg, planes):
        super().__init__()
        width = cfg["num_heads"] * cfg["head_dim"]
        self.img_in = nn.Linear(planes * qi.PATCH ** 2, width)
        self.controlnet_blocks = nn.ModuleList(Behind(width) for _ in range(cfg["depth"]))


class Steered(nn.Module):
    """A block, and behind it those of ControlNets: list of (block, hint's tokens, strength)."""

    def __init__(self, block, own, beside):
        super().__init__()
        self.block, self.own, self.beside = block, own, beside

    def forward(self, text, cells, *rest):
        text, cells = self.block(text, cells, *rest)
        x = cells[:self.own]
        made = sum((strength * block(x, y) for block, y, strength in self.beside),
                   torch.zeros_like(x))
        return text, torch.cat([x + made, cells[self.own:]])


def one(net, controls, run, noise, words, pictures, clean):
    """As QwenImage.one; run: list of (ControlNet's number, hint, strength)."""
    own = pictures[0].shape[1] * pictures[0].shape[2] // qi.PATCH ** 2
    seen = [(controls[n], controls[n].img_in(qi.tokens(hint)), strength) for n, hint, strength in run]
    blocks = net.transformer_blocks
    net.transformer_blocks = nn.ModuleList(
        Steered(block, own, [(c.controlnet_blocks[i], y, s) for c, y, s in seen])
        for i, block in enumerate(blocks))
    try:
        return net.one(noise, words, pictures, clean)
    finally:
        net.transformer_blocks = blocks


def inputs(case, g):
    r = lambda *shape: torch.randn(shape, generator=g)
    n, pictures, size = len(case["t"]), case["pictures"], (case["h"], case["w"])
    i = dict(x=r(pictures, CONFIG["channels"], *size).repeat(n // pictures, 1, 1, 1),
             hint=r(pictures, PLANES[0], *size), hint2=r(pictures, PLANES[1], *size),
             timesteps=torch.tensor(case["t"]), context=r(n, case["tokens"], CONFIG["context_dim"]) * 3)
    for k, shape in enumerate(case.get("shown", [])):
        i[f"reference{k}"] = r(n, CONFIG["channels"], *shape)
    if case.get("clean"):
        i["clean"] = torch.ones(1)
    return i


@torch.no_grad()
def outputs(net, controls, i):
    shown = [i[f"reference{k}"] for k in range(9) if f"reference{k}" in i]
    rows = range(len(i["x"]))
    return {name: torch.stack([
        one(net, controls, [(n, i[hint][k % len(i[hint])], s) for n, hint, s in run], i["timesteps"][k],
            i["context"][k], [i["x"][k], *(v[k] for v in shown)], "clean" in i) for k in rows])
        for name, run in RUNS.items()}


def randomize(control, g):
    qi.randomize(control, g)
    for name, p in control.named_parameters():
        if name.endswith("_rms.weight"):
            p.data.copy_((torch.randn(p.shape, generator=g) * 0.3 + 1.0).half().float())


def make(folder):
    g = torch.Generator().manual_seed(2608)
    net, controls = qi.QwenImage(CONFIG), [Control(CONFIG, planes) for planes in PLANES]
    qi.randomize(net, g)
    for control in controls:
        randomize(control, g)
    tensors = {PREFIX + k: v.half() for k, v in net.state_dict().items()}
    for k, case in enumerate(CASES):
        i = inputs(case, g)
        i.update(outputs(net, controls, i))
        print(f"case{k}:", ", ".join(f"{key} {error(i[key], i['output']):.2f}" for key in i
                                     if key.startswith("output_")))
        tensors.update({f"case{k}.{key}": v for key, v in i.items()})
    td.st_save(f"{folder}/control_blockwise.safetensors", tensors,
               {"config": json.dumps(dict(rope_dim=CONFIG["axes"][1])), "golden": json.dumps(CONFIG),
                "within": NAMES[0], "within_inpaint": NAMES[1]})
    os.makedirs(f"{folder}/control", exist_ok=True)
    for name, control in zip(NAMES, controls):
        td.st_save(f"{folder}/{name}", {k: v.half() for k, v in control.state_dict().items()}, {})


def check(path):
    """True when every output in the file is what its inputs give here."""
    t, k, ok = td.st_load(path), 0, True
    net = load(qi.QwenImage(config(path, "golden")), t, PREFIX)
    controls = [load(Control(CONFIG, planes), td.st_load(os.path.join(os.path.dirname(path), name)), "")
                for name, planes in zip(NAMES, PLANES)]
    while f"case{k}.x" in t:
        i = {key.partition(".")[2]: v for key, v in t.items() if key.startswith(f"case{k}.")}
        for key, v in outputs(net, controls, i).items():
            ok = holds(path, f"case{k} {key}", v, i[key]) and ok
        k += 1
    return k > 0 and ok


if __name__ == "__main__":
    sys.exit(main(__doc__, make, check))
