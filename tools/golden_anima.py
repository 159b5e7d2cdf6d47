#!/usr/bin/env python3
"""Makes golden/small/anima_*.safetensors: small random networks of Anima's kind, inputs, and what
anima.py computes of them in float32. golden/README.md lists the tensors.

    tools/golden_anima.py OUTPUT-FOLDER     write the files
    tools/golden_anima.py --check FILE...   hold anima.py against such files

Debian: python3-torch python3-numpy. The generator's sequence and the last bits of sums depend on
PyTorch's version and the processor; those in the repository are from 1.13.
"""
import json
import sys

import torch

import train_demo as td
from anima import PREFIX, WORDS, Anima, randomize
from golden_file import config, error, holds, load, main

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


@torch.no_grad()
def output(net, i):
    return net(i["x"], i["timesteps"], i["context"], i["y"])


def make(name, seed, folder):
    cfg, g = CONFIGS[name], torch.Generator().manual_seed(seed)
    net = Anima(cfg)
    randomize(net, g)
    tensors = {PREFIX + k: v.half() for k, v in net.state_dict().items()}
    wide = load(Anima(cfg), tensors, PREFIX).double()
    for k, case in enumerate(CASES[name]):
        i = inputs(cfg, case, g)
        i["output"] = output(net, i)
        exact = output(wide, {key: v.double() for key, v in i.items()})
        print(f"{name} case{k}: largest value {i['output'].abs().max():.2f},",
              f"{error(i['output'], exact):.1g} from float64")
        tensors.update({f"case{k}.{key}": v for key, v in i.items()})
    td.st_save(f"{folder}/anima_{name}.safetensors", tensors, {"golden": json.dumps(cfg)})


def make_all(folder):
    for seed, name in enumerate(CONFIGS):
        make(name, 2601 + seed, folder)


def check(path):
    """True when every output in the file is what its inputs give here."""
    t, cfg, k, ok = td.st_load(path), config(path, "golden"), 0, True
    net = load(Anima(cfg), t, PREFIX)
    while f"case{k}.x" in t:
        i = {key: t[f"case{k}.{key}"] for key in ("x", "timesteps", "context", "y", "output")}
        ok = holds(path, f"case{k}", output(net, i), i["output"]) and ok
        k += 1
    return k > 0 and ok


if __name__ == "__main__":
    sys.exit(main(__doc__, make_all, check))
