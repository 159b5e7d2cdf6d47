#!/usr/bin/env python3
"""Makes golden/small/tome.safetensors: a small random UNet, inputs, and what PyTorch computes of
them in float32 when self-attention of the outermost level merges tokens (TomePatchModel).
golden/README.md lists the tensors.

    tools/golden_tome.py OUTPUT-FOLDER     write the file, which takes minutes: see CLEAR
    tools/golden_tome.py --check FILE...   hold what is computed here against such files

The rule is in kernels/ops.def (MATCH_TOKENS) and engine/models/parts/net_shape.h. Debian: python3-torch
python3-numpy. The generator's sequence and the last bits of sums depend on PyTorch's version and
the processor; the file in the repository is from 1.13.
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
              context_dim=48, transformer_depth=[2, 1], transformer_depth_output=[2, 2, 1, 1],
              transformer_depth_middle=1, use_linear_in_transformer=False)
# tome: the ratio. grid: rows and columns of HyperTile's tiles of the outermost level. clear: the
# inputs are such that cosines which decide are as far apart as CLEAR, so that 16 bits decide alike.
CASES = [dict(n=1, h=16, w=16, t=[501.0], tome=0.5, grid=(1, 1)),
         dict(n=2, h=12, w=14, t=[37.25, 962.5], tome=0.3, grid=(1, 1)),
         dict(n=1, h=10, w=8, t=[250.0], tome=1.0, grid=(1, 1)),  # all that may be
         # tiles of 9 x 7, and of 8 x 8
         dict(n=2, h=18, w=14, t=[37.25, 962.5], tome=0.7, hypertile=[56, 1, 0, 0, 0],
              grid=(2, 2)),
         dict(n=1, h=16, w=24, t=[250.0], tome=0.4, hypertile=[64, 1, 0, 0, 0], grid=(2, 3)),
         dict(n=1, h=4, w=4, t=[501.0], tome=0.5, grid=(1, 1), clear=True),
         dict(n=1, h=4, w=6, t=[37.25], tome=0.2, grid=(1, 1), clear=True),
         dict(n=2, h=4, w=4, t=[250.0, 962.5], tome=0.25, grid=(1, 1), clear=True),
         dict(n=1, h=4, w=8, t=[750.0], tome=0.25, hypertile=[32, 1, 0, 0, 0], grid=(1, 2),
              clear=True)]
# In 16 bits tokens are off by some hundredths of their length, in any direction, and so the
# difference of two cosines of 32 numbers by about 0.004 for each of them.
CLEAR = 0.025
closest = []  # of each merge how far apart its cosines are that decide


def mixed(h):
    h = (h ^ h >> 16) * 0x85ebca6b & 0xffffffff
    h = (h ^ h >> 13) * 0xc2b2ae35 & 0xffffffff
    return h ^ h >> 16


def targets(height, width, pattern):
    """Which tokens of a grid others are merged into."""
    out = []
    for cell in range(height // 2 * (width // 2)):
        place = mixed(mixed(pattern + 1) + cell & 0xffffffff) >> 30
        row, column = divmod(cell, width // 2)
        out.append((2 * row + place // 2) * width + 2 * column + place % 2)
    return torch.tensor(sorted(out))


def merged(x, height, width, ratio, pattern):
    """Of x(T,C) how many tokens are left, and (T) to which of them each belongs."""
    tokens = height * width
    target = targets(height, width, pattern)
    source = torch.tensor([i for i in range(tokens) if i not in set(target.tolist())])
    unit = x / x.norm(dim=-1, keepdim=True)
    cosine = unit[source] @ unit[target].T
    best, where = cosine.max(-1)
    order = best.sort(descending=True, stable=True)
    n = int(tokens * ratio)
    merge = order.indices[:n]
    second = cosine.topk(2, -1).values[merge, 1] if len(target) > 1 and n else best[merge] - 1
    apart = [best[merge] - second, order.values[n - 1:n] - order.values[n:n + 1]]
    closest.append(min(a.min().item() for a in apart if a.numel()) if n else 1)
    kept = torch.ones(tokens, dtype=torch.bool)
    kept[source[merge]] = False
    table = kept.cumsum(0) - 1
    table[source[merge]] = table[target[where[merge]]]
    return int(kept.sum()), table


def attend_merged(self, y, height, width):
    """Self-attention of tokens (N,T,C) that are merged before it."""
    out = []
    for row in y:
        left, table = merged(row, height, width, self.ratio, self.pattern)
        few = torch.zeros(left, row.shape[-1]).index_add_(0, table, row)
        few /= table.bincount(minlength=left)[:, None]
        out.append(self.attn1(few[None])[0][table])
    return torch.stack(out)


def attend(self, x, context):
    y, (height, width), (rows, columns) = self.norm1(x), self.size, self.grid
    picture = y.reshape(y.shape[0], height, width, -1)
    out = torch.empty_like(picture)
    high, wide = height // rows, width // columns
    for r in range(rows):
        for c in range(columns):
            part = (slice(None), slice(r * high, (r + 1) * high), slice(c * wide, (c + 1) * wide))
            tile = picture[part]
            tokens = attend_merged(self, tile.flatten(1, 2), high, wide)
            out[part] = tokens.reshape(tile.shape)
    x = out.flatten(1, 2) + x
    x = self.attn2(self.norm2(x), context) + x
    return self.ff(self.norm3(x)) + x


@torch.no_grad()
def output(net, i, case, ratio):
    """With a ratio of 0 attention sees all of a tile's tokens."""
    height, width = i["x"].shape[-2:]
    inputs = len(net.input_blocks)

    def forward(self, x, context):
        for j, block in enumerate(self.transformer_blocks):
            block.forward = types.MethodType(td.BasicTransformerBlock.forward, block)
            if tuple(x.shape[-2:]) != (height, width):
                continue
            block.size, block.grid, block.ratio = (height, width), case["grid"], ratio
            block.pattern = 64 * self.number + j
            block.forward = types.MethodType(attend, block)
        return td.SpatialTransformer.forward(self, x, context)

    for name, m in net.named_modules():
        if isinstance(m, td.SpatialTransformer):
            part, number = name.split(".")[:2]
            m.number = int(number) + (inputs if part == "output_blocks" else 0)
            m.forward = types.MethodType(forward, m)
    return net(i["x"], i["timesteps"], i["context"])


def inputs(case, g):
    r = lambda *shape: torch.randn(shape, generator=g)
    i = dict(x=r(case["n"], 4, case["h"], case["w"]), timesteps=torch.tensor(case["t"]),
             context=r(case["n"], 77, CONFIG["context_dim"]), tome=torch.tensor([case["tome"]]))
    if "hypertile" in case:
        i["hypertile"] = torch.tensor(case["hypertile"], dtype=torch.float32)
    return i


def draw(net, case, g):
    """Inputs of a case with their output, and how far apart cosines are that decide."""
    while True:
        i = inputs(case, g)
        closest.clear()
        i["output"] = output(net, i, case, case["tome"])
        if not case.get("clear"):
            return i, min(closest)
        if min(closest) > CLEAR:
            return {**i, "clear": torch.tensor([min(closest)])}, min(closest)


def make(folder):
    g = torch.Generator().manual_seed(2303)
    net = UNet(CONFIG)
    randomize(net, g)
    tensors = {UNET + k: v.half() for k, v in net.state_dict().items()}
    for k, case in enumerate(CASES):
        i, apart = draw(net, case, g)
        print(f"case{k}: off by {error(i['output'], output(net, i, case, 0)):.2f} from all tokens,",
              f"cosines {apart:.3f} apart")
        tensors.update({f"case{k}.{key}": v for key, v in i.items()})
    td.st_save(f"{folder}/tome.safetensors", tensors, {"config": json.dumps(CONFIG)})


def check(path):
    """True when every output in the file is what its inputs give here."""
    t = td.st_load(path)
    net = load(UNet(config(path)), t, UNET)
    return cases_hold(path, t, CASES, lambda i, case: output(net, i, case, case["tome"]))


if __name__ == "__main__":
    sys.exit(main(__doc__, make, check))
