#!/usr/bin/env python3
"""ggml as a peer: a UNet that runs a step whenever it is told to.

    ggml_peer.py FOLDER TYPE[,TYPE...] THREADS MODEL.safetensors

FOLDER has ggml's shared libraries. Matrices are of the TYPE (f32, f16, bf16, q8_0) that is the
fastest of those named. The protocol is that of compare.py."""
import sys

from ggml import Ggml
from ggml_unet import UNet
from peer import serve


def main():
    folder, types, threads, path = sys.argv[1:]
    g = Ggml(folder, int(threads))
    net = UNet(g, path, types.split(","))

    def take(i, file):
        with open(file, "rb") as f:
            net.give(i, f.read())

    def write(file):
        with open(file, "wb") as f:
            f.write(net.output())

    serve(f"ggml {g.version().decode()}, {threads} threads, {net.ways}", take,
          net.run, write)


if __name__ == "__main__":
    main()
