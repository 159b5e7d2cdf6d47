"""FLUX.1's network (Black Forest Labs, 2024) as plain PyTorch, for reference tensors. Names are those
of its authors' files; a config says

    channels        of the latent
    beside          planes that the network sees beside it (Fill, Canny, Depth)
    num_heads, head_dim   of every attention; the width is their product
    axes            numbers of a head that turn with a token's place along three axes: one that no
                    picture uses, row, column
    depth, single   blocks of two streams, then of one
    context_dim     numbers of a text token;  pooled_dim: of the pooled text
    guidance        whether the network is told the guidance scale (dev; schnell is not)
    words           LongCat-Image's and Ovis-Image's: "apart" or "within", where pictures begin beside
                    the places of a prompt's words; these have no pooled_dim
    gated           Ovis-Image's: whether MLPs are SwiGLU's and prompts normed

Real ones: 16 channels, 24 heads of 128, axes 16, 56, 56, depth 19 and 38, context_dim 4096,
pooled_dim 768. LongCat-Image (Meituan 2025, arXiv:2512.07584; diffusers' transformer_longcat_image.py
and pipelines, Apache-2.0): depth 10 and 20, context_dim 3584. Ovis-Image (its model.py, layers.py and
sampling.py, Apache-2.0): depth 6 and 27, context_dim 2048.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

PATCH, WAVES, THETA = 2, 256, 10000


def waves(t):
    """(N) in 0..1000 -> (N,256): cosines, then sines."""
    half = WAVES // 2
    rate = torch.exp(-math.log(10000) * torch.arange(half, dtype=t.dtype) / half)
    angle = t[:, None] * rate
    return torch.cat([angle.cos(), angle.sin()], 1)


def rotation(places, axes):
    """(T,3) -> complex (T,d/2): the angles of pairs, in float64."""
    angles = []
    for axis, width in enumerate(axes):
        rate = THETA ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
        angles.append(places[:, axis, None] * rate)
    angle = torch.cat(angles, 1)
    return torch.polar(torch.ones_like(angle), angle)


def turn(x, by):
    """(N,heads,T,d), pairs as complex numbers times (T,d/2)."""
    z = torch.view_as_complex(x.double().reshape(*x.shape[:-1], -1, 2).contiguous())
    return torch.view_as_real(z * by).flatten(3).to(x.dtype)


def attend(q, k, v, by):
    """(N,heads,T,d) -> (N,T,heads*d)."""
    q, k = turn(q, by), turn(k, by)
    share = torch.softmax(q @ k.transpose(2, 3) / math.sqrt(q.shape[-1]), 3)
    return (share @ v).transpose(1, 2).flatten(2)


def gelu(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def normed(x, shift, scale):
    return F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale) + shift


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * self.scale


class Norms(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query_norm, self.key_norm = RMSNorm(width), RMSNorm(width)


def split(qkv, heads, norms):
    n, tokens, width = qkv.shape
    q, k, v = qkv.view(n, tokens, 3, heads, width // 3 // heads).permute(2, 0, 3, 1, 4)
    return norms.query_norm(q), norms.key_norm(k), v


class Told(nn.Module):
    """Vectors (N,1,width) from the conditioning."""

    def __init__(self, width, count):
        super().__init__()
        self.lin, self.count = nn.Linear(width, count * width), count

    def forward(self, vec):
        return self.lin(F.silu(vec))[:, None].chunk(self.count, 2)


class Attention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        width = cfg["num_heads"] * cfg["head_dim"]
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm = Norms(cfg["head_dim"])


class Gated(nn.Module):
    """SwiGLU (Shazeer 2020, arXiv:2002.05202)."""

    def __init__(self, width):
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(width, 4 * width), nn.Linear(width, 4 * width)
        self.down_proj = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Plain(nn.Sequential):
    def __init__(self, width):
        super().__init__(nn.Linear(width, 4 * width), nn.Identity(), nn.Linear(4 * width, width))

    def forward(self, x):
        return self[2](gelu(self[0](x)))


class DoubleBlock(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.heads, width = cfg["num_heads"], cfg["num_heads"] * cfg["head_dim"]
        for name in ("img", "txt"):
            setattr(self, name + "_mod", Told(width, 6))
            setattr(self, name + "_attn", Attention(cfg))
            setattr(self, name + "_mlp", Gated(width) if cfg.get("gated") else Plain(width))

    def before(self, name, x, vec):
        told, attn = getattr(self, name + "_mod")(vec), getattr(self, name + "_attn")
        return told, split(attn.qkv(normed(x, told[0], told[1])), self.heads, attn.norm)

    def after(self, name, x, joint, told):
        x = x + told[2] * getattr(self, name + "_attn").proj(joint)
        return x + told[5] * getattr(self, name + "_mlp")(normed(x, told[3], told[4]))

    def forward(self, txt, img, vec, by):
        told_txt, of_txt = self.before("txt", txt, vec)
        told_img, of_img = self.before("img", img, vec)
        joint = attend(*(torch.cat(pair, 2) for pair in zip(of_txt, of_img)), by)
        words = txt.shape[1]
        return (self.after("txt", txt, joint[:, :words], told_txt),
                self.after("img", img, joint[:, words:], told_img))


class SingleBlock(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.heads, width = cfg["num_heads"], cfg["num_heads"] * cfg["head_dim"]
        self.gated = cfg.get("gated", False)
        self.linear1 = nn.Linear(width, (11 if self.gated else 7) * width)
        self.linear2 = nn.Linear(5 * width, width)
        self.norm, self.modulation = Norms(cfg["head_dim"]), Told(width, 3)

    def forward(self, x, vec, by):
        shift, scale, gate = self.modulation(vec)
        width = x.shape[2]
        qkv, *mlp = self.linear1(normed(x, shift, scale)).split([3 * width] + [4 * width] *
                                                                (2 if self.gated else 1), 2)
        joint = attend(*split(qkv, self.heads, self.norm), by)
        mlp = mlp[0] * F.silu(mlp[1]) if self.gated else gelu(mlp[0])
        return x + gate * self.linear2(torch.cat([joint, mlp], 2))


class Embedder(nn.Module):
    def __init__(self, fan_in, width):
        super().__init__()
        self.in_layer, self.out_layer = nn.Linear(fan_in, width), nn.Linear(width, width)

    def forward(self, x):
        return self.out_layer(F.silu(self.in_layer(x)))


class Final(nn.Module):
    def __init__(self, width, out):
        super().__init__()
        self.linear = nn.Linear(width, out)
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 2 * width))

    def forward(self, x, vec):
        shift, scale = self.adaLN_modulation(vec)[:, None].chunk(2, 2)
        return self.linear(normed(x, shift, scale))


def tokens(x):
    """(N,c,H,W) -> (N,T,4c): (channel, row, column) of a square each."""
    return F.unfold(x, PATCH, stride=PATCH).transpose(1, 2)


def grid(x):
    """Places (T,3) of its tokens in a picture of its own."""
    return torch.cartesian_prod(torch.arange(1), torch.arange(x.shape[2] // PATCH),
                                torch.arange(x.shape[3] // PATCH))


def reference_places(pictures, by_index):
    """Where the first token of each reference stands, in tokens. In one place of the first axis they
    lie so that what they cover together stays as close to a square as it can."""
    if by_index:
        return [(1 + i, 0, 0) for i in range(len(pictures))]
    at, height, width = [], 0, 0
    for p in pictures:
        h, w = p.shape[2:]
        top, left = (0, width) if height + h > width + w else (height, 0)
        height, width = max(height, top + h), max(width, left + w)
        at.append((1, math.ceil(top / PATCH), math.ceil(left / PATCH)))
    return at


class Flux(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        width, squares = cfg["num_heads"] * cfg["head_dim"], cfg["channels"] * PATCH ** 2
        self.axes, beside = cfg["axes"], cfg.get("beside", 0) * PATCH ** 2
        self.words = cfg.get("words")
        self.img_in = nn.Linear(squares + beside, width)
        self.txt_in = nn.Linear(cfg["context_dim"], width)
        self.time_in = Embedder(WAVES, width)
        if not self.words:
            self.vector_in = Embedder(cfg["pooled_dim"], width)
        if cfg.get("gated"):
            self.txt_norm = RMSNorm(cfg["context_dim"])
        if cfg["guidance"]:
            self.guidance_in = Embedder(WAVES, width)
        self.double_blocks = nn.ModuleList(DoubleBlock(cfg) for _ in range(cfg["depth"]))
        self.single_blocks = nn.ModuleList(SingleBlock(cfg) for _ in range(cfg["single"]))
        self.final_layer = Final(width, squares)

    def forward(self, x, timesteps, context, y=None, guidance=None, references=(), by_index=False):
        """Latents (N,c+beside,H,W), (N) in 0..1000, (N,L,context_dim), (N,pooled_dim), (N) as
        prompts say it, further latents (N,c,h,w) -> (N,c,H,W)."""
        places, img, length = grid(x), tokens(x), context.shape[1]
        apart = self.words == "apart"
        if apart:
            places = places + torch.tensor((1, length, length))
        at = ([(2 + i, length, length) for i in range(len(references))] if apart else
              reference_places(references, by_index))
        for picture, first in zip(references, at):
            places = torch.cat([places, grid(picture) + torch.tensor(first)])
            img = torch.cat([img, tokens(picture)], 1)
        if hasattr(self, "txt_norm"):
            context = self.txt_norm(context)
        img, txt = self.img_in(img), self.txt_in(context)
        vec = self.time_in(waves(timesteps))
        if y is not None:
            vec = vec + self.vector_in(y)
        if guidance is not None:
            vec = vec + self.guidance_in(waves(guidance * 1000))
        of_words = torch.zeros(length, 3)
        if self.words:
            of_words[:, 1:] = torch.arange(length)[:, None]
        by = rotation(torch.cat([of_words, places]).double(), self.axes)
        for block in self.double_blocks:
            txt, img = block(txt, img, vec, by)
        both = torch.cat([txt, img], 1)
        for block in self.single_blocks:
            both = block(both, vec, by)
        own = x.shape[2] * x.shape[3] // PATCH ** 2
        out = self.final_layer(both[:, txt.shape[1]:][:, :own], vec)
        return F.fold(out.transpose(1, 2), x.shape[2:], PATCH, stride=PATCH)


def randomize(net, g):
    """Values of a size that keeps activations near 1, rounded to what a file stores; nothing is left
    at 0 or 1, or a mistake behind it could not be seen."""
    for name, p in net.named_parameters():
        r = torch.randn(p.shape, generator=g)
        if p.dim() > 1:
            r = r / p[0].numel() ** 0.5
        elif "norm" in name:
            r = r * 0.3 + 1.0
        else:
            r = r * (0.4 if ".lin." in name or "adaLN" in name else 0.1)
        p.data.copy_(r.half().float())
