#!/usr/bin/env python3
"""Makes golden/small/flux2_*.safetensors: small random networks of FLUX.2's kinds, inputs, and what
flux2.py computes of them in float32. golden/README.md lists the tensors.

    tools/golden_flux2.py OUTPUT-FOLDER     write the files
    tools/golden_flux2.py --check FILE...   hold flux2.py against such files

Debian: python3-torch python3-numpy. The generator's sequence and the last bits of sums depend on
PyTorch's version and the processor; those in the repository are from 1.13.
"""
import sys

import torch

from flux2 import Flux2, randomize
from golden_file import main, make_network, network_holds

CONFIGS = {
    "klein": dict(channels=128, num_heads=3, head_dim=16, mlp=80, depth=2, single=3, context_dim=24,
                  guidance=False),
    "dev": dict(channels=32, num_heads=2, head_dim=32, mlp=96, depth=1, single=2, context_dim=40,
                guidance=True),
}
# references: height and width of each
CASES = {
    "klein": [dict(h=4, w=6, words=9, t=[501.0, 37.25]),
              dict(h=9, w=2, words=70, t=[1000.0]),
              dict(h=1, w=3, words=1, t=[0.0, 250.5, 999.0]),
              dict(h=4, w=5, words=12, t=[640.0, 88.5], references=[(4, 5)]),
              dict(h=3, w=4, words=5, t=[750.0], references=[(2, 7), (5, 1), (1, 1)])],
    "dev": [dict(h=4, w=8, words=33, t=[88.5, 640.0], guidance=[1.0, 0.25]),
            dict(h=5, w=3, words=8, t=[950.0], guidance=[1.5], references=[(3, 3)])],
}


def inputs(cfg, case, g):
    n, c = len(case["t"]), cfg["channels"]
    i = dict(x=torch.randn((n, c, case["h"], case["w"]), generator=g),
             timesteps=torch.tensor(case["t"]),
             context=torch.randn((n, case["words"], cfg["context_dim"]), generator=g))
    if cfg["guidance"]:
        i["y"] = torch.tensor(case["guidance"])[:, None]
    for k, (h, w) in enumerate(case.get("references", [])):
        i[f"reference{k}"] = torch.randn((n, c, h, w), generator=g)
    return i


def output(net, i):
    references, k = [], 0
    while f"reference{k}" in i:
        references.append(i[f"reference{k}"])
        k += 1
    return net(i["x"], i["timesteps"], i["context"], i.get("y"), references)


def make(folder):
    for seed, (name, cfg) in enumerate(CONFIGS.items()):
        make_network(f"{folder}/flux2_{name}.safetensors", Flux2, cfg, 2601 + seed, randomize, CASES[name],
                     inputs, output)


def check(path):
    return network_holds(path, Flux2, output)


if __name__ == "__main__":
    sys.exit(main(__doc__, make, check))
