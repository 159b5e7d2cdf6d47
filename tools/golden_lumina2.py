#!/usr/bin/env python3
"""Makes golden/small/lumina2_*.safetensors: small random networks of Lumina-Image 2.0's kind, inputs, and
what lumina2.py computes of them in float32. golden/README.md lists the tensors.

    tools/golden_lumina2.py OUTPUT-FOLDER     write the files
    tools/golden_lumina2.py --check FILE...   hold lumina2.py against such files

Debian: python3-torch python3-numpy. The generator's sequence and the last bits of sums depend on
PyTorch's version and the processor; those in the repository are from 1.13.
"""
import sys

import torch

from golden_file import main, make_network, network_holds
from lumina2 import Lumina2
from zimage import randomize

CONFIGS = {
    "two": dict(channels=16, num_heads=6, key_heads=2, head_dim=12, axes=[4, 4, 4], mlp=112, depth=2,
                refiners=2, told=20, time_mlp=36, context_dim=24),
    "one": dict(channels=16, num_heads=3, key_heads=1, head_dim=32, axes=[16, 8, 8], mlp=160, depth=1,
                refiners=1, told=32, time_mlp=24, context_dim=40),
}
# lengths: of the prompts, which lie in room for more
CASES = {
    "two": [dict(h=8, w=12, lengths=[5, 64], room=64, t=[501.0, 37.25]),
            dict(h=18, w=4, lengths=[77], room=77, t=[1000.0]),
            dict(h=2, w=6, lengths=[1, 31, 17], room=40, t=[0.0, 250.5, 999.0])],
    "one": [dict(h=8, w=16, lengths=[33, 64], room=64, t=[88.5, 640.0]),
            dict(h=20, w=2, lengths=[90], room=128, t=[750.0])],
}


def inputs(cfg, case, g):
    """What lies behind a prompt's end is large, so that nothing can hide that it is seen."""
    n = len(case["lengths"])
    context = torch.randn((n, case["room"], cfg["context_dim"]), generator=g)
    for i, length in enumerate(case["lengths"]):
        context[i, length:] *= 100
    return dict(x=torch.randn((n, cfg["channels"], case["h"], case["w"]), generator=g),
                timesteps=torch.tensor(case["t"]), context=context,
                y=torch.tensor(case["lengths"]).float()[:, None])


def output(net, i):
    return net(i["x"], i["timesteps"], i["context"], i["y"][:, 0].int().tolist())


def make(folder):
    for seed, (name, cfg) in enumerate(CONFIGS.items()):
        make_network(f"{folder}/lumina2_{name}.safetensors", Lumina2, cfg, 2502 + seed, randomize, CASES[name],
                     inputs, output, dict(rope_dim=cfg["axes"][1]))


def check(path):
    return network_holds(path, Lumina2, output)


if __name__ == "__main__":
    sys.exit(main(__doc__, make, check))
