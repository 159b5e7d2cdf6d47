#!/usr/bin/env python3
"""Makes golden/small/krea2_*.safetensors: small random networks of Krea 2's kind, inputs, and what
krea2.py computes of them in float32. golden/README.md lists the tensors.

    tools/golden_krea2.py OUTPUT-FOLDER     write the files
    tools/golden_krea2.py --check FILE...   hold krea2.py against such files

Debian: python3-torch python3-numpy. The generator's sequence and the last bits of sums depend on
PyTorch's version and the processor; those in the repository are from 1.13.
"""
import sys

import torch

from golden_file import main, make_network, network_holds
from krea2 import Krea2, randomize

# Three heads of queries share one of keys, so that repeating is more than doubling.
CONFIGS = {
    "two": dict(channels=16, num_heads=3, num_kv_heads=1, head_dim=16, axes=[4, 6, 6], mlp=80,
                depth=2, text_layers=5, text_width=24, text_heads=3, text_kv_heads=3, text_mlp=40,
                layerwise=2, refiner=1),
    "one": dict(channels=16, num_heads=4, num_kv_heads=2, head_dim=8, axes=[4, 2, 2], mlp=48,
                depth=1, text_layers=12, text_width=16, text_heads=4, text_kv_heads=2, text_mlp=24,
                layerwise=1, refiner=2),
}
CASES = {
    "two": [dict(h=8, w=12, words=5, t=[501.0, 37.25]), dict(h=18, w=6, words=33, t=[1000.0]),
            dict(h=2, w=10, words=1, t=[0.0, 250.5, 999.0])],
    "one": [dict(h=8, w=14, words=17, t=[88.5, 640.0]), dict(h=20, w=2, words=70, t=[750.0])],
}


def inputs(cfg, case, g):
    n, width = len(case["t"]), cfg["text_layers"] * cfg["text_width"]
    return dict(x=torch.randn((n, cfg["channels"], case["h"], case["w"]), generator=g),
                timesteps=torch.tensor(case["t"]),
                context=torch.randn((n, case["words"], width), generator=g) * 3)


def output(net, i):
    return net(i["x"], i["timesteps"], i["context"])


def make(folder):
    for seed, (name, cfg) in enumerate(CONFIGS.items()):
        make_network(f"{folder}/krea2_{name}.safetensors", Krea2, cfg, 2606 + seed, randomize, CASES[name],
                     inputs, output, dict(rope_dim=cfg["axes"][1]))


def check(path):
    return network_holds(path, Krea2, output)


if __name__ == "__main__":
    sys.exit(main(__doc__, make, check))
