#!/usr/bin/env python3
"""Makes golden/small/flux2_vae.safetensors: a small random VAE of FLUX.2's kind in its authors' names,
latents and pictures, and what PyTorch makes of them in float32. golden/README.md lists the tensors.

    tools/golden_flux2_vae.py OUTPUT-FOLDER     write the file
    tools/golden_flux2_vae.py --check FILE...   hold what is computed here against such files

Debian: python3-torch python3-numpy. The generator's sequence and the last bits of sums depend on
PyTorch's version and the processor; the file in the repository is from 1.13.
"""
import json
import sys

import torch
import torch.nn as nn

import train_demo as td
from golden_file import config, error, holds, load, main

EPS = 1e-4  # of the latents' variances
CONFIG = dict(ch=32, ch_mult=[1, 2], num_res_blocks=1, z_channels=32)
CASES = [(1, 4, 6), (2, 3, 2), (1, 8, 5)]  # pictures, and the latent's height and width


class Statistics(nn.Module):
    """Of each plane of a latent."""
    def __init__(self, planes):
        super().__init__()
        self.register_buffer("running_mean", torch.zeros(planes))
        self.register_buffer("running_var", torch.ones(planes))

    def normal(self, x):
        return (x - self.running_mean[:, None, None]) / self.deviation()

    def restored(self, x):
        return x * self.deviation() + self.running_mean[:, None, None]

    def deviation(self):
        return (self.running_var + EPS).sqrt()[:, None, None]


class VAE(nn.Module):
    """Latents have the cells of a square of 2 by 2 as planes: channel by channel, row by row."""
    def __init__(self, cfg):
        super().__init__()
        z = cfg["z_channels"]
        self.encoder, self.decoder = td.Encoder(**cfg), td.Decoder(**cfg)
        self.encoder.quant_conv = nn.Conv2d(2 * z, 2 * z, 1)
        self.decoder.post_quant_conv = nn.Conv2d(z, z, 1)
        self.bn = Statistics(4 * z)
        for m in self.modules():  # the demo's norms compute in float32 whatever they are given
            if isinstance(m, nn.GroupNorm):
                m.__class__ = nn.GroupNorm

    def encode(self, image):
        mean = self.encoder.quant_conv(self.encoder(image)).chunk(2, 1)[0]
        planes = [mean[:, c, y::2, x::2] for c in range(mean.shape[1]) for y in (0, 1)
                  for x in (0, 1)]
        return self.bn.normal(torch.stack(planes, 1))

    def decode(self, latent):
        n, planes, h, w = latent.shape
        latent, z = self.bn.restored(latent), latent.new_empty(n, planes // 4, 2 * h, 2 * w)
        for p in range(planes):
            z[:, p // 4, p // 2 % 2::2, p % 2::2] = latent[:, p]
        return self.decoder(self.decoder.post_quant_conv(z))


def randomize(net, g):
    """Values of a size that keeps activations near 1, rounded to what the file stores."""
    for name, p in net.state_dict().items():
        r = torch.randn(p.shape, generator=g)
        if name.endswith("running_var"):
            r = r.abs() + 0.2
        elif "norm" in name and name.endswith("weight"):
            r = r * 0.3 + 1.0
        elif p.dim() > 1:
            r = r / p[0].numel() ** 0.5
        else:
            r = r * 0.3
        p.data.copy_(r.half().float())


def outputs(net, latent, image):
    with torch.no_grad():
        return dict(decoded=net.decode(latent), encoded=net.encode(image))


def make(folder):
    g = torch.Generator().manual_seed(2602)
    net = VAE(CONFIG)
    randomize(net, g)
    tensors = {k: v.half() for k, v in net.state_dict().items()}
    wide = load(VAE(CONFIG), tensors, "").double()
    side = 2 ** len(CONFIG["ch_mult"])
    for k, (n, h, w) in enumerate(CASES):
        latent = torch.randn((n, 4 * CONFIG["z_channels"], h, w), generator=g)
        image = torch.rand((n, 3, side * h, side * w), generator=g) * 2 - 1
        out, exact = outputs(net, latent, image), outputs(wide, latent.double(), image.double())
        for key, v in out.items():
            print(f"case{k} {key}: largest value {v.abs().max():.2f},",
                  f"{error(v, exact[key]):.1g} from float64")
        tensors.update({f"case{k}.latent": latent, f"case{k}.image": image})
        tensors.update({f"case{k}.{key}": v for key, v in out.items()})
    td.st_save(f"{folder}/flux2_vae.safetensors", tensors, {"golden": json.dumps(CONFIG)})


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
