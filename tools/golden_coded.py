#!/usr/bin/env python3
"""Makes golden/small/coded/layers.safetensors, layers in the formats that ComfyUI's tools quantize
weights to, and values.safetensors, what each holds, computed in float64 from the definitions
(engine/weights/coded.h tells them).

    tools/golden_coded.py OUTPUT-FOLDER          write the files
    tools/golden_coded.py --check FOLDER...      hold what is computed against such files
"""
import json
import struct
import sys

import numpy as np

SIGNS = np.array([[1, 1, 1, -1], [1, 1, -1, 1], [1, -1, 1, 1], [-1, 1, 1, 1]])


def hadamard(size):
    h = np.ones((1, 1))
    while h.shape[0] < size:
        h = np.kron(h, SIGNS)
    return h / np.sqrt(size)


def turned(w, group):
    """Each `group` values of a row times the matrix."""
    return (w.reshape(w.shape[0], -1, group) @ hadamard(group)).reshape(w.shape)


def float8(code, exponent_bits, mantissa_bits):
    """What OCP OFP8's E4M3 and E5M2 codes are worth; the codes here are finite ones."""
    code = code.astype(np.int64)
    bias = 2 ** (exponent_bits - 1) - 1
    sign = np.where(code & 128, -1.0, 1.0)
    exponent = code >> mantissa_bits & 2 ** exponent_bits - 1
    mantissa = code & 2 ** mantissa_bits - 1
    fraction = mantissa / 2.0 ** mantissa_bits
    return sign * np.where(exponent == 0, fraction * 2.0 ** (1 - bias),
                           (1 + fraction) * 2.0 ** (exponent - bias))


def of_blocks(scale, rows, blocks):
    """Scales in cuBLAS's tiles of 128 rows and 4 blocks as a matrix."""
    tiles = scale.reshape(-(-rows // 128), -(-blocks // 4), 32, 4, 4)
    return tiles.transpose(0, 3, 2, 1, 4).reshape(-(-rows // 128) * 128, -1)[:rows, :blocks]


def values(says, t):
    """The float64 values of one layer."""
    w, scale, form = t["weight"], t.get("weight_scale"), says["format"]
    rows = w.shape[0]
    if form in ("int8_tensorwise", "convrot_w4a4"):
        if form == "convrot_w4a4":
            byte = w.view(np.uint8).astype(np.int64)
            w = np.stack([byte & 15, byte >> 4], -1).reshape(rows, -1)
            w = np.where(w > 7, w - 16, w)
        out = w.astype(np.float64) * scale.astype(np.float64).reshape([-1] + [1] * (w.ndim - 1))
        if says.get("convrot", form == "convrot_w4a4"):
            out = turned(out, says.get("convrot_groupsize", 256))
        return out
    if form.startswith("float8"):
        bits = (5, 2) if "e5m2" in form else (4, 3)
        return float8(w, *bits) * scale.astype(np.float64).reshape(-1, 1)
    if form == "mxfp8":
        s = 2.0 ** (of_blocks(scale, rows, w.shape[1] // 32).astype(np.float64) - 127)
        return float8(w, 4, 3) * np.repeat(s, 32, 1)
    assert form == "nvfp4"
    code = np.stack([w >> 4, w & 15], -1).reshape(rows, -1)
    value = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])[code & 7] * np.where(code & 8, -1.0, 1.0)
    s = float8(of_blocks(scale, rows, value.shape[1] // 16), 4, 3) * float(t["weight_scale_2"])
    return value * np.repeat(s, 16, 1)


def finite_fp8(rng, shape, e5m2=False):
    code = rng.integers(0, 256, shape).astype(np.uint8)
    return np.where((code & 127) > (0x7b if e5m2 else 0x7e), 0, code).astype(np.uint8)


def layers(rng):
    """Name, what is said of it, whether the file's metadata say it, and its tensors."""
    def int8(*shape):
        return rng.integers(-127, 128, shape).astype(np.int8)

    def bytes_of(*shape):
        return rng.integers(0, 256, shape).astype(np.uint8)

    def scale(*shape):
        return rng.uniform(0.001, 0.02, shape).astype(np.float32)

    def tiles(rows, blocks):
        return -(-rows // 128) * 128, -(-blocks // 4) * 4

    def turn(group):
        return {"format": "int8_tensorwise", "convrot": True, "convrot_groupsize": group}

    plain = {"format": "int8_tensorwise"}
    yield "row", plain, 0, {"weight": int8(12, 40), "weight_scale": scale(12, 1)}
    yield "one", plain, 0, {"weight": int8(5, 33), "weight_scale": scale()}
    yield "conv", plain, 0, {"weight": int8(4, 3, 3, 3), "weight_scale": scale(4, 1, 1, 1)}
    yield "turned", turn(256), 0, {"weight": int8(6, 512), "weight_scale": scale(6, 1)}
    yield "turned_by_16", turn(16), 0, {"weight": int8(7, 48), "weight_scale": scale(7)}
    yield "listed", turn(64), 1, {"weight": int8(4, 128), "weight_scale": scale(4, 1)}
    yield "int4", {"format": "convrot_w4a4", "convrot_groupsize": 64}, 0, {
        "weight": bytes_of(3, 64).view(np.int8), "weight_scale": scale(3)}
    yield "e4m3", {"format": "float8_e4m3fn"}, 0, {
        "weight": finite_fp8(rng, (9, 20)), "weight_scale": scale(9, 1)}
    yield "e5m2", {"format": "float8_e5m2"}, 0, {
        "weight": finite_fp8(rng, (3, 10), True), "weight_scale": scale(3)}
    yield "scaled", {"format": "float8_e4m3fn"}, 0, {
        "weight": finite_fp8(rng, (4, 6)), "weight_scale": scale()}
    yield "mxfp8", {"format": "mxfp8"}, 0, {
        "weight": finite_fp8(rng, (150, 160)),
        "weight_scale": rng.integers(110, 135, tiles(150, 5)).astype(np.uint8)}
    yield "nvfp4", {"format": "nvfp4"}, 1, {
        "weight": bytes_of(130, 40), "weight_scale": finite_fp8(rng, tiles(130, 5)) & 127,
        "weight_scale_2": scale()}


FP8 = {"e4m3.weight": "F8_E4M3", "e5m2.weight": "F8_E5M2", "scaled.weight": "F8_E4M3",
       "mxfp8.weight": "F8_E4M3", "mxfp8.weight_scale": "F8_E8M0",
       "nvfp4.weight_scale": "F8_E4M3"}
OWN = {"int8": "I8", "uint8": "U8", "float32": "F32"}


def write(path, tensors, metadata):
    """Like safetensors' own writer, which lacks types of 8 bits here."""
    header, data = {"__metadata__": metadata} if metadata else {}, b""
    for name, v in tensors.items():
        v = np.asarray(v)
        own = OWN[v.dtype.name]
        header[name] = {"dtype": FP8.get(name, own) if own == "U8" else own,
                        "shape": list(v.shape),
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
    of = {"I8": np.int8, "F32": np.float32}
    metadata = header.pop("__metadata__", {})
    return metadata, {k: np.frombuffer(data[slice(*v["data_offsets"])],
                                       of.get(v["dtype"], np.uint8)).reshape(v["shape"])
                      for k, v in header.items()}


def make(folder):
    rng = np.random.default_rng(17)
    tensors, want, listed = {}, {}, {}
    for name, says, by_metadata, parts in layers(rng):
        for part, v in parts.items():
            tensors[f"{name}.{part}"] = v
        if by_metadata:
            listed[name] = says
        else:
            tensors[f"{name}.comfy_quant"] = np.frombuffer(json.dumps(says).encode(), np.uint8)
        want[f"{name}.weight"] = values(says, parts).astype(np.float32)
    tensors["plain.weight"] = want["plain.weight"] = rng.standard_normal((3, 5)).astype(np.float32)
    tensors["row.input_scale"] = np.float32(1)
    write(f"{folder}/layers.safetensors", tensors,
          {"_quantization_metadata": json.dumps({"format_version": "1.0", "layers": listed})})
    write(f"{folder}/values.safetensors", want, None)


def check(folder):
    metadata, tensors = read(f"{folder}/layers.safetensors")
    says = json.loads(metadata["_quantization_metadata"])["layers"]
    says.update((k[:-12], json.loads(v.tobytes())) for k, v in tensors.items()
                if k.endswith(".comfy_quant"))
    ok = True
    for name, want in read(f"{folder}/values.safetensors")[1].items():
        layer = name[:-7]
        parts = {k.rsplit(".", 1)[1]: v for k, v in tensors.items()
                 if k.rsplit(".", 1)[0] == layer}
        got = values(says[layer], parts) if layer in says else parts["weight"]
        same = np.array_equal(np.float32(got), want)
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
