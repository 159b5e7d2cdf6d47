#!/usr/bin/env python3
"""Makes golden/small/pytorch/*: files as torch.save() writes them, in all forms that graft convert
reads. tests/weights/pytorch.c has what is in them; all values are small multiples of 1/4, counted
up from a tensor's first.

    tools/golden_pytorch.py OUTPUT-FOLDER

Debian: python3-torch. Those in the repository are from 1.13.
"""
import collections
import io
import os
import struct
import sys
import zipfile

import torch


def count(first, *shape):
    return (torch.arange(torch.Size(shape).numel()) + first).reshape(shape) / 4


def checkpoint():
    """What a trainer saves: weights of many kinds, and its own state."""
    storage = count(0, 10)
    weights = collections.OrderedDict(
        [("first.weight", count(1, 3, 4)), ("first.bias", count(-2, 3).half()),
         ("bf16", count(5, 2, 2).bfloat16()), ("f64", count(3, 2).double()),
         ("ids", torch.arange(5)), ("i32", torch.arange(3, dtype=torch.int32)),
         ("i8", torch.arange(-2, 2, dtype=torch.int8)),
         ("u8", torch.arange(250, 254, dtype=torch.uint8)),
         ("yes", torch.tensor([True, False])), ("scalar", torch.tensor(2.5)),
         ("empty", torch.zeros(0, 3)), ("part", storage[3:7]), ("again", storage),
         ("turned", count(0, 4, 6).t()), ("every_other", count(0, 6)[::2]),
         ("channels_last", count(0, 2, 3, 4, 5).to(memory_format=torch.channels_last)),
         ("parameter", torch.nn.Parameter(count(7, 2))),
         ("expanded", torch.ones(1).expand(7)), ("complex", torch.zeros(2, dtype=torch.complex64)),
         ("i16", torch.zeros(2, dtype=torch.int16))])
    return {"epoch": 3, "state_dict": weights,
            "optimizer_states": [{"state": {0: {"step": 7, "exp_avg": torch.randn(2)}}}],
            "callbacks": {torch.nn.Linear: {"best": 1.5, "path": None}}, "lr_schedulers": []}


def module():
    """A whole module: an object, whose state_dict() is inside."""
    m = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 1), torch.nn.BatchNorm2d(3))
    for i, t in enumerate(m.state_dict().values()):
        t.copy_(count(10 * i, *t.shape))
    return m


def zip64(data):
    """The same archive with the directory that files beyond 4 GiB have."""
    source, out, directory = zipfile.ZipFile(io.BytesIO(data)), io.BytesIO(), b""
    entries = source.infolist()
    for entry in entries:
        name, body, at = entry.filename.encode(), source.read(entry), out.tell()
        sizes = struct.pack("<HHQQ", 1, 16, len(body), len(body))
        out.write(struct.pack("<IHHHHHIIIHH", 0x04034B50, 45, 0, 0, 0, 33, entry.CRC, 0xFFFFFFFF,
                              0xFFFFFFFF, len(name), len(sizes)) + name + sizes + body)
        extra = struct.pack("<HHQQQ", 1, 24, len(body), len(body), at)
        directory += struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 45, 45, 0, 0, 0, 33, entry.CRC,
                                 0xFFFFFFFF, 0xFFFFFFFF, len(name), len(extra), 0, 0, 0, 0,
                                 0xFFFFFFFF) + name + extra
    at = out.tell()
    out.write(directory)
    end = out.tell()
    out.write(struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, len(entries), len(entries),
                          len(directory), at))
    out.write(struct.pack("<IIQI", 0x07064B50, 0, end, 1))
    out.write(struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0))
    return out.getvalue()


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)

    def save(name, what, **more):
        torch.save(what, os.path.join(folder, name), **more)

    save("checkpoint.ckpt", checkpoint())
    save("legacy.ckpt", checkpoint(), _use_new_zipfile_serialization=False)
    save("protocol5.pt", {"a": count(1, 2, 3)}, pickle_protocol=5)
    save("module.pt", module())
    save("embedding.pt", {"string_to_token": {"*": 265},
                          "string_to_param": torch.nn.ParameterDict({"*": torch.nn.Parameter(count(4, 2, 8))}),
                          "name": "thing", "step": 500})
    save("upscaler.pth", {"params": {"conv.weight": count(0, 1, 1, 3, 3)},
                          "params_ema": {"conv.weight": count(1, 1, 1, 3, 3)}})
    torch.jit.save(torch.jit.script(module()), os.path.join(folder, "script.pt"))
    buffer = io.BytesIO()
    torch.save({"a": count(1, 2, 3)}, buffer)
    with open(os.path.join(folder, "zip64.pt"), "wb") as f:
        f.write(zip64(buffer.getvalue()))


main()
