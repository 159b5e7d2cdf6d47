#!/usr/bin/env python3
"""Makes golden/small/freeu.safetensors: a small random UNet, inputs, and what PyTorch computes of
them in float32 without FreeU (Si et al. 2023, arXiv:2309.11497) and with either version of it.
golden/README.md lists the tensors.

    tools/golden_freeu.py OUTPUT-FOLDER     write the file
    tools/golden_freeu.py --check FILE...   hold what is computed here against such files

Debian: python3-torch python3-numpy. The generator's sequence and the last bits of sums depend on
PyTorch's version and the processor; the file in the repository is from 1.13.
"""
import json
import sys

import torch
import torch.nn.functional as F

import train_demo as td
from controlnet import UNET, UNet, embed
from golden_controlnet import randomize
from golden_file import config, error, holds, load, main

# Features of all three kinds come to an output block: of 4 and of 2 times model_channels, and others.
CONFIG = dict(model_channels=32, channel_mult=[1, 2, 4], num_res_blocks=1, num_heads=4,
              context_dim=48, transformer_depth=[0, 1, 0], transformer_depth_output=[0, 0, 1, 1, 0, 0],
              transformer_depth_middle=0, use_linear_in_transformer=False)
# factors: b1, b2, s1, s2. Sides of 9, 5 and 3, of 7, 4 and 2, and so on; the last case ends with one
# of 1, where there is no frequency but 0.
CASES = [dict(n=1, h=9, w=7, tokens=77, t=[501.0], factors=[1.1, 1.2, 0.9, 0.2]),
         dict(n=2, h=12, w=10, tokens=77, t=[37.25, 962.5], factors=[1.3, 1.4, 0.9, 0.2]),
         dict(n=1, h=11, w=4, tokens=154, t=[250.0], factors=[1.7, 0.6, 0.0, 2.5])]


def low_scaled(x, s):
    """x with the four lowest bins of its spectrum, those around the middle once it is shifted there,
    times s."""
    height, width = x.shape[-2:]
    spectrum = torch.fft.fftshift(torch.fft.fftn(x, dim=(-2, -1)), dim=(-2, -1))
    row, column = height // 2, width // 2
    mask = torch.ones(height, width)
    mask[max(row - 1, 0):row + 1, max(column - 1, 0):column + 1] = s
    shifted = torch.fft.ifftshift(spectrum * mask, dim=(-2, -1))
    return torch.fft.ifftn(shifted, dim=(-2, -1)).real


def half_scaled(h, b, version):
    """h with the first half of its channels times b, or by its mean's place in the picture."""
    factor, half = b, h.shape[1] // 2
    if version == 2:
        mean = h.mean(1, keepdim=True)
        low, high = mean.amin((2, 3), keepdim=True), mean.amax((2, 3), keepdim=True)
        factor = (b - 1) * (mean - low) / (high - low) + 1
    return torch.cat([h[:, :half] * factor, h[:, half:]], 1)


@torch.no_grad()
def run(net, i, version):
    emb, context = embed(net, i["timesteps"], None), i["context"]
    b1, b2, s1, s2 = i["factors"].tolist()
    widths = {4 * net.cfg["model_channels"]: (b1, s1), 2 * net.cfg["model_channels"]: (b2, s2)}
    skips, h = [], i["x"]
    for block in net.input_blocks:
        h = block(h, emb, context)
        skips.append(h)
    h = net.middle_block(h, emb, context)
    for block in net.output_blocks:
        skip = skips.pop()
        if version and h.shape[1] in widths:
            b, s = widths[h.shape[1]]
            h, skip = half_scaled(h, b, version), low_scaled(skip, s)
        last = block[-1] if isinstance(block[-1], td.Upsample) else None
        h = td.Seq(*[part for part in block if part is not last])(
            torch.cat([h, skip], 1), emb, context)
        if last:  # odd sides do not double: to that of the next skip connection
            h = last.conv(F.interpolate(h, size=skips[-1].shape[-2:], mode="nearest"))
    return net.out(h)


def outputs(net, i):
    return dict(output=run(net, i, 0), output_v1=run(net, i, 1), output_v2=run(net, i, 2))


def inputs(case, g):
    r = lambda *shape: torch.randn(shape, generator=g)
    return dict(x=r(case["n"], 4, case["h"], case["w"]), timesteps=torch.tensor(case["t"]),
                context=r(case["n"], case["tokens"], CONFIG["context_dim"]),
                factors=torch.tensor(case["factors"]))


def make(folder):
    g = torch.Generator().manual_seed(2309)
    net = UNet(CONFIG)
    randomize(net, g)
    tensors = {UNET + k: v.half() for k, v in net.state_dict().items()}
    for k, case in enumerate(CASES):
        i = inputs(case, g)
        o = outputs(net, i)
        tensors.update({f"case{k}.{key}": v for key, v in {**i, **o}.items()})
        print(f"case{k}:", ", ".join(f"{key} off by {error(o[key], o['output']):.2f}"
                                     for key in o if key != "output"))
    td.st_save(f"{folder}/freeu.safetensors", tensors, {"config": json.dumps(CONFIG)})


def check(path):
    """True when every output in the file is what its inputs give here."""
    t, ok, k = td.st_load(path), True, 0
    net = load(UNet(config(path)), t, UNET)
    while f"case{k}.x" in t:
        case = {key[len(f"case{k}."):]: v for key, v in t.items() if key.startswith(f"case{k}.")}
        for key, v in outputs(net, case).items():
            ok = holds(path, f"case{k}.{key}", v, case[key]) and ok
        k += 1
    return ok and k > 0


if __name__ == "__main__":
    sys.exit(main(__doc__, make, check))
