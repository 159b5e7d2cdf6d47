#!/usr/bin/env python3
"""Makes golden/small/zimage_*.safetensors: small random networks of Z-Image's kind, inputs, and what
zimage.py computes of them in float32. golden/README.md lists the tensors.

    tools/golden_zimage.py OUTPUT-FOLDER     write the files
    tools/golden_zimage.py --check FILE...   hold zimage.py against such files

Debian: python3-torch python3-numpy. The generator's sequence and the last bits of sums depend on
PyTorch's version and the processor; those in the repository are from 1.13.
"""
import sys

import torch

from golden_file import main, make_network, network_holds
from zimage import MULTIPLE, ZImage, randomize

CONFIGS = {
    "two": dict(channels=16, num_heads=3, head_dim=16, axes=[4, 6, 6], mlp=112, depth=2, refiners=2,
                told=20, time_mlp=36, context_dim=24),
    "one": dict(channels=16, num_heads=2, head_dim=32, axes=[16, 8, 8], mlp=170, depth=1, refiners=1,
                told=32, time_mlp=24, context_dim=40),
}
# lengths: of the prompts, which are all filled up to one length
CASES = {
    "two": [dict(h=8, w=12, lengths=[5, 32], t=[501.0, 37.25]),
            dict(h=18, w=4, lengths=[77], t=[1000.0]),
            dict(h=2, w=6, lengths=[1, 31, 17], t=[0.0, 250.5, 999.0])],
    "one": [dict(h=8, w=16, lengths=[33, 64], t=[88.5, 640.0]),
            dict(h=20, w=2, lengths=[90], t=[750.0])],
}


def inputs(cfg, case, g):
    """What lies behind a prompt's end is large, so that nothing can hide that it is seen; y marks it.
    """
    n, lengths = len(case["lengths"]), case["lengths"]
    full = -(-max(lengths) // MULTIPLE) * MULTIPLE
    y = torch.zeros(n, MULTIPLE)
    context = torch.randn((n, full, cfg["context_dim"]), generator=g)
    for i, length in enumerate(lengths):
        context[i, length:] *= 100
        y[i, MULTIPLE - (full - length):] = full > length
    return dict(x=torch.randn((n, cfg["channels"], case["h"], case["w"]), generator=g),
                timesteps=torch.tensor(case["t"]), context=context, y=y)


def output(net, i):
    lengths = i["context"].shape[1] - i["y"].sum(1).int()
    return net(i["x"], i["timesteps"], i["context"], lengths.tolist())


def make(folder):
    for seed, (name, cfg) in enumerate(CONFIGS.items()):
        make_network(f"{folder}/zimage_{name}.safetensors", ZImage, cfg, 2511 + seed, randomize, CASES[name],
                     inputs, output, dict(rope_dim=cfg["axes"][1]))


def check(path):
    return network_holds(path, ZImage, output)


if __name__ == "__main__":
    sys.exit(main(__doc__, make, check))
