"""What safetensors files hold, for peers with PyTorch or without."""
import json
import struct


class Tensors:
    """The tensors whose names begin with `prefix`. Only what is asked for is read, so that a
    network in float32 does not need room for the file beside itself."""

    def __init__(self, path, prefix):
        self.file = open(path, "rb")
        (size,) = struct.unpack("<Q", self.file.read(8))
        header = json.loads(self.file.read(size))
        self.start = 8 + size
        # What the file says about itself where shapes cannot tell, as tests' small models do.
        self.config = json.loads(header.get("__metadata__", {}).get("config", "{}"))
        self.tensors = {name[len(prefix):]: t for name, t in header.items()
                        if name.startswith(prefix)}

    def shape(self, name):
        return self.tensors[name]["shape"]

    def kind(self, name):
        """F32, F16 or BF16."""
        return self.tensors[name]["dtype"]

    def bytes(self, name):
        first, end = self.tensors[name]["data_offsets"]
        self.file.seek(self.start + first)
        return bytearray(self.file.read(end - first))


def heads_rule(tensors):
    """How many heads attention of so many channels has: no tensor's shape tells."""
    said = tensors.config.get("unet", tensors.config)
    width = next(t["shape"][1] for name, t in tensors.tensors.items()
                 if name.endswith("attn2.to_k.weight"))
    heads = said.get("num_heads", 8 if width == 768 else 0)
    if heads and "num_head_channels" not in said:
        return lambda channels: heads
    return lambda channels: channels // said.get("num_head_channels", 64)
