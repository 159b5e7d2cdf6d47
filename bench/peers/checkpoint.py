"""Reads safetensors files for PyTorch and makes layers of their tensors."""
import functools

import torch
import torch.nn.functional as F
from torch import nn

from tensors import Tensors

TYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


class Checkpoint(Tensors):
    def read(self, name):
        data = torch.frombuffer(self.bytes(name), dtype=TYPES[self.kind(name)])
        return data.reshape(self.shape(name))


@functools.lru_cache(None)
def group_norm_works():
    """Whether the processor's GroupNorm of channels last is right in bfloat16. PyTorch 1.13 sums up
    in bfloat16, which is a quarter off for 64 x 64 pixels."""
    x = torch.randn(1, 32, 64, 64).contiguous(memory_format=torch.channels_last)
    exact, rounded = F.group_norm(x, 32), F.group_norm(x.bfloat16(), 32)
    return bool((exact - rounded.float()).abs().max() < 0.03 * exact.abs().max())


class GroupNorm(nn.GroupNorm):
    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.works = group_norm_works()

    def forward(self, x):
        if x.is_cuda or x.dtype == torch.float32 or self.works:
            return super().forward(x)
        weight, bias = self.weight.float(), self.bias.float()
        return F.group_norm(x.float(), self.num_groups, weight, bias, self.eps).to(x.dtype)


class Weights:
    """Makes layers of `dtype` from the tensors whose names begin with a prefix."""

    def __init__(self, checkpoint, dtype=torch.float32, prefix=""):
        self.checkpoint, self.dtype, self.prefix = checkpoint, dtype, prefix

    def at(self, name):
        return Weights(self.checkpoint, self.dtype, f"{self.prefix}{name}.")

    def has(self, name):
        return any(k.startswith(self.prefix + name) for k in self.checkpoint.tensors)

    def shape(self, name):
        return self.checkpoint.shape(self.prefix + name)

    def make(self, kind, *sizes, **more):
        """A layer with the file's values. It is made without memory first: random values would
        cost more time than reading."""
        layer = kind(*sizes, **more, device="meta")
        for name, empty in list(layer.named_parameters()):
            value = self.checkpoint.read(self.prefix + name).to(self.dtype).reshape(empty.shape)
            if value.dim() == 4:
                value = value.contiguous(memory_format=torch.channels_last)
            setattr(layer, name, nn.Parameter(value, requires_grad=False))
        return layer

    def linear(self):
        """Also from a convolution of one pixel, which is the same matrix."""
        rows, columns = self.shape("weight")[:2]
        return self.make(nn.Linear, columns, rows, bias=self.has("bias"))

    def conv(self, stride=1):
        rows, columns, side, _ = self.shape("weight")
        return self.make(nn.Conv2d, columns, rows, side, stride, side // 2)

    def group_norm(self, eps=1e-5):
        (channels,) = self.shape("weight")
        return self.make(GroupNorm, min(32, channels), channels, eps)

    def layer_norm(self):
        return self.make(nn.LayerNorm, *self.shape("weight"))
