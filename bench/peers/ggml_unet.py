"""The UNet of Stable Diffusion 1.x, 2.x and XL as a graph of ggml, with the checkpoints' names.

Convolutions and attention are those of ggml's that are fastest on the processor at hand. As in
other programs that use ggml, 8-bit blocks are for matrices only: kernels of convolutions, whose
rows are three values, stay float16."""
import ctypes
import functools

from ggml import F16, F32, Q8_0, TYPES
from tensors import Tensors, heads_rule

PREFIX = "model.diffusion_model."


class Ways:
    """Which of ggml's operators, and of the types of matrices to choose from, are the fastest
    here for each shape, found by time."""

    def __init__(self, g, types):
        self.g, self.found = g, {}
        self.type = min(types, key=lambda to: self.seconds(
            g.mul_mat, (TYPES[to], 320, 1280, 1, 1), (F32, 320, 4096, 1, 1)))
        self.matrix = TYPES[self.type]
        self.kernel = F32 if self.matrix == F32 else F16  # ggml's im2col has no other

    def seconds(self, operator, *shapes):
        def build(context):
            given = [self.g.new_tensor_4d(context, *shape) for shape in shapes]
            for x in given:
                self.g.set_input(x)
            return operator(context, *given)
        return self.g.seconds(build)

    def fastest(self, ways, *shapes):
        key = (tuple(ways), shapes)
        if key not in self.found:
            self.found[key] = min(ways, key=lambda name: self.seconds(ways[name], *shapes))
        return ways[self.found[key]]

    def conv(self, context, w, x, stride):
        pad = extent(w, 0) // 2

        def way(operator):
            return lambda c, w, x: operator(c, w, x, stride, stride, pad, pad, 1, 1)

        g = self.g
        ways = {f"im2col/{stride}": way(g.conv_2d), f"direct/{stride}": way(g.conv_2d_direct)}
        shapes = (self.kernel, *extents(w)), (F32, *extents(x))
        return self.fastest(ways, *shapes)(context, w, x)

    def attention(self, context, q, k, v):
        ways = {name: functools.partial(way, self.g)
                for name, way in (("written out", written_out), ("flash", flash))}
        shapes = [(F32, *extents(t)) for t in (q, k, v)]
        return self.fastest(ways, *shapes)(context, q, k, v)

    def __str__(self):
        taken = [name.partition("/")[0] for name in self.found.values()]
        return f"{self.type}, " + ", ".join(
            f"{name} for {taken.count(name)}" for name in sorted(set(taken))) + " shapes"


def written_out(g, c, q, k, v):
    """Of [head_dim, tokens, heads, n]; gives the same with tokens and heads changed about."""
    head_dim = extent(q, 0)
    scores = g.soft_max_ext(c, g.mul_mat(c, k, q), None, head_dim ** -0.5, 0.0)
    out = g.mul_mat(c, g.cont(c, g.permute(c, v, 1, 0, 2, 3)), scores)
    return g.cont(c, g.permute(c, out, 0, 2, 1, 3))


def flash(g, c, q, k, v):
    head_dim = extent(q, 0)
    return g.flash_attn_ext(c, q, g.cast(c, k, F16), g.cast(c, v, F16), None, head_dim ** -0.5,
                            0.0, 0.0)


def extent(tensor, axis):
    return extents(tensor)[axis]


def extents(tensor):
    """Of a ggml_tensor, which begins with its type, its buffer's address and the sizes."""
    return tuple(ctypes.cast(tensor + 16, ctypes.POINTER(ctypes.c_int64))[:4])


class UNet:
    """Takes latents (N,C,h,w), steps (N), text (N,tokens,width) and, where the model has it, what
    is known of the picture (N,adm). Matrices are of the fastest of `types`."""

    def __init__(self, g, path, types):
        self.g, self.file = g, Tensors(path, PREFIX)
        self.ways = Ways(g, types)
        self.heads_of = heads_rule(self.file)
        self.weights, self.kept = g.context(2 * len(self.file.tensors)), []
        self.c = g.context(16384)
        self.inputs, out = self.build()
        if not g.backend_alloc_ctx_tensors_from_buft(self.weights, g.memory):
            raise MemoryError("no memory for ggml's weights")
        for tensor, name, to, row in self.kept:
            data = g.packed(self.file.bytes(name), self.file.kind(name), to, row)
            g.backend_tensor_set(tensor, data, 0, ctypes.sizeof(data))
        self.result = out
        self.graph, self.memory = g.graph(self.c, out)

    # -------------------------------------------------------------- layers

    def has(self, name):
        return any(k.startswith(name) for k in self.file.tensors)

    def weight(self, name, to, sizes):
        sizes = list(sizes) + [1] * (4 - len(sizes))
        tensor = self.g.new_tensor_4d(self.weights, to, *sizes)
        self.kept.append((tensor, name, to, sizes[0]))
        return tensor

    def linear(self, at, x):
        """Also by a convolution of one pixel, which is the same matrix."""
        rows, columns = self.file.shape(at + ".weight")[:2]
        to = self.ways.matrix
        if to == Q8_0 and columns % 32:
            to = F16
        x = self.g.mul_mat(self.c, self.weight(at + ".weight", to, (columns, rows)), x)
        if self.has(at + ".bias"):
            x = self.g.add(self.c, x, self.weight(at + ".bias", F32, (rows,)))
        return x

    def conv(self, at, x, stride=1):
        rows, columns, side, _ = self.file.shape(at + ".weight")
        w = self.weight(at + ".weight", self.ways.kernel, (side, side, columns, rows))
        x = self.ways.conv(self.c, w, x, stride)
        return self.g.add(self.c, x, self.weight(at + ".bias", F32, (1, 1, rows)))

    def scaled(self, at, x, sizes):
        x = self.g.mul(self.c, x, self.weight(at + ".weight", F32, sizes))
        return self.g.add(self.c, x, self.weight(at + ".bias", F32, sizes))

    def group_norm(self, at, x, eps=1e-5):
        (channels,) = self.file.shape(at + ".weight")
        return self.scaled(at, self.g.group_norm(self.c, x, min(32, channels), eps),
                           (1, 1, channels))

    def layer_norm(self, at, x):
        return self.scaled(at, self.g.norm(self.c, x, 1e-5), self.file.shape(at + ".weight"))

    # -------------------------------------------------------------- blocks

    def res(self, at, x, emb):
        g, c = self.g, self.c
        h = self.conv(at + "in_layers.2", g.silu(c, self.group_norm(at + "in_layers.0", x)))
        e = self.linear(at + "emb_layers.1", g.silu(c, emb))
        h = g.add(c, h, g.reshape_4d(c, e, 1, 1, extent(e, 0), extent(e, 1)))
        h = self.conv(at + "out_layers.3", g.silu(c, self.group_norm(at + "out_layers.0", h)))
        return g.add(c, h, self.conv(at + "skip_connection", x)
                     if self.has(at + "skip_connection.") else x)

    def attend(self, at, x, context, heads):
        g, c = self.g, self.c
        split = []
        for name, source in (("to_q", x), ("to_k", context), ("to_v", context)):
            y = self.linear(at + name, source)
            width, tokens, n = (extent(y, i) for i in range(3))
            y = g.reshape_4d(c, y, width // heads, heads, tokens, n)
            split.append(g.cont(c, g.permute(c, y, 0, 2, 1, 3)))
        y = self.ways.attention(c, *split)  # [head_dim, heads, tokens, n]
        y = g.reshape_4d(c, y, extent(y, 0) * heads, extent(y, 2), extent(y, 3), 1)
        return self.linear(at + "to_out.0", y)

    def block(self, at, x, context, heads):
        g, c = self.g, self.c
        y = self.layer_norm(at + "norm1", x)
        x = g.add(c, x, self.attend(at + "attn1.", y, y, heads))
        x = g.add(c, x, self.attend(at + "attn2.", self.layer_norm(at + "norm2", x), context,
                                    heads))
        y = self.linear(at + "ff.net.0.proj", self.layer_norm(at + "norm3", x))
        return g.add(c, x, self.linear(at + "ff.net.2", g.geglu_erf_swapped(c, y)))

    def transformer(self, at, x, context):
        g, c = self.g, self.c
        w, h, channels, n = (extent(x, i) for i in range(4))
        y = g.permute(c, self.group_norm(at + "norm", x, 1e-6), 1, 2, 0, 3)
        y = self.linear(at + "proj_in", g.cont_4d(c, y, channels, w * h, n, 1))
        heads, i = self.heads_of(extent(y, 0)), 0
        while self.has(f"{at}transformer_blocks.{i}."):
            y = self.block(f"{at}transformer_blocks.{i}.", y, context, heads)
            i += 1
        y = g.cont(c, g.permute(c, self.linear(at + "proj_out", y), 1, 0, 2, 3))
        return g.add(c, x, g.reshape_4d(c, y, w, h, channels, n))

    def stage(self, at, x, emb, context):
        """The parts of input_blocks.N or the like, by what their tensors are called."""
        i = 0
        while self.has(f"{at}{i}."):
            p = f"{at}{i}."
            if self.has(p + "in_layers."):
                x = self.res(p, x, emb)
            elif self.has(p + "transformer_blocks."):
                x = self.transformer(p, x, context)
            elif self.has(p + "op."):
                x = self.conv(p + "op", x, stride=2)
            elif self.has(p + "conv."):
                x = self.conv(p + "conv", self.g.upscale(self.c, x, 2, 0))
            else:
                x = self.conv(p[:-1], x)
            i += 1
        return x

    def build(self):
        g, c, shape = self.g, self.c, self.file.shape
        text = next(t["shape"][1] for name, t in self.file.tensors.items()
                    if name.endswith("attn2.to_k.weight"))
        x = g.new_tensor_4d(c, F32, 64, 64, shape("input_blocks.0.0.weight")[1], 1)
        t = g.new_tensor_4d(c, F32, 1, 1, 1, 1)
        context = g.new_tensor_4d(c, F32, text, 77, 1, 1)
        given = [x, t, context]
        emb = g.timestep_embedding(c, t, shape("time_embed.0.weight")[1], 10000)
        emb = self.linear("time_embed.2", g.silu(c, self.linear("time_embed.0", emb)))
        if self.has("label_emb."):
            y = g.new_tensor_4d(c, F32, shape("label_emb.0.0.weight")[1], 1, 1, 1)
            given.append(y)
            y = self.linear("label_emb.0.2", g.silu(c, self.linear("label_emb.0.0", y)))
            emb = g.add(c, emb, y)
        for tensor in given:
            g.set_input(tensor)
        kept, i = [], 0
        while self.has(f"input_blocks.{i}."):
            x = self.stage(f"input_blocks.{i}.", x, emb, context)
            kept.append(x)
            i += 1
        x, i = self.stage("middle_block.", x, emb, context), 0
        while self.has(f"output_blocks.{i}."):
            x = self.stage(f"output_blocks.{i}.", g.concat(c, x, kept.pop(), 2), emb, context)
            i += 1
        return given, self.conv("out.2", g.silu(c, self.group_norm("out.0", x)))

    # -------------------------------------------------------------- a step

    def give(self, i, data):
        tensor = self.inputs[i]
        if len(data) != self.g.nbytes(tensor):
            raise ValueError(f"input {i} has {len(data)} bytes, not {self.g.nbytes(tensor)}")
        self.g.backend_tensor_set(tensor, bytes(data), 0, len(data))

    def run(self):
        self.g.compute(self.graph)

    def output(self):
        data = (ctypes.c_char * self.g.nbytes(self.result))()
        self.g.backend_tensor_get(self.result, data, 0, len(data))
        return bytes(data)

