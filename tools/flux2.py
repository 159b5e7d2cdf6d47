"""FLUX.2's network (Black Forest Labs, 2025) as plain PyTorch, for reference tensors. Names are those
of its single file; a config says

    channels        of the latent, each cell of which is a token
    num_heads, head_dim   of every attention; the width is their product. A quarter of a head turns
                    with each of four axes: picture, row, column, word
    mlp             values behind the gates
    depth, single   blocks of two streams, and of one
    context_dim     numbers of a text token
    guidance        whether it is told the guidance scale

klein of 4 billion weights: 128 channels, 24 heads of 128, mlp 9216, depth 5, single 20, context_dim
7680, no guidance. No layer has a bias.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

WAVES, THETA, AXES, APART = 256, 2000, 4, 10


def waves(t):
    """(N) -> (N,256): cosines, then sines."""
    half = WAVES // 2
    angle = t[:, None] * torch.exp(-math.log(10000) * torch.arange(half, dtype=t.dtype) / half)
    return torch.cat([angle.cos(), angle.sin()], 1)


def rotation(places, head_dim):
    """(T,4) -> complex (T,d/2): the angles of pairs, in float64."""
    width = head_dim // AXES
    rate = THETA ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angle = (places.double()[:, :, None] * rate).flatten(1)
    return torch.polar(torch.ones_like(angle), angle)


def turn(x, by):
    """(N,heads,T,d), pairs as complex numbers times (T,d/2)."""
    z = torch.view_as_complex(x.double().reshape(*x.shape[:-1], -1, 2).contiguous())
    return torch.view_as_real(z * by).flatten(3).to(x.dtype)


def grid(picture, h, w):
    """Places of a picture's cells, row by row."""
    return torch.cartesian_prod(torch.tensor([picture]), torch.arange(h), torch.arange(w),
                                torch.tensor([0]))


def normed(x, vectors):
    """Shifted and scaled by the first two of these."""
    return F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + vectors[1]) + vectors[0]


def swiglu(x):
    gate, value = x.chunk(2, -1)
    return F.silu(gate) * value


def linear(inputs, outputs):
    return nn.Linear(inputs, outputs, bias=False)


class HeadNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * self.scale


class QKNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query_norm, self.key_norm = HeadNorm(width), HeadNorm(width)

    def forward(self, qkv, heads):
        """(N,T,3*width) -> three of (N,heads,T,d)."""
        n, t, _ = qkv.shape
        q, k, v = qkv.view(n, t, 3, heads, -1).permute(2, 0, 3, 1, 4)
        return self.query_norm(q), self.key_norm(k), v


def attention(q, k, v, by):
    """-> (N,T,width)."""
    q, k = turn(q, by), turn(k, by)
    share = torch.softmax(q @ k.transpose(2, 3) / math.sqrt(q.shape[3]), 3)
    return (share @ v).transpose(1, 2).flatten(2)


class Attention(nn.Module):
    """Of one of two streams."""

    def __init__(self, width, head_dim):
        super().__init__()
        self.qkv, self.proj = linear(width, 3 * width), linear(width, width)
        self.norm = QKNorm(head_dim)


class Modulation(nn.Module):
    def __init__(self, width, vectors):
        super().__init__()
        self.vectors, self.lin = vectors, linear(width, vectors * width)

    def forward(self, vec):
        return self.lin(F.silu(vec))[:, None].chunk(self.vectors, 2)


class Double(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.heads, d, mlp = cfg["num_heads"], cfg["head_dim"], cfg["mlp"]
        width = self.heads * d
        for stream in ("img", "txt"):
            setattr(self, stream + "_attn", Attention(width, d))
            setattr(self, stream + "_mlp", nn.Sequential(linear(width, 2 * mlp), nn.Identity(),
                                                         linear(mlp, width)))

    def joins(self, stream, x, branch, vectors):
        mlp = getattr(self, stream + "_mlp")
        x = x + vectors[2] * getattr(self, stream + "_attn").proj(branch)
        return x + vectors[5] * mlp[2](swiglu(mlp[0](normed(x, vectors[3:]))))

    def forward(self, img, txt, of_img, of_txt, by):
        parts = [self.txt_attn.norm(self.txt_attn.qkv(normed(txt, of_txt)), self.heads),
                 self.img_attn.norm(self.img_attn.qkv(normed(img, of_img)), self.heads)]
        both = attention(*(torch.cat(p, 2) for p in zip(*parts)), by)
        words = txt.shape[1]
        return (self.joins("img", img, both[:, words:], of_img),
                self.joins("txt", txt, both[:, :words], of_txt))


class Single(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.heads, mlp = cfg["num_heads"], cfg["mlp"]
        self.width = width = self.heads * cfg["head_dim"]
        self.linear1 = linear(width, 3 * width + 2 * mlp)
        self.linear2 = linear(width + mlp, width)
        self.norm = QKNorm(cfg["head_dim"])

    def forward(self, x, vectors, by):
        qkv, mlp = self.linear1(normed(x, vectors)).tensor_split([3 * self.width], 2)
        branch = torch.cat([attention(*self.norm(qkv, self.heads), by), swiglu(mlp)], 2)
        return x + vectors[2] * self.linear2(branch)


class Embedder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.in_layer, self.out_layer = linear(WAVES, width), linear(width, width)

    def forward(self, t):
        return self.out_layer(F.silu(self.in_layer(waves(t))))


class Final(nn.Module):
    def __init__(self, width, out):
        super().__init__()
        self.linear = linear(width, out)
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), linear(width, 2 * width))

    def forward(self, x, vec):
        return self.linear(normed(x, self.adaLN_modulation(vec)[:, None].chunk(2, 2)))


class Flux2(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.head_dim, width = cfg["head_dim"], cfg["num_heads"] * cfg["head_dim"]
        self.img_in = linear(cfg["channels"], width)
        self.txt_in = linear(cfg["context_dim"], width)
        self.time_in = Embedder(width)
        if cfg["guidance"]:
            self.guidance_in = Embedder(width)
        self.double_stream_modulation_img = Modulation(width, 6)
        self.double_stream_modulation_txt = Modulation(width, 6)
        self.single_stream_modulation = Modulation(width, 3)
        self.double_blocks = nn.ModuleList(Double(cfg) for _ in range(cfg["depth"]))
        self.single_blocks = nn.ModuleList(Single(cfg) for _ in range(cfg["single"]))
        self.final_layer = Final(width, cfg["channels"])

    def forward(self, x, timesteps, context, y=None, references=()):
        """(N,c,h,w), (N) in 0..1000, (N,T,context_dim), (N,1): the guidance scale where it is told one;
        references (N,c,any,any) each -> (N,c,h,w)."""
        (h, w), words = x.shape[2:], context.shape[1]
        vec = self.time_in(timesteps)
        if y is not None:
            vec = vec + self.guidance_in(1000 * y[:, 0])
        pictures = [x, *references]
        places = torch.zeros(words, AXES)
        places[:, 3] = torch.arange(words)
        places = torch.cat([places] + [grid(APART * i, *p.shape[2:])
                                       for i, p in enumerate(pictures)])
        by = rotation(places, self.head_dim)
        img = self.img_in(torch.cat([p.flatten(2).transpose(1, 2) for p in pictures], 1))
        txt = self.txt_in(context)
        of_img = self.double_stream_modulation_img(vec)
        of_txt = self.double_stream_modulation_txt(vec)
        of_both = self.single_stream_modulation(vec)
        for block in self.double_blocks:
            img, txt = block(img, txt, of_img, of_txt, by)
        both = torch.cat([txt, img], 1)
        for block in self.single_blocks:
            both = block(both, of_both, by)
        out = self.final_layer(both[:, words:words + h * w], vec)
        return out.transpose(1, 2).unflatten(2, (h, w))


def randomize(net, g):
    """Values of a size that keeps activations near 1, rounded to what a file stores; nothing is left
    at 0 or 1, or a mistake behind it could not be seen."""
    for name, p in net.named_parameters():
        r = torch.randn(p.shape, generator=g)
        if p.dim() > 1:
            r = r / p.shape[1] ** 0.5
        else:
            r = r * 0.3 + 1.0
        p.data.copy_(r.half().float())
