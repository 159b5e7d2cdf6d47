"""Stable Diffusion 3's transformer for PyTorch, with the shapes that its file has."""
import os
import sys

import torch
import torch.nn.functional as F
from torch import nn

import attention
from checkpoint import Checkpoint

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools"))
import mmdit  # noqa: E402


class MLP(nn.Module):
    """With PyTorch's own GELU, which is faster than the formula that reference tensors have."""

    def __init__(self, fc1, fc2):
        super().__init__()
        self.fc1, self.fc2 = fc1, fc2

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x), approximate="tanh"))


class Timesteps(nn.Module):
    """Their waves are float32; what follows has the network's type."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x.to(self.inner.mlp[0].weight.dtype))


def config_of(file):
    def blocks(part):
        n = 0
        while f"joint_blocks.{n}.x_block.{part}" in file.tensors:
            n += 1
        return n

    width = file.shape("x_embedder.proj.weight")[0]
    normed = "joint_blocks.0.x_block.attn.ln_q.weight"
    head = (file.shape(normed)[0] if normed in file.tensors
            else file.config.get("num_head_channels", 64))
    return {"depth": blocks("attn.qkv.weight"), "num_heads": width // head,
            "num_head_channels": head, "context_dim": file.shape("context_embedder.weight")[1],
            "pooled_dim": file.shape("y_embedder.mlp.0.weight")[1],
            "table": round(file.shape("pos_embed")[1] ** 0.5), "qk_norm": normed in file.tensors,
            "dual": blocks("attn2.qkv.weight")}


def empty(cfg, dtype):
    """A network of values that are still to come: random ones would cost time and memory."""
    made = [(kind, kind.reset_parameters) for kind in (nn.Linear, nn.Conv2d)]
    default = torch.get_default_dtype()
    try:
        torch.set_default_dtype(dtype)
        for kind, _ in made:
            kind.reset_parameters = lambda self: None
        return mmdit.MMDiT(cfg)
    finally:
        torch.set_default_dtype(default)
        for kind, reset in made:
            kind.reset_parameters = reset


class Transformer(nn.Module):
    def __init__(self, path, dtype=torch.float32):
        super().__init__()
        file = Checkpoint(path, mmdit.PREFIX)
        self.config = config_of(file)
        self.net = empty(self.config, dtype)
        for name, value in self.net.named_parameters():
            value.data.copy_(file.read(name))
        best = attention.fastest(dtype)
        mmdit.attend = lambda q, k, v: attention.attend(q, k, v, best).transpose(1, 2).flatten(2)
        self.net.t_embedder = Timesteps(self.net.t_embedder)
        for stream in [m for m in self.net.modules() if isinstance(m, mmdit.Stream)]:
            if hasattr(stream, "mlp"):
                stream.mlp = MLP(stream.mlp.fc1, stream.mlp.fc2)

    def forward(self, x, timesteps, context, y):
        return self.net(x, timesteps, context, y)
