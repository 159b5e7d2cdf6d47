"""An upscale model of ESRGAN's kind for PyTorch, with the shapes that its file has."""
import os
import re
import sys

import torch
from torch import nn

from checkpoint import Checkpoint

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools"))
from upscale import RRDBNet  # noqa: E402


def count(names, pattern):
    """How many numbers the names have in that place."""
    return len({m[1] for m in (re.match(pattern, name) for name in names) if m})


class Upscaler(nn.Module):
    """Takes pictures (N,H,W,3), as Graft does, and gives such."""

    def __init__(self, path, dtype=torch.float32):
        super().__init__()
        file = Checkpoint(path, "")
        names = [n for n in file.tensors if n != "__metadata__"]
        self.net = RRDBNet(features=file.shape("conv_first.weight")[0],
                           growth=file.shape("body.0.rdb1.conv1.weight")[0],
                           blocks=count(names, r"body\.(\d+)\."),
                           doublings=count(names, r"conv_up(\d+)\."))
        self.net.load_state_dict({name: file.read(name).float() for name in names})
        self.net.to(dtype)

    def forward(self, x):
        x = x.permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last)
        return self.net(x).permute(0, 2, 3, 1)
