#!/usr/bin/env python3
"""Makes golden/small/controlnet_*.safetensors: small random UNets with a ControlNet each, inputs,
and what controlnet.py computes of them in float32. golden/README.md lists the tensors.

    tools/golden_controlnet.py OUTPUT-FOLDER     write the files
    tools/golden_controlnet.py --check FILE...   hold UNet and ControlNet against such files, and
                                                 against golden/small/unet_*.safetensors

Debian: python3-torch python3-numpy. The generator's sequence and the last bits of sums depend on
PyTorch's version and the processor; those in the repository are from 1.13.
"""
import json
import sys

import torch
import torch.nn.functional as F

import train_demo as td
from controlnet import CONTROL, UNET, ControlNet, UNet, total
from golden_file import config, error, holds, load, main

# As in the real ones, the first has no transformer in its last level and the second none in its
# first. The second has 32 channels throughout, to be small: the hint block alone takes 0.8 MB. No
# level is of 1 or 2 pixels: norms of so few values would magnify what rounding there is.
CONFIGS = {
    "sd1": dict(model_channels=32, channel_mult=[1, 2], num_res_blocks=1, num_heads=4,
                context_dim=48, transformer_depth=[1, 0], transformer_depth_output=[1, 1, 0, 0],
                transformer_depth_middle=1, use_linear_in_transformer=False),
    "sdxl": dict(model_channels=32, channel_mult=[1, 1], num_res_blocks=1, num_head_channels=16,
                 context_dim=64, transformer_depth=[0, 2],
                 transformer_depth_output=[0, 0, 2, 2], transformer_depth_middle=2,
                 use_linear_in_transformer=True, adm_in_channels=48, num_classes="sequential"),
}
CASES = [dict(n=1, h=8, w=12, tokens=77, t=[501.0]),
         dict(n=2, h=8, w=6, tokens=154, t=[37.25, 962.5])]
# SiLU halves what the hint block passes on; residuals should not drown what they are added to.
GAIN = {"input_hint_block": 1.8, "zero_convs": 0.5, "middle_block_out": 0.3}
STRENGTHS = (1.0, 0.6)      # of the two hints in .output_two


def randomize(net, g):
    """Values of a size that keeps activations near 1, rounded to what the file stores. Nothing is
    left at 0, or a mistake behind it could not be seen."""
    for name, p in net.named_parameters():
        r = torch.randn(p.shape, generator=g)
        if p.dim() > 1:
            r = r * GAIN.get(name.split(".")[0], 1.0) / p[0].numel() ** 0.5
        else:
            r = r * 0.1 + (1.0 if is_norm(net, name) else 0.0)
        p.data.copy_(r.half().float())


def is_norm(net, name):
    owner, _, leaf = name.rpartition(".")
    kind = net.get_submodule(owner)
    return leaf == "weight" and isinstance(kind, (torch.nn.GroupNorm, torch.nn.LayerNorm))


def hints(n, h, w, g):
    """A coloured map that varies slowly, and white rectangles' outlines on black."""
    soft = F.interpolate(torch.rand((n, 3, 2 * h, 2 * w), generator=g), scale_factor=4,
                         mode="bilinear", align_corners=False)
    lines = torch.zeros(n, 3, 8 * h, 8 * w)
    for i in range(n):
        top, left, low, right = 5 + 3 * i, 3, 6 * h, 5 * w + i
        lines[i, :, top:low, left] = lines[i, :, top:low, right] = 1
        lines[i, :, top, left:right] = lines[i, :, low, left:right + 1] = 1
    return soft, lines


def inputs(cfg, case, g):
    n, h, w = case["n"], case["h"], case["w"]
    r = lambda *shape: torch.randn(shape, generator=g)
    out = dict(x=r(n, 4, h, w), timesteps=torch.tensor(case["t"]),
               context=r(n, case["tokens"], cfg["context_dim"]))
    out["hint"], out["hint2"] = hints(n, h, w, g)
    if cfg.get("adm_in_channels"):
        out["y"] = r(n, cfg["adm_in_channels"])
    return out


@torch.no_grad()
def outputs(unet, net, i):
    args, y = (i["x"], i["timesteps"], i["context"]), i.get("y")
    out = dict(output=unet(*args, y))
    if net is None:
        return out
    a, b = net(*args, i["hint"], y), net(*args, i["hint2"], y)
    out.update({f"residual.{k}": r for k, r in enumerate(a[:-1])}, **{"residual.middle": a[-1]})
    for s in STRENGTHS:
        out[f"output_{s}"] = unet(*args, y, total((a, s)))
    out["output_two"] = unet(*args, y, total((a, STRENGTHS[0]), (b, STRENGTHS[1])))
    return out


def make(name, seed, folder):
    cfg, g = CONFIGS[name], torch.Generator().manual_seed(seed)
    unet = UNet(cfg)
    randomize(unet, g)
    net = ControlNet(unet)
    randomize(net, g)
    tensors = {UNET + k: v.half() for k, v in unet.state_dict().items()}
    tensors.update({CONTROL + k: v.half() for k, v in net.state_dict().items()})
    for k, case in enumerate(CASES):
        i = inputs(cfg, case, g)
        o = outputs(unet, net, i)
        tensors.update({f"case{k}.{key}": v for key, v in {**i, **o}.items()})
        print(name, f"case{k}:", ", ".join(f"{key} off by {error(o[key], o['output']):.2f}"
                                           for key in o if key.startswith("output_")))
        print("   largest value:", " ".join(f"{key} {v.abs().max():.2f}" for key, v in o.items()))
    path = f"{folder}/controlnet_{name}.safetensors"
    td.st_save(path, tensors, {"config": json.dumps(cfg)})


def make_all(folder):
    for seed, name in enumerate(CONFIGS):
        make(name, 2302 + seed, folder)


def check(path):
    """True when every output in the file is what its inputs give here."""
    t, ok, k = td.st_load(path), True, 0
    unet = load(UNet(config(path)), t, UNET)
    net = ControlNet(unet) if any(key.startswith(CONTROL) for key in t) else None
    if net:
        load(net, t, CONTROL)
    while f"case{k}.x" in t:
        case = {key[len(f"case{k}."):]: v for key, v in t.items() if key.startswith(f"case{k}.")}
        for key, v in outputs(unet, net, case).items():
            ok = holds(path, f"case{k}.{key}", v, case[key]) and ok
        k += 1
    return ok and k > 0


if __name__ == "__main__":
    sys.exit(main(__doc__, make_all, check))
