#!/usr/bin/env python3
"""Makes golden/small/gguf/blocks.gguf, a file that ggml itself writes, and blocks.safetensors, what
ggml's decoders make of it: every type of blocks that is read, with random bits.

    tools/golden_gguf.py LIBGGML-BASE.SO OUTPUT-FOLDER     write the files
    tools/golden_gguf.py --check LIBGGML-BASE.SO FILE...   hold what ggml decodes against such files

libggml-base.so is of ggml (MIT); the files in the repository are by version 3.22.1 of the npm
package @node-llama-cpp/linux-x64, which has one.
"""
import ctypes
import json
import os
import random
import struct
import sys
import tempfile

ROWS, ROW = 3, 768
# ggml_type, its name in the library, and where in a block a float16 lies
BLOCKS = [(2, "q4_0", [0]), (3, "q4_1", [0, 2]), (6, "q5_0", [0]), (7, "q5_1", [0, 2]),
          (8, "q8_0", [0]), (10, "q2_K", [80, 82]), (11, "q3_K", [108]), (12, "q4_K", [0, 2]),
          (13, "q5_K", [0, 2]), (14, "q6_K", [208]), (20, "iq4_nl", [0]), (23, "iq4_xs", [0])]


class InitParams(ctypes.Structure):
    _fields_ = [("mem_size", ctypes.c_size_t), ("mem_buffer", ctypes.c_void_p),
                ("no_alloc", ctypes.c_bool)]


def open_library(path):
    lib = ctypes.CDLL(path)
    p, i, n = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
    for name, result, args in [
            ("ggml_init", p, [InitParams]), ("ggml_new_tensor", p, [p, i, i, ctypes.POINTER(n)]),
            ("ggml_set_name", p, [p, ctypes.c_char_p]), ("ggml_get_data", p, [p]),
            ("ggml_nbytes", ctypes.c_size_t, [p]), ("ggml_type_size", ctypes.c_size_t, [i]),
            ("gguf_init_empty", p, []), ("gguf_add_tensor", None, [p, p]),
            ("gguf_set_val_str", None, [p, ctypes.c_char_p, ctypes.c_char_p]),
            ("gguf_set_val_u32", None, [p, ctypes.c_char_p, ctypes.c_uint32]),
            ("gguf_set_val_bool", None, [p, ctypes.c_char_p, ctypes.c_bool]),
            ("gguf_set_val_f64", None, [p, ctypes.c_char_p, ctypes.c_double]),
            ("gguf_set_arr_str", None, [p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p),
                                        ctypes.c_size_t]),
            ("gguf_set_arr_data", None, [p, ctypes.c_char_p, i, p, ctypes.c_size_t]),
            ("gguf_write_to_file", ctypes.c_bool, [p, ctypes.c_char_p, ctypes.c_bool])]:
        f = getattr(lib, name)
        f.restype, f.argtypes = result, args
    return lib


def random_blocks(rng, size, count, halves):
    out = bytearray()
    for _ in range(count):
        block = bytearray(rng.randbytes(size))
        for at in halves:
            block[at:at + 2] = struct.pack("<e", rng.uniform(-0.05, 0.05))
        out += block
    return bytes(out)


def decode(lib, name, data, n):
    out = (ctypes.c_float * n)()
    f = getattr(lib, "dequantize_row_" + name)
    f.restype, f.argtypes = None, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    f(data, out, n)
    return bytes(out)


def make(lib, folder):
    rng = random.Random(2607)
    ctx = lib.ggml_init(InitParams(1 << 20, None, False))
    gguf = lib.gguf_init_empty()
    texts = (ctypes.c_char_p * 2)(b"a", b"")
    original = (ctypes.c_int32 * 3)(ROWS, 2, ROW // 2)
    lib.gguf_set_val_str(gguf, b"general.architecture", b"test")
    lib.gguf_set_val_bool(gguf, b"a.flag", True)
    lib.gguf_set_val_f64(gguf, b"a.number", 0.5)
    lib.gguf_set_arr_str(gguf, b"a.list", texts, 2)
    lib.gguf_set_arr_data(gguf, b"comfy.gguf.orig_shape.q8_0", 5, original, 3)
    expected = []

    def add(name, kind, dims, data):
        t = lib.ggml_new_tensor(ctx, kind, len(dims), (ctypes.c_int64 * len(dims))(*dims[::-1]))
        lib.ggml_set_name(t, name.encode())
        assert lib.ggml_nbytes(t) == len(data), name
        ctypes.memmove(lib.ggml_get_data(t), data, len(data))
        lib.gguf_add_tensor(gguf, t)

    for kind, name, halves in BLOCKS:
        values = 32 if lib.ggml_type_size(kind) < 40 else 256
        data = random_blocks(rng, lib.ggml_type_size(kind), ROWS * ROW // values, halves)
        add(name, kind, [ROWS, ROW], data)
        shape = [ROWS, 2, ROW // 2] if name == "q8_0" else [ROWS, ROW]
        expected.append((name, shape, decode(lib, name, data, ROWS * ROW)))
    for name, kind, code in (("f32", 0, "f"), ("f16", 1, "e")):
        v = [rng.randrange(-512, 512) / 256 for _ in range(24)]
        add(name, kind, [2, 3, 4], struct.pack(f"<24{code}", *v))
        expected.append((name, [2, 3, 4], struct.pack("<24f", *v)))
    v = [rng.randrange(-128, 128) / 64 for _ in range(5)]
    add("bf16", 30, [5], b"".join(struct.pack("<f", x)[2:] for x in v))
    expected.append(("bf16", [5], struct.pack("<5f", *v)))
    assert lib.gguf_write_to_file(gguf, os.path.join(folder, "blocks.gguf").encode(), False)
    write(os.path.join(folder, "blocks.safetensors"), expected)


def write(path, tensors):
    header, at = {}, 0
    for name, shape, data in tensors:
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tensors:
            f.write(data)


def check(lib, path):
    """Whether ggml makes the same of the same bits: both files are written anew."""
    with tempfile.TemporaryDirectory() as folder, open(path, "rb") as f:
        make(lib, folder)
        same = open(os.path.join(folder, os.path.basename(path)), "rb").read() == f.read()
    print("ok  " if same else "FAIL", path)
    return same


def main(args):
    if len(args) > 2 and args[0] == "--check":
        lib = open_library(args[1])
        return 0 if all([check(lib, path) for path in args[2:]]) else 1
    if len(args) != 2 or args[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    make(open_library(args[0]), args[1])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
