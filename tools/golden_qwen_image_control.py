#!/usr/bin/env python3
"""Makes golden/small/control_qwen_image.safetensors: a small random network of Qwen-Image's kind,
inputs, and what it makes of a ControlNet's residuals in float32; and below control/ the ControlNet,
as diffusers has it (QwenImageControlNetModel). golden/README.md lists the tensors.

    tools/golden_qwen_image_control.py OUTPUT-FOLDER     write the files
    tools/golden_qwen_image_control.py --check FILE...   hold what is computed here against such files,
                                                         but that below control/

Debian: python3-torch python3-numpy. The generator's sequence and the last bits of sums depend on
PyTorch's version and the processor; those in the repository are from 1.13.
"""
import json
import math
import os
import sys

import torch
import torch.nn as nn

import qwen_image as qi
import train_demo as td
from golden_file import PREFIX, config, error, holds, load, main

CONFIG = dict(channels=16, num_heads=2, head_dim=16, axes=[4, 6, 6], mlp=40, depth=5, context_dim=16)
OWN = 2                     # blocks of the ControlNet, for three and two of the network's
CASES = [dict(n=2, h=6, w=8, tokens=5, t=[501.0, 37.25]), dict(n=1, h=10, w=4, tokens=3, t=[920.0])]
STRENGTHS = (1.0, 0.6)      # of the two hints in .output_two


class Control(qi.QwenImage):
    """Its own blocks and what it has beside them; the network's last layers are not there."""

    def __init__(self, cfg):
        super().__init__(dict(cfg, depth=OWN))
        width = cfg["num_heads"] * cfg["head_dim"]
        del self.norm_out, self.proj_out
        self.controlnet_x_embedder = nn.Linear(cfg["channels"] * qi.PATCH ** 2, width)
        self.controlnet_blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(OWN))


def embedded(net, x, noise, words):
    """Streams, times and turns of one latent (c,H,W), as the blocks take them."""
    grid = x.shape[1] // qi.PATCH, x.shape[2] // qi.PATCH
    time = net.time_text_embed.timestep_embedder(noise)
    of_text, of_picture = qi.text_places(len(words), [grid]), qi.picture_places(0, *grid)
    cells = net.img_in(qi.tokens(x))
    return (net.txt_in(net.txt_norm(words)), cells, time, time.expand(len(cells), -1),
            lambda v: qi.turn(v, of_text, net.axes), lambda v: qi.turn(v, of_picture, net.axes))


def control(steer, x, hint, noise, words):
    """Residuals (T,width), one for each block."""
    text, cells, *rest = embedded(steer, x, noise, words)
    cells, out = cells + steer.controlnet_x_embedder(qi.tokens(hint)), []
    for block, layer in zip(steer.transformer_blocks, steer.controlnet_blocks):
        text, cells = block(text, cells, *rest)
        out.append(layer(cells))
    return out


def network(net, x, noise, words, residuals):
    text, cells, time, *rest = embedded(net, x, noise, words)
    for k, block in enumerate(net.transformer_blocks):
        text, cells = block(text, cells, time, *rest)
        if residuals:
            cells = cells + residuals[k // math.ceil(len(net.transformer_blocks) / len(residuals))]
    return qi.picture(net.proj_out(net.norm_out(cells, time)), *x.shape[1:])


def inputs(case, g):
    latent = lambda: torch.randn((case["n"], CONFIG["channels"], case["h"], case["w"]), generator=g)
    words = torch.randn((case["n"], case["tokens"], CONFIG["context_dim"]), generator=g) * 3
    return dict(x=latent(), hint=latent(), hint2=latent(), timesteps=torch.tensor(case["t"]), context=words)


@torch.no_grad()
def outputs(net, steer, i):
    def residuals(hint):
        rows = [control(steer, *row) for row in zip(i["x"], i[hint], i["timesteps"], i["context"])]
        return [torch.stack(of_block) for of_block in zip(*rows)]

    def run(made):
        return torch.stack([network(net, x, t, c, [r[n] for r in made]) for n, (x, t, c) in
                            enumerate(zip(i["x"], i["timesteps"], i["context"]))])

    first, second = residuals("hint"), residuals("hint2")
    out = {"output": run([]), "output_1.0": run(first), "output_0.6": run([r * 0.6 for r in first]),
           "output_two": run([a + b * STRENGTHS[1] for a, b in zip(first, second)])}
    out.update({f"residual.{k}": r for k, r in enumerate(first)})
    return out


def make(folder):
    g = torch.Generator().manual_seed(2515)
    net, steer = qi.QwenImage(CONFIG), Control(CONFIG)
    qi.randomize(net, g)
    qi.randomize(steer, g)
    tensors = {PREFIX + k: v.half() for k, v in net.state_dict().items()}
    own = {k: v.half() for k, v in steer.state_dict().items()}
    shown = json.dumps(dict(rope_dim=CONFIG["axes"][1]))
    for k, case in enumerate(CASES):
        i = inputs(case, g)
        i.update(outputs(net, steer, i))
        print(f"case{k}:", ", ".join(f"{key} {error(i[key], i['output']):.2f}" for key in i
                                     if key.startswith("output_")))
        tensors.update({f"case{k}.{key}": v for key, v in i.items()})
    td.st_save(f"{folder}/control_qwen_image.safetensors", tensors,
               {"config": shown, "golden": json.dumps(CONFIG), "control": "control/qwen_image.safetensors"})
    os.makedirs(f"{folder}/control", exist_ok=True)
    td.st_save(f"{folder}/control/qwen_image.safetensors", own, {"config": shown})


def check(path):
    """True when every output in the file is what its inputs give here."""
    t, k, ok = td.st_load(path), 0, True
    own = td.st_load(os.path.join(os.path.dirname(path), "control", "qwen_image.safetensors"))
    net, steer = load(qi.QwenImage(config(path, "golden")), t, PREFIX), load(Control(CONFIG), own, "")
    while f"case{k}.x" in t:
        i = {key.partition(".")[2]: v for key, v in t.items() if key.startswith(f"case{k}.")}
        for key, v in outputs(net, steer, i).items():
            ok = holds(path, f"case{k} {key}", v, i[key]) and ok
        k += 1
    return k > 0 and ok



if __name__ == "__main__":
    sys.exit(main(__doc__, make, check))
