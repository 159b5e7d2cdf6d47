#!/usr/bin/env python3
"""Makes golden/small/ernie_image_*.safetensors: small random networks of ERNIE-Image's kind, inputs,
and what ernie_image.py computes of them in float32. golden/README.md lists the tensors.

    tools/golden_ernie_image.py OUTPUT-FOLDER     write the files
    tools/golden_ernie_image.py --check FILE...   hold ernie_image.py against such files

Debian: python3-torch python3-numpy. The generator's sequence and the last bits of sums depend on
PyTorch's version and the processor; those in the repository are from 1.13.
"""
import sys

from ernie_image import ErnieImage, randomize
from golden_file import main, make_network, network_holds, of_prompted, prompted

# The last has a text as wide as the network, which then has no layer of its own.
CONFIGS = {
    "two": dict(channels=12, num_heads=3, head_dim=32, turned=12, mlp=160, depth=2, text_width=64),
    "one": dict(channels=8, num_heads=2, head_dim=20, turned=6, mlp=56, depth=1, text_width=40),
}
CASES = {
    "two": [dict(h=4, w=6, words=5, t=[501.0, 37.25]), dict(h=9, w=3, words=33, t=[1000.0]),
            dict(h=1, w=5, words=1, t=[0.0, 250.5, 999.0])],
    "one": [dict(h=5, w=7, words=17, t=[88.5, 640.0]), dict(h=10, w=1, words=70, t=[750.0])],
}


def make(folder):
    for seed, (name, cfg) in enumerate(CONFIGS.items()):
        make_network(f"{folder}/ernie_image_{name}.safetensors", ErnieImage, cfg, 2604 + seed, randomize,
                     CASES[name], prompted, of_prompted, dict(rope_dim=cfg["turned"]))


def check(path):
    return network_holds(path, ErnieImage, of_prompted)


if __name__ == "__main__":
    sys.exit(main(__doc__, make, check))
