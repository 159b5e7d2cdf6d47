#!/usr/bin/env python3
"""Makes golden/small/ernie_image_*.safetensors: small random networks of ERNIE-Image's kind, inputs,
and what ernie_image.py computes of them in float32. golden/README.md lists the tensors.

    tools/golden_ernie_image.py OUTPUT-FOLDER     write the files
    tools/golden_ernie_image.py --check FILE...   hold ernie_image.py against such files

Debian: python3-torch python3-numpy. The generator's sequence and the last bits of sums depend on
PyTorch's version and the processor; those in the repository are from 1.13.
"""
import json
import sys

import torch

import train_demo as td
from ernie_image import PREFIX, ErnieImage, randomize
from golden_file import cases_hold, config, error, load, main

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


def inputs(cfg, case, g):
    n = len(case["t"])
    return dict(x=torch.randn((n, cfg["channels"], case["h"], case["w"]), generator=g),
                timesteps=torch.tensor(case["t"]),
                context=torch.randn((n, case["words"], cfg["text_width"]), generator=g))


@torch.no_grad()
def output(net, i):
    return net(i["x"], i["timesteps"], i["context"])


def make(name, seed, folder):
    cfg, g = CONFIGS[name], torch.Generator().manual_seed(seed)
    net = ErnieImage(cfg)
    randomize(net, g)
    tensors = {PREFIX + k: v.half() for k, v in net.state_dict().items()}
    wide = load(ErnieImage(cfg), tensors, PREFIX).double()
    for k, case in enumerate(CASES[name]):
        i = inputs(cfg, case, g)
        i["output"] = output(net, i)
        exact = output(wide, {key: v.double() for key, v in i.items()})
        print(f"{name} case{k}: largest value {i['output'].abs().max():.2f},",
              f"{error(i['output'], exact):.1g} from float64")
        tensors.update({f"case{k}.{key}": v for key, v in i.items()})
    td.st_save(f"{folder}/ernie_image_{name}.safetensors", tensors,
               {"config": json.dumps(dict(rope_dim=cfg["turned"])), "golden": json.dumps(cfg)})


def make_all(folder):
    for seed, name in enumerate(CONFIGS):
        make(name, 2604 + seed, folder)


def check(path):
    """True when every output in the file is what its inputs give here."""
    t, cfg, k = td.st_load(path), config(path, "golden"), 0
    net = load(ErnieImage(cfg), t, PREFIX)
    while f"case{k}.x" in t:
        k += 1
    return k > 0 and cases_hold(path, t, range(k), lambda i, case: output(net, i))


if __name__ == "__main__":
    sys.exit(main(__doc__, make_all, check))
