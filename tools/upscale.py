"""Networks that enlarge pictures, as PyTorch modules with the names of their authors' files; used by
golden_upscale.py and train_upscale.py. RRDBNet: Wang et al. 2018, arXiv:1809.00219; with an
unshuffled input and the compact SRVGGNet: Wang et al. 2021, arXiv:2107.10833.

Pictures are RGB in 0..1, (N,3,H,W); so are results, `scale` times as large.
"""
import re

import torch
import torch.nn as nn
import torch.nn.functional as F

SLOPE, DAMP = 0.2, 0.2      # of the leaky ReLUs; of what a block adds to its input


def conv3(cin, cout):
    return nn.Conv2d(cin, cout, 3, padding=1)


def lrelu(x):
    return F.leaky_relu(x, SLOPE)


def twice(x):
    return F.interpolate(x, scale_factor=2, mode="nearest")


class DenseBlock(nn.Module):
    """Five convolutions, each of which sees the block's input and all results before its own."""

    def __init__(self, features, growth):
        super().__init__()
        for k in range(5):
            setattr(self, f"conv{k + 1}",
                    conv3(features + k * growth, growth if k < 4 else features))

    def forward(self, x):
        seen = [x]
        for k in range(1, 5):
            seen.append(lrelu(getattr(self, f"conv{k}")(torch.cat(seen, 1))))
        return x + DAMP * self.conv5(torch.cat(seen, 1))


class RRDB(nn.Module):
    def __init__(self, features, growth):
        super().__init__()
        self.rdb1, self.rdb2, self.rdb3 = (DenseBlock(features, growth) for _ in range(3))

    def forward(self, x):
        return x + DAMP * self.rdb3(self.rdb2(self.rdb1(x)))


class RRDBNet(nn.Module):
    """`doublings`: how often the features are enlarged by 2. `unshuffle`: the input's squares of
    that many pixels become channels first, so the picture grows 2 ** doublings / unshuffle times."""

    def __init__(self, features, growth, blocks, doublings=2, unshuffle=1, channels=3):
        super().__init__()
        self.unshuffle, self.doublings = unshuffle, doublings
        self.conv_first = conv3(channels * unshuffle ** 2, features)
        self.body = nn.ModuleList([RRDB(features, growth) for _ in range(blocks)])
        self.conv_body = conv3(features, features)
        for k in range(doublings):
            setattr(self, f"conv_up{k + 1}", conv3(features, features))
        self.conv_hr, self.conv_last = conv3(features, features), conv3(features, channels)

    def forward(self, x):
        if self.unshuffle > 1:
            x = F.pixel_unshuffle(x, self.unshuffle)
        x = first = self.conv_first(x)
        for block in self.body:
            x = block(x)
        x = first + self.conv_body(x)
        for k in range(self.doublings):
            x = lrelu(getattr(self, f"conv_up{k + 1}")(twice(x)))
        return self.conv_last(lrelu(self.conv_hr(x)))


class SRVGGNet(nn.Module):
    """Plain convolutions at the size of the input; what they give is added to the enlarged input."""

    def __init__(self, features, blocks, scale, channels=3):
        super().__init__()
        self.scale = scale
        self.body = nn.ModuleList([conv3(channels, features), nn.PReLU(features)])
        for _ in range(blocks):
            self.body += [conv3(features, features), nn.PReLU(features)]
        self.body.append(conv3(features, channels * scale ** 2))

    def forward(self, x):
        y = x
        for layer in self.body:
            y = layer(y)
        return F.pixel_shuffle(y, self.scale) + F.interpolate(x, scale_factor=self.scale,
                                                              mode="nearest")


def old_name(name, blocks, doublings):
    """The name that the first ESRGAN files have for what `name` is in those of Real-ESRGAN."""
    m = re.fullmatch(r"body\.(\d+)\.rdb(\d)\.conv(\d)\.(\w+)", name)
    if m:
        return "model.1.sub.{}.RDB{}.conv{}.0.{}".format(*m.groups())
    owner, leaf = name.split(".")
    at = {"conv_first": "0", "conv_body": f"1.sub.{blocks}", "conv_hr": str(2 + 3 * doublings),
          "conv_last": str(4 + 3 * doublings)}
    at.update({f"conv_up{k + 1}": str(3 + 3 * k) for k in range(doublings)})
    return f"model.{at[owner]}.{leaf}"


def trunk_name(name):
    """The name in files of ESRGAN's first own code, between the two others."""
    name = re.sub(r"^body\.(\d+)\.rdb", r"RRDB_trunk.\1.RDB", name)
    for a, b in (("conv_body", "trunk_conv"), ("conv_up", "upconv"), ("conv_hr", "HRconv")):
        name = re.sub("^" + a, b, name)
    return name
