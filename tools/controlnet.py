"""The UNet of Stable Diffusion 1.x, 2.x and XL with ControlNets (Zhang et al. 2023,
arXiv:2302.05543) as PyTorch modules with LDM's names; used by golden_controlnet.py and
train_controlnet.py. Built on the blocks of train_demo.py.

A ControlNet is a copy of the UNet's encoder half and middle that also sees a picture, the
hint: RGB in 0..1, eight times the latent's size, as (N,3,H,W). Its block i gives residual i, its
middle the last one. The UNet adds residual i to skip i where an output block takes it, and the
last one behind its middle; its own encoder sees none of them.
"""
import copy

import torch
import torch.nn as nn

import train_demo as td

UNET, CONTROL = "model.diffusion_model.", "control_model."
HINT = [(3, 16, 1), (16, 16, 1), (16, 32, 2), (32, 32, 1), (32, 96, 2), (96, 96, 1), (96, 256, 2)]


class LinearTransformer(td.SpatialTransformer):
    """As SD 2.x and XL have it: the projections see tokens instead of pixels."""

    def __init__(self, ch, ctx, heads, hd, depth):
        super().__init__(ch, ctx, heads, hd, depth)
        self.proj_in, self.proj_out = nn.Linear(ch, heads * hd), nn.Linear(heads * hd, ch)

    def forward(self, x, c):
        b, ch, h, w = x.shape
        y = self.proj_in(self.norm(x).flatten(2).transpose(1, 2))
        for block in self.transformer_blocks:
            y = block(y, c)
        return self.proj_out(y).transpose(1, 2).reshape(b, ch, h, w) + x


def depths(cfg):
    """Transformer blocks in the input blocks, the middle and the output blocks, all three in the
    order of the input blocks: output blocks take theirs from the end."""
    if isinstance(cfg["transformer_depth"], list):
        return (list(cfg["transformer_depth"]), cfg["transformer_depth_middle"],
                list(cfg["transformer_depth_output"]))
    levels = [cfg["transformer_depth"] * (2 ** i in cfg["attention_resolutions"])
              for i in range(len(cfg["channel_mult"]))]
    n = cfg["num_res_blocks"]
    return ([d for d in levels for _ in range(n)], cfg["transformer_depth"],
            [d for d in levels for _ in range(n + 1)])


class UNet(nn.Module):
    """`cfg` is what __metadata__.config of a checkpoint says of its UNet."""

    def __init__(self, cfg):
        super().__init__()
        self.cfg, mc = cfg, cfg["model_channels"]
        mult, n, emb = cfg["channel_mult"], cfg["num_res_blocks"], 4 * mc
        before, middle, after = depths(cfg)
        mlp = lambda i: nn.Sequential(nn.Linear(i, emb), nn.SiLU(), nn.Linear(emb, emb))
        self.time_embed = mlp(mc)
        if cfg.get("adm_in_channels"):
            self.label_emb = nn.Sequential(mlp(cfg["adm_in_channels"]))
        self.input_blocks = nn.ModuleList([td.Seq(nn.Conv2d(4, mc, 3, padding=1))])
        self.chans, ch = [mc], mc
        for level, m in enumerate(mult):
            for _ in range(n):
                parts = self.parts(ch, emb, m * mc, before.pop(0))
                ch = m * mc
                self.input_blocks.append(td.Seq(*parts))
                self.chans.append(ch)
            if level + 1 < len(mult):
                self.input_blocks.append(td.Seq(td.Downsample(ch)))
                self.chans.append(ch)
        # A depth of -1: the first residual block alone; -2: nothing.
        self.middle_block = td.Seq(*(self.parts(ch, emb, ch, max(middle, 0)) if middle > -2 else []),
                                   *([td.ResBlock(ch, emb, ch)] if middle >= 0 else []))
        self.output_blocks, skips = nn.ModuleList(), list(self.chans)
        for level, m in reversed(list(enumerate(mult))):
            for i in range(n + 1):
                parts = self.parts(ch + skips.pop(), emb, m * mc, after.pop())
                ch = m * mc
                if level and i == n:
                    parts.append(td.Upsample(ch))
                self.output_blocks.append(td.Seq(*parts))
        self.out = nn.Sequential(td.gn(ch), nn.SiLU(), nn.Conv2d(mc, 4, 3, padding=1))

    def parts(self, cin, emb, ch, depth):
        """A residual block, and a transformer behind it unless `depth` is 0."""
        cfg, res = self.cfg, td.ResBlock(cin, emb, ch)
        if not depth:
            return [res]
        dim = cfg.get("num_head_channels", -1)
        heads = ch // dim if dim > 0 else cfg["num_heads"]
        kind = LinearTransformer if cfg.get("use_linear_in_transformer") else td.SpatialTransformer
        return [res, kind(ch, cfg["context_dim"], heads, ch // heads, depth)]

    def forward(self, x, t, context, y=None, residuals=None):
        emb = embed(self, t, y)
        skips, h = [], x
        for block in self.input_blocks:
            h = block(h, emb, context)
            skips.append(h)
        h = self.middle_block(h, emb, context)
        if residuals is not None:
            h = h + residuals[-1]
            skips = [s + r for s, r in zip(skips, residuals)]
        for block in self.output_blocks:
            h = block(torch.cat([h, skips.pop()], 1), emb, context)
        return self.out(h)


def embed(net, t, y):
    emb = net.time_embed(td.timestep_embedding(t, net.cfg["model_channels"]))
    return emb if y is None else emb + net.label_emb(y)


class ControlNet(nn.Module):
    """Starts as a copy of `unet`'s first half, with residuals that are all 0."""

    def __init__(self, unet):
        super().__init__()
        self.cfg, mc = unet.cfg, unet.cfg["model_channels"]
        for name in ("time_embed", "label_emb", "input_blocks", "middle_block"):
            if hasattr(unet, name):
                setattr(self, name, copy.deepcopy(getattr(unet, name)))
        zero = lambda c: td.zero(nn.Conv2d(c, c, 1))
        self.zero_convs = nn.ModuleList([nn.Sequential(zero(c)) for c in unet.chans])
        self.middle_block_out = nn.Sequential(zero(unet.chans[-1]))
        parts = []
        for cin, cout, stride in HINT:
            parts += [nn.Conv2d(cin, cout, 3, stride=stride, padding=1), nn.SiLU()]
        self.input_hint_block = nn.Sequential(
            *parts, td.zero(nn.Conv2d(HINT[-1][1], mc, 3, padding=1)))

    def forward(self, x, t, context, hint, y=None):
        """The residuals at strength 1: one for each input block, the middle's last. There may be
        fewer hints than latents; latent k then sees hint k modulo their number."""
        emb, h, out = embed(self, t, y), x, []
        for i, (block, conv) in enumerate(zip(self.input_blocks, self.zero_convs)):
            h = block(h, emb, context)
            if i == 0:
                seen = self.input_hint_block(hint)
                h = h + seen.repeat(len(h) // len(seen), 1, 1, 1)
            out.append(conv(h))
        return out + [self.middle_block_out(self.middle_block(h, emb, context))]


def total(*scaled):
    """The sum of (residuals, strength) pairs, as several ControlNets act together."""
    lists = [[r * s for r in residuals] for residuals, s in scaled]
    return [sum(rs[1:], rs[0]) for rs in zip(*lists)]
