#!/usr/bin/env python3
"""Fits the colours of previews to a model's own VAE and writes them into its file, as "latent_rgb" in
__metadata__.config (engine/sampling/preview.h). For models whose VAE is neither SD's nor SDXL's.

    tools/latent_rgb.py MODEL.safetensors FOLDER

FOLDER has what SaveLatent (*.latent) and SaveImage (*.png) wrote of the same latents, as many of one
as of the other, in the order of their names. The fit is tried on the half that it has not seen.

Debian: python3-numpy python3-pil.
"""
import glob
import json
import os
import struct
import sys

import numpy as np
from PIL import Image


def read(path):
    with open(path, "rb") as f:
        (size,) = struct.unpack("<Q", f.read(8))
        return json.loads(f.read(size)), f.read()


def pairs(latent_file, picture_file, scale):
    """One row for each pixel of the latent: its channels and a 1; its mean colour from -1 to 1."""
    header, data = read(latent_file)
    entry = header["latent_tensor"]
    first, end = entry["data_offsets"]
    latent = np.frombuffer(data[first:end], np.float32).reshape(entry["shape"])[0] * scale
    _, h, w = latent.shape
    colours = np.asarray(Image.open(picture_file).convert("RGB"), np.float32) / 127.5 - 1
    colours = colours.reshape(h, colours.shape[0] // h, w, colours.shape[1] // w, 3).mean((1, 3))
    channels = latent.transpose(1, 2, 0).reshape(h * w, -1)
    return np.c_[channels, np.ones(h * w)], colours.reshape(h * w, 3)


def fit(x, y):
    return np.linalg.lstsq(x, y, rcond=None)[0]


def explained(x, y, rows):
    return 1 - ((x @ rows - y) ** 2).sum() / ((y - y.mean(0)) ** 2).sum()


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    model, folder = sys.argv[1:]
    header, data = read(model)
    meta = header.setdefault("__metadata__", {})
    config = json.loads(meta.get("config", "{}"))
    files = [sorted(glob.glob(os.path.join(folder, "*" + s))) for s in (".latent", ".png")]
    if not files[0] or len(files[0]) != len(files[1]):
        sys.exit(f"{folder}: {len(files[0])} latents and {len(files[1])} pictures")
    both = [pairs(*f, config.get("scale_factor", 0.18215)) for f in zip(*files)]
    x, y = (np.concatenate(part) for part in zip(*both))
    half = len(x) // 2
    print(f"{len(files[0])} pictures; explains {explained(x[half:], y[half:], fit(x[:half], y[:half])):.2f} "
          "of the variance in the half that it has not seen")
    config["latent_rgb"] = np.round(fit(x, y), 4).tolist()
    meta["config"] = json.dumps(config)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(model + ".part", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)
    os.replace(model + ".part", model)


main()
