#!/usr/bin/env python3
"""Makes golden/small/qwen3_vision.safetensors and qwen3_seen.safetensors: a small random network of the
kind that looks at pictures for Qwen 3-VL (arXiv:2511.21631), pictures, and what PyTorch makes of them in
float32; and a small random language model with what stands for pictures among its tokens, and what of
them goes deeper into it. golden/README.md lists the tensors.

    tools/golden_qwen3_vision.py OUTPUT-FOLDER     write the files
    tools/golden_qwen3_vision.py --check FILE...   hold what is computed here against such files

Squares are in the order of the picture here, row by row, and the table of places is stretched as a
picture would be. Debian: python3-torch python3-numpy. The generator's sequence and the last bits of sums
depend on PyTorch's version and the processor; those in the repository are from 1.13.
"""
import json
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

import golden_qwen3 as language
import train_demo as td
from golden_file import config, error, holds, load, main
from golden_qwen_vision import Attention, places, turned

PREFIX, BASE = "visual.", 10000
CONFIG = dict(width=16, heads=2, mlp=20, layers=4, patch=3, side=5, out=12, deep=[1, 3])
# Rows and columns of squares: less than the table's, as many and more, and a row of cells.
PICTURES = [(2, 2), (4, 6), (10, 8), (2, 14)]
TEXT = dict(vocab_size=300, hidden_size=16, intermediate_size=24, num_hidden_layers=4,
            num_attention_heads=2, num_key_value_heads=1, head_dim=32, rope_theta=5e6)
DEEP = 3
# Tokens of text, and in between rows and columns of a picture's cells.
SEEN = [[5, (3, 4), 6], [0, (1, 7), 3, (5, 2), 20, (2, 2), 0]]


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(cfg["width"], 1e-6) for _ in range(2))
        self.attn = Attention(cfg)
        self.mlp = nn.ModuleDict(dict(linear_fc1=nn.Linear(cfg["width"], cfg["mlp"]),
                                      linear_fc2=nn.Linear(cfg["mlp"], cfg["width"])))

    def forward(self, x, angle):
        x = x + self.attn(self.norm1(x), angle, torch.zeros(len(x), len(x), dtype=torch.bool))
        h = F.gelu(self.mlp["linear_fc1"](self.norm2(x)), approximate="tanh")
        return x + self.mlp["linear_fc2"](h)


class Merger(nn.Module):
    """(rows,columns,width) -> (cells,out). Normed square by square, or cell by cell."""

    def __init__(self, cfg, by_cell):
        super().__init__()
        wide = 4 * cfg["width"]
        self.by_cell = by_cell
        self.norm = nn.LayerNorm(wide if by_cell else cfg["width"], 1e-6)
        self.linear_fc1, self.linear_fc2 = nn.Linear(wide, wide), nn.Linear(wide, cfg["out"])

    def forward(self, x):
        rows, columns, width = x.shape
        x = x if self.by_cell else self.norm(x)
        x = x.view(rows // 2, 2, columns // 2, 2, width).permute(0, 2, 1, 3, 4)
        x = x.reshape(rows * columns // 4, 4 * width)
        x = self.norm(x) if self.by_cell else x
        return self.linear_fc2(F.gelu(self.linear_fc1(x)))


class Vision(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        kernel = (2, cfg["patch"], cfg["patch"])
        self.patch_embed = nn.ModuleDict(dict(proj=nn.Conv3d(3, cfg["width"], kernel, kernel)))
        self.pos_embed = nn.Embedding(cfg["side"] ** 2, cfg["width"])
        self.blocks = nn.ModuleList(Block(cfg) for _ in range(cfg["layers"]))
        self.merger = Merger(cfg, False)
        self.deepstack_merger_list = nn.ModuleList(Merger(cfg, True) for _ in cfg["deep"])

    def forward(self, pixels):
        """(3,H,W) -> (1+deep,cells,out): the end's, then what goes deeper."""
        x = self.patch_embed["proj"](torch.stack([pixels, pixels], 1)[None])[0, :, 0]
        width, rows, columns = x.shape
        table = self.pos_embed.weight.view(self.cfg["side"], self.cfg["side"], width).permute(2, 0, 1)
        x = x + F.interpolate(table[None], (rows, columns), mode="bilinear", align_corners=True)[0]
        at = torch.cartesian_prod(torch.arange(rows), torch.arange(columns))
        axis = width // self.cfg["heads"] // 2  # values of a head that turn with each, pairs of halves
        speed = BASE ** (-torch.arange(0, axis, 2, dtype=torch.float64) / axis)
        angle = torch.cat([at[:, :1] * speed, at[:, 1:] * speed], 1)
        x, deeper = x.permute(1, 2, 0).reshape(rows * columns, width), []
        for i, block in enumerate(self.blocks):
            x = block(x, angle)
            if i in self.cfg["deep"]:
                deeper.append(self.deepstack_merger_list[len(deeper)](x.view(rows, columns, width)))
        return torch.stack([self.merger(x.view(rows, columns, width)), *deeper])


def randomize(net, g):
    """Values of a size that keeps activations near 1, rounded to what the file stores."""
    for name, p in net.named_parameters():
        r = torch.randn(p.shape, generator=g)
        if name.endswith("norm.weight") or name.endswith("norm1.weight") or name.endswith("norm2.weight"):
            r = r * 0.3 + 1.0
        elif "pos_embed" in name:
            r = r * 0.7
        else:
            r = r * (0.4 if p.dim() == 1 else 1 / p[0].numel() ** 0.5)
        p.data.copy_(r.half().float())


def make_vision(folder):
    g = torch.Generator().manual_seed(2521)
    net = Vision(CONFIG)
    randomize(net, g)
    tensors = {PREFIX + k: v.half() for k, v in net.state_dict().items()}
    wide = load(Vision(CONFIG), tensors, PREFIX).double()
    for k, (rows, columns) in enumerate(PICTURES):
        pixels = torch.randn((3, rows * CONFIG["patch"], columns * CONFIG["patch"]), generator=g)
        with torch.no_grad():
            seen, exact = net(pixels), wide(pixels.double())
        print(f"vision case{k}: largest value {seen.abs().max():.2f},",
              f"{error(seen, exact):.1g} from float64")
        tensors.update({f"case{k}.pixels": pixels, f"case{k}.seen": seen})
    first, second = CONFIG["deep"]
    told = dict(vision_heads=CONFIG["heads"], vision_deep_first=first,
                vision_deep_step=second - first)
    td.st_save(f"{folder}/qwen3_vision.safetensors", tensors,
               {"config": json.dumps(told), "golden": json.dumps(CONFIG)})


# ---------------------------------------------------------------------- among tokens

def hidden(net, x, parts, deeper):
    """Embeddings (T,width), and (DEEP,T,width) that is added behind the first layers -> (T,width)."""
    at = places(parts).double()

    def turn(v, base):
        d = v.shape[3]
        speed = base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
        share = d // 2 * 5 // 16  # of 64 angles 20 go with the row and 20 with the column
        axis = torch.zeros(d // 2, dtype=torch.long)
        for i in (1, 2):
            axis[i:3 * share:3] = i
        return turned(v[0], at[:, axis] * speed)[None]

    plain, language.turn = language.turn, turn
    x = x[None]
    for i, layer in enumerate(net.model.layers):
        x = layer(x, x.shape[1])
        x = x + deeper[i] if i < len(deeper) else x
    language.turn = plain
    return x[0]


def spread(pictures, deep, tokens):
    """(DEEP,cells,width) of all pictures -> (DEEP,T,width), zeros elsewhere."""
    out, at = torch.zeros(deep.shape[0], tokens, deep.shape[2]), 0
    for begin, rows, columns in pictures:
        out[:, begin:begin + rows * columns] = deep[:, at:at + rows * columns]
        at += rows * columns
    return out


def make_seen(folder):
    g = torch.Generator().manual_seed(2522)
    net = language.Qwen3(TEXT)
    language.randomize(net, g, 0.4)
    tensors = {k: v.half() for k, v in net.state_dict().items()}
    wide = load(language.Qwen3(TEXT), tensors, "").double()
    for k, parts in enumerate(SEEN):
        tokens = len(places(parts))
        ids = torch.randint(TEXT["vocab_size"], (tokens,), generator=g)
        x, pictures, at, seen = net.model.embed_tokens(ids).detach().clone(), [], 0, []
        for part in parts:
            if not isinstance(part, int):
                pictures.append([at, *part])
                seen.append(torch.randn((part[0] * part[1], TEXT["hidden_size"]), generator=g))
                x[at:at + len(seen[-1])] = seen[-1]
            at += part if isinstance(part, int) else part[0] * part[1]
        seen = torch.cat(seen)
        deep = torch.randn((DEEP, *seen.shape), generator=g)
        deeper = spread(pictures, deep, tokens)
        with torch.no_grad():
            whole, exact = hidden(net, x, parts, deeper), hidden(wide, x.double(), parts, deeper)
        print(f"seen case{k}: largest value {whole.abs().max():.2f},",
              f"{error(whole, exact):.1g} from float64")
        tensors.update({f"case{k}.tokens": ids, f"case{k}.pictures": torch.tensor(pictures),
                        f"case{k}.seen": seen, f"case{k}.deep": deep, f"case{k}.whole": whole})
    td.st_save(f"{folder}/qwen3_seen.safetensors", tensors, {"golden": json.dumps(TEXT)})


def make(folder):
    make_vision(folder)
    make_seen(folder)


def check_seen(path, t):
    ok, k = True, 0
    net = load(language.Qwen3(TEXT), {key: v for key, v in t.items() if not key.startswith("case")}, "")
    while f"case{k}.tokens" in t:
        x, at = net.model.embed_tokens(t[f"case{k}.tokens"]).detach().clone(), 0
        pictures = t[f"case{k}.pictures"].tolist()
        for begin, rows, columns in pictures:
            x[begin:begin + rows * columns] = t[f"case{k}.seen"][at:at + rows * columns]
            at += rows * columns
        got = hidden(net, x, SEEN[k], spread(pictures, t[f"case{k}.deep"], len(x)))
        ok = holds(path, f"case{k}", got, t[f"case{k}.whole"]) and ok
        k += 1
    return ok and k > 0


@torch.no_grad()
def check(path):
    """True when every output in the file is what its inputs give here."""
    t, ok, k = td.st_load(path), True, 0
    if "case0.pixels" not in t:
        return check_seen(path, t)
    net = load(Vision(config(path, "golden")), t, PREFIX)
    while f"case{k}.pixels" in t:
        ok = holds(path, f"case{k}", net(t[f"case{k}.pixels"]), t[f"case{k}.seen"]) and ok
        k += 1
    return ok and k > 0


if __name__ == "__main__":
    sys.exit(main(__doc__, make, check))
