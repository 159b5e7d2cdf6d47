#!/usr/bin/env python3
"""Makes golden/small/mmdit_*.safetensors: small random networks of Stable Diffusion 3's three kinds,
inputs, and what mmdit.py computes of them in float32. golden/README.md lists the tensors.

    tools/golden_mmdit.py OUTPUT-FOLDER     write the files
    tools/golden_mmdit.py --check FILE...   hold mmdit.py against such files

Debian: python3-torch python3-numpy. The generator's sequence and the last bits of sums depend on
PyTorch's version and the processor; those in the repository are from 1.13.
"""
import sys

import torch

from golden_file import main, make_network, network_holds
from mmdit import CHANNELS, MMDiT, randomize

CONFIGS = {
    "sd3": dict(depth=3, num_heads=2, num_head_channels=16, context_dim=24, pooled_dim=20, table=8,
                qk_norm=False, dual=0),
    "sd35": dict(depth=3, num_heads=3, num_head_channels=16, context_dim=40, pooled_dim=12,
                 table=9, qk_norm=True, dual=0),
    "sd35m": dict(depth=4, num_heads=5, num_head_channels=8, context_dim=16, pooled_dim=28,
                  table=10, qk_norm=True, dual=2),
}
# The middle of the table is off centre where table and rows, or columns, are not both even or odd.
CASES = {
    "sd3": [dict(n=2, h=8, w=12, tokens=5, t=[501.0, 37.25]),
            dict(n=1, h=16, w=16, tokens=77, t=[1000.0]),
            dict(n=1, h=2, w=6, tokens=1, t=[0.0])],
    "sd35": [dict(n=2, h=8, w=12, tokens=7, t=[962.5, 250.0]),
             dict(n=2, h=18, w=4, tokens=31, t=[3.0, 777.75])],
    "sd35m": [dict(n=2, h=6, w=14, tokens=9, t=[88.5, 640.0]),
              dict(n=1, h=20, w=18, tokens=2, t=[999.0]),
              dict(n=3, h=4, w=4, tokens=3, t=[1.0, 333.25, 870.0])],
}
SHOWN = ("num_heads", "num_head_channels")      # what shapes do not tell


def inputs(cfg, case, g):
    r = lambda *shape: torch.randn(shape, generator=g)
    return dict(x=r(case["n"], CHANNELS, case["h"], case["w"]), timesteps=torch.tensor(case["t"]),
                context=r(case["n"], case["tokens"], cfg["context_dim"]),
                y=r(case["n"], cfg["pooled_dim"]))


def output(net, i):
    return net(i["x"], i["timesteps"], i["context"], i["y"])


def make(folder):
    for seed, (name, cfg) in enumerate(CONFIGS.items()):
        make_network(f"{folder}/mmdit_{name}.safetensors", MMDiT, cfg, 2403 + seed,
                     lambda net, g: randomize(net, g, faint=cfg["qk_norm"]), CASES[name], inputs, output,
                     {key: cfg[key] for key in SHOWN})


def check(path):
    return network_holds(path, MMDiT, output)


if __name__ == "__main__":
    sys.exit(main(__doc__, make, check))
