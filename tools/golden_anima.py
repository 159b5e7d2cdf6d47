#!/usr/bin/env python3
"""Makes golden/small/anima_*.safetensors: small random networks of Anima's kind, inputs, and what
anima.py computes of them in float32. golden/README.md lists the tensors.

    tools/golden_anima.py OUTPUT-FOLDER     write the files
    tools/golden_anima.py --check FILE...   hold anima.py against such files

Debian: python3-torch python3-numpy. The generator's sequence and the last bits of sums depend on
PyTorch's version and the processor; those in the repository are from 1.13.
"""
import sys

import torch

from anima import WORDS, Anima, randomize
from golden_file import main, make_network, network_holds

CONFIGS = {
    "two": dict(channels=16, num_heads=2, head_dim=16, mlp=48, told=8, depth=2, context_dim=12,
                adapter=dict(num_heads=2, head_dim=8, mlp=40, depth=2, words=40)),
    "one": dict(channels=16, num_heads=1, head_dim=32, mlp=80, told=12, depth=1, context_dim=20,
                adapter=dict(num_heads=3, head_dim=8, mlp=32, depth=1, words=30)),
}
# Sides in tokens that are even, odd, and one; words: how many each picture's prompt has.
CASES = {
    "two": [dict(h=8, w=12, tokens=5, words=[7, 3], t=[501.0, 37.25]),
            dict(h=18, w=6, tokens=33, words=[WORDS], t=[1000.0]),
            dict(h=2, w=10, tokens=1, words=[1, 40, 65], t=[0.0, 250.5, 999.0])],
    "one": [dict(h=8, w=14, tokens=17, words=[20, 1], t=[88.5, 640.0]),
            dict(h=20, w=2, tokens=40, words=[33], t=[750.0])],
}


def prompt(words, known, g):
    """y: most words weigh 1, and behind them stand others, which must not count."""
    weights = torch.where(torch.rand(WORDS, generator=g) < 0.7, torch.ones(WORDS),
                          torch.rand(WORDS, generator=g) * 2 - 0.3)
    weights[words:] = 0
    ids = torch.randint(0, known, (WORDS,), generator=g)
    return torch.cat([ids, weights, torch.tensor([float(words)])])


def inputs(cfg, case, g):
    n = len(case["t"])
    return dict(x=torch.randn((n, cfg["channels"], case["h"], case["w"]), generator=g),
                timesteps=torch.tensor(case["t"]),
                context=torch.randn((n, case["tokens"], cfg["context_dim"]), generator=g) * 3,
                y=torch.stack([prompt(n, cfg["adapter"]["words"], g) for n in case["words"]]))


def output(net, i):
    return net(i["x"], i["timesteps"], i["context"], i["y"])


def make(folder):
    for seed, (name, cfg) in enumerate(CONFIGS.items()):
        make_network(f"{folder}/anima_{name}.safetensors", Anima, cfg, 2601 + seed, randomize, CASES[name],
                     inputs, output)


def check(path):
    return network_holds(path, Anima, output)


if __name__ == "__main__":
    sys.exit(main(__doc__, make, check))
