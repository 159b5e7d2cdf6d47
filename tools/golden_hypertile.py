#!/usr/bin/env python3
"""Makes golden/small/hypertile.safetensors: a small random UNet, inputs, and what PyTorch computes
of them in float32 when self-attention looks at tiles (HyperTile). golden/README.md lists the tensors.

    tools/golden_hypertile.py OUTPUT-FOLDER     write the file
    tools/golden_hypertile.py --check FILE...   hold what is computed here against such files

Grids are written down here for each case, by hand from the rule in engine/models/unets/hypertile.h, so
that they are a test of it. Debian: python3-torch python3-numpy. The generator's sequence and the
last bits of sums depend on PyTorch's version and the processor; the file in the repository is from
1.13.
"""
import json
import sys
import types

import torch

import train_demo as td
from controlnet import UNET, UNet
from golden_controlnet import randomize
from golden_file import cases_hold, config, error, load, main

CONFIG = dict(model_channels=32, channel_mult=[1, 2], num_res_blocks=1, num_heads=4,
              context_dim=48, transformer_depth=[1, 1], transformer_depth_output=[1, 1, 1, 1],
              transformer_depth_middle=1, use_linear_in_transformer=False)
# hypertile: tile_size, swap_size, max_depth, scale_depth, turn. grids: rows and columns of tiles of
# levels, by the level's height and width; middle block and innermost level are the same level.
CASES = [dict(n=1, h=16, w=16, t=[501.0], hypertile=[64, 1, 0, 0, 0], grids={(16, 16): (2, 2)}),
         # heights 4 and 6 of 12 take turns, widths 6 and 4 of 24; below only widths have two sizes
         dict(n=2, h=12, w=24, t=[37.25, 962.5], hypertile=[32, 2, 1, 0, 0],
              grids={(12, 24): (3, 4), (6, 12): (1, 2)}),
         dict(n=2, h=12, w=24, t=[37.25, 962.5], hypertile=[32, 2, 1, 0, 1],
              grids={(12, 24): (2, 6), (6, 12): (1, 3)}),
         # no divisor of 10 from 4 on but 5 and 10; tiles below are 8 cells, of which 5 is none
         dict(n=1, h=10, w=32, t=[250.0], hypertile=[20, 3, 3, 1, 0],
              grids={(10, 32): (2, 4), (5, 16): (1, 1)}),
         dict(n=1, h=10, w=32, t=[250.0], hypertile=[20, 3, 3, 1, 1],
              grids={(10, 32): (1, 2), (5, 16): (1, 2)})]


def attend(self, x, context):
    """A transformer block whose first attention sees one tile at a time."""
    y, (height, width), (rows, columns) = self.norm1(x), self.size, self.grid
    picture = y.reshape(y.shape[0], height, width, -1)
    out = torch.empty_like(picture)
    for r in range(rows):
        for c in range(columns):
            part = (slice(None), slice(r * height // rows, (r + 1) * height // rows),
                    slice(c * width // columns, (c + 1) * width // columns))
            tile = picture[part]
            out[part] = self.attn1(tile.flatten(1, 2)).reshape(tile.shape)
    x = out.flatten(1, 2) + x
    x = self.attn2(self.norm2(x), context) + x
    return self.ff(self.norm3(x)) + x


@torch.no_grad()
def output(net, i, grids):
    def forward(self, x, context):
        for block in self.transformer_blocks:
            block.size = tuple(x.shape[-2:])
            block.grid = grids.get(block.size, (1, 1))
            block.forward = types.MethodType(attend, block)
        return td.SpatialTransformer.forward(self, x, context)

    for m in net.modules():
        if isinstance(m, td.SpatialTransformer):
            m.forward = types.MethodType(forward, m)
    return net(i["x"], i["timesteps"], i["context"])


def inputs(case, g):
    r = lambda *shape: torch.randn(shape, generator=g)
    return dict(x=r(case["n"], 4, case["h"], case["w"]), timesteps=torch.tensor(case["t"]),
                context=r(case["n"], 77, CONFIG["context_dim"]),
                hypertile=torch.tensor(case["hypertile"], dtype=torch.float32))


def make(folder):
    g = torch.Generator().manual_seed(2023)
    net = UNet(CONFIG)
    randomize(net, g)
    tensors = {UNET + k: v.half() for k, v in net.state_dict().items()}
    for k, case in enumerate(CASES):
        i = inputs(case, g)
        i["output"] = output(net, i, case["grids"])
        print(f"case{k}: off by {error(i['output'], output(net, i, {})):.2f} from the whole picture")
        tensors.update({f"case{k}.{key}": v for key, v in i.items()})
    td.st_save(f"{folder}/hypertile.safetensors", tensors, {"config": json.dumps(CONFIG)})


def check(path):
    """True when every output in the file is what its inputs give here."""
    t = td.st_load(path)
    net = load(UNet(config(path)), t, UNET)
    return cases_hold(path, t, CASES, lambda i, case: output(net, i, case["grids"]))


if __name__ == "__main__":
    sys.exit(main(__doc__, make, check))
