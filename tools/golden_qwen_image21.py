#!/usr/bin/env python3
"""Makes golden/small/qwen_image21_*.safetensors: small random networks of Qwen-Image 2.1's kind,
inputs, and what qwen_image21.py computes of them in float32; and a small random VAE of its kind, in
the names of Wan 2.2's, latents and pictures, and what PyTorch makes of them. golden/README.md lists
the tensors.

    tools/golden_qwen_image21.py OUTPUT-FOLDER     write the files
    tools/golden_qwen_image21.py --check FILE...   hold what is computed here against such files

Debian: python3-torch python3-numpy. The generator's sequence and the last bits of sums depend on
PyTorch's version and the processor; those in the repository are from 1.13.
"""
import json
import sys

import torch
import torch.nn as nn

import train_demo as td
from golden_file import config, error, holds, load, main, make_network, network_holds
from golden_wan_vae import outputs, randomize as randomize_vae
from qwen_image21 import QwenImage21, randomize

CONFIGS = {
    "two": dict(channels=64, num_heads=3, head_dim=16, axes=[4, 6, 6], mlp=80, depth=2,
                context_dim=24),
    "one": dict(channels=8, num_heads=2, head_dim=32, axes=[4, 14, 14], mlp=96, depth=1,
                context_dim=40),
    "shown": dict(channels=8, num_heads=2, head_dim=16, axes=[4, 6, 6], mlp=48, depth=2,
                  context_dim=24),
}
# Sides in cells that are even, odd, and one. references: height and width of each; within: words
# before it, also none before the first and none between two.
CASES = {
    "two": [dict(h=4, w=6, words=5, t=[501.0, 37.25]), dict(h=9, w=3, words=33, t=[1000.0]),
            dict(h=1, w=5, words=1, t=[0.0, 250.5, 999.0])],
    "one": [dict(h=4, w=7, words=17, t=[88.5, 640.0]), dict(h=10, w=1, words=70, t=[750.0])],
    "shown": [dict(h=4, w=6, words=9, t=[501.0, 37.25], references=[(4, 6)], within=[3]),
              dict(h=5, w=3, words=12, t=[750.0], references=[(2, 7), (6, 4), (1, 1)],
                   within=[0, 5, 5]),
              dict(h=2, w=2, words=70, t=[88.5], references=[(3, 9)], within=[66])],
}
# As published, but for the size: the way around a level keeps its channels, doubles or halves them,
# with and without time.
VAE = dict(dim=4, decoder_dim=6, mult=[1, 2, 4, 8, 8], timed=[False, True, True, True],
           num_res_blocks=2, z=6, colours=4)
VAE_CASES = [(1, 2, 3), (2, 1, 1), (1, 3, 2)]  # pictures, and the latent's height and width


def inputs(cfg, case, g):
    n = len(case["t"])
    i = dict(x=torch.randn((n, cfg["channels"], case["h"], case["w"]), generator=g),
             timesteps=torch.tensor(case["t"]),
             context=torch.randn((n, case["words"], cfg["context_dim"]), generator=g) * 3)
    for k, (h, w) in enumerate(case.get("references", [])):
        i[f"reference{k}"] = torch.randn((n, cfg["channels"], h, w), generator=g)
    if "within" in case:
        i["within"] = torch.tensor(case["within"])
    return i


def output(net, i):
    references = [i[f"reference{k}"] for k in range(len(i.get("within", [])))]
    return net(i["x"], i["timesteps"], i["context"], references, i.get("within", torch.tensor([])).tolist())


# ---------------------------------------------------------------------------------------- the VAE


class Norm(nn.Module):
    def __init__(self, channels, beyond=3):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(channels, *[1] * beyond))

    def forward(self, x):
        mean = x.square().mean(1, keepdim=True)
        return x / mean.clamp_min(1e-24).sqrt() * self.gamma.reshape(-1, 1, 1)


class Residual(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.residual = nn.Sequential(Norm(inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, 1, 1),
                                      Norm(outputs), nn.SiLU(), nn.Identity(),
                                      nn.Conv2d(outputs, outputs, 3, 1, 1))
        self.shortcut = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x):
        return self.residual(x) + self.shortcut(x)


class Attention(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = Norm(channels, 2)
        self.to_qkv, self.proj = nn.Conv2d(channels, 3 * channels, 1), nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        q, k, v = self.to_qkv(self.norm(x)).flatten(2).chunk(3, 1)
        share = torch.softmax(q.transpose(1, 2) @ k / q.shape[1] ** 0.5, 2)
        return x + self.proj((v @ share.transpose(1, 2)).view(x.shape))


class Resample(nn.Module):
    def __init__(self, channels, up, timed):
        super().__init__()
        if up:
            self.resample = nn.Sequential(nn.Upsample(scale_factor=2, mode="nearest"),
                                          nn.Conv2d(channels, channels, 3, padding=1))
        else:
            self.resample = nn.Sequential(nn.ZeroPad2d((0, 1, 0, 1)),
                                          nn.Conv2d(channels, channels, 3, stride=2))
        if timed:
            self.time_conv = nn.Conv2d(channels, channels * (2 if up else 1), 1)

    def forward(self, x):
        return self.resample(x)


def down(x, outputs, timed):
    """Squares of two pictures (the first of which is not there) as values of one sequence, and means
    of as many that follow each other as leave so many channels."""
    n, c, h, w = x.shape
    squares = x.view(n, c, h // 2, 2, w // 2, 2).permute(0, 1, 3, 5, 2, 4)
    both = torch.stack([torch.zeros_like(squares), squares], 2) if timed else squares[:, :, None]
    return both.reshape(n, outputs, -1, h // 2, w // 2).mean(2)


def up(x, outputs, timed):
    """The reverse: each value as often as makes so many channels of such squares; of two pictures the
    last."""
    n, c, h, w = x.shape
    times = 2 if timed else 1
    every = x.repeat_interleave(outputs * 4 * times // c, 1)
    every = every.view(n, outputs, times, 2, 2, h, w)[:, :, -1]
    return every.permute(0, 1, 4, 2, 5, 3).reshape(n, outputs, 2 * h, 2 * w)


class Level(nn.Module):
    """Of the encoder (its layers are `downsamples`) or the decoder."""
    def __init__(self, layers, inputs, outputs, blocks, sized, timed):
        super().__init__()
        rows = [Residual(inputs if i == 0 else outputs, outputs) for i in range(blocks)]
        if sized:
            rows.append(Resample(outputs, layers == "upsamples", timed))
        self.layers, self.outputs, self.sized, self.timed = layers, outputs, sized, timed
        setattr(self, layers, nn.Sequential(*rows))

    def forward(self, x):
        y = getattr(self, self.layers)(x)
        if self.layers == "upsamples":
            return y + up(x, self.outputs, self.timed) if self.sized else y
        return y + (down(x, self.outputs, self.timed) if self.sized else x)


def middle(channels):
    return nn.Sequential(Residual(channels, channels), Attention(channels),
                         Residual(channels, channels))


def head(channels, outputs):
    return nn.Sequential(Norm(channels), nn.SiLU(), nn.Conv2d(channels, outputs, 3, 1, 1))


class Encoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        widths = [cfg["dim"] * m for m in [1] + cfg["mult"]]
        self.conv1 = nn.Conv2d(cfg["colours"], widths[0], 3, 1, 1)
        self.downsamples = nn.Sequential(*(
            Level("downsamples", now, then, cfg["num_res_blocks"], i < len(cfg["timed"]),
                  ([*cfg["timed"], False])[i])
            for i, (now, then) in enumerate(zip(widths, widths[1:]))))
        self.middle, self.head = middle(widths[-1]), head(widths[-1], 2 * cfg["z"])

    def forward(self, x):
        return self.head(self.middle(self.downsamples(self.conv1(x))))


class Decoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        mult = cfg["mult"][::-1]
        widths = [cfg["decoder_dim"] * m for m in mult[:1] + mult]
        self.conv1, self.middle = nn.Conv2d(cfg["z"], widths[0], 3, 1, 1), middle(widths[0])
        self.upsamples = nn.Sequential(*(
            Level("upsamples", now, then, cfg["num_res_blocks"] + 1, i < len(cfg["timed"]),
                  ([*cfg["timed"][::-1], False])[i])
            for i, (now, then) in enumerate(zip(widths, widths[1:]))))
        self.head = head(widths[-1], cfg["colours"])

    def forward(self, z):
        return self.head(self.upsamples(self.middle(self.conv1(z))))


class Autoencoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.encoder, self.decoder = Encoder(cfg), Decoder(cfg)
        self.conv1 = nn.Conv2d(2 * cfg["z"], 2 * cfg["z"], 1)
        self.conv2 = nn.Conv2d(cfg["z"], cfg["z"], 1)

    def encode(self, image):
        return self.conv1(self.encoder(image)).chunk(2, 1)[0]

    def decode(self, latent):
        return self.decoder(self.conv2(latent))


def make_vae(folder):
    g = torch.Generator().manual_seed(2609)
    net = Autoencoder(VAE)
    randomize_vae(net, g)
    tensors = {k: v.half() for k, v in net.state_dict().items()}
    wide = load(Autoencoder(VAE), tensors, "").double()
    side = 2 ** len(VAE["timed"])
    for k, (n, h, w) in enumerate(VAE_CASES):
        latent = torch.randn((n, VAE["z"], h, w), generator=g)
        image = torch.rand((n, VAE["colours"], side * h, side * w), generator=g) * 2 - 1
        out, exact = outputs(net, latent, image), outputs(wide, latent.double(), image.double())
        for key, v in out.items():
            print(f"vae case{k} {key}: largest value {v.abs().max():.2f},",
                  f"{error(v, exact[key]):.1g} from float64")
        tensors.update({f"case{k}.latent": latent, f"case{k}.image": image})
        tensors.update({f"case{k}.{key}": v for key, v in out.items()})
    td.st_save(f"{folder}/qwen_image21_vae.safetensors", tensors, {"golden": json.dumps(VAE)})


def make(folder):
    for seed, (name, cfg) in enumerate(CONFIGS.items()):
        make_network(f"{folder}/qwen_image21_{name}.safetensors", QwenImage21, cfg, 2621 + seed, randomize,
                     CASES[name], inputs, output, dict(rope_dim=cfg["axes"][1]))
    make_vae(folder)


def check_vae(path, t):
    ok, k = True, 0
    net = load(Autoencoder(config(path, "golden")),
               {key: v for key, v in t.items() if not key.startswith("case")}, "")
    while f"case{k}.latent" in t:
        for key, v in outputs(net, t[f"case{k}.latent"], t[f"case{k}.image"]).items():
            ok = holds(path, f"case{k} {key}", v, t[f"case{k}.{key}"]) and ok
        k += 1
    return ok and k > 0


def check(path):
    """True when every output in the file is what its inputs give here."""
    t = td.st_load(path)
    return check_vae(path, t) if "case0.latent" in t else network_holds(path, QwenImage21, output)


if __name__ == "__main__":
    sys.exit(main(__doc__, make, check))
