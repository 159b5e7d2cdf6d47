#!/usr/bin/env python3
"""Makes golden/small/qwen_image_*.safetensors: small random networks of Qwen-Image's kind, inputs, and
what qwen_image.py computes of them in float32. golden/README.md lists the tensors.

    tools/golden_qwen_image.py OUTPUT-FOLDER     write the files
    tools/golden_qwen_image.py --check FILE...   hold qwen_image.py against such files

Debian: python3-torch python3-numpy. The generator's sequence and the last bits of sums depend on
PyTorch's version and the processor; those in the repository are from 1.13.
"""
import json
import sys

import torch

import train_demo as td
from golden_file import cases_hold, config, error, load, main
from qwen_image import PREFIX, QwenImage, randomize

CONFIGS = {
    "two": dict(channels=16, num_heads=3, head_dim=16, axes=[4, 6, 6], mlp=80, depth=2,
                context_dim=24),
    "one": dict(channels=16, num_heads=2, head_dim=32, axes=[4, 14, 14], mlp=96, depth=1,
                context_dim=40),
}
# Sides in tokens that are even, odd, and one.
CASES = {
    "two": [dict(h=8, w=12, words=5, t=[501.0, 37.25]), dict(h=18, w=6, words=33, t=[1000.0]),
            dict(h=2, w=10, words=1, t=[0.0, 250.5, 999.0])],
    "one": [dict(h=8, w=14, words=17, t=[88.5, 640.0]), dict(h=20, w=2, words=40, t=[750.0])],
}


def inputs(cfg, case, g):
    n = len(case["t"])
    return dict(x=torch.randn((n, cfg["channels"], case["h"], case["w"]), generator=g),
                timesteps=torch.tensor(case["t"]),
                context=torch.randn((n, case["words"], cfg["context_dim"]), generator=g) * 3)


@torch.no_grad()
def output(net, i):
    return net(i["x"], i["timesteps"], i["context"])


def make(name, seed, folder):
    cfg, g = CONFIGS[name], torch.Generator().manual_seed(seed)
    net = QwenImage(cfg)
    randomize(net, g)
    tensors = {PREFIX + k: v.half() for k, v in net.state_dict().items()}
    wide = load(QwenImage(cfg), tensors, PREFIX).double()
    for k, case in enumerate(CASES[name]):
        i = inputs(cfg, case, g)
        i["output"] = output(net, i)
        exact = output(wide, {key: v.double() for key, v in i.items()})
        print(f"{name} case{k}: largest value {i['output'].abs().max():.2f},",
              f"{error(i['output'], exact):.1g} from float64")
        tensors.update({f"case{k}.{key}": v for key, v in i.items()})
    td.st_save(f"{folder}/qwen_image_{name}.safetensors", tensors,
               {"config": json.dumps(dict(rope_dim=cfg["axes"][1])), "golden": json.dumps(cfg)})


def make_all(folder):
    for seed, name in enumerate(CONFIGS):
        make(name, 2508 + seed, folder)


def check(path):
    """True when every output in the file is what its inputs give here."""
    t, cfg, k = td.st_load(path), config(path, "golden"), 0
    net = load(QwenImage(cfg), t, PREFIX)
    while f"case{k}.x" in t:
        k += 1
    return k > 0 and cases_hold(path, t, range(k), lambda i, case: output(net, i))


if __name__ == "__main__":
    sys.exit(main(__doc__, make_all, check))
