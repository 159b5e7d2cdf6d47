#!/usr/bin/env python3
"""Makes golden/small/controlnet_union*.safetensors: small random UNets with a union ControlNet each
(xinsir's, github.com/xinsir6/ControlNetPlus), inputs, and what they give in float32. One has LDM's
names and 8 types of pictures, the other diffusers' names, in which its author publishes it, and 6.
golden/README.md lists the tensors.

    tools/golden_control_union.py OUTPUT-FOLDER     write the files
    tools/golden_control_union.py --check FILE...   compute them again and compare

Debian: python3-torch python3-numpy. Numbers are those of PyTorch 1.13.
"""
import json
import re
import sys
from collections import OrderedDict

import torch
import torch.nn as nn
import torch.nn.functional as F

import golden_controlnet as gc
import train_demo as td
from controlnet import CONTROL, UNET, ControlNet, UNet, total
from golden_file import error, holds, load, main

# As golden_controlnet's second, and an odd size besides. `alone`: pictures of a batch go through the network one by one. Otherwise they have one
# hint, and go through it together, as a prompt and its negative do.
CONFIG = dict(model_channels=32, channel_mult=[1, 1], num_res_blocks=1, num_head_channels=16,
              context_dim=64, transformer_depth=[0, 1], transformer_depth_output=[0, 0, 1, 1],
              transformer_depth_middle=1, use_linear_in_transformer=True, adm_in_channels=48,
              num_classes="sequential")
CASES = [dict(n=1, h=7, w=9, tokens=77, t=[501.0], alone=True, types=[0, 3]),
         dict(n=2, h=8, w=6, tokens=77, t=[37.25, 962.5], alone=True, types=[5, 1]),
         dict(n=2, h=8, w=8, tokens=154, t=[700.0, 700.0], alone=False, types=[4, 2])]
FILES = {"controlnet_union8": (8, False, 16), "controlnet_union6": (6, True, 10)}
AUTO = -1   # as a type: the network is not told


class QuickGELU(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(1.702 * x)


class Layer(nn.Module):
    """Takes (N,L,C) to an attention that reads it as (L,N,C): the author's code has it so."""

    def __init__(self, c):
        super().__init__()
        self.attn = nn.MultiheadAttention(c, 8)
        self.ln_1, self.ln_2 = nn.LayerNorm(c), nn.LayerNorm(c)
        self.mlp = nn.Sequential(OrderedDict(c_fc=nn.Linear(c, 4 * c), gelu=QuickGELU(),
                                             c_proj=nn.Linear(4 * c, c)))

    def forward(self, x):
        y = self.ln_1(x)
        x = x + self.attn(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.ln_2(x))


class TypeEmbedding(nn.Module):
    def __init__(self, width, time_dim):
        super().__init__()
        self.linear_1, self.linear_2 = nn.Linear(width, time_dim), nn.Linear(time_dim, time_dim)

    def forward(self, x):
        return self.linear_2(F.silu(self.linear_1(x)))


class UnionControlNet(ControlNet):
    def __init__(self, unet, types, type_dim, layers):
        super().__init__(unet)
        c = unet.cfg["model_channels"]
        self.types, self.type_dim = types, type_dim
        self.task_embedding = nn.Parameter(torch.zeros(types, c))
        self.transformer_layes = nn.Sequential(*[Layer(c) for _ in range(layers)])
        self.spatial_ch_projs = nn.Linear(c, c)
        self.control_add_embedding = TypeEmbedding(types * type_dim, 4 * c)

    def type_embedding(self, type_, n):
        hot = F.one_hot(torch.tensor([type_] * n), self.types)
        return self.control_add_embedding(
            td.timestep_embedding(hot.flatten(), self.type_dim).reshape(n, -1))

    def forward(self, x, t, context, hint, y=None, type_=AUTO):
        emb = self.time_embed(td.timestep_embedding(t, self.cfg["model_channels"]))
        emb = emb + self.label_emb(y)
        if type_ != AUTO:
            emb = emb + self.type_embedding(type_, len(x))
        out, h = [], x
        for i, (block, conv) in enumerate(zip(self.input_blocks, self.zero_convs)):
            h = block(h, emb, context)
            if i == 0:
                seen = self.input_hint_block(hint)
                h = h + seen + self.shift(seen, h, type_)
            out.append(conv(h))
        return out + [self.middle_block_out(self.middle_block(h, emb, context))]

    def shift(self, seen, h, type_):
        if type_ == AUTO:
            return 0
        mean = lambda v: v.mean(dim=(2, 3))[:, None]
        tokens = torch.cat([mean(seen) + self.task_embedding[type_], mean(h)], 1)
        return self.spatial_ch_projs(self.transformer_layes(tokens)[:, 0])[:, :, None, None]


class OddUNet(UNet):
    """Enlarges to the size of the skip connection, as diffusers does where it is odd."""

    def forward(self, x, t, context, y=None, residuals=None):
        emb = self.time_embed(td.timestep_embedding(t, self.cfg["model_channels"]))
        emb = emb + self.label_emb(y)
        skips, h = [], x
        for block in self.input_blocks:
            h = block(h, emb, context)
            skips.append(h)
        h = self.middle_block(h, emb, context)
        if residuals is not None:
            h = h + residuals[-1]
            skips = [s + r for s, r in zip(skips, residuals)]
        for block in self.output_blocks:
            h = torch.cat([h, skips.pop()], 1)
            for part in block:
                if isinstance(part, td.Upsample):
                    h = part.conv(F.interpolate(h, size=skips[-1].shape[2:], mode="nearest"))
                else:
                    h = td.Seq(part)(h, emb, context)
        return self.out(h)


@torch.no_grad()
def outputs(unet, net, case, i):
    args, (first, second) = (i["x"], i["timesteps"], i["context"]), i["types"].tolist()

    def residuals(hint, type_):
        if not case["alone"]:
            return net(*args, hint, i["y"], type_)
        each = [net(*(a[k:k + 1] for a in args), hint[k:k + 1], i["y"][k:k + 1], type_)
                for k in range(len(hint))]
        return [torch.cat(r) for r in zip(*each)]

    a, b, auto = residuals(i["hint"], first), residuals(i["hint2"], second), residuals(i["hint"], AUTO)
    s, t = gc.STRENGTHS
    out = dict(output=unet(*args, i["y"]))
    out.update({f"residual.{k}": r for k, r in enumerate(a[:-1])}, **{"residual.middle": a[-1]})
    for strength in gc.STRENGTHS:
        out[f"output_{strength}"] = unet(*args, i["y"], total((a, strength)))
    out["output_two"] = unet(*args, i["y"], total((a, s), (b, t)))
    out["output_auto"] = unet(*args, i["y"], total((auto, s)))
    return out


def inputs(case, g):
    i = gc.inputs(CONFIG, case, g)
    i["types"] = torch.tensor(case["types"], dtype=torch.int32)
    if not case["alone"]:
        for key in ("hint", "hint2"):
            i[key] = i[key][:1].repeat(case["n"], 1, 1, 1)
    return i


RESNET = {"in_layers.0": "norm1", "in_layers.2": "conv1", "out_layers.0": "norm2",
          "out_layers.3": "conv2", "emb_layers.1": "time_emb_proj",
          "skip_connection": "conv_shortcut"}
# The blocks of CONFIG: a level of one residual block, another with a transformer.
DIFFUSERS = [(r"time_embed\.0", "time_embedding.linear_1"), (r"time_embed\.2", "time_embedding.linear_2"),
             (r"label_emb\.0\.0", "add_embedding.linear_1"), (r"label_emb\.0\.2", "add_embedding.linear_2"),
             (r"input_blocks\.0\.0", "conv_in"), (r"input_blocks\.1\.0", "down_blocks.0.resnets.0"),
             (r"input_blocks\.2\.0\.op", "down_blocks.0.downsamplers.0.conv"),
             (r"input_blocks\.3\.0", "down_blocks.1.resnets.0"),
             (r"input_blocks\.3\.1", "down_blocks.1.attentions.0"),
             (r"middle_block\.0", "mid_block.resnets.0"), (r"middle_block\.1", "mid_block.attentions.0"),
             (r"middle_block\.2", "mid_block.resnets.1"), (r"middle_block_out\.0", "controlnet_mid_block"),
             (r"zero_convs\.(\d+)\.0", r"controlnet_down_blocks.\1"),
             (r"input_hint_block\.0", "controlnet_cond_embedding.conv_in"),
             (r"input_hint_block\.14", "controlnet_cond_embedding.conv_out")]
DIFFUSERS += [(rf"input_hint_block\.{2 * k + 2}", f"controlnet_cond_embedding.blocks.{k}")
              for k in range(6)]


def diffusers_name(name):
    for pattern, to in DIFFUSERS:
        new, n = re.subn("^" + pattern + r"(?=\.)", to, name)
        if n:
            for ours, theirs in RESNET.items():
                new = re.sub(r"(resnets\.\d+\.)" + re.escape(ours) + r"(?=\.)", r"\g<1>" + theirs, new)
            return new
    assert re.match("task_embedding|transformer_layes|spatial_ch_projs|control_add_embedding", name), name
    return name


def build(types, type_dim, layers):
    unet = OddUNet(CONFIG)
    return unet, UnionControlNet(unet, types, type_dim, layers)


def named(net, theirs):
    return {diffusers_name(k) if theirs else k: v for k, v in net.state_dict().items()}


def make(name, seed, folder):
    types, theirs, type_dim = FILES[name]
    g = torch.Generator().manual_seed(seed)
    unet, net = build(types, type_dim, 1 + theirs)
    gc.randomize(unet, g)
    gc.randomize(net, g)
    tensors = {UNET + k: v.half() for k, v in unet.state_dict().items()}
    tensors.update({CONTROL + k: v.half() for k, v in named(net, theirs).items()})
    for k, case in enumerate(CASES):
        i = inputs(case, g)
        o = outputs(unet, net, case, i)
        tensors.update({f"case{k}.{key}": v for key, v in {**i, **o}.items()})
        print(name, f"case{k}:", ", ".join(f"{key} off by {error(o[key], o['output']):.2f}"
                                           for key in o if key.startswith("output_")),
              f"auto beside told {error(o['output_auto'], o['output_1.0']):.2f}")
    td.st_save(f"{folder}/{name}.safetensors", tensors, {"config": json.dumps(CONFIG)})


def make_all(folder):
    for seed, name in enumerate(FILES):
        make(name, 2407 + seed, folder)


def check(path):
    name = path.rpartition("/")[2].partition(".")[0]
    types, theirs, type_dim = FILES[name]
    t, ok = td.st_load(path), True
    unet, net = build(types, type_dim, 1 + theirs)
    load(unet, t, UNET)
    net.load_state_dict({k: t[CONTROL + (diffusers_name(k) if theirs else k)].float()
                         for k in net.state_dict()})
    for k, case in enumerate(CASES):
        i = {key[len(f"case{k}."):]: v for key, v in t.items() if key.startswith(f"case{k}.")}
        for key, v in outputs(unet, net, case, i).items():
            ok = holds(path, f"case{k}.{key}", v, i[key]) and ok
    return ok


if __name__ == "__main__":
    sys.exit(main(__doc__, make_all, check))
