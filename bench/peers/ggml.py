"""ggml (https://github.com/ggml-org/ggml, MIT) by ctypes: its shared libraries as npm's package
@node-llama-cpp/linux-x64 has them, one for each kind of processor, of which ggml takes the best.

Sizes of a ggml tensor begin with the innermost: a picture is [w, h, c, n], tokens are [c, t, n]."""
import ctypes
import glob
import os
import time

F32, F16, Q8_0, BF16 = 0, 1, 8, 30
TYPES = {"f32": F32, "f16": F16, "bf16": BF16, "q8_0": Q8_0}
CODES = {"p": ctypes.c_void_p, "i": ctypes.c_int, "n": ctypes.c_int64, "z": ctypes.c_size_t,
         "f": ctypes.c_float, "b": ctypes.c_bool, "s": ctypes.c_char_p, "v": None}
# What is called, with what it returns and takes.
FUNCTIONS = {
    "version": "s", "free": "vp", "new_tensor_4d": "ppinnnn", "nbytes": "zp",
    "row_size": "zin", "add": "pppp", "mul": "pppp", "silu": "ppp", "group_norm": "pppif",
    "norm": "pppf", "mul_mat": "pppp", "conv_2d": "ppppiiiiii", "conv_2d_direct": "ppppiiiiii",
    "concat": "ppppi", "upscale": "pppii", "geglu_erf_swapped": "ppp", "timestep_embedding": "pppii",
    "permute": "pppiiii", "cont": "ppp", "cont_4d": "pppnnnn", "reshape_4d": "pppnnnn",
    "cast": "pppi", "soft_max_ext": "ppppff",
    "flash_attn_ext": "ppppppfff", "new_graph_custom": "ppzb", "build_forward_expand": "vpp",
    "set_input": "vp", "set_output": "vp", "gallocr_new": "pp", "gallocr_free": "vp",
    "gallocr_alloc_graph": "bpp", "fp16_to_fp32_row": "vppn",
    "bf16_to_fp32_row": "vppn", "fp32_to_fp16_row": "vppn", "fp32_to_bf16_row": "vppn",
    "quantize_chunk": "zippnnnp", "backend_alloc_ctx_tensors_from_buft": "ppp",
    "backend_get_default_buffer_type": "pp",
    "backend_tensor_set": "vppzz", "backend_tensor_get": "vppzz", "backend_graph_compute": "ipp",
    "backend_get_device": "pp", "backend_dev_backend_reg": "pp",
    "backend_reg_get_proc_address": "pps",
}
REGISTRY = {"backend_load_all_from_path": "vs", "backend_init_by_type": "pis"}


class Params(ctypes.Structure):
    _fields_ = [("mem_size", ctypes.c_size_t), ("mem_buffer", ctypes.c_void_p),
                ("no_alloc", ctypes.c_bool)]


class Ggml:
    """The libraries in `folder` and a backend with `threads` threads; functions by their names
    without "ggml_"."""

    def __init__(self, folder, threads):
        base = ctypes.CDLL(os.path.join(folder, "libggml-base.so"), ctypes.RTLD_GLOBAL)
        registry = ctypes.CDLL(next(f for f in glob.glob(os.path.join(folder, "libggml*.so"))
                                    if "-" not in os.path.basename(f)), ctypes.RTLD_GLOBAL)
        for library, functions in ((base, FUNCTIONS), (registry, REGISTRY)):
            for name, codes in functions.items():
                f = getattr(library, "ggml_" + name)
                f.restype, f.argtypes = CODES[codes[0]], [CODES[c] for c in codes[1:]]
                setattr(self, name, f)
        base.ggml_init.restype, base.ggml_init.argtypes = ctypes.c_void_p, [Params]
        self.init = base.ggml_init
        self.backend_load_all_from_path(folder.encode())
        self.backend = self.backend_init_by_type(0, None)  # the processor
        if not self.backend:
            raise RuntimeError("ggml has no backend for this processor")
        device = self.backend_get_device(self.backend)
        set_threads = self.backend_reg_get_proc_address(self.backend_dev_backend_reg(device),
                                                        b"ggml_backend_set_n_threads")
        ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int)(set_threads)(self.backend, threads)
        self.memory = self.backend_get_default_buffer_type(self.backend)

    def context(self, tensors):
        """For the descriptions of so many tensors; their values lie elsewhere."""
        return self.init(Params(tensors * 512 + (1 << 20), None, True))

    def graph(self, context, result, size=8192):
        """A graph that computes `result`, and what its memory belongs to."""
        graph = self.new_graph_custom(context, size, False)
        self.set_output(result)
        self.build_forward_expand(graph, result)
        memory = self.gallocr_new(self.memory)
        if not self.gallocr_alloc_graph(memory, graph):
            raise MemoryError("no memory for ggml's graph")
        return graph, memory

    def compute(self, graph):
        status = self.backend_graph_compute(self.backend, graph)
        if status:
            raise RuntimeError(f"ggml's graph ended with status {status}")

    def seconds(self, build, rounds=4):
        """The least that a small graph takes, whose tensors `build(context)` makes."""
        context = self.context(64)
        try:
            result = build(context)
            graph, memory = self.graph(context, result, 64)
            times = []
            for _ in range(rounds):
                start = time.perf_counter()
                self.compute(graph)
                times.append(time.perf_counter() - start)
            self.gallocr_free(memory)
            return min(times[1:])
        finally:
            self.free(context)

    def packed(self, data, kind, to, row):
        """The values of a tensor of a file ("F32", "F16" or "BF16") in rows of `row` values, as
        ggml's type `to`."""
        n = len(data) // (4 if kind == "F32" else 2)
        source = (ctypes.c_char * len(data)).from_buffer(data)
        if (kind, to) in (("F32", F32), ("F16", F16), ("BF16", BF16)):
            return source
        if kind != "F32":
            values = (ctypes.c_float * n)()
            (self.fp16_to_fp32_row if kind == "F16" else self.bf16_to_fp32_row)(source, values, n)
            source = values
        if to == F32:
            return source
        out = (ctypes.c_char * (self.row_size(to, row) * (n // row)))()
        if to == F16:
            self.fp32_to_fp16_row(source, out, n)
        elif to == BF16:
            self.fp32_to_bf16_row(source, out, n)
        else:
            self.quantize_chunk(to, source, out, 0, n // row, row, None)
        return out
