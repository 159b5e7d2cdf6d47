#!/usr/bin/env python3
"""Makes golden/small/taesd_*.safetensors: small random tiny autoencoders in both namings, latents and
pictures, and what taesd.py computes of them in float32. golden/README.md lists the tensors.

    tools/golden_taesd.py OUTPUT-FOLDER     write the files
    tools/golden_taesd.py --check FILE...   hold taesd.py against such files

Debian: python3-torch python3-numpy. The generator's sequence and the last bits of sums depend on
PyTorch's version and the processor; those in the repository are from 1.13.
"""
import json
import sys

import torch

import taesd
import train_demo as td
from golden_file import config, holds, main

# blocks: of the decoder's levels and of the encoder's, in the order in which they run.
CONFIGS = {
    "layers": dict(channels=[12, 12], blocks=[(3, 3, 3, 1), (1, 3, 3, 3)]),
    "levels": dict(channels=[8, 20], blocks=[(0, 2, 1), (2, 1, 0)]),
    "pair": dict(channels=[16, 16], blocks=[(3, 3, 3, 1), (1, 3, 3, 3)]),
    "sd3": dict(channels=[10, 14], blocks=[(3, 3, 3, 1), (1, 3, 3, 3)], latent=16),
    "flux2": dict(channels=[12, 16], blocks=[(3, 3, 3, 1), (1, 3, 3, 3)], latent=32, pooled=True),
}
CASES = [dict(n=1, h=4, w=4), dict(n=2, h=5, w=7), dict(n=1, h=1, w=3)]
HALVES = ("decoder", "encoder")


def networks(cfg):
    (c_out, c_in), (out, into) = cfg["channels"], cfg["blocks"]
    more = (cfg.get("latent", taesd.LATENT), cfg.get("pooled", False))
    return dict(decoder=taesd.decoder(c_out, out, *more), encoder=taesd.encoder(c_in, into, *more))


def randomize(net, g):
    """Values of a size that keeps activations near 1, rounded to what the file stores."""
    for name, p in net.named_parameters():
        r = torch.randn(p.shape, generator=g)
        if name.endswith("pool.1.weight"):
            p.data.copy_((1 + 0.1 * r).half().float())
            continue
        if p.dim() > 1:
            r = r * (2 / p[0].numel()) ** 0.5 * (0.3 if ".conv.4." in name else 1.0)
        p.data.copy_((r * (1.0 if p.dim() > 1 else 0.1)).half().float())


@torch.no_grad()
def cases(half, net, latents, factor, g):
    out = {}
    for k, case in enumerate(CASES):
        n, h, w = case["n"], case["h"], case["w"]
        if half == "decoder":
            latent = torch.randn((n, latents, h, w), generator=g) * 2
            out[f"case{k}.latent"], out[f"case{k}.decoded"] = latent, net(latent)
        else:
            image = torch.rand((n, 3, h * factor, w * factor), generator=g)
            out[f"case{k}.image"], out[f"case{k}.moments"] = image, net(image)
    return out


def make(name, seed, folder):
    cfg, g, files = CONFIGS[name], torch.Generator().manual_seed(seed), {}
    nets = networks(cfg)
    factor = 2 ** (len(cfg["blocks"][0]) - 1)
    for half in HALVES:
        net = nets[half]
        randomize(net, g)
        pair = name == "pair"
        tensors = files.setdefault(f"{name}_{half}" if pair else name, {})
        tensors.update({k if pair else taesd.diffusers_name(half, k): v.half()
                        for k, v in net.state_dict().items()})
        tensors.update(cases(half, net, cfg.get("latent", taesd.LATENT), factor, g))
    for file, tensors in files.items():
        for k, v in tensors.items():
            if k.endswith(("decoded", "moments")):
                print(file, k, f"largest value {v.abs().max():.2f}")
        td.st_save(f"{folder}/taesd_{file}.safetensors", tensors, {"golden": json.dumps(cfg)})


def make_all(folder):
    for seed, name in enumerate(CONFIGS):
        make(name, 2311 + seed, folder)


@torch.no_grad()
def check(path):
    """True when every output in the file is what its inputs give here."""
    t, cfg, ok, seen = td.st_load(path), config(path, "golden"), True, 0
    for half, net in networks(cfg).items():
        names = {k: taesd.diffusers_name(half, k) for k in net.state_dict()}
        if path.endswith(f"_{half}.safetensors"):
            names = {k: k for k in names}
        elif not all(v in t for v in names.values()):
            continue
        net.load_state_dict({k: t[v].float() for k, v in names.items()})
        given, made = ("latent", "decoded") if half == "decoder" else ("image", "moments")
        for k in range(len(CASES)):
            got, want = net(t[f"case{k}.{given}"]), t[f"case{k}.{made}"]
            ok, seen = holds(path, f"case{k} {made}", got, want) and ok, seen + 1
    return ok and seen > 0


if __name__ == "__main__":
    sys.exit(main(__doc__, make_all, check))
