"""Stable Diffusion 3's network (MMDiT, arXiv:2403.03206) as plain PyTorch, for reference tensors.
Names are those of Stability AI's checkpoints below "model.diffusion_model."; a config says

    depth           blocks
    num_heads, num_head_channels   of every attention; the width is their product
    context_dim     numbers of a text token;  pooled_dim: of the pooled text
    table           rows, and columns, of the table of positions
    qk_norm         RMS norms of queries and keys (SD 3.5)
    dual            first blocks whose pictures have a second attention (SD 3.5 medium)

Real ones: depth 24 (medium) or 38 (large), as many heads of 64, context_dim 4096, pooled_dim 2048.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

CHANNELS, PATCH, WAVES = 16, 2, 256


def mlp(fan_in, hidden, out):
    return nn.Sequential(nn.Linear(fan_in, hidden), nn.SiLU(), nn.Linear(hidden, out))


def waves(t):
    """(N) -> (N,256): cosines, then sines, of t at 128 frequencies from 1 down to almost 1/10000."""
    half = WAVES // 2
    rate = torch.exp(torch.arange(half, dtype=t.dtype) * (-math.log(10000) / half))
    angle = t[:, None] * rate
    return torch.cat([angle.cos(), angle.sin()], 1)


def modulated(x, shift, scale):
    """(N,T,h): a norm without weights, then what the conditioning says, (N,h)."""
    return F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale[:, None]) + shift[:, None]


class RMSNorm(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * (x.square().mean(-1, keepdim=True) + self.eps).rsqrt() * self.weight


class Condition(nn.Module):
    def __init__(self, fan_in, width):
        super().__init__()
        self.mlp = mlp(fan_in, width, width)

    def forward(self, x):
        return self.mlp(x)


class Modulation(nn.Sequential):
    """What a block's parts are told: so many vectors of the width."""

    def __init__(self, width, count):
        super().__init__(nn.SiLU(), nn.Linear(width, count * width))
        self.count = count

    def forward(self, c):
        return super().forward(c).chunk(self.count, 1)


class Attention(nn.Module):
    """The linear layers around an attention; last: its result is used by nobody."""

    def __init__(self, cfg, last=False):
        super().__init__()
        self.heads, width = cfg["num_heads"], cfg["num_heads"] * cfg["num_head_channels"]
        self.qkv = nn.Linear(width, 3 * width)
        if not last:
            self.proj = nn.Linear(width, width)
        self.qk_norm = cfg["qk_norm"]
        if self.qk_norm:
            self.ln_q = RMSNorm(cfg["num_head_channels"])
            self.ln_k = RMSNorm(cfg["num_head_channels"])

    def split(self, x):
        """(N,T,h) -> queries, keys and values, (N,heads,T,d) each."""
        n, tokens, width = x.shape
        parts = self.qkv(x).view(n, tokens, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        return (self.ln_q(q), self.ln_k(k), v) if self.qk_norm else (q, k, v)


def attend(q, k, v):
    """(N,heads,T,d) -> (N,T,heads*d)."""
    share = torch.softmax(q @ k.transpose(2, 3) / math.sqrt(q.shape[-1]), 3)
    return (share @ v).transpose(1, 2).flatten(2)


class MLP(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = self.fc1(x)
        tanh = torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3))
        return self.fc2(0.5 * x * (1 + tanh))


class Stream(nn.Module):
    """One kind of tokens in a block: x_block or context_block."""

    def __init__(self, cfg, last=False, dual=False):
        super().__init__()
        width = cfg["num_heads"] * cfg["num_head_channels"]
        self.last, self.dual = last, dual
        self.adaLN_modulation = Modulation(width, 2 if last else 9 if dual else 6)
        self.attn = Attention(cfg, last)
        if dual:
            self.attn2 = Attention(cfg)
        if not last:
            self.mlp = MLP(width)

    def before(self, x, c):
        """Queries, keys and values for the joint attention, and what after() needs."""
        told = self.adaLN_modulation(c)
        return self.attn.split(modulated(x, *told[:2])), told

    def after(self, x, joint, told):
        if self.last:
            return None
        _, _, gate, shift_mlp, scale_mlp, gate_mlp = told[:6]
        y = x + gate[:, None] * self.attn.proj(joint)
        if self.dual:
            shift2, scale2, gate2 = told[6:]
            own = attend(*self.attn2.split(modulated(x, shift2, scale2)))
            y = y + gate2[:, None] * self.attn2.proj(own)
        return y + gate_mlp[:, None] * self.mlp(modulated(y, shift_mlp, scale_mlp))


class Block(nn.Module):
    def __init__(self, cfg, index):
        super().__init__()
        self.context_block = Stream(cfg, last=index == cfg["depth"] - 1)
        self.x_block = Stream(cfg, dual=index < cfg["dual"])

    def forward(self, context, x, c):
        texts, told_text = self.context_block.before(context, c)
        pictures, told = self.x_block.before(x, c)
        joint = attend(*(torch.cat(pair, 2) for pair in zip(texts, pictures)))
        of_text, of_picture = joint[:, :context.shape[1]], joint[:, context.shape[1]:]
        return (self.context_block.after(context, of_text, told_text),
                self.x_block.after(x, of_picture, told))


class Final(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.adaLN_modulation = Modulation(width, 2)
        self.linear = nn.Linear(width, PATCH * PATCH * CHANNELS)

    def forward(self, x, c):
        return self.linear(modulated(x, *self.adaLN_modulation(c)))


class Patches(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.proj = nn.Conv2d(CHANNELS, width, PATCH, stride=PATCH)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class MMDiT(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        width = cfg["num_heads"] * cfg["num_head_channels"]
        self.table = cfg["table"]
        self.pos_embed = nn.Parameter(torch.zeros(1, self.table ** 2, width))
        self.x_embedder = Patches(width)
        self.t_embedder = Condition(WAVES, width)
        self.y_embedder = Condition(cfg["pooled_dim"], width)
        self.context_embedder = nn.Linear(cfg["context_dim"], width)
        self.joint_blocks = nn.ModuleList(Block(cfg, i) for i in range(cfg["depth"]))
        self.final_layer = Final(width)

    def positions(self, rows, columns):
        """The middle of the table, (1, rows*columns, h)."""
        top, left = (self.table - rows) // 2, (self.table - columns) // 2
        square = self.pos_embed.view(1, self.table, self.table, -1)
        return square[:, top:top + rows, left:left + columns].flatten(1, 2)

    def forward(self, x, timesteps, context, y):
        """Latents (N,16,H,W), (N) in 0..1000, (N,L,context_dim), (N,pooled_dim) -> (N,16,H,W)."""
        n, rows, columns = x.shape[0], x.shape[2] // PATCH, x.shape[3] // PATCH
        c = self.t_embedder(waves(timesteps)) + self.y_embedder(y)
        x = self.x_embedder(x) + self.positions(rows, columns)
        context = self.context_embedder(context)
        for block in self.joint_blocks:
            context, x = block(context, x, c)
        x = self.final_layer(x, c).view(n, rows, columns, PATCH, PATCH, CHANNELS)
        return x.permute(0, 5, 1, 3, 2, 4).reshape(n, CHANNELS, rows * PATCH, columns * PATCH)


FAINT = 0.05        # of what is normalized next


def randomize(net, g, faint):
    """Values of a size that keeps activations near 1, rounded to what a file stores. Nothing is
    left at 0 or 1, or a mistake behind it could not be seen. faint: what the first norms see is so
    small that their epsilon matters."""
    for name, p in net.named_parameters():
        r = torch.randn(p.shape, generator=g)
        if name == "pos_embed":
            r = r * 0.7
        elif p.dim() > 1:
            r = r / p[0].numel() ** 0.5
        elif "ln_" in name:
            r = r * 0.3 + 1.0
        else:
            r = r * (0.4 if "adaLN" in name else 0.1)
        if faint and name.split(".")[0] in ("pos_embed", "x_embedder", "context_embedder"):
            r = r * FAINT
        if faint and ".qkv." in name:
            r[:len(r) // 3 * 2] *= FAINT        # values are not normalized
        p.data.copy_(r.half().float())
