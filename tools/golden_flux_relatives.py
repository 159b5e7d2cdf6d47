#!/usr/bin/env python3
"""Makes golden/small/longcat_*.safetensors and ovis_*.safetensors: small random networks of
LongCat-Image's and Ovis-Image's kinds, inputs, and what flux.py computes of them in float32.
golden/README.md lists the tensors.

    tools/golden_flux_relatives.py OUTPUT-FOLDER     write the files
    tools/golden_flux_relatives.py --check FILE...   hold flux.py against such files

Debian: python3-torch python3-numpy. The generator's sequence and the last bits of sums depend on
PyTorch's version and the processor; those in the repository are from 1.13.
"""
import sys

import torch

from flux import Flux, randomize
from golden_file import main, make_network, network_holds

SMALL = dict(channels=16, guidance=False)
CONFIGS = {
    "longcat_two": dict(num_heads=3, head_dim=16, axes=[4, 6, 6], depth=2, single=3, context_dim=24,
                        words="apart"),
    "longcat_one": dict(num_heads=1, head_dim=32, axes=[4, 14, 14], depth=1, single=2, context_dim=32,
                        words="apart"),
    "ovis_two": dict(num_heads=3, head_dim=16, axes=[4, 6, 6], depth=2, single=3, context_dim=24,
                     words="within", gated=True),
    "ovis_one": dict(num_heads=1, head_dim=32, axes=[4, 14, 14], depth=1, single=2, context_dim=32,
                     words="within", gated=True),
}
# references: height and width of each
CASES = {
    "two": [dict(h=8, w=12, words=9, t=[501.0, 37.25]),
            dict(h=18, w=4, words=70, t=[1000.0]),
            dict(h=2, w=6, words=1, t=[0.0, 250.5, 999.0])],
    "one": [dict(h=6, w=14, words=33, t=[88.5, 640.0]),
            dict(h=20, w=2, words=300, t=[750.0])],
    "longcat_two": [dict(h=8, w=6, words=12, t=[801.0, 15.5], references=[(8, 6)]),
                    dict(h=4, w=6, words=5, t=[120.0], references=[(6, 8), (2, 12)])],
}


def inputs(cfg, case, g):
    n, c = len(case["t"]), cfg["channels"]
    i = dict(x=torch.randn((n, c, case["h"], case["w"]), generator=g),
             timesteps=torch.tensor(case["t"]),
             context=torch.randn((n, case["words"], cfg["context_dim"]), generator=g))
    for k, size in enumerate(case.get("references", [])):
        i[f"reference{k}"] = torch.randn((n, c, *size), generator=g)
    return i


def output(net, i):
    references = [i[f"reference{k}"] for k in range(9) if f"reference{k}" in i]
    return net(i["x"], i["timesteps"], i["context"], references=references)


def make(folder):
    for seed, (name, cfg) in enumerate(CONFIGS.items()):
        make_network(f"{folder}/{name}.safetensors", Flux, {**SMALL, **cfg}, 3011 + seed, randomize,
                     CASES[name.split("_")[1]] + CASES.get(name, []), inputs, output,
                     dict(rope_dim=cfg["axes"][1]))


def check(path):
    return network_holds(path, Flux, output)


if __name__ == "__main__":
    sys.exit(main(__doc__, make, check))
