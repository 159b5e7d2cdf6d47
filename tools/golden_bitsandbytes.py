#!/usr/bin/env python3
"""Makes golden/small/bitsandbytes/layers.safetensors, random layers as bitsandbytes quantizes and
writes them (NF4 and FP4, scales in float32 or quantized themselves), and values.safetensors, what
its kernels make of each, from its definitions (engine/weights/bitsandbytes.h tells them), step by
step in float32.

    tools/golden_bitsandbytes.py OUTPUT-FOLDER          write the files
    tools/golden_bitsandbytes.py --check FOLDER...      hold what is computed against such files
"""
import json
import struct
import sys

import numpy as np

F32 = np.float32
NF4 = F32([-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
           -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
           0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
           0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0])
FP4 = F32([0.0, 0.005208333333, 0.66666667, 1.0, 0.33333333, 0.5, 0.16666667, 0.25])
TABLE = {"nf4": NF4, "fp4": np.concatenate([FP4, -FP4])}


def dynamic_map():
    """256 values of either sign, evenly spaced within each of seven powers of ten, 0 and 1."""
    out = [0.0, 1.0]
    for i in range(7):
        edges = np.linspace(0.1, 1, 2 ** i + 1)
        middle = (edges[1:] + edges[:-1]) / 2 * 10.0 ** (i - 6)
        out += [*middle, *-middle]
    return np.sort(F32(out))


def blocks(x, size):
    """Rows of `size` values, the last one filled up with zeros."""
    x = x.reshape(-1)
    return np.concatenate([x, np.zeros(-len(x) % size, x.dtype)]).reshape(-1, size)


def nearest(x, table):
    return np.abs(x[..., None] - table).argmin(-1).astype(np.uint8)


def quantized(w, kind, size, nested, stored="U8", scales="F32"):
    """Tensors of a weight, as (dtype, array), by their suffixes."""
    b = blocks(w, size)
    absmax = np.abs(b).max(1)
    code = nearest(b / absmax[:, None], TABLE[kind]).reshape(-1)[:w.size + w.size % 2]
    says = {"quant_type": kind, "blocksize": size, "dtype": "bfloat16", "shape": list(w.shape)}
    data = code[::2] << 4 | code[1::2]
    out = {"": (stored, data.view({"U8": np.uint8, "BF16": np.uint16}[stored]).reshape(-1, 1)),
           ".quant_map": (scales, TABLE[kind])}
    if nested:
        offset = absmax.mean()
        inner = blocks(absmax - offset, 256)
        most = np.abs(inner).max(1)
        byte = nearest(inner / most[:, None], dynamic_map())
        says.update(nested_blocksize=256, nested_dtype="float32", nested_offset=float(offset))
        out[".absmax"] = "U8", byte.reshape(-1)[:len(absmax)]
        out[".nested_absmax"] = "F32", most
        out[".nested_quant_map"] = "F32", dynamic_map()
    else:
        out[".absmax"] = scales, absmax
    text = np.frombuffer(json.dumps(says).encode(), np.uint8)
    out[f".quant_state.bitsandbytes__{kind}"] = "U8", text
    return out


def values(part):
    """What a weight holds, of its tensors by their suffixes."""
    state = next(v for k, v in part.items() if k.startswith(".quant_state."))
    says = json.loads(state.tobytes())
    data = part[""].reshape(-1).view(np.uint8)
    n = int(np.prod(says["shape"]))
    code = np.stack([data >> 4, data & 15], -1).reshape(-1)[:n]
    scale = part[".absmax"]
    if ".nested_absmax" in part:
        each = np.repeat(part[".nested_absmax"], says["nested_blocksize"])[:len(scale)]
        scale = part[".nested_quant_map"][scale] * each
        scale = scale + F32(says["nested_offset"])
    scale = np.repeat(scale.astype(F32), says["blocksize"])[:n]
    return (TABLE[says["quant_type"]][code] * scale).reshape(says["shape"])


def layers(rng):
    def weight(*shape):
        return (rng.standard_normal(shape) * 0.05).astype(F32)

    yield "nf4", quantized(weight(6, 128), "nf4", 64, False)
    yield "nested", quantized(weight(130, 128), "nf4", 64, True)
    yield "fp4", quantized(weight(5, 64), "fp4", 64, False)
    yield "fp4_nested", quantized(weight(9, 192), "fp4", 64, True)
    yield "large", quantized(weight(5, 192), "nf4", 128, False)  # half a block at the end
    yield "largest", quantized(weight(70, 64), "fp4", 4096, True)
    yield "small", quantized(weight(4, 64), "nf4", 32, False)
    yield "into_the_next_row", quantized(weight(7, 40), "nf4", 64, True)
    yield "odd", quantized(weight(3, 5), "fp4", 64, False)
    yield "conv", quantized(weight(4, 16, 2, 2), "nf4", 64, False)
    yield "stored", quantized(weight(4, 64), "nf4", 64, True, "BF16")
    yield "halves", quantized(weight(4, 64), "nf4", 64, False, "U8", "F16")


OF = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16, "U8": np.uint8}


def write(path, tensors):
    header, data = {}, b""
    for name, (dtype, v) in tensors.items():
        v = np.asarray(v, OF[dtype])
        header[name] = {"dtype": dtype, "shape": list(v.shape),
                        "data_offsets": [len(data), len(data) + v.nbytes]}
        data += v.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def read(path):
    with open(path, "rb") as f:
        n, = struct.unpack("<Q", f.read(8))
        header, data = json.loads(f.read(n)), f.read()
    return {k: np.frombuffer(data[slice(*v["data_offsets"])], OF[v["dtype"]]).reshape(v["shape"])
            for k, v in header.items()}


def make(folder):
    rng = np.random.default_rng(23)
    tensors = {f"{name}.weight{k}": v for name, part in layers(rng) for k, v in part.items()}
    tensors["plain.weight"] = "F32", rng.standard_normal((3, 5))
    write(f"{folder}/layers.safetensors", tensors)
    write(f"{folder}/values.safetensors", {k: ("F32", v) for k, v in of_file(folder).items()})


def of_file(folder):
    tensors, out = read(f"{folder}/layers.safetensors"), {}
    for name in [k for k in tensors if k.endswith(".weight")]:
        part = {k[len(name):]: v for k, v in tensors.items() if k.startswith(name)}
        out[name] = values(part) if len(part) > 1 else part[""]
    return out


def check(folder):
    ok = True
    want = read(f"{folder}/values.safetensors")
    for name, got in of_file(folder).items():
        same = got.shape == want[name].shape and got.tobytes() == want[name].tobytes()
        print("ok  " if same else "FAIL", name)
        ok = ok and same
    return ok


def main():
    if len(sys.argv) > 2 and sys.argv[1] == "--check":
        return 0 if all([check(folder) for folder in sys.argv[2:]]) else 1
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    make(sys.argv[1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
