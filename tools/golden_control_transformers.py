#!/usr/bin/env python3
"""Makes golden/small/control_*.safetensors: small random networks of FLUX.1's and Stable Diffusion
3's kinds, inputs, and what they make of a ControlNet's residuals by control_transformers.py in
float32; and below control/ the ControlNets. golden/README.md lists the tensors.

    tools/golden_control_transformers.py OUTPUT-FOLDER     write the files
    tools/golden_control_transformers.py --check FILE...   hold control_transformers.py against such
                                                           files, but those below control/

Debian: python3-torch python3-numpy. The generator's sequence and the last bits of sums depend on
PyTorch's version and the processor; those in the repository are from 1.13.
"""
import json
import os
import sys

import torch

import control_transformers as ct
import flux
import mmdit
import train_demo as td
from golden_file import PREFIX, config, holds, load, main

# FLUX: residuals for 5 and 7 blocks; Stable Diffusion 3: 7 blocks, the last of which takes none.
CONFIGS = {
    "flux": dict(channels=16, num_heads=2, head_dim=16, axes=[4, 6, 6], depth=5, single=3,
                 context_dim=16, pooled_dim=12, guidance=True, control=(2, 0), modes=0),
    "flux_union": dict(channels=16, num_heads=2, head_dim=16, axes=[4, 6, 6], depth=3, single=7,
                       context_dim=16, pooled_dim=12, guidance=True, control=(2, 3), modes=7),
    "mmdit": dict(depth=7, num_heads=2, num_head_channels=16, context_dim=24, pooled_dim=20, table=8,
                  qk_norm=False, dual=0, control=3, text=True),
    "mmdit_large": dict(depth=6, num_heads=2, num_head_channels=16, context_dim=24, pooled_dim=20,
                        table=9, qk_norm=True, dual=0, control=3, text=False),
}
CASES = [dict(n=2, h=6, w=8, tokens=5, t=[501.0, 37.25], g=[3.5, 1.0], modes=(0, 4)),
         dict(n=1, h=10, w=4, tokens=3, t=[920.0], g=[2.5], modes=(2, 1))]
# With these, float32 differs from float64 by less than the tests allow.
SEEDS = {"flux": 2727, "flux_union": 2712, "mmdit": 2713, "mmdit_large": 2714}
SHOWN = ("num_heads", "num_head_channels")
STRENGTHS = (1.0, 0.6)      # of the two hints in .output_two


def is_flux(name):
    return name.startswith("flux")


def nets(name, cfg):
    return ((ct.SteeredFlux(cfg), ct.FluxControl(cfg)) if is_flux(name) else
            (ct.SteeredMMDiT(cfg), ct.MMDiTControl(cfg)))


def inputs(cfg, case, g):
    r = lambda *shape: torch.randn(shape, generator=g)
    latent = lambda: r(case["n"], 16, case["h"], case["w"])
    i = dict(x=latent(), hint=latent(), hint2=latent(), timesteps=torch.tensor(case["t"]),
             context=r(case["n"], case["tokens"], cfg["context_dim"]),
             y=r(case["n"], cfg["pooled_dim"]))
    if cfg.get("guidance"):
        i["y"] = torch.cat([i["y"], torch.tensor(case["g"])[:, None]], 1)
    if cfg.get("modes"):
        i["types"] = torch.tensor(case["modes"], dtype=torch.int32)
    return i


def control(name, cfg, net, steer, i, hint, mode):
    """All residuals: of a transformer with blocks of two streams and of one, two lists."""
    if not is_flux(name):
        x = i["x"] if cfg["text"] else net.embedded(i["x"])
        return [steer(x, hint, i["timesteps"], i["context"], i["y"]), []]
    return list(steer(i["x"], hint, i["timesteps"], i["context"], i["y"][:, :-1], i["y"][:, -1], mode))


def network(name, net, i, residuals):
    args = i["x"], i["timesteps"], i["context"]
    if is_flux(name):
        return net(*args, i["y"][:, :-1], i["y"][:, -1], residuals)
    return net(*args, i["y"], residuals[0])


def scaled(residuals, by, more=None):
    if more is None:
        return [[r * by for r in part] for part in residuals]
    return [[a + b * by for a, b in zip(*parts)] for parts in zip(more, residuals)]


@torch.no_grad()
def outputs(name, cfg, net, steer, i):
    modes = [int(v) for v in i["types"]] if "types" in i else [None, None]
    first = control(name, cfg, net, steer, i, i["hint"], modes[0])
    second = control(name, cfg, net, steer, i, i["hint2"], modes[1])
    run = lambda residuals: network(name, net, i, residuals)
    out = {"output": run([[], []]), "output_1.0": run(first), "output_0.6": run(scaled(first, 0.6)),
           "output_two": run(scaled(second, STRENGTHS[1], first))}
    for k, r in enumerate(first[0] + first[1]):
        out[f"residual.{k}"] = r
    if "types" in i:
        out["output_auto"] = run(control(name, cfg, net, steer, i, i["hint"], None))
    return out


def randomize(name, cfg, net, steer, g):
    for n in net, steer:
        if is_flux(name):
            flux.randomize(n, g)
        else:
            mmdit.randomize(n, g, faint=False)


def control_tensors(name, cfg, steer):
    state = {k: v.half() for k, v in steer.state_dict().items()}
    if not is_flux(name) and not cfg["text"]:
        return ct.stability_names(state)
    return ct.to_diffusers(state, ct.FLUX_NAMES if is_flux(name) else ct.MMDIT_NAMES)


def make(name, seed, folder):
    cfg, g = CONFIGS[name], torch.Generator().manual_seed(seed)
    net, steer = nets(name, cfg)
    randomize(name, cfg, net, steer, g)
    tensors = {PREFIX + k: v.half() for k, v in net.state_dict().items()}
    shown = dict(rope_dim=cfg["axes"][1]) if is_flux(name) else {k: cfg[k] for k in SHOWN}
    for k, case in enumerate(CASES):
        i = inputs(cfg, case, g)
        i.update(outputs(name, cfg, net, steer, i))
        print(f"{name} case{k}:", ", ".join(
            f"{key} {(i[key] - i['output']).abs().max() / i['output'].abs().max():.2f}"
            for key in i if key.startswith("output_")))
        tensors.update({f"case{k}.{key}": v for key, v in i.items()})
    td.st_save(f"{folder}/control_{name}.safetensors", tensors,
               {"config": json.dumps(shown), "golden": json.dumps(cfg), "control": f"control/{name}.safetensors"})
    os.makedirs(f"{folder}/control", exist_ok=True)
    td.st_save(f"{folder}/control/{name}.safetensors", control_tensors(name, cfg, steer),
               {"config": json.dumps(shown)})


def make_all(folder):
    for name, seed in SEEDS.items():
        make(name, seed, folder)


def check(path):
    """True when every output in the file is what its inputs give here."""
    t, cfg, k, ok = td.st_load(path), config(path, "golden"), 0, True
    name = os.path.basename(path)[len("control_"):-len(".safetensors")]
    net, steer = nets(name, cfg)
    load(net, t, PREFIX)
    own = td.st_load(os.path.join(os.path.dirname(path), "control", name + ".safetensors"))
    if not is_flux(name) and not cfg["text"]:
        given = ct.stability_names({k: k for k in steer.state_dict()})
        steer.load_state_dict({ours: own[theirs].float() for theirs, ours in given.items()})
    else:
        ct.from_diffusers(steer, own, ct.FLUX_NAMES if is_flux(name) else ct.MMDIT_NAMES)
    while f"case{k}.x" in t:
        i = {key.partition(".")[2]: v for key, v in t.items() if key.startswith(f"case{k}.")}
        for key, v in outputs(name, cfg, net, steer, i).items():
            ok = holds(path, f"case{k} {key}", v, i[key]) and ok
        k += 1
    return k > 0 and ok


if __name__ == "__main__":
    sys.exit(main(__doc__, make_all, check))
