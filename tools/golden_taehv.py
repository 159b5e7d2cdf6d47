#!/usr/bin/env python3
"""Makes golden/small/taew.safetensors: a small random TAEHV for Wan 2.1's latents (Ollin Boer Bohan,
https://github.com/madebyollin/taehv, MIT) in its author's names, latents and pictures, and what
PyTorch makes of them in float64, as of a video: a latent becomes four pictures, of which the last
counts, and a picture is seen as four. golden/README.md lists the tensors.

    tools/golden_taehv.py OUTPUT-FOLDER     write the file
    tools/golden_taehv.py --check FILE...   hold what is computed here against such files

Debian: python3-torch python3-numpy. The generator's sequence depends on PyTorch's version; the file
in the repository is from 1.13.
"""
import json
import sys

import torch
import torch.nn as nn

import train_demo as td
from golden_file import config, holds, main
from taesd import Clamp, conv3

CONFIG = dict(decoder=[20, 12, 8, 10], encoder=12, blocks=[[3, 2, 3, 0], [0, 3, 1, 2]], latent=16,
              grows=[1, 2, 2], pools=[2, 2, 1])
CASES = [dict(n=1, h=4, w=4), dict(n=2, h=5, w=3), dict(n=1, h=1, w=2)]
ALIKE = 4


class MemBlock(nn.Module):
    """Sees a picture and what it saw of the one before, of which there is none before the first."""
    def __init__(self, c):
        super().__init__()
        self.conv = nn.Sequential(conv3(2 * c, c), nn.ReLU(), conv3(c, c), nn.ReLU(), conv3(c, c))

    def forward(self, x):
        before = torch.cat([torch.zeros_like(x[:1]), x[:-1]])
        return torch.relu(self.conv(torch.cat([x, before], 1)) + x)


class Pointwise(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 1, bias=False)


class TGrow(Pointwise):
    """Pictures one behind the other are a batch: of each it makes so many."""
    def __init__(self, c, times):
        super().__init__(c, c * times)

    def forward(self, x):
        return self.conv(x).reshape(-1, *x.shape[1:])


class TPool(Pointwise):
    def __init__(self, c, times):
        super().__init__(c * times, c)
        self.times = times

    def forward(self, x):
        return self.conv(x.reshape(-1, self.times * x.shape[1], *x.shape[2:]))


def decoder(cfg):
    c, layers = cfg["decoder"], [Clamp(), conv3(cfg["latent"], cfg["decoder"][0]), nn.ReLU()]
    for i, n in enumerate(cfg["blocks"][0]):
        layers += [MemBlock(c[i]) for _ in range(n)]
        if i + 1 < len(c):
            layers += [nn.Upsample(scale_factor=2), TGrow(c[i], cfg["grows"][i]),
                       conv3(c[i], c[i + 1], bias=False)]
    return nn.Sequential(*layers, nn.ReLU(), conv3(c[-1], 3))


def encoder(cfg):
    c, layers = cfg["encoder"], [conv3(3, cfg["encoder"]), nn.ReLU()]
    for i, n in enumerate(cfg["blocks"][1]):
        if i:
            layers += [TPool(c, cfg["pools"][i - 1]), conv3(c, c, stride=2, bias=False)]
        layers += [MemBlock(c) for _ in range(n)]
    return nn.Sequential(*layers, conv3(c, cfg["latent"]))


def networks(cfg):
    return {"decoder": decoder(cfg).double(), "encoder": encoder(cfg).double()}


def randomize(net, g):
    """Values of a size that keeps activations near 1, rounded to what the file stores."""
    for name, p in net.named_parameters():
        r = torch.randn(p.shape, generator=g)
        if p.dim() > 1:
            r = r * (2 / p[0].numel()) ** 0.5 * (0.4 if ".conv.4." in name else 1.0)
        p.data.copy_((r * (1.0 if p.dim() > 1 else 0.1)).half())


@torch.no_grad()
def result(half, net, x):
    """Of a batch of latents or pictures, each by itself."""
    if half == "decoder":
        made = [net(one[None].double()) for one in x]
    else:
        made = [net(one[None].double().repeat(ALIKE, 1, 1, 1)) for one in x]
    assert all(len(m) == (4 if half == "decoder" else 1) for m in made)
    return torch.stack([m[-1] for m in made]).float()


GIVEN = dict(decoder=("latent", "decoded"), encoder=("image", "moments"))


def make(folder):
    g, tensors = torch.Generator().manual_seed(2411), {}
    for half, net in networks(CONFIG).items():
        randomize(net, g)
        tensors.update({f"{half}.{k}": v.half() for k, v in net.state_dict().items()})
        for k, case in enumerate(CASES):
            n, h, w = case["n"], case["h"], case["w"]
            x = torch.randn((n, CONFIG["latent"], h, w), generator=g) * 2 if half == "decoder" else \
                torch.rand((n, 3, 8 * h, 8 * w), generator=g)
            given, made = (f"case{k}.{name}" for name in GIVEN[half])
            tensors[given], tensors[made] = x, result(half, net, x)
            print(made, f"largest value {tensors[made].abs().max():.2f}")
    td.st_save(f"{folder}/taew.safetensors", tensors, {"golden": json.dumps(CONFIG)})


def check(path):
    """True when every output in the file is what its inputs give here."""
    t, ok = td.st_load(path), True
    for half, net in networks(config(path, "golden")).items():
        net.load_state_dict({k: t[f"{half}.{k}"].double() for k in net.state_dict()})
        for k in range(len(CASES)):
            given, made = (f"case{k}.{name}" for name in GIVEN[half])
            ok = holds(path, made, result(half, net, t[given]), t[made]) and ok
    return ok


if __name__ == "__main__":
    sys.exit(main(__doc__, make, check))
