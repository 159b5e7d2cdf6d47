#!/usr/bin/env python3
"""Makes golden/small/flux_*.safetensors: small random networks of FLUX.1's kinds, inputs, and what
flux.py computes of them in float32. golden/README.md lists the tensors.

    tools/golden_flux.py OUTPUT-FOLDER     write the files
    tools/golden_flux.py --check FILE...   hold flux.py against such files

Debian: python3-torch python3-numpy. The generator's sequence and the last bits of sums depend on
PyTorch's version and the processor; those in the repository are from 1.13.
"""
import sys

import torch

from flux import Flux, randomize
from golden_file import main, make_network, network_holds

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
    if cfg["guidance"]:     # as the network's last input has it
        i["y"] = torch.cat([i["y"], torch.tensor(case["g"])[:, None]], 1)
    for k, size in enumerate(case.get("references", [])):
        i[f"reference{k}"] = r(case["n"], cfg["channels"], *size)
    if case.get("by_index"):
        i["by_index"] = torch.ones(1)
    return i


def output(net, i):
    references = [i[f"reference{k}"] for k in range(9) if f"reference{k}" in i]
    told = hasattr(net, "guidance_in")
    y, guidance = (i["y"][:, :-1], i["y"][:, -1]) if told else (i["y"], None)
    return net(i["x"], i["timesteps"], i["context"], y, guidance, references, "by_index" in i)


def make(folder):
    for seed, (name, cfg) in enumerate(CONFIGS.items()):
        make_network(f"{folder}/flux_{name}.safetensors", Flux, cfg, 1104 + seed, randomize, CASES[name],
                     inputs, output, dict(rope_dim=cfg["axes"][1]))


def check(path):
    return network_holds(path, Flux, output)


if __name__ == "__main__":
    sys.exit(main(__doc__, make, check))
