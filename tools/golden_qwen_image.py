#!/usr/bin/env python3
"""Makes golden/small/qwen_image_*.safetensors: small random networks of Qwen-Image's kind, inputs, and
what qwen_image.py computes of them in float32. golden/README.md lists the tensors.

    tools/golden_qwen_image.py OUTPUT-FOLDER     write the files
    tools/golden_qwen_image.py --check FILE...   hold qwen_image.py against such files

Debian: python3-torch python3-numpy. The generator's sequence and the last bits of sums depend on
PyTorch's version and the processor; those in the repository are from 1.13.
"""
import sys

import torch

from golden_file import main, make_network, network_holds
from qwen_image import QwenImage, randomize

SMALL = dict(channels=16, num_heads=2, head_dim=16, axes=[4, 6, 6], mlp=48, depth=2, context_dim=24)
CONFIGS = {
    "two": dict(channels=16, num_heads=3, head_dim=16, axes=[4, 6, 6], mlp=80, depth=2,
                context_dim=24),
    "one": dict(channels=16, num_heads=2, head_dim=32, axes=[4, 14, 14], mlp=96, depth=1,
                context_dim=40),
    "edit": SMALL,
    "edit_clean": SMALL,
    "layered": dict(SMALL, layered=True),
}
# Sides in tokens that are even, odd, and one. references: height and width of each. Of the last layered
# case the prompt begins at the number of layers, which is more than half of a side.
CASES = {
    "two": [dict(h=8, w=12, words=5, t=[501.0, 37.25]), dict(h=18, w=6, words=33, t=[1000.0]),
            dict(h=2, w=10, words=1, t=[0.0, 250.5, 999.0])],
    "one": [dict(h=8, w=14, words=17, t=[88.5, 640.0]), dict(h=20, w=2, words=40, t=[750.0])],
    "edit": [dict(h=8, w=12, words=7, t=[501.0, 37.25], references=[(8, 12)]),
             dict(h=6, w=4, words=5, t=[750.0], references=[(2, 14), (10, 6), (4, 2)])],
    "edit_clean": [dict(h=8, w=12, words=7, t=[501.0, 37.25], references=[(6, 10)]),
                   dict(h=6, w=4, words=5, t=[750.0], references=[(4, 14), (10, 2)])],
    "layered": [dict(h=8, w=12, layers=3, words=7, t=[501.0, 37.25], references=[(8, 12)]),
                dict(h=6, w=10, layers=2, words=5, t=[750.0]),
                dict(h=10, w=6, layers=1, words=3, t=[88.5], references=[(10, 6)]),
                dict(h=4, w=6, layers=5, words=9, t=[1000.0, 250.5], references=[(6, 8)])],
}


def inputs(cfg, case, g, clean):
    n = len(case["t"])
    layers = (case["layers"],) if "layers" in case else ()
    i = dict(x=torch.randn((n, cfg["channels"], *layers, case["h"], case["w"]), generator=g),
             timesteps=torch.tensor(case["t"]),
             context=torch.randn((n, case["words"], cfg["context_dim"]), generator=g) * 3)
    for k, (h, w) in enumerate(case.get("references", [])):
        i[f"reference{k}"] = torch.randn((n, cfg["channels"], h, w), generator=g)
    if clean:
        i["clean"] = torch.ones(1)
    return i


def output(net, i):
    references, k = [], 0
    while f"reference{k}" in i:
        references.append(i[f"reference{k}"])
        k += 1
    return net(i["x"], i["timesteps"], i["context"], references, "clean" in i)


def make(folder):
    for seed, (name, cfg) in enumerate(CONFIGS.items()):
        make_network(f"{folder}/qwen_image_{name}.safetensors", QwenImage, cfg, 2508 + seed, randomize,
                     CASES[name], lambda *a: inputs(*a, name == "edit_clean"), output,
                     dict(rope_dim=cfg["axes"][1]))


def check(path):
    return network_holds(path, QwenImage, output)


if __name__ == "__main__":
    sys.exit(main(__doc__, make, check))
