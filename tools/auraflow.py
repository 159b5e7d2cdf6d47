"""AuraFlow's network (fal and S. Ryu, 2024) as plain PyTorch, for reference tensors. Names are those of
its authors' files as ComfyUI has them; a config says

    channels        of the latent
    num_heads, num_head_channels   of every attention; the width is their product
    mlp             width between the two layers behind attention
    depth, single   blocks of two streams, then of one
    text_width      numbers of a text token
    registers       learnt tokens that stand before them
    table           rows, and columns, of the table of positions

Real ones: 4 channels, 12 heads of 256, mlp 8192, 4 and 32 blocks, text_width 2048, 8 registers, and a
table of 64 (0.1 and 0.2) or 96 (0.3).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

from mmdit import PATCH, WAVES, Condition, attend, waves

EPS = 1e-5


def plain(fan_in, out):
    return nn.Linear(fan_in, out, bias=False)


def normed(x):
    """Without weights, along the last dimension."""
    return F.layer_norm(x, x.shape[-1:], eps=EPS)


def moved(x, shift, scale):
    """(N,T,h) by (N,h)."""
    return x * (1 + scale[:, None]) + shift[:, None]


class Modulation(nn.Sequential):
    def __init__(self, width, count):
        super().__init__(nn.SiLU(), plain(width, count * width))
        self.count = count

    def forward(self, c):
        return super().forward(c).chunk(self.count, 1)


class Attention(nn.Module):
    """Layers w1q, w1k, w1v and w1o; with two streams also w2q and so on, the picture's."""

    def __init__(self, cfg, width, streams):
        super().__init__()
        self.heads = cfg["num_heads"]
        for stream in range(1, streams + 1):
            for which in "qkvo":
                self.add_module(f"w{stream}{which}", plain(width, width))

    def split(self, x, stream):
        """(N,T,h) -> queries, keys and values, (N,heads,T,d) each."""
        n, tokens, _ = x.shape
        q, k, v = (self.get_submodule(f"w{stream}{which}")(x).view(n, tokens, self.heads, -1).transpose(1, 2)
                   for which in "qkv")
        return normed(q), normed(k), v


class MLP(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.c_fc1, self.c_fc2, self.c_proj = plain(width, inner), plain(width, inner), plain(inner, width)

    def forward(self, x):
        return self.c_proj(F.silu(self.c_fc1(x)) * self.c_fc2(x))


def behind(x, found, told, mlp):
    """What is left of a block once its attention's result is there: its MLP sees that, and is added to
    what the block began with."""
    _, _, gate, shift, scale, gate_mlp = told
    within = normed(x + gate[:, None] * found)
    return x + gate_mlp[:, None] * mlp(moved(within, shift, scale))


class Double(nn.Module):
    def __init__(self, cfg, width):
        super().__init__()
        self.modC, self.modX = Modulation(width, 6), Modulation(width, 6)
        self.attn = Attention(cfg, width, 2)
        self.mlpC, self.mlpX = MLP(width, cfg["mlp"]), MLP(width, cfg["mlp"])

    def forward(self, text, picture, c):
        told, shown = self.modC(c), self.modX(c)
        words = self.attn.split(moved(normed(text), *told[:2]), 1)
        cells = self.attn.split(moved(normed(picture), *shown[:2]), 2)
        found = attend(*(torch.cat(pair, 2) for pair in zip(words, cells)))
        of_text, of_picture = found[:, :text.shape[1]], found[:, text.shape[1]:]
        return (behind(text, self.attn.w1o(of_text), told, self.mlpC),
                behind(picture, self.attn.w2o(of_picture), shown, self.mlpX))


class Single(nn.Module):
    def __init__(self, cfg, width):
        super().__init__()
        self.modCX = Modulation(width, 6)
        self.attn = Attention(cfg, width, 1)
        self.mlp = MLP(width, cfg["mlp"])

    def forward(self, x, c):
        told = self.modCX(c)
        found = attend(*self.attn.split(moved(normed(x), *told[:2]), 1))
        return behind(x, self.attn.w1o(found), told, self.mlp)


class AuraFlow(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        width = cfg["num_heads"] * cfg["num_head_channels"]
        self.table, token = cfg["table"], PATCH * PATCH * cfg["channels"]
        self.positional_encoding = nn.Parameter(torch.zeros(1, self.table ** 2, width))
        self.register_tokens = nn.Parameter(torch.zeros(1, cfg["registers"], width))
        self.t_embedder = Condition(WAVES, width)
        self.cond_seq_linear = plain(cfg["text_width"], width)
        self.init_x_linear = nn.Linear(token, width)
        self.double_layers = nn.ModuleList(Double(cfg, width) for _ in range(cfg["depth"]))
        self.single_layers = nn.ModuleList(Single(cfg, width) for _ in range(cfg["single"]))
        self.modF = Modulation(width, 2)
        self.final_linear = plain(width, token)

    def positions(self, rows, columns):
        """Of the table what has its middle cell, or the one behind its middle, as its own."""
        top, left = self.table // 2 - rows // 2, self.table // 2 - columns // 2
        square = self.positional_encoding.view(1, self.table, self.table, -1)
        return square[:, top:top + rows, left:left + columns].flatten(1, 2)

    def forward(self, x, timesteps, context):
        """Latents (N,c,H,W), (N) in 0..1000, (N,L,text_width) -> (N,c,H,W). A token is (channel, row,
        column) going in, and (row, column, channel) coming out."""
        n, channels, rows, columns = x.shape[0], x.shape[1], x.shape[2] // PATCH, x.shape[3] // PATCH
        c = self.t_embedder(waves(timesteps))
        x = x.view(n, channels, rows, PATCH, columns, PATCH).permute(0, 2, 4, 1, 3, 5)
        x = self.init_x_linear(x.flatten(3).flatten(1, 2)) + self.positions(rows, columns)
        text = torch.cat([self.register_tokens.expand(n, -1, -1), self.cond_seq_linear(context)], 1)
        for block in self.double_layers:
            text, x = block(text, x, c)
        both = torch.cat([text, x], 1)
        for block in self.single_layers:
            both = block(both, c)
        x = self.final_linear(moved(both[:, text.shape[1]:], *self.modF(c)))
        x = x.view(n, rows, columns, PATCH, PATCH, channels)
        return x.permute(0, 5, 1, 3, 2, 4).reshape(n, channels, rows * PATCH, columns * PATCH)


FAINT = 0.25        # of what is normalized next


def randomize(net, g, faint):
    """Values of a size that keeps activations near 1, rounded to what a file stores. Nothing is left at 0,
    or a mistake behind it could not be seen. faint: what norms see first is so small that their epsilon
    matters."""
    for name, p in net.named_parameters():
        r = torch.randn(p.shape, generator=g)
        if name in ("positional_encoding", "register_tokens"):
            r = r * 0.7
        elif p.dim() > 1:
            r = r / p[0].numel() ** 0.5
        else:
            r = r * 0.2
        if ".mod" in name:      # gates, which would leave little of what a block adds
            r = r * (1.2 if faint else 2)
        seen_first = ("positional_encoding", "register_tokens", "init_x_linear", "cond_seq_linear")
        if faint and (name.split(".")[0] in seen_first or name.endswith(("q.weight", "k.weight"))):
            r = r * FAINT
        p.data.copy_(r.half().float())
