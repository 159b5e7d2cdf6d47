#!/usr/bin/env python3
"""Makes golden/small/ip_*.safetensors: small random UNets, each with an IP-Adapter (Ye et al. 2023,
arXiv:2308.06721), plain or "plus", and an encoder of pictures, inputs, and what PyTorch computes of
them in float32. golden/README.md lists the tensors.

    tools/golden_ip_adapter.py OUTPUT-FOLDER     write the files
    tools/golden_ip_adapter.py --check FILE...   hold what is computed here against such files

Debian: python3-torch python3-numpy. The generator's sequence and the last bits of sums depend on
PyTorch's version and the processor; the files in the repository are from 1.13.
"""
import json
import sys
import types

import torch
import torch.nn as nn
import torch.nn.functional as F

import golden_vision as vision
import train_demo as td
from controlnet import UNET, UNet
from golden_controlnet import randomize
from golden_file import config, error, holds, load, main

SD1 = dict(model_channels=32, channel_mult=[1, 2], num_res_blocks=1, num_heads=4, context_dim=24,
           transformer_depth=[1, 0], transformer_depth_output=[1, 1, 0, 0],
           transformer_depth_middle=1, use_linear_in_transformer=False)
SDXL = dict(model_channels=32, channel_mult=[1, 1], num_res_blocks=1, num_head_channels=16,
            context_dim=40, transformer_depth=[0, 1], transformer_depth_output=[0, 0, 2, 1],
            transformer_depth_middle=1, use_linear_in_transformer=True, adm_in_channels=48,
            num_classes="sequential")
CLIP = dict(kind="clip", width=64, mlp=80, layers=2, patch=4, grid=3, projection=24)
PLUS = dict(depth=2, hidden=48, heads=2, queries=5)
CONFIGS = {"ip_sd1": (SD1, None), "ip_sd1_plus": (dict(SD1, channel_mult=[1, 1]), PLUS),
           "ip_sdxl": (SDXL, None), "ip_sdxl_plus": (SDXL, PLUS)}
# rows: of the batch, the first `positive` of which see the pictures and the others what stands for
# none, or, where there are any, the negative ones.
CASES = [dict(rows=2, positive=1, h=8, w=12, pictures=1, negative=0, weight=0.7, t=[501.0, 501.0]),
         dict(rows=3, positive=2, h=8, w=6, pictures=2, negative=1, weight=-0.4,
              t=[37.25, 962.5, 500.0])]
TOKENS = 4
SHAPE = dict(n=1, h=17, w=21, crop=1)


class Plain(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.proj = nn.Linear(CLIP["projection"], TOKENS * width)
        self.norm = nn.LayerNorm(width)

    def forward(self, seen):
        return self.norm(self.proj(seen).view(len(seen), TOKENS, -1))


class Look(nn.Module):
    """Queries that look at tokens, and at each other."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, inner = heads, 64 * heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.to_q = nn.Linear(width, inner, bias=False)
        self.to_kv = nn.Linear(width, 2 * inner, bias=False)
        self.to_out = nn.Linear(inner, width, bias=False)

    def forward(self, tokens, queries):
        own = self.norm2(queries)
        keys, values = self.to_kv(torch.cat([self.norm1(tokens), own], 1)).chunk(2, 2)
        return self.to_out(attend(self.to_q(own), keys, values, self.heads))


class Resampler(nn.Module):
    def __init__(self, width, depth, hidden, heads, queries):
        super().__init__()
        self.latents = nn.Parameter(torch.zeros(1, queries, hidden))
        self.proj_in, self.proj_out = nn.Linear(CLIP["width"], hidden), nn.Linear(hidden, width)
        self.norm_out = nn.LayerNorm(width)
        mlp = lambda: nn.Sequential(nn.LayerNorm(hidden), nn.Linear(hidden, 4 * hidden, bias=False),
                                    nn.GELU(), nn.Linear(4 * hidden, hidden, bias=False))
        self.layers = nn.ModuleList(nn.ModuleList([Look(hidden, heads), mlp()])
                                    for _ in range(depth))

    def forward(self, seen):
        tokens, h = self.proj_in(seen), self.latents.expand(len(seen), -1, -1)
        for look, mlp in self.layers:
            h = h + look(tokens, h)
            h = h + mlp(h)
        return self.norm_out(self.proj_out(h))


def attend(q, k, v, heads):
    split = lambda t: t.view(t.shape[0], t.shape[1], heads, -1).transpose(1, 2)
    q, k, v = split(q), split(k), split(v)
    share = torch.softmax(q @ k.transpose(2, 3) / q.shape[3] ** 0.5, 3)
    return (share @ v).transpose(1, 2).flatten(2)


def crossings(unet):
    """The cross-attentions as files number them: those of the input blocks, the output blocks and
    the middle, each behind a self-attention of its own number."""
    parts = [unet.input_blocks, unet.output_blocks, unet.middle_block]
    return [m.attn2 for part in parts for m in part.modules()
            if isinstance(m, td.BasicTransformerBlock)]


class Adapter(nn.Module):
    def __init__(self, cfg, plus, unet):
        super().__init__()
        width = cfg["context_dim"]
        self.image_proj = Resampler(width, **plus) if plus else Plain(width)
        layers = {}
        for i, attn in enumerate(crossings(unet)):
            make = lambda: nn.Linear(width, attn.to_q.out_features, bias=False)
            layers[str(2 * i + 1)] = nn.ModuleDict({"to_k_ip": make(), "to_v_ip": make()})
        self.ip_adapter = nn.ModuleDict(layers)


def watching(attn, layer, tokens, weight):
    """The attention with pictures' tokens (N,T,C) beside its context."""
    def forward(self, x, c):
        q = self.to_q(x)
        out = attend(q, self.to_k(c), self.to_v(c), self.heads)
        more = attend(q, layer["to_k_ip"](tokens), layer["to_v_ip"](tokens), self.heads)
        return self.to_out(out + weight * more)
    attn.forward = types.MethodType(forward, attn)


def before_last(encoder, pixels):
    """The tokens that go into the last layer."""
    seen = []
    hook = encoder.layers[-1].register_forward_pre_hook(lambda _, x: seen.append(x[0]))
    encoder(pixels)
    hook.remove()
    return seen[0]


def tokens_of(nets, plus, image):
    """(1,T,C): of all pictures, one behind the other; image None: of none."""
    _, adapter, encoder = nets
    if image is None:
        pixels = torch.zeros(1, 3, *[CLIP["patch"] * CLIP["grid"]] * 2)
    else:
        pixels = vision.pixels_of(CLIP, image, 1)
    if plus:
        seen = before_last(encoder, pixels)
    else:
        seen = encoder(pixels)["pooled"] * (image is not None)
    return adapter.image_proj(seen).flatten(0, 1)[None]


@torch.no_grad()
def outputs(nets, plus, i):
    unet, adapter, _ = nets
    shown = tokens_of(nets, plus, i["image"])
    others = tokens_of(nets, plus, i.get("negative"))
    others = others.repeat(1, shown.shape[1] // others.shape[1], 1)
    positive, rows = int(i["positive"]), len(i["x"])
    tokens = torch.cat([shown.expand(positive, -1, -1), others.expand(rows - positive, -1, -1)])
    args = (i["x"], i["timesteps"], i["context"], i.get("y"))
    plain = unet(*args)
    for attn, layer in zip(crossings(unet), adapter.ip_adapter.values()):
        watching(attn, layer, tokens, i["weight"])
    out = unet(*args)
    for attn in crossings(unet):
        del attn.__dict__["forward"]
    return plain, out


def inputs(cfg, case, g):
    r = lambda *shape: torch.randn(shape, generator=g)
    i = dict(x=r(case["rows"], 4, case["h"], case["w"]), timesteps=torch.tensor(case["t"]),
             context=r(case["rows"], 77, cfg["context_dim"]),
             image=vision.picture(CLIP, dict(SHAPE, n=case["pictures"]), g),
             positive=torch.tensor([case["positive"]]), weight=torch.tensor([case["weight"]]))
    if case["negative"]:
        i["negative"] = vision.picture(CLIP, dict(SHAPE, n=case["negative"]), g)
    if cfg.get("adm_in_channels"):
        i["y"] = r(case["rows"], cfg["adm_in_channels"])
    return i


def networks(cfg, plus):
    unet = UNet(cfg)
    return unet, Adapter(cfg, plus, unet), vision.Encoder(CLIP)


def make(name, seed, folder):
    (cfg, plus), g = CONFIGS[name], torch.Generator().manual_seed(seed)
    nets = networks(cfg, plus)
    for net in nets:
        randomize(net, g)
    # Of the size of a prompt's, or little of a mistake in them would be seen.
    if plus:
        nets[1].image_proj.latents.data.copy_(torch.randn(nets[1].image_proj.latents.shape,
                                                          generator=g).half().float())
    tensors = {UNET + k: v.half() for k, v in nets[0].state_dict().items()}
    tensors.update({k: v.half() for k, v in nets[1].state_dict().items()})
    tensors.update({k: v[0].half() for k, v in vision.stored_hf(nets[2]).items()})
    for k, case in enumerate(CASES):
        i = inputs(cfg, case, g)
        plain, i["output"] = outputs(nets, plus, i)
        print(f"{name} case{k}: off by {error(i['output'], plain):.2f}")
        tensors.update({f"case{k}.{key}": v for key, v in i.items()})
    td.st_save(f"{folder}/{name}.safetensors", tensors,
               {"config": json.dumps(cfg), "plus": json.dumps(plus)})


def make_all(folder):
    for seed, name in enumerate(CONFIGS):
        make(name, 9306 + seed, folder)


@torch.no_grad()
def check(path):
    """True when every output in the file is what its inputs give here."""
    t, ok, k = td.st_load(path), True, 0
    plus = config(path, "plus")
    nets = networks(config(path), plus)
    load(nets[0], t, UNET)
    nets[1].load_state_dict({k: v.float() for k, v in t.items()
                             if k.startswith(("image_proj.", "ip_adapter."))})
    for name, parts in vision.stored_hf(nets[2]).items():
        parts[0].copy_(t[name].float())
    while f"case{k}.x" in t:
        i = {key[len(f"case{k}."):]: v for key, v in t.items() if key.startswith(f"case{k}.")}
        ok = holds(path, f"case{k}", outputs(nets, plus, i)[1], i["output"]) and ok
        k += 1
    return ok and k > 0


if __name__ == "__main__":
    sys.exit(main(__doc__, make_all, check))
