#!/usr/bin/env python3
"""Makes golden/small/vision_*.safetensors, redux.safetensors and unclip.safetensors: small random
encoders of pictures, CLIP's (arXiv:2103.00020) in transformers' names and in OpenCLIP's, and
SigLIP's (arXiv:2303.15343), FLUX.1 Redux's network, and vectors that unCLIP models are told of,
with what PyTorch computes of them in float32. golden/README.md lists the tensors.

    tools/golden_vision.py OUTPUT-FOLDER     write the files
    tools/golden_vision.py --check FILE...   hold what is computed here against such files

Debian: python3-torch python3-numpy. The generator's sequence and the last bits of sums depend on
PyTorch's version and the processor; the files in the repository are from 1.13.
"""
import json
import math
import re
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

import train_demo as td
from golden_file import config, holds, main

# Heads have 64 values, as of the published ones that are no wider than 1024.
CONFIGS = {
    "vision_clip": dict(kind="clip", width=128, mlp=96, layers=2, patch=4, grid=4, projection=24),
    "vision_openclip": dict(kind="clip", names="openclip", width=64, mlp=80, layers=2, patch=5,
                            grid=3, projection=40),
    "vision_siglip": dict(kind="siglip", width=128, mlp=112, layers=2, patch=4, grid=3),
    "redux": dict(kind="redux", seen=48, inner=72, width=24),
    "unclip": dict(kind="unclip", width=48),
}
# Of what an unCLIP model is told: vectors, their strengths and their shares of noise.
TOLD = [dict(strengths=[1.0], noise=[0.0]), dict(strengths=[0.75], noise=[0.37]),
        dict(strengths=[0.5, -0.25, 0.75], noise=[0.1, 1.0, 0.5])]
SEEDS = [5, 12, 4321]  # of the sampling
# Pictures that become smaller, larger, and both.
CASES = [dict(n=2, h=29, w=41, crop=1), dict(n=1, h=9, w=7, crop=1), dict(n=1, h=33, w=10, crop=0)]
MEANS = {"clip": ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
         "siglip": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))}


class Layer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        width, clip = cfg["width"], cfg["kind"] == "clip"
        self.heads, self.clip = width // 64, clip
        eps = 1e-5 if clip else 1e-6
        self.layer_norm1, self.layer_norm2 = (nn.LayerNorm(width, eps) for _ in range(2))
        self.self_attn = nn.ModuleDict({name: nn.Linear(width, width) for name in
                                        ("q_proj", "k_proj", "v_proj", "out_proj")})
        self.mlp = nn.ModuleDict({"fc1": nn.Linear(width, cfg["mlp"]),
                                  "fc2": nn.Linear(cfg["mlp"], width)})

    def forward(self, x):
        n, tokens, width = x.shape
        h = self.layer_norm1(x)
        q, k, v = (self.self_attn[name](h).view(n, tokens, self.heads, -1).transpose(1, 2)
                   for name in ("q_proj", "k_proj", "v_proj"))
        share = torch.softmax(q @ k.transpose(2, 3) / (width // self.heads) ** 0.5, 3)
        x = x + self.self_attn["out_proj"]((share @ v).transpose(1, 2).flatten(2))
        h = self.mlp["fc1"](self.layer_norm2(x))
        h = h * torch.sigmoid(1.702 * h) if self.clip else F.gelu(h, approximate="tanh")
        return x + self.mlp["fc2"](h)


class Encoder(nn.Module):
    """A vision transformer in transformers' names, but for what they begin with."""

    def __init__(self, cfg):
        super().__init__()
        width, clip = cfg["width"], cfg["kind"] == "clip"
        self.cfg, eps = cfg, 1e-5 if clip else 1e-6
        tokens = cfg["grid"] ** 2 + clip
        self.patch_embedding = nn.Conv2d(3, width, cfg["patch"], cfg["patch"], bias=not clip)
        self.position_embedding = nn.Embedding(tokens, width)
        self.layers = nn.ModuleList(Layer(cfg) for _ in range(cfg["layers"]))
        self.post_layernorm = nn.LayerNorm(width, eps)
        if clip:
            self.class_embedding = nn.Parameter(torch.zeros(width))
            self.pre_layrnorm = nn.LayerNorm(width, eps)
            self.visual_projection = nn.Linear(width, cfg["projection"], bias=False)

    def forward(self, pixels):
        """(N,3,size,size) -> hidden (N,tokens,width), of CLIP also pooled (N,projection)."""
        x = self.patch_embedding(pixels).flatten(2).transpose(1, 2)
        clip = self.cfg["kind"] == "clip"
        if clip:
            x = torch.cat([self.class_embedding.expand(len(x), 1, -1), x], 1)
        x = x + self.position_embedding.weight
        x = self.pre_layrnorm(x) if clip else x
        for layer in self.layers:
            x = layer(x)
        if not clip:
            return dict(hidden=self.post_layernorm(x))
        return dict(hidden=x, pooled=self.visual_projection(self.post_layernorm(x[:, 0])))


class Redux(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.redux_up = nn.Linear(cfg["seen"], cfg["inner"])
        self.redux_down = nn.Linear(cfg["inner"], cfg["width"])

    def forward(self, x):
        return dict(output=self.redux_down(F.silu(self.redux_up(x))))


def signal(level):
    """alpha-bar of 1000 steps of a cosine schedule (arXiv:2102.09672, eq. 17), no step's beta above
    0.999."""
    until = lambda share: math.cos((share + 0.008) / 1.008 * math.pi / 2) ** 2
    return math.prod(1 - min(1 - until((i + 1) / 1000) / until(i / 1000), 0.999)
                     for i in range(level + 1))


def noisy(t, v, noise, seed):
    """Vectors (2*width): v with this share of noise on it in the scale in which such vectors have
    mean 0 and deviation 1, and the waves of its level."""
    width, level = len(v), round(999 * noise)
    more = torch.randn(width, generator=torch.Generator().manual_seed(seed))
    waves = torch.exp(-math.log(10000) * torch.arange(width // 2) / (width // 2))
    v = (v - t["mean"]) / t["deviation"]
    v = signal(level) ** 0.5 * v + (1 - signal(level)) ** 0.5 * more
    return torch.cat([v * t["deviation"] + t["mean"], torch.cos(level * waves),
                      torch.sin(level * waves)])


def told(t, case, seed):
    """What an unCLIP model is told of vectors (N,width) in a sampling of this seed."""
    width, seed = t["vectors"].shape[1], seed - 10
    y = sum(strength * noisy(t, v, noise, seed) for v, strength, noise in
            zip(t["vectors"], case["strengths"], case["noise"]))
    return y if len(t["vectors"]) == 1 else noisy(t, y[:width], 0.05, seed)


def network(cfg):
    return Redux(cfg) if cfg["kind"] == "redux" else Encoder(cfg)


def stored_hf(net):
    """A network's tensors by their names in a file, each as a list of parts that lie one below the
    other: views, into which a file's can be copied."""
    out = {}
    for name, v in net.state_dict().items():
        if name.startswith(("patch_", "position_", "class_")):
            name = "embeddings." + name
        elif name.startswith("layers."):
            name = "encoder." + name
        name = name if name.startswith("visual") else "vision_model." + name
        out[name] = [v]
    return out


def stored_openclip(net):
    renamed = {"patch_embedding": "conv1", "position_embedding.weight": "positional_embedding",
               "pre_layrnorm": "ln_pre", "post_layernorm": "ln_post", "layer_norm": "ln_",
               "self_attn": "attn", "mlp.fc1": "mlp.c_fc", "mlp.fc2": "mlp.c_proj"}
    out, own = {}, net.state_dict()
    for name, v in own.items():
        if ".k_proj" in name or ".v_proj" in name:
            continue
        parts = [v]
        if ".q_proj" in name:
            parts = [own[name.replace("q_proj", p)] for p in ("q_proj", "k_proj", "v_proj")]
            name = name.replace("q_proj.", "in_proj_")
        for old, new in renamed.items():
            name = name.replace(old, new)
        if name.startswith("visual_projection"):
            name, parts = "proj", [v.T]
        out["visual." + re.sub(r"^layers\.", "transformer.resblocks.", name)] = parts
    return out


def stored(cfg, net):
    if cfg["kind"] == "redux":
        return {name: [v] for name, v in net.state_dict().items()}
    return (stored_openclip if cfg.get("names") == "openclip" else stored_hf)(net)


def randomize(net, g):
    """Values of a size that keeps activations near 1, rounded to what the file stores."""
    for name, p in net.named_parameters():
        r = torch.randn(p.shape, generator=g)
        if "norm" in name and name.endswith("weight"):
            r = r * 0.3 + 1.0
        elif p.dim() > 1 and "position" not in name:
            r = r / p[0].numel() ** 0.5
        else:
            r = r * 0.3
        p.data.copy_(r.half().float())


def resized(cfg, image, crop):
    """(N,H,W,3) -> (N,3,size,size), 0 to 255: bicubic with antialias; with crop the shorter side
    becomes `size`, and the middle is taken."""
    size, x = cfg["patch"] * cfg["grid"], image.permute(0, 3, 1, 2)
    h, w = x.shape[2:]
    to = (size * h // min(h, w), size * w // min(h, w)) if crop else (size, size)
    x = F.interpolate(x, to, mode="bicubic", antialias=True, align_corners=False)
    top, left = (to[0] - size) // 2, (to[1] - size) // 2
    return 255 * x[:, :, top:top + size, left:left + size]


def pixels_of(cfg, image, crop):
    mean, deviation = (torch.tensor(v)[:, None, None] for v in MEANS[cfg["kind"]])
    return (resized(cfg, image, crop).round().clamp(0, 255) / 255 - mean) / deviation


def picture(cfg, case, g):
    """Noise over a slope, none of whose resized values is so near the middle between two of 8 bits
    that the last bits of a sum would decide."""
    while True:
        image = torch.rand((case["n"], case["h"], case["w"], 3), generator=g) * 0.6
        image = image + torch.linspace(0, 0.4, case["w"])[:, None]
        x = resized(cfg, image, case["crop"])
        if (x.frac().abs() - 0.5).abs().min() > 1e-4:
            return image


@torch.no_grad()
def make_told(seed, folder):
    cfg, g = CONFIGS["unclip"], torch.Generator().manual_seed(seed)
    t = dict(mean=torch.randn(cfg["width"], generator=g) * 0.3,
             deviation=torch.rand(cfg["width"], generator=g) + 0.5)
    tensors = {"noise_augmentor.data_mean": t["mean"][None],
               "noise_augmentor.data_std": t["deviation"][None]}
    for k, case in enumerate(TOLD):
        t["vectors"] = torch.randn((len(case["noise"]), cfg["width"]), generator=g)
        tensors.update({f"case{k}.vectors": t["vectors"],
                        f"case{k}.strengths": torch.tensor(case["strengths"]),
                        f"case{k}.noise": torch.tensor(case["noise"]),
                        f"case{k}.seed": torch.tensor([SEEDS[k]]),
                        f"case{k}.y": told(t, case, SEEDS[k])})
    td.st_save(f"{folder}/unclip.safetensors", tensors, {"golden": json.dumps(cfg)})


def check_told(path, tensors):
    t, ok = {"mean": tensors["noise_augmentor.data_mean"][0],
             "deviation": tensors["noise_augmentor.data_std"][0]}, True
    for k, case in enumerate(TOLD):
        t["vectors"] = tensors[f"case{k}.vectors"]
        y = told(t, case, int(tensors[f"case{k}.seed"]))
        ok = holds(path, f"case{k} y", y, tensors[f"case{k}.y"]) and ok
    return ok


@torch.no_grad()
def make(name, seed, folder):
    if name == "unclip":
        return make_told(seed, folder)
    cfg, g = CONFIGS[name], torch.Generator().manual_seed(seed)
    net = network(cfg)
    randomize(net, g)
    tensors = {k: torch.cat(v).half().contiguous() for k, v in stored(cfg, net).items()}
    for k, case in enumerate(CASES):
        if cfg["kind"] == "redux":
            x = torch.randn((case["n"], 5 + k, cfg["seen"]), generator=g)
            given = dict(seen=x)
        else:
            image = picture(cfg, case, g)
            x = pixels_of(cfg, image, case["crop"])
            given = dict(image=image, crop=torch.tensor([case["crop"]]), pixels=x)
        out = net(x)
        tensors.update({f"case{k}.{key}": v for key, v in {**given, **out}.items()})
        print(name, f"case{k}:", ", ".join(f"{key} up to {v.abs().max():.2f}"
                                           for key, v in out.items()))
    td.st_save(f"{folder}/{name}.safetensors", tensors, {"golden": json.dumps(cfg)})


def make_all(folder):
    for seed, name in enumerate(CONFIGS):
        make(name, 2103 + seed, folder)


@torch.no_grad()
def check(path):
    """True when every output in the file is what its inputs give here."""
    t, cfg, ok, k = td.st_load(path), config(path, "golden"), True, 0
    if cfg["kind"] == "unclip":
        return check_told(path, t)
    net = network(cfg)
    for name, parts in stored(cfg, net).items():
        for part, v in zip(parts, t[name].float().chunk(len(parts))):
            part.copy_(v)
    while f"case{k}.seen" in t or f"case{k}.image" in t:
        if cfg["kind"] == "redux":
            x = t[f"case{k}.seen"]
        else:
            x = pixels_of(cfg, t[f"case{k}.image"], int(t[f"case{k}.crop"]))
            ok = holds(path, f"case{k} pixels", x, t[f"case{k}.pixels"]) and ok
        for key, v in net(x).items():
            ok = holds(path, f"case{k} {key}", v, t[f"case{k}.{key}"]) and ok
        k += 1
    return ok and k > 0


if __name__ == "__main__":
    sys.exit(main(__doc__, make_all, check))
