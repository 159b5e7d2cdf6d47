"""The decoder of Stable Diffusion's VAE as plain PyTorch modules with the checkpoints' names."""
import torch
import torch.nn.functional as F
from torch import nn

import attention
from checkpoint import Checkpoint, Weights

PREFIX = "first_stage_model."
EPS = 1e-6


class Res(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.norm1, self.conv1 = w.at("norm1").group_norm(EPS), w.at("conv1").conv()
        self.norm2, self.conv2 = w.at("norm2").group_norm(EPS), w.at("conv2").conv()
        self.skip = w.at("nin_shortcut").conv() if w.has("nin_shortcut.") else None

    def forward(self, x):
        h = self.conv1(F.silu(self.norm1(x)))
        h = self.conv2(F.silu(self.norm2(h)))
        return h + (self.skip(x) if self.skip is not None else x)


class Attention(nn.Module):
    """Over all pixels, with a single head."""

    def __init__(self, w):
        super().__init__()
        self.norm, self.fastest = w.at("norm").group_norm(EPS), attention.fastest(w.dtype)
        self.q, self.k, self.v = (w.at(n).linear() for n in ("q", "k", "v"))
        self.out = w.at("proj_out").linear()

    def forward(self, x):
        n, c, h, width = x.shape
        y = self.norm(x).permute(0, 2, 3, 1).reshape(n, 1, h * width, c)
        y = self.out(attention.attend(self.q(y), self.k(y), self.v(y), self.fastest))
        return x + y.reshape(n, h, width, c).permute(0, 3, 1, 2)


class Up(nn.Module):
    def __init__(self, conv):
        super().__init__()
        self.conv = conv

    def forward(self, x):
        return self.conv(F.interpolate(x, scale_factor=2.0, mode="nearest"))


class Decoder(nn.Module):
    """Takes latents (N,z,h,w), divided by the scale factor; gives (N,8h,8w,3), about -1..1."""

    def __init__(self, path, dtype=torch.float32):
        super().__init__()
        root = Weights(Checkpoint(path, PREFIX), dtype)
        w = root.at("decoder")
        parts = [root.at("post_quant_conv").conv()] if root.has("post_quant_conv.") else []
        parts += [w.at("conv_in").conv(), Res(w.at("mid.block_1")), Attention(w.at("mid.attn_1")),
                  Res(w.at("mid.block_2"))]
        level = 0
        while w.has(f"up.{level + 1}."):
            level += 1
        for i in range(level, -1, -1):
            up, block = w.at(f"up.{i}"), 0
            while up.has(f"block.{block}."):
                parts.append(Res(up.at(f"block.{block}")))
                block += 1
            if i > 0:
                parts.append(Up(up.at("upsample.conv").conv()))
        self.parts = nn.ModuleList(parts)
        self.norm, self.conv = w.at("norm_out").group_norm(EPS), w.at("conv_out").conv()

    def forward(self, x):
        for p in self.parts:
            x = p(x)
        return self.conv(F.silu(self.norm(x))).permute(0, 2, 3, 1)
