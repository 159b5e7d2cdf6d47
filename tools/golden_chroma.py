#!/usr/bin/env python3
"""Makes golden/small/chroma_*.safetensors: small random networks of Chroma's kind, inputs, and what
chroma.py computes of them in float32. golden/README.md lists the tensors.

    tools/golden_chroma.py OUTPUT-FOLDER     write the files
    tools/golden_chroma.py --check FILE...   hold chroma.py against such files

Debian: python3-torch python3-numpy. The generator's sequence and the last bits of sums depend on
PyTorch's version and the processor; those in the repository are from 1.13.
"""
import json
import sys

import torch

import train_demo as td
from chroma import Chroma, randomize
from golden_file import PREFIX, cases_hold, config, error, load, main

CONFIGS = {
    "two": dict(channels=16, num_heads=2, head_dim=16, axes=[4, 6, 6], depth=2, single=3,
                context_dim=24, approximator=40, layers=3, time=8),
    "one": dict(channels=16, num_heads=1, head_dim=32, axes=[4, 14, 14], depth=1, single=2,
                context_dim=16, approximator=24, layers=1, time=16),
}
CASES = {
    "two": [dict(n=2, h=8, w=12, tokens=5, t=[501.0, 37.25]),
            dict(n=1, h=18, w=4, tokens=77, t=[1000.0]),
            dict(n=3, h=2, w=6, tokens=1, t=[0.0, 250.5, 999.0])],
    "one": [dict(n=2, h=6, w=14, tokens=9, t=[88.5, 640.0]),
            dict(n=1, h=20, w=2, tokens=3, t=[750.0]),
            dict(n=2, h=4, w=6, tokens=7, padded=40, t=[300.0, 910.0])],
}


def inputs(cfg, case, g):
    r = lambda *shape: torch.randn(shape, generator=g)
    return dict(x=r(case["n"], cfg["channels"], case["h"], case["w"]),
                timesteps=torch.tensor(case["t"]),
                context=r(case["n"], case["tokens"], cfg["context_dim"]))


@torch.no_grad()
def output(net, i, padded=None):
    """padded: computed with prompts of that length, behind whose tokens is what a mask hides."""
    context, seen = i["context"], None
    if padded:
        n, words, width = context.shape
        hidden = 3 * torch.ones(n, padded - words, width, dtype=context.dtype)
        context, seen = torch.cat([context, hidden], 1), torch.arange(padded) < words
        seen = seen.expand(n, -1)
    return net(i["x"], i["timesteps"], context, seen)


def make(name, seed, folder):
    cfg, g = CONFIGS[name], torch.Generator().manual_seed(seed)
    net = Chroma(cfg)
    randomize(net, g)
    tensors = {PREFIX + k: v.half() for k, v in net.state_dict().items()}
    net = load(net, tensors, PREFIX)
    wide = load(Chroma(cfg), tensors, PREFIX).double()
    for k, case in enumerate(CASES[name]):
        i = inputs(cfg, case, g)
        i["output"] = output(net, i, case.get("padded"))
        exact = output(wide, {key: v.double() for key, v in i.items()}, case.get("padded"))
        print(f"{name} case{k}: largest value {i['output'].abs().max():.2f},",
              f"{error(i['output'], exact):.1g} from float64")
        tensors.update({f"case{k}.{key}": v for key, v in i.items()})
    td.st_save(f"{folder}/chroma_{name}.safetensors", tensors,
               {"config": json.dumps(dict(rope_dim=cfg["axes"][1])), "golden": json.dumps(cfg)})


def make_all(folder):
    for seed, name in enumerate(CONFIGS):
        make(name, 2207 + seed, folder)


def check(path):
    """True when every output in the file is what its inputs give here."""
    t, k = td.st_load(path), 0
    net = load(Chroma(config(path, "golden")), t, PREFIX)
    while f"case{k}.x" in t:
        k += 1
    return k > 0 and cases_hold(path, t, range(k), lambda i, case: output(net, i))


if __name__ == "__main__":
    sys.exit(main(__doc__, make_all, check))
