#!/usr/bin/env python3
"""Makes golden/small/qwen_vision.safetensors and qwen25_seen.safetensors: a small random network of the
kind that looks at pictures for Qwen 2.5-VL (arXiv:2502.13923), pictures, and what PyTorch makes of them
in float32; and a small random language model with what stands for pictures among its tokens.
golden/README.md lists the tensors.

    tools/golden_qwen_vision.py OUTPUT-FOLDER     write the files
    tools/golden_qwen_vision.py --check FILE...   hold what is computed here against such files

Squares are in the order of the picture here, row by row, and attention is masked by the windows that
they are in. Debian: python3-torch python3-numpy. The generator's sequence and the last bits of sums
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
from mmdit import RMSNorm

PREFIX, BASE, WINDOW = "visual.", 10000, 8  # squares a side
CONFIG = dict(width=24, heads=2, mlp=20, layers=3, whole_every=2, patch=3, out=16)
# Rows and columns of squares: less than a window, whole ones, some cut at one side, and at both.
PICTURES = [(2, 4), (8, 16), (10, 8), (20, 14), (6, 26)]
TEXT = dict(vocab_size=300, hidden_size=32, intermediate_size=48, num_hidden_layers=3,
            num_attention_heads=4, num_key_value_heads=2, head_dim=16, attention_bias=True)
# Tokens of text, and in between rows and columns of a picture's cells.
SEEN = [[5, (3, 4), 6], [0, (1, 7), 3, (5, 2), 20, (2, 2), 0]]


def turned(x, angle):
    """(heads,T,d): value i of a head against the one half a head behind it, by (T,d/2)."""
    first, second = x.chunk(2, 2)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], 2)


class Attention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.heads = cfg["heads"]
        self.qkv, self.proj = (nn.Linear(cfg["width"], n * cfg["width"]) for n in (3, 1))

    def forward(self, x, angle, apart):
        tokens, width = x.shape
        q, k, v = self.qkv(x).view(tokens, 3, self.heads, -1).permute(1, 2, 0, 3)
        score = turned(q, angle) @ turned(k, angle).transpose(1, 2) / (width / self.heads) ** 0.5
        share = torch.softmax(score.masked_fill(apart, -torch.inf), 2)
        return self.proj((share @ v).transpose(0, 1).reshape(tokens, width))


class Gated(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(cfg["width"], cfg["mlp"]) for _ in range(2))
        self.down_proj = nn.Linear(cfg["mlp"], cfg["width"])

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.norm1, self.norm2 = RMSNorm(cfg["width"]), RMSNorm(cfg["width"])
        self.attn, self.mlp = Attention(cfg), Gated(cfg)

    def forward(self, x, angle, apart):
        x = x + self.attn(self.norm1(x), angle, apart)
        return x + self.mlp(self.norm2(x))


class Embed(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        kernel = (2, cfg["patch"], cfg["patch"])
        self.proj = nn.Conv3d(3, cfg["width"], kernel, kernel, bias=False)

    def forward(self, pixels):
        """(3,H,W), which both of the two frames are -> (rows,columns,width)."""
        return self.proj(torch.stack([pixels, pixels], 1)[None])[0, :, 0].permute(1, 2, 0)


class Merger(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        wide = 4 * cfg["width"]
        self.ln_q = RMSNorm(cfg["width"])
        self.mlp = nn.Sequential(nn.Linear(wide, wide), nn.GELU(), nn.Linear(wide, cfg["out"]))

    def forward(self, x):
        """(rows,columns,width) -> (cells,out)."""
        rows, columns, width = x.shape
        x = self.ln_q(x).view(rows // 2, 2, columns // 2, 2, width).permute(0, 2, 1, 3, 4)
        return self.mlp(x.reshape(rows * columns // 4, 4 * width))


class Vision(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.patch_embed = Embed(cfg)
        self.blocks = nn.ModuleList(Block(cfg) for _ in range(cfg["layers"]))
        self.merger = Merger(cfg)

    def forward(self, pixels):
        x = self.patch_embed(pixels)
        rows, columns, width = x.shape
        y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij"), x.flatten(0, 1)
        row, column = y[0].flatten(), y[1].flatten()
        axis = width // self.cfg["heads"] // 2  # values of a head that turn with each, pairs of halves
        speed = BASE ** (-torch.arange(0, axis, 2, dtype=torch.float64) / axis)
        angle = torch.cat([row[:, None] * speed, column[:, None] * speed], 1)
        window = row // WINDOW * columns + column // WINDOW
        apart = window[:, None] != window
        for i, block in enumerate(self.blocks):
            whole = (i + 1) % self.cfg["whole_every"] == 0
            x = block(x, angle, apart & (not whole))
        return self.merger(x.view(rows, columns, width))


def randomize(net, g):
    """Values of a size that keeps activations near 1, rounded to what the file stores."""
    for name, p in net.named_parameters():
        r = torch.randn(p.shape, generator=g)
        if "norm" in name or "ln_q" in name:
            r = r * 0.3 + 1.0
        else:
            r = r * (0.4 if p.dim() == 1 else 1 / p[0].numel() ** 0.5)
        p.data.copy_(r.half().float())


def make_vision(folder):
    g = torch.Generator().manual_seed(2513)
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
    told = dict(vision_heads=CONFIG["heads"], vision_whole_every=CONFIG["whole_every"])
    td.st_save(f"{folder}/qwen_vision.safetensors", tensors,
               {"config": json.dumps(told), "golden": json.dumps(CONFIG)})


# ---------------------------------------------------------------------- among tokens

def places(parts):
    """(T,3) of text and of pictures between it, as in SEEN."""
    out, at = [], 0
    for part in parts:
        if isinstance(part, int):
            out.append((at + torch.arange(part))[:, None].expand(-1, 3))
            at += part
        else:
            rows, columns = part
            out.append(at + torch.cartesian_prod(torch.zeros(1, dtype=torch.long), torch.arange(rows),
                                                 torch.arange(columns)))
            at += max(part)
    return torch.cat(out)


def hidden(net, x, parts):
    """Embeddings (T,width) -> (T,width)."""
    at = places(parts).double()

    def turn(v, base):
        d = v.shape[3]
        speed = base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
        first, second = d // 8, d // 2 * 5 // 8  # of 64 angles 16, 24 and 24
        axis = [0] * first + [1] * (second - first) + [2] * (d // 2 - second)
        return turned(v[0], at[:, axis] * speed)[None]

    plain, language.turn = language.turn, turn
    x = x[None]
    for layer in net.model.layers:
        x = layer(x, x.shape[1])
    language.turn = plain
    return net.model.norm(x)[0]


def make_seen(folder):
    g = torch.Generator().manual_seed(2514)
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
        with torch.no_grad():
            normed, exact = hidden(net, x, parts), hidden(wide, x.double(), parts)
        print(f"seen case{k}: largest value {normed.abs().max():.2f},",
              f"{error(normed, exact):.1g} from float64")
        tensors.update({f"case{k}.tokens": ids, f"case{k}.pictures": torch.tensor(pictures),
                        f"case{k}.seen": torch.cat(seen), f"case{k}.normed": normed})
    td.st_save(f"{folder}/qwen25_seen.safetensors", tensors,
               {"config": json.dumps(dict(head_dim=TEXT["head_dim"])), "golden": json.dumps(TEXT)})


def make(folder):
    make_vision(folder)
    make_seen(folder)


def check_seen(path, t):
    ok, k = True, 0
    net = load(language.Qwen3(TEXT), {key: v for key, v in t.items() if not key.startswith("case")}, "")
    while f"case{k}.tokens" in t:
        x, at = net.model.embed_tokens(t[f"case{k}.tokens"]).detach().clone(), 0
        for begin, rows, columns in t[f"case{k}.pictures"].tolist():
            x[begin:begin + rows * columns] = t[f"case{k}.seen"][at:at + rows * columns]
            at += rows * columns
        ok = holds(path, f"case{k}", hidden(net, x, SEEN[k]), t[f"case{k}.normed"]) and ok
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
