#!/usr/bin/env python3
"""Makes golden/small/mmdit_*.safetensors: small random networks of Stable Diffusion 3's three kinds,
inputs, and what mmdit.py computes of them in float32. golden/README.md lists the tensors.

    tools/golden_mmdit.py OUTPUT-FOLDER     write the files
    tools/golden_mmdit.py --check FILE...   hold mmdit.py against such files

Debian: python3-torch python3-numpy. The generator's sequence and the last bits of sums depend on
PyTorch's version and the processor; those in the repository are from 1.13.
"""
import json
import sys

import torch

import train_demo as td
from golden_file import cases_hold, config, error, load, main
from mmdit import CHANNELS, PREFIX, MMDiT, randomize

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


@torch.no_grad()
def output(net, i):
    return net(i["x"], i["timesteps"], i["context"], i["y"])


def make(name, seed, folder):
    cfg, g = CONFIGS[name], torch.Generator().manual_seed(seed)
    net = MMDiT(cfg)
    randomize(net, g, faint=cfg["qk_norm"])
    tensors = {PREFIX + k: v.half() for k, v in net.state_dict().items()}
    wide = load(MMDiT(cfg), tensors, PREFIX).double()
    for k, case in enumerate(CASES[name]):
        i = inputs(cfg, case, g)
        i["output"] = output(net, i)
        exact = output(wide, {key: v.double() for key, v in i.items()})
        print(f"{name} case{k}: largest value {i['output'].abs().max():.2f},",
              f"{error(i['output'], exact):.1g} from float64")
        tensors.update({f"case{k}.{key}": v for key, v in i.items()})
    td.st_save(f"{folder}/mmdit_{name}.safetensors", tensors,
               {"config": json.dumps({key: cfg[key] for key in SHOWN}), "golden": json.dumps(cfg)})


def make_all(folder):
    for seed, name in enumerate(CONFIGS):
        make(name, 2403 + seed, folder)


def check(path):
    """True when every output in the file is what its inputs give here."""
    t, cfg, k = td.st_load(path), config(path, "golden"), 0
    net = load(MMDiT(cfg), t, PREFIX)
    while f"case{k}.x" in t:
        k += 1
    return k > 0 and cases_hold(path, t, range(k),
                                lambda i, case: output(net, {**i, "y": t[f"case{case}.y"]}))


if __name__ == "__main__":
    sys.exit(main(__doc__, make_all, check))
