#!/usr/bin/env python3
"""Makes golden/small/wan_vae.safetensors and wan_vae_alpha.safetensors: a small random VAE of Wan 2.1's
kind (arXiv:2503.20314), which Qwen-Image has as well, and Qwen-Image-Layered with an alpha channel, in
its authors' names, latents and pictures, and what PyTorch makes of them in float32, with convolutions
over three pictures of which the two before are zeros. golden/README.md lists the tensors.

    tools/golden_wan_vae.py OUTPUT-FOLDER     write the files
    tools/golden_wan_vae.py --check FILE...   hold what is computed here against such files

Debian: python3-torch python3-numpy. The generator's sequence and the last bits of sums depend on
PyTorch's version and the processor; those in the repository are from 1.13.
"""
import json
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

import train_demo as td
from golden_file import config, error, holds, load, main

CONFIGS = {"wan_vae": (2503, dict(dim=8, mult=[1, 2, 2], num_res_blocks=1, z=4)),
           "wan_vae_alpha": (2512, dict(dim=8, mult=[1, 2, 2], num_res_blocks=1, z=4, colours=4))}
# Pictures, and the latent's height and width.
CASES = {"wan_vae": [(1, 4, 6), (2, 3, 2), (1, 8, 5)], "wan_vae_alpha": [(2, 3, 4), (1, 4, 1)]}


class Conv(nn.Conv3d):
    """Over time it sees what was before, of which there is nothing."""
    def __init__(self, inputs, outputs, kernel=3):
        super().__init__(inputs, outputs, kernel)

    def forward(self, x):
        t, side = self.kernel_size[0] - 1, self.kernel_size[1] // 2
        return super().forward(F.pad(x, (side, side, side, side, t, 0)))


class Norm(nn.Module):
    def __init__(self, channels, beyond=3):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(channels, *[1] * beyond))

    def forward(self, x):
        return F.normalize(x, dim=1) * x.shape[1] ** 0.5 * self.gamma


class Residual(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.residual = nn.Sequential(Norm(inputs), nn.SiLU(), Conv(inputs, outputs), Norm(outputs),
                                      nn.SiLU(), nn.Identity(), Conv(outputs, outputs))
        self.shortcut = Conv(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x):
        return self.residual(x) + self.shortcut(x)


class Attention(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = Norm(channels, 2)
        self.to_qkv, self.proj = nn.Conv2d(channels, 3 * channels, 1), nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        y = x[:, :, 0]
        q, k, v = self.to_qkv(self.norm(y)).flatten(2).chunk(3, 1)
        share = torch.softmax(q.transpose(1, 2) @ k / q.shape[1] ** 0.5, 2)
        out = (v @ share.transpose(1, 2)).view(y.shape)
        return x + self.proj(out)[:, :, None]


class Resample(nn.Module):
    """Of a single picture time_conv, where there is one, sees nothing."""
    def __init__(self, channels, up, timed):
        super().__init__()
        if up:
            self.resample = nn.Sequential(nn.Upsample(scale_factor=2, mode="nearest"),
                                          nn.Conv2d(channels, channels // 2, 3, padding=1))
        else:
            self.resample = nn.Sequential(nn.ZeroPad2d((0, 1, 0, 1)),
                                          nn.Conv2d(channels, channels, 3, stride=2))
        if timed:
            self.time_conv = nn.Conv3d(channels, channels * (2 if up else 1), (3, 1, 1))

    def forward(self, x):
        return self.resample(x[:, :, 0])[:, :, None]


def middle(channels):
    return nn.Sequential(Residual(channels, channels), Attention(channels),
                         Residual(channels, channels))


def head(channels, outputs):
    return nn.Sequential(Norm(channels), nn.SiLU(), Conv(channels, outputs))


def colours(cfg):
    return cfg.get("colours", 3)


class Encoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        widths, layers = [cfg["dim"] * m for m in cfg["mult"]], []
        self.conv1, now = Conv(colours(cfg), cfg["dim"]), cfg["dim"]
        for level, width in enumerate(widths):
            for _ in range(cfg["num_res_blocks"]):
                layers.append(Residual(now, width))
                now = width
            if level + 1 < len(widths):
                layers.append(Resample(width, False, level > 0))
        self.downsamples, self.middle = nn.Sequential(*layers), middle(now)
        self.head = head(now, 2 * cfg["z"])

    def forward(self, x):
        return self.head(self.middle(self.downsamples(self.conv1(x))))


class Decoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        widths, layers = [cfg["dim"] * m for m in reversed(cfg["mult"])], []
        self.conv1, now = Conv(cfg["z"], widths[0]), widths[0]
        self.middle = middle(now)
        for level, width in enumerate(widths):
            for _ in range(cfg["num_res_blocks"] + 1):
                layers.append(Residual(now, width))
                now = width
            if level + 1 < len(widths):
                layers.append(Resample(width, True, level + 2 < len(widths)))
                now //= 2
        self.upsamples, self.head = nn.Sequential(*layers), head(now, colours(cfg))

    def forward(self, z):
        return self.head(self.upsamples(self.middle(self.conv1(z))))


class VAE(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.encoder, self.decoder = Encoder(cfg), Decoder(cfg)
        self.conv1, self.conv2 = Conv(2 * cfg["z"], 2 * cfg["z"], 1), Conv(cfg["z"], cfg["z"], 1)

    def encode(self, image):
        return self.conv1(self.encoder(image[:, :, None]))[:, :, 0].chunk(2, 1)[0]

    def decode(self, latent):
        return self.decoder(self.conv2(latent[:, :, None]))[:, :, 0]


def randomize(net, g):
    """Values of a size that keeps activations near 1, rounded to what the file stores. Of kernels over
    time the last third counts."""
    for name, p in net.state_dict().items():
        r = torch.randn(p.shape, generator=g)
        if name.endswith("gamma"):
            r = r * 0.3 + 1.0
        elif p.dim() > 1:
            r = r / (p[0].numel() / (p.shape[2] if p.dim() == 5 else 1)) ** 0.5
        else:
            r = r * 0.3
        p.data.copy_(r.half().float())


def outputs(net, latent, image):
    with torch.no_grad():
        return dict(decoded=net.decode(latent), encoded=net.encode(image))


def make_one(folder, name, seed, cfg):
    g = torch.Generator().manual_seed(seed)
    net = VAE(cfg)
    randomize(net, g)
    tensors = {k: v.half() for k, v in net.state_dict().items()}
    wide = load(VAE(cfg), tensors, "").double()
    side = 2 ** (len(cfg["mult"]) - 1)
    for k, (n, h, w) in enumerate(CASES[name]):
        latent = torch.randn((n, cfg["z"], h, w), generator=g)
        image = torch.rand((n, colours(cfg), side * h, side * w), generator=g) * 2 - 1
        out, exact = outputs(net, latent, image), outputs(wide, latent.double(), image.double())
        for key, v in out.items():
            print(f"{name} case{k} {key}: largest value {v.abs().max():.2f},",
                  f"{error(v, exact[key]):.1g} from float64")
        tensors.update({f"case{k}.latent": latent, f"case{k}.image": image})
        tensors.update({f"case{k}.{key}": v for key, v in out.items()})
    td.st_save(f"{folder}/{name}.safetensors", tensors, {"golden": json.dumps(cfg)})


def make(folder):
    for name, (seed, cfg) in CONFIGS.items():
        make_one(folder, name, seed, cfg)


def check(path):
    """True when every output in the file is what its inputs give here."""
    t, ok, k = td.st_load(path), True, 0
    net = load(VAE(config(path, "golden")),
               {key: v for key, v in t.items() if not key.startswith("case")}, "")
    while f"case{k}.latent" in t:
        for key, v in outputs(net, t[f"case{k}.latent"], t[f"case{k}.image"]).items():
            ok = holds(path, f"case{k} {key}", v, t[f"case{k}.{key}"]) and ok
        k += 1
    return ok and k > 0


if __name__ == "__main__":
    sys.exit(main(__doc__, make, check))
