#!/usr/bin/env python3
"""PyTorch as a peer: one part of a model, which runs a step whenever it is told to.

    torch_peer.py unet|vae|upscaler|transformer f32|bf16 MODEL.safetensors [compiled]
    torch_peer.py export FILE.onnx MODEL.safetensors

The protocol is that of compare.py. `compiled` is by torch.compile, in the first step, with weights
that Inductor may lay out as it likes, which is its fastest for a model that stays. `export` writes the UNet for ONNX Runtime, with each tensor in a
file beside FILE.onnx, for latents of 64 x 64 pixels."""
import os
import sys

import torch

import attention
import peer
from checkpoint import group_norm_works
from transformer import Transformer
from unet import Block, UNet
from upscaler import Upscaler
from vae import Decoder

PARTS = {"unet": UNet, "vae": Decoder, "upscaler": Upscaler, "transformer": Transformer}
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def build(part, precision, path):
    net = PARTS[part](path, TYPES[precision])
    return net.eval().to(memory_format=torch.channels_last)


def compiled(net):
    import torch._inductor.config as inductor
    inductor.freezing = True
    return torch.compile(net, dynamic=False)


def shapes_of(part, net):
    if part == "vae":
        return [(1, net.parts[0].weight.shape[1], 64, 64)]
    if part == "upscaler":
        return [(1, 128, 128, 3)]
    if part == "transformer":
        return [(1, 16, 64, 64), (1,), (1, 77, net.config["context_dim"]),
                (1, net.config["pooled_dim"])]
    text = next(m for m in net.modules() if isinstance(m, Block)).attn2.k.weight.shape[1]
    picture = [(1, net.label0.weight.shape[1])] if net.label0 is not None else []
    return [(1, net.inputs[0][0].conv.weight.shape[1], 64, 64), (1,), (1, 77, text)] + picture


def read_floats(path, shape, dtype):
    with open(path, "rb") as f:
        value = torch.frombuffer(bytearray(f.read()), dtype=torch.float32).reshape(shape)
    # Steps stay float32: bfloat16 cannot tell 999 from 1000.
    value = value if len(shape) == 1 else value.to(dtype)
    return value.contiguous(memory_format=torch.channels_last) if len(shape) == 4 else value


def write_floats(path, value):
    value.float().contiguous().numpy().tofile(path)


def blas():
    """Where float32 matrix products come from. "reference" is the library that Debian installs
    unless told otherwise; it is not optimised."""
    torch.ones(2, 2) @ torch.ones(2, 2)
    with open("/proc/self/maps") as f:
        files = {line.split()[-1] for line in f if "/" in line}
    libraries = [f for f in files if os.path.basename(f).startswith("libblas.so")] or files
    for name in ("openblas", "blis", "atlas", "mkl"):
        if any(name in f for f in libraries):
            return name
    return "built in" if libraries is files else "reference"


def serve(part, precision, path, how="eager"):
    dtype = TYPES[precision]
    net = build(part, precision, path)
    shapes = shapes_of(part, net)
    if how == "compiled":
        net = compiled(net)
    given, made = [None] * len(shapes), None

    def take(i, file):
        given[i] = read_floats(file, shapes[i], dtype)

    def run():
        nonlocal made
        made = net(*given)

    peer.serve(f"torch {torch.__version__}, {how}, {torch.get_num_threads()} threads, "
               f"BLAS: {blas()}, attention {attention.fastest(dtype)}, GroupNorm in "
               + (precision if precision == "f32" or group_norm_works()
                  else "f32, as its bf16 is wrong"),
               take, run, lambda file: write_floats(file, made))


def export(file, path):
    net = build("unet", "f32", path)
    given = tuple(torch.zeros(shape) for shape in shapes_of("unet", net))
    torch.onnx.export(net, given, file, input_names=["x", "t", "context", "y"][:len(given)],
                      output_names=["out"], opset_version=17, do_constant_folding=False)


def main():
    # Inductor takes weights for constants only outside inference mode.
    with torch.no_grad() if "compiled" in sys.argv else torch.inference_mode():
        if sys.argv[1:2] == ["export"]:
            export(*sys.argv[2:])
        else:
            serve(*sys.argv[1:])


if __name__ == "__main__":
    main()
