#!/usr/bin/env python3
"""Makes golden/small/upscale_*.safetensors: small random networks that enlarge pictures, one of every
kind and naming, pictures, and what upscale.py computes of them in float32. golden/README.md lists
the tensors.

    tools/golden_upscale.py OUTPUT-FOLDER     write the files
    tools/golden_upscale.py --check FILE...   hold upscale.py against such files

Debian: python3-torch python3-numpy. The generator's sequence and the last bits of sums depend on
PyTorch's version and the processor; those in the repository are from 1.13.
"""
import json
import sys

import torch

import train_demo as td
from golden_file import config, holds, main
from upscale import RRDBNet, SRVGGNet, old_name, trunk_name

# names: how the file calls the tensors; prefix: what stands before all of them.
CONFIGS = {
    "rrdb_x4": dict(net=dict(features=16, growth=8, blocks=2), prefix="params_ema."),
    "rrdb_x2": dict(net=dict(features=12, growth=6, blocks=1, unshuffle=2), prefix="params."),
    "rrdb_x1": dict(net=dict(features=8, growth=4, blocks=1, unshuffle=4), prefix="params_ema."),
    "old_x4": dict(net=dict(features=8, growth=4, blocks=2), names="old", prefix="state_dict."),
    "old_x2": dict(net=dict(features=8, growth=4, blocks=1, doublings=1), names="old",
                   prefix="state_dict."),
    "old_x8": dict(net=dict(features=8, growth=4, blocks=1, doublings=3), names="old",
                   prefix="params."),
    "trunk_x4": dict(net=dict(features=8, growth=4, blocks=1), names="trunk", prefix="params."),
    "compact_x4": dict(net=dict(features=16, blocks=3, scale=4), prefix="params."),
    "compact_x3": dict(net=dict(features=9, blocks=0, scale=3), prefix="params_ema."),
    "compact_x1": dict(net=dict(features=8, blocks=1, scale=1), prefix="params."),
}
CASES = [dict(n=1, h=12, w=16), dict(n=2, h=8, w=4)]
GAIN = 1.3              # a leaky ReLU takes as much away


def network(cfg):
    return (SRVGGNet if "scale" in cfg["net"] else RRDBNet)(**cfg["net"])


def stored(cfg, name):
    net = cfg["net"]
    if cfg.get("names") == "old":
        name = old_name(name, net["blocks"], net.get("doublings", 2))
    elif cfg.get("names") == "trunk":
        name = trunk_name(name)
    return cfg["prefix"] + name


def randomize(net, g):
    """Values of a size that keeps activations near 1, rounded to what the file stores."""
    for name, p in net.named_parameters():
        r = torch.randn(p.shape, generator=g)
        if p.dim() > 1:
            r = r * GAIN / p[0].numel() ** 0.5
        else:
            slope = isinstance(net.get_submodule(name.rpartition(".")[0]), torch.nn.PReLU)
            r = r * 0.1 + (0.3 if slope else 0.0)
        p.data.copy_(r.half().float())


@torch.no_grad()
def make(name, seed, folder):
    cfg, g = CONFIGS[name], torch.Generator().manual_seed(seed)
    net = network(cfg)
    randomize(net, g)
    tensors = {stored(cfg, k): v.half() for k, v in net.state_dict().items()}
    for k, case in enumerate(CASES):
        image = torch.rand((case["n"], 3, case["h"], case["w"]), generator=g)
        tensors[f"case{k}.image"], tensors[f"case{k}.output"] = image, net(image)
        print(name, f"case{k}: largest value {tensors[f'case{k}.output'].abs().max():.2f}")
    td.st_save(f"{folder}/upscale_{name}.safetensors", tensors, {"config": json.dumps(cfg)})


def make_all(folder):
    for seed, name in enumerate(CONFIGS):
        make(name, 1809 + seed, folder)


@torch.no_grad()
def check(path):
    """True when every output in the file is what its inputs give here."""
    t, cfg, ok, k = td.st_load(path), config(path), True, 0
    net = network(cfg)
    net.load_state_dict({n: t[stored(cfg, n)].float() for n in net.state_dict()})
    while f"case{k}.image" in t:
        ok = holds(path, f"case{k}", net(t[f"case{k}.image"]), t[f"case{k}.output"]) and ok
        k += 1
    return ok and k > 0


if __name__ == "__main__":
    sys.exit(main(__doc__, make_all, check))
