"""TAESD, the tiny autoencoder (Ollin Boer Bohan, https://github.com/madebyollin/taesd, MIT), as PyTorch
modules with the names of its author's files; used by golden_taesd.py and train_taesd.py.

Pictures are RGB in 0..1, (N,3,H,W). Latents are those that a UNet sees: the VAE's times its scale
factor. The authors' networks have 64 channels and blocks (3,3,3,1), the encoder's the other way round.
"""
import re

import torch
import torch.nn as nn

LATENT = 4  # channels; those of Stable Diffusion 3 and FLUX.1 have 16, a cell of FLUX.2's 32


def conv3(cin, cout, **kw):
    return nn.Conv2d(cin, cout, 3, padding=1, **kw)


class Clamp(nn.Module):
    """Nearly the identity up to 1, never beyond 3."""

    def forward(self, x):
        return torch.tanh(x / 3) * 3


class Block(nn.Module):
    """With a pool (FLUX.2's, at the latent) it sees besides what that makes of all pixels' statistics."""

    def __init__(self, c, pooled=False):
        super().__init__()
        self.pool = nn.Sequential(nn.Conv2d(c, 4 * c, 1, bias=False), nn.GroupNorm(4, 4 * c), nn.ReLU(),
                                  nn.Conv2d(4 * c, c, 1, bias=False)) if pooled else None
        self.conv = nn.Sequential(conv3(c, c), nn.ReLU(), conv3(c, c), nn.ReLU(), conv3(c, c))

    def forward(self, x):
        if self.pool is not None:
            x = x + self.pool(x)
        return torch.relu(self.conv(x) + x)


def decoder(c, blocks, latent=LATENT, pooled=False):
    layers = [Clamp(), conv3(latent, c), nn.ReLU()]
    for i, n in enumerate(blocks):
        layers += [Block(c, pooled and i == 0) for _ in range(n)]
        if i + 1 < len(blocks):
            layers += [nn.Upsample(scale_factor=2), conv3(c, c, bias=False)]
    return nn.Sequential(*layers, conv3(c, 3))


def encoder(c, blocks, latent=LATENT, pooled=False):
    layers = [conv3(3, c)]
    for i, n in enumerate(blocks):
        if i:
            layers.append(conv3(c, c, stride=2, bias=False))
        layers += [Block(c, pooled and i + 1 == len(blocks)) for _ in range(n)]
    return nn.Sequential(*layers, conv3(c, latent))


def diffusers_name(half, name):
    """What diffusers calls the tensor that is `name` in the authors' file of this half: there the clamp
    is no layer, so a decoder's layers have numbers lower by one."""
    number, rest = re.fullmatch(r"(\d+)(\..*)", name).groups()
    return f"{half}.layers.{int(number) - (half == 'decoder')}{rest}"
