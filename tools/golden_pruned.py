#!/usr/bin/env python3
"""Makes golden/small/pruned_*.safetensors: small random UNets whose middle was pruned to one residual
block or to nothing, and whose output blocks have transformers of other depths than the input blocks;
inputs, and what PyTorch computes of them in float32. golden/README.md lists the tensors.

    tools/golden_pruned.py OUTPUT-FOLDER     write the files
    tools/golden_pruned.py --check FILE...   hold what is computed here against such files

Debian: python3-torch python3-numpy. The generator's sequence and the last bits of sums depend on
PyTorch's version and the processor; the files in the repository are from 1.13.
"""
import json
import sys

import torch

import train_demo as td
from controlnet import UNET, UNet
from golden_controlnet import randomize
from golden_file import cases_hold, config, load, main

CONFIGS = {
    # as SSD-1B and Segmind Vega
    "one": dict(model_channels=32, channel_mult=[1, 1], num_res_blocks=2, num_head_channels=16,
                context_dim=24, adm_in_channels=40, transformer_depth=[0, 0, 2, 1],
                transformer_depth_output=[0, 0, 0, 1, 2, 3], transformer_depth_middle=-1,
                use_linear_in_transformer=True),
    # as BK-SDM-Small and KOALA
    "none": dict(model_channels=32, channel_mult=[1, 2], num_res_blocks=1, num_heads=2,
                 context_dim=48, transformer_depth=[1, 0], transformer_depth_output=[1, 1, 0, 0],
                 transformer_depth_middle=-2, use_linear_in_transformer=False)}
CASES = [dict(n=1, h=8, w=8, t=[501.0]), dict(n=2, h=6, w=10, t=[37.25, 962.5])]


@torch.no_grad()
def output(net, i):
    return net(i["x"], i["timesteps"], i["context"], i.get("y"))


def inputs(cfg, case, g):
    r = lambda *shape: torch.randn(shape, generator=g)
    i = dict(x=r(case["n"], 4, case["h"], case["w"]), timesteps=torch.tensor(case["t"]),
             context=r(case["n"], 77, cfg["context_dim"]))
    if "adm_in_channels" in cfg:
        i["y"] = r(case["n"], cfg["adm_in_channels"])
    return i


def make(folder):
    g = torch.Generator().manual_seed(2305)
    for name, cfg in CONFIGS.items():
        net = UNet(cfg)
        randomize(net, g)
        tensors = {UNET + k: v.half() for k, v in net.state_dict().items()}
        for k, case in enumerate(CASES):
            i = inputs(cfg, case, g)
            i["output"] = output(net, i)
            tensors.update({f"case{k}.{key}": v for key, v in i.items()})
        td.st_save(f"{folder}/pruned_{name}.safetensors", tensors, {"config": json.dumps(cfg)})


def check(path):
    """True when every output in the file is what its inputs give here."""
    t = td.st_load(path)
    net = load(UNet(config(path)), t, UNET)
    more = lambda k: {"y": t[f"case{k}.y"]} if f"case{k}.y" in t else {}
    return cases_hold(path, t, range(len(CASES)), lambda i, k: output(net, {**i, **more(k)}))


if __name__ == "__main__":
    sys.exit(main(__doc__, make, check))
