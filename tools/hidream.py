"""HiDream-I1's network (arXiv:2505.22705) as plain PyTorch, for reference tensors. Names are those of its
authors' files, which diffusers has, too; a config says

    channels        of the latent
    num_heads, num_head_channels   of every attention; the width is their product
    rope_dim        of a head's numbers, how many turn with the row, and as many with the column
    depth, single   blocks of two streams, then of one
    t5, llama       numbers of a token of either; llama_layers: how many of Llama's layers there are
    pooled          numbers of the pooled prompts
    experts, num_activated_experts   that there are, and that a token goes through
    mlp, shared_mlp, text_mlp        width between the layers of each, of the one that all tokens go
                    through, and of words

Real ones: 16 channels, 20 heads of 128, rope_dim 32, 16 and 32 blocks, t5 and llama 4096, 32 layers,
pooled 2048, 2 of 4 experts, mlp 6912, shared_mlp 3584, text_mlp 6912.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

from mmdit import PATCH, WAVES, RMSNorm, waves

EPS = 1e-6
EPS_HEADS = 1e-5    # of queries and keys
BASE = 10000


def normed(x):
    return F.layer_norm(x, x.shape[-1:], eps=EPS)


def moved(x, shift, scale):
    """(N,T,h) by (N,h)."""
    return normed(x) * (1 + scale[:, None]) + shift[:, None]


class Two(nn.Module):
    def __init__(self, fan_in, out):
        super().__init__()
        self.linear_1, self.linear_2 = nn.Linear(fan_in, out), nn.Linear(out, out)

    def forward(self, x):
        return self.linear_2(F.silu(self.linear_1(x)))


class Below(nn.Module):
    """A module that has one of this name."""

    def __init__(self, name, module):
        super().__init__()
        self.name = name
        self.add_module(name, module)

    def forward(self, *args):
        return self.get_submodule(self.name)(*args)


class Gated(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.w1, self.w3 = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.w2 = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Gate(nn.Module):
    def __init__(self, width, experts):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(experts, width))


class Experts(nn.Module):
    """Each token by itself: it goes through those that it chooses, and through one that all share."""

    def __init__(self, cfg, width):
        super().__init__()
        self.chosen = cfg["num_activated_experts"]
        self.shared_experts = Gated(width, cfg["shared_mlp"])
        self.experts = nn.ModuleList(Gated(width, cfg["mlp"]) for _ in range(cfg["experts"]))
        self.gate = Gate(width, cfg["experts"])

    def forward(self, x):
        flat = x.flatten(0, 1)
        share = torch.softmax(flat @ self.gate.weight.t(), 1)
        self.seen = share       # for those who look at how far apart choices are
        out = self.shared_experts(flat)
        for i, token in enumerate(flat):
            weight, which = share[i].topk(self.chosen)
            for w, e in zip(weight, which):
                out[i] = out[i] + w * self.experts[int(e)](token[None])[0]
        return out.view_as(x)


def turned(x, rows, columns, dim):
    """(N,heads,T,d), of which the first rows * columns tokens are a picture's."""
    half = torch.arange(0, dim, 2, dtype=torch.float64)
    speed = BASE ** (-half / dim)
    row = torch.arange(rows).repeat_interleave(columns)
    column = torch.arange(columns).repeat(rows)
    angle = torch.cat([torch.outer(row, speed), torch.outer(column, speed)], 1)
    cells, d = rows * columns, x.shape[3]
    out = x.clone()
    pairs = x[:, :, :cells, d - 2 * dim:].reshape(*x.shape[:2], cells, dim, 2)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = pairs[..., 0], pairs[..., 1]
    both = torch.stack([a * cos - b * sin, a * sin + b * cos], 4)
    out[:, :, :cells, d - 2 * dim:] = both.flatten(3)
    return out


class Attention(nn.Module):
    """Layers to_q and so on; with two streams also to_q_t and so on, of the words."""

    def __init__(self, cfg, width, kinds):
        super().__init__()
        self.heads, self.dim = cfg["num_heads"], cfg["rope_dim"]
        for kind in kinds:
            for which in ("q", "k", "v", "out"):
                self.add_module(f"to_{which}{kind}", nn.Linear(width, width))
            for which in "qk":
                self.add_module(f"{which}_rms_norm{kind}", RMSNorm(width, EPS_HEADS))

    def split(self, x, kind):
        q, k, v = (self.get_submodule(f"to_{which}{kind}")(x) for which in "qkv")
        q, k = (self.get_submodule(f"{which}_rms_norm{kind}")(part) for which, part in (("q", q), ("k", k)))
        n, tokens, _ = x.shape
        return [part.view(n, tokens, self.heads, -1).transpose(1, 2) for part in (q, k, v)]

    def found(self, q, k, v, rows, columns):
        q, k = (turned(part, rows, columns, self.dim) for part in (q, k))
        share = torch.softmax(q @ k.transpose(2, 3) / q.shape[3] ** 0.5, 3)
        return (share @ v).transpose(1, 2).flatten(2)


class Double(nn.Module):
    def __init__(self, cfg, width):
        super().__init__()
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 12 * width))
        self.attn1 = Attention(cfg, width, ("", "_t"))
        self.ff_i, self.ff_t = Experts(cfg, width), Gated(width, cfg["text_mlp"])

    def forward(self, picture, words, c, rows, columns):
        told = self.adaLN_modulation(c).chunk(12, 1)
        of = told[:6], told[6:]
        cells = self.attn1.split(moved(picture, *of[0][:2]), "")
        texts = self.attn1.split(moved(words, *of[1][:2]), "_t")
        found = self.attn1.found(*(torch.cat(pair, 2) for pair in zip(cells, texts)), rows, columns)
        seen, read = found.split([picture.shape[1], words.shape[1]], 1)
        picture = picture + of[0][2][:, None] * self.attn1.to_out(seen)
        words = words + of[1][2][:, None] * self.attn1.to_out_t(read)
        picture = picture + of[0][5][:, None] * self.ff_i(moved(picture, *of[0][3:5]))
        words = words + of[1][5][:, None] * self.ff_t(moved(words, *of[1][3:5]))
        return picture, words


class Single(nn.Module):
    def __init__(self, cfg, width):
        super().__init__()
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))
        self.attn1 = Attention(cfg, width, ("",))
        self.ff_i = Experts(cfg, width)

    def forward(self, x, c, rows, columns):
        told = self.adaLN_modulation(c).chunk(6, 1)
        found = self.attn1.found(*self.attn1.split(moved(x, *told[:2]), ""), rows, columns)
        x = x + told[2][:, None] * self.attn1.to_out(found)
        return x + told[5][:, None] * self.ff_i(moved(x, *told[3:5]))


class Final(nn.Module):
    def __init__(self, width, out):
        super().__init__()
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 2 * width))
        self.linear = nn.Linear(width, out)

    def forward(self, x, c):
        return self.linear(moved(x, *self.adaLN_modulation(c).chunk(2, 1)))


class HiDream(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        width = cfg["num_heads"] * cfg["num_head_channels"]
        token, blocks = PATCH * PATCH * cfg["channels"], cfg["depth"] + cfg["single"]
        self.cfg = cfg
        self.t_embedder = Below("timestep_embedder", Two(WAVES, width))
        self.p_embedder = Below("pooled_embedder", Two(cfg["pooled"], width))
        self.x_embedder = Below("proj", nn.Linear(token, width))
        self.double_stream_blocks = nn.ModuleList(
            Below("block", Double(cfg, width)) for _ in range(cfg["depth"]))
        self.single_stream_blocks = nn.ModuleList(
            Below("block", Single(cfg, width)) for _ in range(cfg["single"]))
        self.final_layer = Final(width, token)
        self.caption_projection = nn.ModuleList(
            Below("linear", nn.Linear(fan_in, width, bias=False))
            for fan_in in [cfg["llama"]] * blocks + [cfg["t5"]])

    def forward(self, x, timesteps, context, y):
        """Latents (N,c,H,W), (N) in 0..1000, (N,L,t5 + layers*llama), (N,pooled) -> (N,c,H,W), which a
        sampler reads with its sign changed. A token is (row, column, channel)."""
        n, channels, rows, columns = x.shape[0], x.shape[1], x.shape[2] // PATCH, x.shape[3] // PATCH
        c = self.t_embedder(waves(timesteps)) + self.p_embedder(y)
        x = x.view(n, channels, rows, PATCH, columns, PATCH).permute(0, 2, 4, 3, 5, 1)
        x = self.x_embedder(x.flatten(3).flatten(1, 2))
        t5, layers = context[..., :self.cfg["t5"]], context[..., self.cfg["t5"]:]
        layers = layers.split(self.cfg["llama"], 2)
        llama = [self.caption_projection[i](layers[min(i, len(layers) - 1)])
                 for i in range(self.cfg["depth"] + self.cfg["single"])]
        words = torch.cat([self.caption_projection[-1](t5), llama[-1]], 1)
        length = words.shape[1]
        for block, own in zip(self.double_stream_blocks, llama):
            x, words = block(x, torch.cat([words, own], 1), c, rows, columns)
            words = words[:, :length]
        both = torch.cat([x, words], 1)
        for block, own in zip(self.single_stream_blocks, llama[self.cfg["depth"]:]):
            both = block(torch.cat([both, own], 1), c, rows, columns)[:, :both.shape[1]]
        x = self.final_layer(both[:, :rows * columns], c)
        x = x.view(n, rows, columns, PATCH, PATCH, channels)
        return x.permute(0, 5, 1, 3, 2, 4).reshape(n, channels, rows * PATCH, columns * PATCH)


def randomize(net, g):
    """Values of a size that keeps activations near 1, rounded to what a file stores. Nothing is left at 0,
    or a mistake behind it could not be seen. Gates tell experts far enough apart that rounding changes no
    choice."""
    for name, p in net.named_parameters():
        r = torch.randn(p.shape, generator=g)
        if p.dim() > 1:
            r = r / p[0].numel() ** 0.5
        elif name.endswith("norm.weight") or name.endswith("norm_t.weight"):
            r = 1 + r * 0.2
        else:
            r = r * 0.2
        if name.endswith("gate.weight"):
            r = r * 2
        p.data.copy_(r.half().float())
