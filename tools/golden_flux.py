#!/usr/bin/env python3
"""Makes golden/small/flux_*.safetensors: small random networks of FLUX.1's kinds, inputs, and what
flux.py computes of them in float32. golden/README.md lists the tensors.

    tools/golden_flux.py OUTPUT-FOLDER     write the files
    tools/golden_flux.py --check FILE...   hold flux.py against such files

Debian: python3-torch python3-numpy. The generator's sequence and the last bits of sums depend on
PyTorch's version and the processor; those in the repository are from 1.13.
"""
import json
import sys

import torch

import train_demo as td
from flux import PREFIX, Flux, randomize
from golden_file import cases_hold, config, error, load, main

CONFIGS = {
    "dev": dict(channels=16, num_heads=3, head_dim=16, axes=[4, 6, 6], depth=2, single=3,
                context_dim=24, pooled_dim=20, guidance=True),
    "schnell": dict(channels=16, num_heads=2, head_dim=32, axes=[4, 14, 14], depth=1, single=2,
                    context_dim=16, pooled_dim=12, guidance=False),
    "fill": dict(channels=16, beside=80, num_heads=2, head_dim=16, axes=[4, 6, 6], depth=1, single=1,
                 context_dim=16, pooled_dim=12, guidance=True),
    "depth": dict(channels=16, beside=16, num_heads=1, head_dim=32, axes=[4, 14, 14], depth=1,
                  single=1, context_dim=12, pooled_dim=8, guidance=True),
    "kontext": dict(channels=16, num_heads=2, head_dim=16, axes=[4, 6, 6], depth=1, single=2,
                    context_dim=16, pooled_dim=12, guidance=True),
}
CASES = {
    "dev": [dict(n=2, h=8, w=12, tokens=5, t=[501.0, 37.25], g=[3.5, 1.0]),
            dict(n=1, h=18, w=4, tokens=77, t=[1000.0], g=[4.5]),
            dict(n=3, h=2, w=6, tokens=1, t=[0.0, 250.5, 999.0], g=[0.0, 2.25, 4.0])],
    "schnell": [dict(n=2, h=6, w=14, tokens=9, t=[88.5, 640.0]),
                dict(n=1, h=20, w=2, tokens=3, t=[750.0])],
    "fill": [dict(n=2, h=6, w=8, tokens=4, t=[620.0, 15.5], g=[4.0, 2.0])],
    "depth": [dict(n=1, h=4, w=10, tokens=3, t=[333.0], g=[2.5])],
    "kontext": [dict(n=1, h=8, w=6, tokens=5, t=[801.0], g=[2.5], references=[(10, 4)]),
                dict(n=2, h=4, w=6, tokens=3, t=[120.0, 960.5], g=[1.0, 3.5],
                     references=[(6, 8), (4, 4), (2, 12)]),
                dict(n=2, h=4, w=4, tokens=2, t=[480.0, 7.25], g=[4.0, 2.0], by_index=True,
                     references=[(4, 6), (8, 2)])],
}


def inputs(cfg, case, g):
    r = lambda *shape: torch.randn(shape, generator=g)
    planes = cfg["channels"] + cfg.get("beside", 0)
    i = dict(x=r(case["n"], planes, case["h"], case["w"]),
             timesteps=torch.tensor(case["t"]),
             context=r(case["n"], case["tokens"], cfg["context_dim"]),
             y=r(case["n"], cfg["pooled_dim"]))
    if cfg["guidance"]:
        i["guidance"] = torch.tensor(case["g"])
    for k, size in enumerate(case.get("references", [])):
        i[f"reference{k}"] = r(case["n"], cfg["channels"], *size)
    if case.get("by_index"):
        i["by_index"] = torch.ones(1)
    return i


@torch.no_grad()
def output(net, i):
    references = [i[f"reference{k}"] for k in range(9) if f"reference{k}" in i]
    return net(i["x"], i["timesteps"], i["context"], i["y"], i.get("guidance"), references,
               "by_index" in i)


def make(name, seed, folder):
    cfg, g = CONFIGS[name], torch.Generator().manual_seed(seed)
    net = Flux(cfg)
    randomize(net, g)
    tensors = {PREFIX + k: v.half() for k, v in net.state_dict().items()}
    wide = load(Flux(cfg), tensors, PREFIX).double()
    for k, case in enumerate(CASES[name]):
        i = inputs(cfg, case, g)
        i["output"] = output(net, i)
        exact = output(wide, {key: v.double() for key, v in i.items()})
        print(f"{name} case{k}: largest value {i['output'].abs().max():.2f},",
              f"{error(i['output'], exact):.1g} from float64")
        if "guidance" in i:     # as the network's last input has it
            i["y"] = torch.cat([i["y"], i.pop("guidance")[:, None]], 1)
        tensors.update({f"case{k}.{key}": v for key, v in i.items()})
    td.st_save(f"{folder}/flux_{name}.safetensors", tensors,
               {"config": json.dumps(dict(rope_dim=cfg["axes"][1])), "golden": json.dumps(cfg)})


def make_all(folder):
    for seed, name in enumerate(CONFIGS):
        make(name, 1104 + seed, folder)


def check(path):
    """True when every output in the file is what its inputs give here."""
    t, cfg, k = td.st_load(path), config(path, "golden"), 0
    net = load(Flux(cfg), t, PREFIX)

    def computed(i, case):
        i = {key.partition(".")[2]: v for key, v in t.items() if key.startswith(f"case{case}.")}
        y = i["y"]
        if cfg["guidance"]:
            return output(net, {**i, "y": y[:, :-1], "guidance": y[:, -1]})
        return output(net, i)

    while f"case{k}.x" in t:
        k += 1
    return k > 0 and cases_hold(path, t, range(k), computed)


if __name__ == "__main__":
    sys.exit(main(__doc__, make_all, check))
