#!/usr/bin/env python3
"""Makes golden/small/auraflow_*.safetensors: small random networks of AuraFlow's kind, inputs, and what
auraflow.py computes of them in float32. golden/README.md lists the tensors.

    tools/golden_auraflow.py OUTPUT-FOLDER     write the files
    tools/golden_auraflow.py --check FILE...   hold auraflow.py against such files

Debian: python3-torch python3-numpy. The generator's sequence and the last bits of sums depend on
PyTorch's version and the processor; those in the repository are from 1.13.
"""
import sys

from auraflow import AuraFlow, randomize
from golden_file import main, make_network, network_holds, of_prompted, prompted

CONFIGS = {
    "two": dict(channels=4, num_heads=2, num_head_channels=16, mlp=64, depth=2, single=2, text_width=32,
                registers=3, table=8),
    "one": dict(channels=6, num_heads=3, num_head_channels=12, mlp=40, depth=1, single=2, text_width=20,
                registers=5, table=7),
}
# Rows and columns both even and odd, as the middle of the table is another cell then.
CASES = {
    "two": [dict(h=4, w=6, words=5, t=[501.0, 37.25]), dict(h=16, w=16, words=1, t=[1000.0]),
            dict(h=2, w=10, words=256, t=[0.0]), dict(h=6, w=4, words=40, t=[250.5, 999.0])],
    "one": [dict(h=6, w=8, words=7, t=[88.5, 640.0]), dict(h=14, w=2, words=12, t=[75.0])],
}
SHOWN = ("num_heads", "num_head_channels")      # what shapes do not tell


def make(folder):
    for seed, (name, cfg) in enumerate(CONFIGS.items()):
        make_network(f"{folder}/auraflow_{name}.safetensors", AuraFlow, cfg, 2409 + seed,
                     lambda net, g: randomize(net, g, faint=name == "one"), CASES[name], prompted, of_prompted,
                     {key: cfg[key] for key in SHOWN})


def check(path):
    return network_holds(path, AuraFlow, of_prompted)


if __name__ == "__main__":
    sys.exit(main(__doc__, make, check))
