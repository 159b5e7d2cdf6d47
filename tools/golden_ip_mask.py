#!/usr/bin/env python3
"""Makes golden/small/masks/ip_*.safetensors: what the networks of golden/small/ip_*.safetensors
compute in PyTorch where a mask says how much the pictures count at each place. The mask is resized
to the height and width of each attention (bilinear), and multiplies what the pictures' tokens add.

    tools/golden_ip_mask.py OUTPUT-FOLDER     write the files
    tools/golden_ip_mask.py --check FILE...   hold what is computed here against such files

Run it in the repository's root: the networks are read from golden/small. Debian: python3-torch
python3-numpy, as golden_ip_adapter.py.
"""
import os
import sys
import types

import torch
import torch.nn.functional as F

import golden_ip_adapter as ip
import golden_vision as vision
import train_demo as td
from golden_file import config, error, holds, load, main

NAMES = ["ip_sd1_plus", "ip_sdxl"]
PICTURES, HEIGHT, WIDTH = 2, 8, 12  # of the latents, of which positive rows come first
MASK = (2, 20, 33)


def networks_of(name):
    path = f"golden/small/{name}.safetensors"
    t, plus = td.st_load(path), config(path, "plus")
    nets = ip.networks(config(path), plus)
    load(nets[0], t, ip.UNET)
    nets[1].load_state_dict({k: v.float() for k, v in t.items()
                             if k.startswith(("image_proj.", "ip_adapter."))})
    for key, parts in vision.stored_hf(nets[2]).items():
        parts[0].copy_(t[key].float())
    return config(path), nets, plus


def sizes(h, w):
    """Height and width of attentions by their number of places."""
    found = {}
    while h * w not in found:
        found[h * w] = (h, w)
        h, w = (h + 1) // 2, (w + 1) // 2
    return found


def masked(attn, layer, tokens, weight, mask):
    def forward(self, x, c):
        q = self.to_q(x)
        out = ip.attend(q, self.to_k(c), self.to_v(c), self.heads)
        more = ip.attend(q, layer["to_k_ip"](tokens), layer["to_v_ip"](tokens), self.heads)
        here = F.interpolate(mask[:, None], size=sizes(HEIGHT, WIDTH)[x.shape[1]], mode="bilinear")
        return self.to_out(out + weight * more * here.flatten(2).transpose(1, 2))
    attn.forward = types.MethodType(forward, attn)


@torch.no_grad()
def outputs(nets, plus, i):
    unet, adapter, _ = nets
    shown, others = ip.tokens_of(nets, plus, i["image"]), ip.tokens_of(nets, plus, None)
    tokens = torch.cat([shown.expand(PICTURES, -1, -1), others.expand(PICTURES, -1, -1)])
    mask = i["mask"].repeat(2, 1, 1)
    args = (i["x"], i["timesteps"], i["context"], i.get("y"))
    for attn, layer in zip(ip.crossings(unet), adapter.ip_adapter.values()):
        ip.watching(attn, layer, tokens, i["weight"])
    everywhere = unet(*args)
    for attn, layer in zip(ip.crossings(unet), adapter.ip_adapter.values()):
        masked(attn, layer, tokens, i["weight"], mask)
    return everywhere, unet(*args)


def make_all(folder):
    os.makedirs(folder, exist_ok=True)
    for seed, name in enumerate(NAMES):
        with torch.no_grad():
            cfg, nets, plus = networks_of(name)
        g = torch.Generator().manual_seed(7511 + seed)
        case = dict(rows=2 * PICTURES, positive=PICTURES, h=HEIGHT, w=WIDTH, pictures=1,
                    negative=0, weight=0.9, t=[501.0, 37.25, 501.0, 37.25])
        i = ip.inputs(cfg, case, g)
        i["mask"] = torch.rand(MASK, generator=g)
        everywhere, i["output"] = outputs(nets, plus, i)
        print(f"{name}: off by {error(i['output'], everywhere):.2f}")
        td.st_save(f"{folder}/{name}.safetensors", i, {})


@torch.no_grad()
def check(path):
    """True when the output in the file is what its inputs give here."""
    _, nets, plus = networks_of(os.path.basename(path).split(".")[0])
    i = td.st_load(path)
    return holds(path, "case", outputs(nets, plus, i)[1], i["output"])


if __name__ == "__main__":
    sys.exit(main(__doc__, make_all, check))
