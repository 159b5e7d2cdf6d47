#!/usr/bin/env python3
"""Makes golden/small/ideogram4_*.safetensors: small random networks of Ideogram 4's kind, inputs,
and what ideogram4.py computes of them in float32. golden/README.md lists the tensors.

    tools/golden_ideogram4.py OUTPUT-FOLDER     write the files
    tools/golden_ideogram4.py --check FILE...   hold ideogram4.py against such files

Debian: python3-torch python3-numpy. The generator's sequence and the last bits of sums depend on
PyTorch's version and the processor; those in the repository are from 1.13.
"""
import sys

import torch

from golden_file import main, make_network, network_holds
from ideogram4 import LAYERS, Ideogram4, randomize

CONFIGS = {
    "two": dict(channels=12, num_heads=3, head_dim=32, turned=5, mlp=80, depth=2, told=20,
                text_width=5),
    "one": dict(channels=8, num_heads=2, head_dim=20, turned=2, mlp=56, depth=1, told=12,
                text_width=3),
}
# The last of "one" sees the picture alone: its context is zeros, which are no words.
CASES = {
    "two": [dict(h=4, w=6, words=5, t=[501.0, 37.25]), dict(h=9, w=3, words=33, t=[1000.0]),
            dict(h=1, w=5, words=1, t=[0.0, 250.5, 999.0])],
    "one": [dict(h=5, w=7, words=17, t=[88.5, 640.0]), dict(h=10, w=1, words=70, t=[750.0]),
            dict(h=3, w=4, words=2, t=[410.0], alone=True)],
}


def inputs(cfg, case, g):
    n, width = len(case["t"]), LAYERS * cfg["text_width"]
    words = torch.randn((n, case["words"], width), generator=g) * 3
    return dict(x=torch.randn((n, cfg["channels"], case["h"], case["w"]), generator=g),
                timesteps=torch.tensor(case["t"]),
                context=torch.zeros_like(words) if case.get("alone") else words)


def output(net, i):
    words = i["context"]
    return net(i["x"], i["timesteps"], words if words.any() else words[:, :0])


def make(folder):
    for seed, (name, cfg) in enumerate(CONFIGS.items()):
        make_network(f"{folder}/ideogram4_{name}.safetensors", Ideogram4, cfg, 2606 + seed, randomize,
                     CASES[name], inputs, output, dict(rope_dim=2 * cfg["turned"]))


def check(path):
    return network_holds(path, Ideogram4, output)


if __name__ == "__main__":
    sys.exit(main(__doc__, make, check))
