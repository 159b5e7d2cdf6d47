#!/usr/bin/env python3
"""Makes golden/small/omnigen2_*.safetensors: small random networks of OmniGen2's kind, inputs, and what
omnigen2.py computes of them in float32. golden/README.md lists the tensors.

    tools/golden_omnigen2.py OUTPUT-FOLDER     write the files
    tools/golden_omnigen2.py --check FILE...   hold omnigen2.py against such files

Debian: python3-torch python3-numpy. The generator's sequence and the last bits of sums depend on
PyTorch's version and the processor; those in the repository are from 1.13.
"""
import sys

import torch

from golden_file import main, make_network, network_holds
from omnigen2 import OmniGen2, randomize

CONFIGS = {
    "two": dict(channels=16, num_heads=6, key_heads=2, head_dim=12, axes=[4, 4, 4], mlp=96, depth=2,
                refiners=2, told=20, context_dim=24, pictures=5),
    "one": dict(channels=16, num_heads=3, key_heads=1, head_dim=32, axes=[16, 8, 8], mlp=128, depth=1,
                refiners=1, told=32, context_dim=40, pictures=3),
}
# lengths: of the prompts, which lie in room for more; references: height and width of each
CASES = {
    "two": [dict(h=8, w=12, lengths=[5, 64], room=64, t=[501.0, 37.25]),
            dict(h=6, w=4, lengths=[1, 31], room=40, t=[0.0, 999.0], references=[(8, 12)]),
            dict(h=4, w=10, lengths=[77], room=77, t=[1000.0], references=[(2, 6), (14, 4), (4, 4)])],
    "one": [dict(h=8, w=16, lengths=[33, 64], room=64, t=[88.5, 640.0]),
            dict(h=10, w=2, lengths=[90, 3], room=128, t=[750.0, 250.5], references=[(4, 2), (2, 8)])],
}


def inputs(cfg, case, g):
    """What lies behind a prompt's end is large, so that nothing can hide that it is seen."""
    n = len(case["lengths"])
    context = torch.randn((n, case["room"], cfg["context_dim"]), generator=g)
    for i, length in enumerate(case["lengths"]):
        context[i, length:] *= 100
    i = dict(x=torch.randn((n, cfg["channels"], case["h"], case["w"]), generator=g),
             timesteps=torch.tensor(case["t"]), context=context,
             y=torch.tensor(case["lengths"]).float()[:, None])
    for k, (h, w) in enumerate(case.get("references", [])):
        i[f"reference{k}"] = torch.randn((n, cfg["channels"], h, w), generator=g)
    return i


def output(net, i):
    references = []
    while f"reference{len(references)}" in i:
        references.append(i[f"reference{len(references)}"])
    return net(i["x"], i["timesteps"], i["context"], i["y"][:, 0].int().tolist(), references)


def make(folder):
    for seed, (name, cfg) in enumerate(CONFIGS.items()):
        make_network(f"{folder}/omnigen2_{name}.safetensors", OmniGen2, cfg, 2506 + seed, randomize,
                     CASES[name], inputs, output, dict(rope_dim=cfg["axes"][1]))


def check(path):
    return network_holds(path, OmniGen2, output)


if __name__ == "__main__":
    sys.exit(main(__doc__, make, check))
