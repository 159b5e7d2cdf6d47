#!/usr/bin/env python3
"""Makes golden/small/downscale.safetensors: a small random UNet, inputs, and what PyTorch computes
of them in float32 when inner blocks see a smaller picture (Deep Shrink, PatchModelAddDownscale).
golden/README.md lists the tensors.

    tools/golden_downscale.py OUTPUT-FOLDER     write the file
    tools/golden_downscale.py --check FILE...   hold what is computed here against such files

Sizes are written down here for each case, by hand from the rule in engine/models/parts/net_shape.h, so that
they are a test of it. Debian: python3-torch python3-numpy. The generator's sequence and the last
bits of sums depend on PyTorch's version and the processor; the file in the repository is from 1.13.
"""
import json
import sys

import torch
import torch.nn.functional as F

import train_demo as td
from controlnet import UNET, UNet, embed
from golden_controlnet import randomize
from golden_file import cases_hold, config, error, load, main

CONFIG = dict(model_channels=32, channel_mult=[1, 2], num_res_blocks=1, num_heads=4,
              context_dim=48, transformer_depth=[1, 1], transformer_depth_output=[1, 1, 1, 1],
              transformer_depth_middle=1, use_linear_in_transformer=False)
METHODS = ["bicubic", "nearest-exact", "bilinear", "area"]
# downscale: block_number, thousandths of the factor, after_skip, and the methods by their places in
# METHODS. small: what the blocks behind it see. ups: what each output block that doubles its size doubles to.
# Input blocks of the network: a convolution, one of the full size, a down-sampling, an inner one.
CASES = [dict(n=1, h=16, w=16, t=[501.0], downscale=[2, 2000, 1, 0, 0], small=(4, 4), ups=(16, 16)),
         dict(n=2, h=12, w=24, t=[37.25, 962.5], downscale=[1, 1500, 0, 2, 1], small=(8, 16),
              ups=(8, 16)),
         dict(n=2, h=12, w=20, t=[37.25, 962.5], downscale=[3, 2000, 1, 3, 2], small=(3, 5),
              ups=(12, 20)),
         dict(n=1, h=10, w=14, t=[250.0], downscale=[2, 1700, 0, 1, 0], small=(3, 4), ups=(6, 8)),
         dict(n=1, h=8, w=8, t=[250.0], downscale=[3, 500, 1, 0, 3], small=(8, 8), ups=(8, 8)),
         # halves of 5 are 3, of which the next is 5 again
         dict(n=1, h=10, w=12, t=[700.0], downscale=[1, 2000, 0, 2, 0], small=(5, 6), ups=(5, 6)),
         dict(n=1, h=10, w=12, t=[700.0], downscale=[1, 2000, 1, 2, 0], small=(5, 6), ups=(6, 6))]


def resized(h, size, method):
    if tuple(h.shape[-2:]) == tuple(size):
        return h
    extra = {} if METHODS[method] in ("nearest-exact", "area") else {"align_corners": False}
    return F.interpolate(h, size=size, mode=METHODS[method], **extra)


@torch.no_grad()
def output(net, i, case):
    """By the rule; without `case` the plain network."""
    number, _, after, down, up = case["downscale"] if case else (0, 0, 0, 0, 0)
    emb, h, skips = embed(net, i["timesteps"], None), i["x"], []
    for k, block in enumerate(net.input_blocks):
        h = block(h, emb, i["context"])
        skips.append(h)
        if number and k == number:
            h = resized(h, case["small"], down)
            if not after:
                skips[-1] = h
    h = net.middle_block(h, emb, i["context"])
    for block in net.output_blocks:
        skip = skips.pop()
        h = block(torch.cat([resized(h, skip.shape[-2:], up), skip], 1), emb, i["context"])
    return net.out(resized(h, i["x"].shape[-2:], up))


def set_sizes(net, sizes):
    """What the network's up-sampling gives, in place of twice what it gets."""
    def forward(self, x):
        return self.conv(F.interpolate(x, size=sizes or [2 * s for s in x.shape[-2:]],
                                       mode="nearest"))

    for m in net.modules():
        if isinstance(m, td.Upsample):
            m.forward = forward.__get__(m)


def inputs(case, g):
    r = lambda *shape: torch.randn(shape, generator=g)
    return dict(x=r(case["n"], 4, case["h"], case["w"]), timesteps=torch.tensor(case["t"]),
                context=r(case["n"], 77, CONFIG["context_dim"]),
                downscale=torch.tensor(case["downscale"], dtype=torch.float32))


def run(net, i, case):
    set_sizes(net, case["ups"])
    return output(net, i, case)


def make(folder):
    g = torch.Generator().manual_seed(2024)
    net = UNet(CONFIG)
    randomize(net, g)
    tensors = {UNET + k: v.half() for k, v in net.state_dict().items()}
    for k, case in enumerate(CASES):
        i = inputs(case, g)
        i["output"] = run(net, i, case)
        set_sizes(net, (case["h"], case["w"]))
        print(f"case{k}: off by {error(i['output'], output(net, i, None)):.2f} from the full size")
        tensors.update({f"case{k}.{key}": v for key, v in i.items()})
    td.st_save(f"{folder}/downscale.safetensors", tensors, {"config": json.dumps(CONFIG)})


def check(path):
    """True when every output in the file is what its inputs give here."""
    t = td.st_load(path)
    net = load(UNet(config(path)), t, UNET)
    return cases_hold(path, t, CASES, lambda i, case: run(net, i, case))


if __name__ == "__main__":
    sys.exit(main(__doc__, make, check))
