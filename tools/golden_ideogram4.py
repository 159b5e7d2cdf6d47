#!/usr/bin/env python3
"""Makes golden/small/ideogram4_*.safetensors: small random networks of Ideogram 4's kind, inputs,
and what ideogram4.py computes of them in float32. golden/README.md lists the tensors.

    tools/golden_ideogram4.py OUTPUT-FOLDER     write the files
    tools/golden_ideogram4.py --check FILE...   hold ideogram4.py against such files

Debian: python3-torch python3-numpy. The generator's sequence and the last bits of sums depend on
PyTorch's version and the processor; those in the repository are from 1.13.
"""
import json
import sys

import torch

import train_demo as td
from golden_file import cases_hold, config, error, load, main
from ideogram4 import LAYERS, PREFIX, Ideogram4, randomize

CONFIGS = {
    "two": dict(channels=12, num_heads=3, head_dim=32, turned=5, mlp=80, depth=2, told=20,
                text_width=5),
    "one": dict(channels=8, num_heads=2, head_dim=20, turned=2, mlp=56, depth=1, told=12,
                text_width=3),
}
# The last of "one" sees the picture alone: its context is zeros, which are no words.
CASES = {
    "two": [dict(h=4, w=6, words=5, t=[501.0, 37.25]), dict(h=9, w=3, words=33, t=[1000.0]),
            dict(h=1, w=5, words=1, t=[0.0, 250.5, 999.0])],
    "one": [dict(h=5, w=7, words=17, t=[88.5, 640.0]), dict(h=10, w=1, words=70, t=[750.0]),
            dict(h=3, w=4, words=2, t=[410.0], alone=True)],
}


def inputs(cfg, case, g):
    n, width = len(case["t"]), LAYERS * cfg["text_width"]
    words = torch.randn((n, case["words"], width), generator=g) * 3
    return dict(x=torch.randn((n, cfg["channels"], case["h"], case["w"]), generator=g),
                timesteps=torch.tensor(case["t"]),
                context=torch.zeros_like(words) if case.get("alone") else words)


@torch.no_grad()
def output(net, i):
    words = i["context"]
    return net(i["x"], i["timesteps"], words if words.any() else words[:, :0])


def make(name, seed, folder):
    cfg, g = CONFIGS[name], torch.Generator().manual_seed(seed)
    net = Ideogram4(cfg)
    randomize(net, g)
    tensors = {PREFIX + k: v.half() for k, v in net.state_dict().items()}
    wide = load(Ideogram4(cfg), tensors, PREFIX).double()
    for k, case in enumerate(CASES[name]):
        i = inputs(cfg, case, g)
        i["output"] = output(net, i)
        exact = output(wide, {key: v.double() for key, v in i.items()})
        print(f"{name} case{k}: largest value {i['output'].abs().max():.2f},",
              f"{error(i['output'], exact):.1g} from float64")
        tensors.update({f"case{k}.{key}": v for key, v in i.items()})
    td.st_save(f"{folder}/ideogram4_{name}.safetensors", tensors,
               {"config": json.dumps(dict(rope_dim=2 * cfg["turned"])), "golden": json.dumps(cfg)})


def make_all(folder):
    for seed, name in enumerate(CONFIGS):
        make(name, 2606 + seed, folder)


def check(path):
    """True when every output in the file is what its inputs give here."""
    t, cfg, k = td.st_load(path), config(path, "golden"), 0
    net = load(Ideogram4(cfg), t, PREFIX)
    while f"case{k}.x" in t:
        k += 1
    return k > 0 and cases_hold(path, t, range(k), lambda i, case: output(net, i))


if __name__ == "__main__":
    sys.exit(main(__doc__, make_all, check))
