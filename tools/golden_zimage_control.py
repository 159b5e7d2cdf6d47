#!/usr/bin/env python3
"""Makes golden/small/control_zimage_*.safetensors: small random networks of Z-Image's kind, inputs, and
what they make of a ControlNet's residuals by zimage_control.py in float32; and below control/ the
ControlNets. golden/README.md lists the tensors.

    tools/golden_zimage_control.py OUTPUT-FOLDER     write the files
    tools/golden_zimage_control.py --check FILE...   hold zimage_control.py against such files, but
                                                     those below control/

Debian: python3-torch python3-numpy. The generator's sequence and the last bits of sums depend on
PyTorch's version and the processor; those in the repository are from 1.13.
"""
import json
import os
import sys

import torch

import train_demo as td
import zimage
import zimage_control as zc
from golden_file import PREFIX, config, error, holds, load, main

NET = dict(channels=16, num_heads=2, head_dim=16, axes=[4, 6, 6], mlp=56, refiners=2, told=20,
           time_mlp=24, context_dim=24)
# Layers that take a residual: 0, 2 and 4 of 7; 0 and 2 of 5; 0, 1 and 2 of 3.
CONFIGS = {
    "one": dict(NET, depth=7, control=3, planes=16, refining=0),
    "two": dict(NET, depth=5, control=2, planes=33, refining=1),
    "three": dict(NET, depth=3, control=3, planes=33, refining=2),
}
# The last: one picture, with two prompts.
CASES = [dict(h=6, w=8, lengths=[5, 32], t=[501.0, 37.25], pictures=2),
         dict(h=16, w=8, lengths=[40], t=[920.0], pictures=1),
         dict(h=4, w=10, lengths=[9, 30], t=[333.0, 333.0], pictures=1)]
# With these, bfloat16 differs from float32 by less than the tests allow.
SEEDS = {"one": 2851, "two": 2812, "three": 2813}
STRENGTHS = (1.0, 0.6)      # of the two hints in .output_two


def inputs(cfg, case, g):
    r = lambda *shape: torch.randn(shape, generator=g)
    n, multiple = len(case["lengths"]), zimage.MULTIPLE
    full = -(-max(case["lengths"]) // multiple) * multiple
    y, context = torch.zeros(n, multiple), r(n, full, cfg["context_dim"])
    for i, length in enumerate(case["lengths"]):
        context[i, length:] *= 100
        y[i, multiple - (full - length):] = full > length
    x = r(case["pictures"], cfg["channels"], case["h"], case["w"])
    hint = lambda: r(case["pictures"], cfg["planes"], case["h"], case["w"])
    return dict(x=x.repeat(n // len(x), 1, 1, 1), hint=hint(), hint2=hint(),
                timesteps=torch.tensor(case["t"]), context=context, y=y)


def run(net, control, i, *hints):
    """hints: (name, strength). (output, residuals)."""
    lengths = (i["context"].shape[1] - i["y"].sum(1).int()).tolist()
    rows = [net.steered(i["x"][k], i["timesteps"][k], i["context"][k, :n], control,
                        [(i[name][k % len(i[name])], strength) for name, strength in hints])
            for k, n in enumerate(lengths)]
    return torch.stack([r[0] for r in rows]), [torch.stack(r) for r in zip(*(r[1] for r in rows))]


@torch.no_grad()
def outputs(net, control, i):
    out = {"output": run(net, control, i)[0],
           "output_0.6": run(net, control, i, ("hint", 0.6))[0],
           "output_two": run(net, control, i, ("hint", STRENGTHS[0]), ("hint2", STRENGTHS[1]))[0]}
    out["output_1.0"], residuals = run(net, control, i, ("hint", 1.0))
    for k, r in enumerate(residuals):
        out[f"residual.{k}"] = r
    return out


def nothing_learnt(control):
    """What 2.0 never trained, by which its files are told."""
    for block in control.control_noise_refiner:
        block.after_proj.weight.data.zero_()
        block.after_proj.bias.data.zero_()


def make(name, seed, folder):
    cfg, g = CONFIGS[name], torch.Generator().manual_seed(seed)
    net, control = zc.SteeredZImage(cfg), zc.Control(cfg)
    zimage.randomize(net, g)
    zimage.randomize(control, g)
    if cfg["refining"] == 1:
        nothing_learnt(control)
    tensors = {PREFIX + k: v.half() for k, v in net.state_dict().items()}
    shown = {"config": json.dumps(dict(rope_dim=cfg["axes"][1]))}
    wide = load(zc.SteeredZImage(cfg), tensors, PREFIX).double(), zc.Control(cfg).double()
    wide[1].load_state_dict(control.state_dict())
    for k, case in enumerate(CASES):
        i = inputs(cfg, case, g)
        exact = outputs(*wide, {key: v.double() for key, v in i.items()})
        i.update(outputs(net, control, i))
        print(f"{name} case{k}:", ", ".join(
            f"{key} {(i[key] - i['output']).abs().max() / i['output'].abs().max():.2f}"
            for key in i if key.startswith("output_")),
              "from float64", max(f"{error(i[key], exact[key]):.1g}" for key in exact))
        tensors.update({f"case{k}.{key}": v for key, v in i.items()})
    td.st_save(f"{folder}/control_zimage_{name}.safetensors", tensors,
               dict(shown, golden=json.dumps(cfg), control=f"control/zimage_{name}.safetensors"))
    os.makedirs(f"{folder}/control", exist_ok=True)
    td.st_save(f"{folder}/control/zimage_{name}.safetensors",
               zc.published_names({k: v.half() for k, v in control.state_dict().items()}), {})


def make_all(folder):
    for name, seed in SEEDS.items():
        make(name, seed, folder)


def check(path):
    """True when every output in the file is what its inputs give here."""
    t, cfg, k, ok = td.st_load(path), config(path, "golden"), 0, True
    name = os.path.basename(path)[len("control_"):]
    net = load(zc.SteeredZImage(cfg), t, PREFIX)
    control = zc.from_published(
        zc.Control(cfg), td.st_load(os.path.join(os.path.dirname(path), "control", name)))
    while f"case{k}.x" in t:
        i = {key.partition(".")[2]: v for key, v in t.items() if key.startswith(f"case{k}.")}
        for key, v in outputs(net, control, i).items():
            ok = holds(path, f"case{k} {key}", v, i[key]) and ok
        k += 1
    return k > 0 and ok


if __name__ == "__main__":
    sys.exit(main(__doc__, make_all, check))
