"""ControlNets for FLUX.1 and Stable Diffusion 3 as plain PyTorch, for reference tensors: made of
flux.py's and mmdit.py's blocks, saved in the names that diffusers (FluxControlNetModel,
SD3ControlNetModel) or, for the one without text, Stability has for them. A config is that of the
network, and says besides

    control         blocks of the ControlNet: for FLUX of two streams and of one
    modes           FLUX: rows of the table of types; 0: it has none
    text            Stable Diffusion 3: whether it has blocks of text and sees the latent itself
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

import flux
import mmdit


class FluxControl(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        width, squares = cfg["num_heads"] * cfg["head_dim"], cfg["channels"] * flux.PATCH ** 2
        doubles, singles = cfg["control"]
        self.axes = cfg["axes"]
        self.img_in, self.controlnet_x_embedder = nn.Linear(squares, width), nn.Linear(squares, width)
        self.txt_in = nn.Linear(cfg["context_dim"], width)
        self.time_in = flux.Embedder(flux.WAVES, width)
        self.vector_in = flux.Embedder(cfg["pooled_dim"], width)
        if cfg["guidance"]:
            self.guidance_in = flux.Embedder(flux.WAVES, width)
        self.double_blocks = nn.ModuleList(flux.DoubleBlock(cfg) for _ in range(doubles))
        self.single_blocks = nn.ModuleList(flux.SingleBlock(cfg) for _ in range(singles))
        self.controlnet_blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(doubles))
        self.controlnet_single_blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(singles))
        if cfg["modes"]:
            self.controlnet_mode_embedder = nn.Embedding(cfg["modes"], width)

    def forward(self, x, hint, timesteps, context, y, guidance=None, mode=None):
        """As Flux; hint: a latent of x's size. Two lists of (N,T,width)."""
        img = self.img_in(flux.tokens(x)) + self.controlnet_x_embedder(flux.tokens(hint))
        txt = self.txt_in(context)
        if mode is not None:
            row = self.controlnet_mode_embedder(torch.tensor([mode]))
            txt = torch.cat([row[None].expand(len(x), 1, -1), txt], 1)
        vec = self.time_in(flux.waves(timesteps)) + self.vector_in(y)
        if guidance is not None:
            vec = vec + self.guidance_in(flux.waves(guidance * 1000))
        places = torch.cat([torch.zeros(txt.shape[1], 3), flux.grid(x)])
        by = flux.rotation(places.double(), self.axes)
        doubles, singles = [], []
        for block, out in zip(self.double_blocks, self.controlnet_blocks):
            txt, img = block(txt, img, vec, by)
            doubles.append(out(img))
        both = torch.cat([txt, img], 1)
        for block, out in zip(self.single_blocks, self.controlnet_single_blocks):
            both = block(both, vec, by)
            singles.append(out(both[:, txt.shape[1]:]))
        return doubles, singles


def flux_residual(residuals, block, blocks):
    """What block number `block` of so many takes, or 0."""
    return residuals[block // math.ceil(blocks / len(residuals))] if residuals else 0


class SteeredFlux(flux.Flux):
    def forward(self, x, timesteps, context, y, guidance=None, residuals=((), ())):
        places, img = flux.grid(x), self.img_in(flux.tokens(x))
        txt = self.txt_in(context)
        vec = self.time_in(flux.waves(timesteps)) + self.vector_in(y)
        if guidance is not None:
            vec = vec + self.guidance_in(flux.waves(guidance * 1000))
        places = torch.cat([torch.zeros(txt.shape[1], 3), places]).double()
        by = flux.rotation(places, self.axes)
        for k, block in enumerate(self.double_blocks):
            txt, img = block(txt, img, vec, by)
            img = img + flux_residual(residuals[0], k, len(self.double_blocks))
        both = torch.cat([txt, img], 1)
        for k, block in enumerate(self.single_blocks):
            both = block(both, vec, by)
            picture = both[:, txt.shape[1]:] + flux_residual(residuals[1], k, len(self.single_blocks))
            both = torch.cat([both[:, :txt.shape[1]], picture], 1)
        out = self.final_layer(both[:, txt.shape[1]:], vec)
        return F.fold(out.transpose(1, 2), x.shape[2:], flux.PATCH, stride=flux.PATCH)


class Alone(nn.Module):
    """A block of the picture alone."""

    def __init__(self, cfg):
        super().__init__()
        self.x_block = mmdit.Stream(cfg)

    def forward(self, x, c):
        parts, told = self.x_block.before(x, c)
        return self.x_block.after(x, mmdit.attend(*parts), told)


class MMDiTControl(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        width, self.text = cfg["num_heads"] * cfg["num_head_channels"], cfg["text"]
        own = dict(cfg, depth=cfg["control"] + 1)   # none of its blocks is a network's last
        self.pos_embed_input = mmdit.Patches(width)
        self.t_embedder = mmdit.Condition(mmdit.WAVES, width)
        self.y_embedder = mmdit.Condition(cfg["pooled_dim"], width)
        if self.text:
            self.table = cfg["table"]
            self.pos_embed = nn.Parameter(torch.zeros(1, self.table ** 2, width))
            self.x_embedder = mmdit.Patches(width)
            self.context_embedder = nn.Linear(cfg["context_dim"], width)
        blocks = range(cfg["control"])
        self.joint_blocks = nn.ModuleList(
            mmdit.Block(own, i) if self.text else Alone(dict(own, qk_norm=False)) for i in blocks)
        self.controlnet_blocks = nn.ModuleList(nn.Linear(width, width) for _ in blocks)

    positions = mmdit.MMDiT.positions

    def forward(self, x, hint, timesteps, context, y):
        """x: the latent, or without text what the network makes of it. A list of (N,T,width)."""
        c = self.t_embedder(mmdit.waves(timesteps))
        c = c + self.y_embedder(torch.zeros_like(y) if self.text else y)
        if self.text:
            rows, columns = x.shape[2] // mmdit.PATCH, x.shape[3] // mmdit.PATCH
            x = self.x_embedder(x) + self.positions(rows, columns)
            context = self.context_embedder(context)
        x = x + self.pos_embed_input(hint)
        out = []
        for block, linear in zip(self.joint_blocks, self.controlnet_blocks):
            if self.text:
                context, x = block(context, x, c)
            else:
                x = block(x, c)
            out.append(linear(x))
        return out


class SteeredMMDiT(mmdit.MMDiT):
    def embedded(self, x):
        return self.x_embedder(x) + self.positions(x.shape[2] // mmdit.PATCH, x.shape[3] // mmdit.PATCH)

    def forward(self, x, timesteps, context, y, residuals=()):
        n, rows, columns = x.shape[0], x.shape[2] // mmdit.PATCH, x.shape[3] // mmdit.PATCH
        c = self.t_embedder(mmdit.waves(timesteps)) + self.y_embedder(y)
        x, context = self.embedded(x), self.context_embedder(context)
        depth = len(self.joint_blocks)
        for k, block in enumerate(self.joint_blocks):
            context, x = block(context, x, c)
            if residuals and k < depth - 1:
                x = x + residuals[int(k / (depth / len(residuals)))]
        x = self.final_layer(x, c).view(n, rows, columns, mmdit.PATCH, mmdit.PATCH, mmdit.CHANNELS)
        return x.permute(0, 5, 1, 3, 2, 4).reshape(n, mmdit.CHANNELS, rows * mmdit.PATCH,
                                                   columns * mmdit.PATCH)


# Names: a layer, and which layers are its rows, as many each as is said, in units of all of them.
QKV = ("to_q", "to_k", "to_v")
ADDED = ("add_q_proj", "add_k_proj", "add_v_proj")
FLUX_NAMES = [
    ("double_blocks", "transformer_blocks", {
        "img_mod.lin": ["norm1.linear"], "txt_mod.lin": ["norm1_context.linear"],
        "img_attn.qkv": ["attn." + p for p in QKV], "txt_attn.qkv": ["attn." + p for p in ADDED],
        "img_attn.norm.query_norm": ["attn.norm_q"], "img_attn.norm.key_norm": ["attn.norm_k"],
        "txt_attn.norm.query_norm": ["attn.norm_added_q"],
        "txt_attn.norm.key_norm": ["attn.norm_added_k"],
        "img_attn.proj": ["attn.to_out.0"], "txt_attn.proj": ["attn.to_add_out"],
        "img_mlp.0": ["ff.net.0.proj"], "img_mlp.2": ["ff.net.2"],
        "txt_mlp.0": ["ff_context.net.0.proj"], "txt_mlp.2": ["ff_context.net.2"]}),
    ("single_blocks", "single_transformer_blocks", {
        "modulation.lin": ["norm.linear"], "linear1": ["attn." + p for p in QKV] + ["proj_mlp"],
        "linear2": ["proj_out"], "norm.query_norm": ["attn.norm_q"],
        "norm.key_norm": ["attn.norm_k"]})]
TIME = {"in_layer": "linear_1", "out_layer": "linear_2", "mlp.0": "linear_1", "mlp.2": "linear_2"}
TOLD = {"time_in": "timestep_embedder", "vector_in": "text_embedder",
        "guidance_in": "guidance_embedder", "t_embedder": "timestep_embedder",
        "y_embedder": "text_embedder"}
MMDIT_NAMES = [("joint_blocks", "transformer_blocks", {
    "x_block.adaLN_modulation.1": ["norm1.linear"],
    "context_block.adaLN_modulation.1": ["norm1_context.linear"],
    "x_block.attn.qkv": ["attn." + p for p in QKV],
    "context_block.attn.qkv": ["attn." + p for p in ADDED],
    "x_block.attn.ln_q": ["attn.norm_q"], "x_block.attn.ln_k": ["attn.norm_k"],
    "context_block.attn.ln_q": ["attn.norm_added_q"],
    "context_block.attn.ln_k": ["attn.norm_added_k"],
    "x_block.attn2.qkv": ["attn2." + p for p in QKV], "x_block.attn2.proj": ["attn2.to_out.0"],
    "x_block.attn2.ln_q": ["attn2.norm_q"], "x_block.attn2.ln_k": ["attn2.norm_k"],
    "x_block.attn.proj": ["attn.to_out.0"], "context_block.attn.proj": ["attn.to_add_out"],
    "x_block.mlp.fc1": ["ff.net.0.proj"], "x_block.mlp.fc2": ["ff.net.2"],
    "context_block.mlp.fc1": ["ff_context.net.0.proj"],
    "context_block.mlp.fc2": ["ff_context.net.2"]})]
OTHERS = {"img_in": "x_embedder", "txt_in": "context_embedder",
          "x_embedder.proj": "pos_embed.proj"}


def theirs(name, names):
    """(their layers, ending) of one of our tensors."""
    layer, _, ending = name.rpartition(".")
    ending = "weight" if ending == "scale" else ending
    if name == "pos_embed":
        return ["pos_embed"], "pos_embed"
    for ours, block, parts in names:
        if layer.startswith(ours + "."):
            _, k, part = layer.split(".", 2)
            return [f"{block}.{k}.{p}" for p in parts[part]], ending
    head, _, tail = layer.partition(".")
    if head in TOLD:
        return [f"time_text_embed.{TOLD[head]}.{TIME[tail]}"], ending
    return [OTHERS.get(layer, layer)], ending


def to_diffusers(state, names):
    out = {}
    for name, t in state.items():
        layers, ending = theirs(name, names)
        units = 7 if len(layers) == 4 else len(layers)      # an MLP has four times the width
        sizes = [len(t) // units * (4 if layer.endswith("proj_mlp") else 1) for layer in layers]
        for layer, rows in zip(layers, t.split(sizes) if len(layers) > 1 else [t]):
            out[f"{layer}.{ending}"] = rows
    return out


def from_diffusers(net, tensors, names):
    """Loads what to_diffusers() made of the net's tensors."""
    state = {}
    for name in net.state_dict():
        layers, ending = theirs(name, names)
        state[name] = torch.cat([tensors[f"{layer}.{ending}"].float() for layer in layers])
    net.load_state_dict(state)
    return net


def stability_names(state):
    """Of one without text, as Stability has them."""
    out = {}
    for name, t in state.items():
        layer, _, ending = name.rpartition(".")
        head, _, tail = layer.partition(".")
        if head in TOLD:
            layer = f"time_text_embed.{TOLD[head]}.{TIME[tail]}"
        out[layer.replace("joint_blocks", "transformer_blocks").replace(".x_block", "") + "." + ending] = t
    return out
