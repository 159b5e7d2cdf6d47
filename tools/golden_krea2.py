#!/usr/bin/env python3
"""Makes golden/small/krea2_*.safetensors: small random networks of Krea 2's kind, inputs, and what
krea2.py computes of them in float32. golden/README.md lists the tensors.

    tools/golden_krea2.py OUTPUT-FOLDER     write the files
    tools/golden_krea2.py --check FILE...   hold krea2.py against such files

Debian: python3-torch python3-numpy. The generator's sequence and the last bits of sums depend on
PyTorch's version and the processor; those in the repository are from 1.13.
"""
import json
import sys

import torch

import train_demo as td
from golden_file import cases_hold, config, error, load, main
from krea2 import PREFIX, Krea2, randomize

# Three heads of queries share one of keys, so that repeating is more than doubling.
CONFIGS = {
    "two": dict(channels=16, num_heads=3, num_kv_heads=1, head_dim=16, axes=[4, 6, 6], mlp=80,
                depth=2, text_layers=5, text_width=24, text_heads=3, text_kv_heads=3, text_mlp=40,
                layerwise=2, refiner=1),
    "one": dict(channels=16, num_heads=4, num_kv_heads=2, head_dim=8, axes=[4, 2, 2], mlp=48,
                depth=1, text_layers=12, text_width=16, text_heads=4, text_kv_heads=2, text_mlp=24,
                layerwise=1, refiner=2),
}
CASES = {
    "two": [dict(h=8, w=12, words=5, t=[501.0, 37.25]), dict(h=18, w=6, words=33, t=[1000.0]),
            dict(h=2, w=10, words=1, t=[0.0, 250.5, 999.0])],
    "one": [dict(h=8, w=14, words=17, t=[88.5, 640.0]), dict(h=20, w=2, words=70, t=[750.0])],
}


def inputs(cfg, case, g):
    n, width = len(case["t"]), cfg["text_layers"] * cfg["text_width"]
    return dict(x=torch.randn((n, cfg["channels"], case["h"], case["w"]), generator=g),
                timesteps=torch.tensor(case["t"]),
                context=torch.randn((n, case["words"], width), generator=g) * 3)


@torch.no_grad()
def output(net, i):
    return net(i["x"], i["timesteps"], i["context"])


def make(name, seed, folder):
    cfg, g = CONFIGS[name], torch.Generator().manual_seed(seed)
    net = Krea2(cfg)
    randomize(net, g)
    tensors = {PREFIX + k: v.half() for k, v in net.state_dict().items()}
    wide = load(Krea2(cfg), tensors, PREFIX).double()
    for k, case in enumerate(CASES[name]):
        i = inputs(cfg, case, g)
        i["output"] = output(net, i)
        exact = output(wide, {key: v.double() for key, v in i.items()})
        print(f"{name} case{k}: largest value {i['output'].abs().max():.2f},",
              f"{error(i['output'], exact):.1g} from float64")
        tensors.update({f"case{k}.{key}": v for key, v in i.items()})
    td.st_save(f"{folder}/krea2_{name}.safetensors", tensors,
               {"config": json.dumps(dict(rope_dim=cfg["axes"][1])), "golden": json.dumps(cfg)})


def make_all(folder):
    for seed, name in enumerate(CONFIGS):
        make(name, 2606 + seed, folder)


def check(path):
    """True when every output in the file is what its inputs give here."""
    t, cfg, k = td.st_load(path), config(path, "golden"), 0
    net = load(Krea2(cfg), t, PREFIX)
    while f"case{k}.x" in t:
        k += 1
    return k > 0 and cases_hold(path, t, range(k), lambda i, case: output(net, i))


if __name__ == "__main__":
    sys.exit(main(__doc__, make_all, check))
