#!/usr/bin/env python3
"""Makes golden/small/perturbed.safetensors: a small random UNet, inputs, and what PyTorch computes
of them in float32, of the first rows also with the self-attention of the middle block replaced by
the identity (perturbed-attention guidance). golden/README.md lists the tensors.

    tools/golden_perturbed.py OUTPUT-FOLDER     write the file
    tools/golden_perturbed.py --check FILE...   hold what is computed here against such files

Debian: python3-torch python3-numpy. The generator's sequence and the last bits of sums depend on
PyTorch's version and the processor; the file in the repository is from 1.13.
"""
import json
import sys
import types

import torch

import golden_hypertile as tiles
import train_demo as td
from controlnet import UNET, UNet
from golden_controlnet import randomize
from golden_file import cases_hold, config, error, load, main

CONFIG = dict(model_channels=32, channel_mult=[1, 1], num_res_blocks=1, num_heads=4,
              context_dim=16, transformer_depth=[1, 0], transformer_depth_output=[1, 1, 0, 0],
              transformer_depth_middle=2, use_linear_in_transformer=False)
# grids: rows and columns of HyperTile's tiles by the level's size; the second tiles the middle.
CASES = [dict(n=3, perturbed=2, h=10, w=6, t=[37.25, 501.0, 962.5]),
         dict(n=2, perturbed=1, h=16, w=16, t=[250.0, 250.0], hypertile=[32, 1, 1, 0, 0],
              grids={(16, 16): (4, 4), (8, 8): (2, 2)}),
         dict(n=1, perturbed=1, h=8, w=8, t=[777.0])]


def apart(self, x, context):
    """A transformer block whose tokens do not see each other."""
    y = self.norm1(x)
    x = self.attn1.to_out(self.attn1.to_v(y)) + x
    x = self.attn2(self.norm2(x), context) + x
    return self.ff(self.norm3(x)) + x


@torch.no_grad()
def output(net, i, case):
    for m in net.modules():
        if isinstance(m, td.BasicTransformerBlock):
            m.__dict__.pop("forward", None)
    whole = tiles.output(net, i, case.get("grids", {}))
    middle = [m for m in net.middle_block.modules() if isinstance(m, td.SpatialTransformer)]
    for m in middle:
        m.__dict__.pop("forward", None)
        for block in m.transformer_blocks:
            block.forward = types.MethodType(apart, block)
    first = slice(0, case["perturbed"])
    again = net(i["x"][first], i["timesteps"][first], i["context"][first])
    return torch.cat([whole, again])


def inputs(case, g):
    r = lambda *shape: torch.randn(shape, generator=g)
    i = dict(x=r(case["n"], 4, case["h"], case["w"]), timesteps=torch.tensor(case["t"]),
             context=r(case["n"], 77, CONFIG["context_dim"]),
             perturbed=torch.tensor([case["perturbed"]], dtype=torch.float32))
    if "hypertile" in case:
        i["hypertile"] = torch.tensor(case["hypertile"], dtype=torch.float32)
    return i


def make(folder):
    g = torch.Generator().manual_seed(2024)
    net = UNet(CONFIG)
    randomize(net, g)
    tensors = {UNET + k: v.half() for k, v in net.state_dict().items()}
    for k, case in enumerate(CASES):
        i, n = inputs(case, g), case["perturbed"]
        i["output"] = output(net, i, case)
        print(f"case{k}: perturbed rows are {error(i['output'][-n:], i['output'][:n]):.2f} away")
        tensors.update({f"case{k}.{key}": v for key, v in i.items()})
    td.st_save(f"{folder}/perturbed.safetensors", tensors, {"config": json.dumps(CONFIG)})


def check(path):
    """True when every output in the file is what its inputs give here."""
    t = td.st_load(path)
    net = load(UNet(config(path)), t, UNET)
    return cases_hold(path, t, CASES, lambda i, case: output(net, i, case))


if __name__ == "__main__":
    sys.exit(main(__doc__, make, check))
