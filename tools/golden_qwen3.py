#!/usr/bin/env python3
"""Makes golden/small/qwen3.safetensors, qwen3_joined.safetensors, qwen3_layered.safetensors,
qwen3_whole.safetensors, qwen3_stacked.safetensors, qwen25.safetensors, qwen25_padded.safetensors,
mistral.safetensors, ministral.safetensors, llama.safetensors and gemma2.safetensors: small random Qwen 3 (arXiv:2505.09388),
Qwen 2.5 (arXiv:2412.15115), Mistral (arXiv:2310.06825), Ministral 3, Llama 3.1 (arXiv:2407.21783) and Gemma 2 (arXiv:2408.00118), token
ids, and what PyTorch computes of them in float32: the stream behind all layers but the last, as Z-Image
reads it, ERNIE-Image that of Ministral 3 and Lumina-Image 2.0 that of Gemma 2, that behind three of them,
as FLUX.2 klein does, behind twelve of Qwen 3-VL's, as Krea 2 does, behind thirteen, as Ideogram 4 does,
behind all of them, as Qwen-Image 2.1 does, that behind all of them and their norm, as Qwen-Image does, the
same of words and padding, as LongCat-Image does, that behind three of Mistral's, with padding before
the words, as FLUX.2 dev does, and that behind each of Llama's, with padding behind them, as HiDream-I1 does. golden/README.md lists the tensors.

    tools/golden_qwen3.py OUTPUT-FOLDER     write the files
    tools/golden_qwen3.py --check FILE...   hold what is computed here against such files

Debian: python3-torch python3-numpy. The generator's sequence and the last bits of sums depend on
PyTorch's version and the processor; those in the repository are from 1.13.
"""
import json
import math
import sys

import torch
import torch.nn as nn

import train_demo as td
from golden_file import config, error, holds, load, main
from mmdit import RMSNorm

BASE = 1e6  # of the angles; Qwen 3-VL's say their own
# Three heads of queries share one of keys, so that repeating is more than doubling.
CONFIG = dict(vocab_size=300, hidden_size=32, intermediate_size=48, num_hidden_layers=4,
              num_attention_heads=6, num_key_value_heads=2, head_dim=12)
CASES = [5, 32, 45, 1, 129]  # tokens: less than a step of padding, one, more, and several
JOINED = [9, 18, 27]  # layers
DEEP = dict(vocab_size=300, hidden_size=16, intermediate_size=24, num_hidden_layers=28,
            num_attention_heads=4, num_key_value_heads=2, head_dim=8)
# Words and tokens, of which the rest is padding: some, none, one word, and no whole steps.
PADDED = [(5, 32), (32, 32), (1, 64), (40, 77)]
LAYERED = list(range(2, 36, 3))
STACKED = [*range(1, 36, 3), 36]
SEEING = dict(vocab_size=300, hidden_size=8, intermediate_size=12, num_hidden_layers=36,
              num_attention_heads=3, num_key_value_heads=1, head_dim=8, rope_theta=5e6)
ASKED = [37, 1, 64]
WHOLE = dict(vocab_size=300, hidden_size=24, intermediate_size=36, num_hidden_layers=3,
             num_attention_heads=4, num_key_value_heads=2, head_dim=8, rope_theta=5e6)
ANALYZED = [39, 1, 96]
TOLD = [21, 1, 40]
BIASED = dict(vocab_size=300, hidden_size=32, intermediate_size=48, num_hidden_layers=3,
              num_attention_heads=6, num_key_value_heads=2, head_dim=12, attention_bias=True)
DESCRIBED = [40, 1, 97]
# Words and tokens, of which the rest is padding, all of which stands where the second word does.
SPELLED = [(36, 60), (5, 5), (1, 40), (64, 65)]
LED = [10, 20, 30]  # layers
MISTRAL = dict(vocab_size=300, hidden_size=20, intermediate_size=28, num_hidden_layers=31,
               num_attention_heads=4, num_key_value_heads=2, head_dim=8, rope_theta=1e9,
               rms_norm_eps=1e-5, qk_norm=False)
# With YaRN's angles (arXiv:2309.00071). Its factor of scores is 1 as long as both of its numbers for
# that are the same, and so is that of queries (Llama 4's) before place 16384.
MINISTRAL = dict(vocab_size=300, hidden_size=20, intermediate_size=28, num_hidden_layers=3,
                 num_attention_heads=4, num_key_value_heads=2, head_dim=16, rope_theta=1e6,
                 rms_norm_eps=1e-5, qk_norm=False,
                 yarn=dict(factor=16, original=16384, beta_fast=32, beta_slow=1))
WRITTEN = [29, 1, 130]
# With Llama 3's angles. A length of its training that is so short here that it counts.
LLAMA = dict(vocab_size=300, hidden_size=20, intermediate_size=28, num_hidden_layers=3,
             num_attention_heads=4, num_key_value_heads=2, head_dim=16, rope_theta=5e5,
             rms_norm_eps=1e-5, qk_norm=False,
             llama3=dict(factor=8, original=8192, low=1, high=4))
# Words and tokens, of which the rest is padding.
READ = [(37, 128), (1, 32), (32, 32), (130, 140)]
# Its norms' weights are less one, and its scores go where they are capped.
GEMMA = dict(vocab_size=540, hidden_size=24, intermediate_size=40, num_hidden_layers=4,
             num_attention_heads=6, num_key_value_heads=2, head_dim=16, rope_theta=1e4, qk_norm=False,
             gemma=True, cap=50)
TITLED = [37, 1, 129]
# Words and tokens, of which the rest is padding: some, none, one word, and one of padding.
BEGUN = [(5, 32), (32, 32), (1, 64), (40, 41)]


def slowed(speed, base, yarn):
    """Angles that turn less than beta_slow times over the original length go on `factor` times as
    slowly, those that turn more than beta_fast times as they were, those between in parts."""
    d = 2 * len(speed)
    low, high = (d * math.log(yarn["original"] / (times * 2 * math.pi)) / (2 * math.log(base))
                 for times in (yarn["beta_fast"], yarn["beta_slow"]))
    low, high = max(math.floor(low), 0), min(math.ceil(high), d - 1)
    part = ((torch.arange(d // 2, dtype=torch.float64) - low) / (high - low)).clamp(0, 1)
    return speed * (1 - part) + speed / yarn["factor"] * part


def stretched(speed, llama3):
    """Angles that turn less than `low` times over the original length go on `factor` times as slowly,
    those that turn more than `high` times as they were, those between in parts of how often they turn."""
    times = llama3["original"] * speed / (2 * math.pi)
    part = ((times - llama3["low"]) / (llama3["high"] - llama3["low"])).clamp(0, 1)
    return speed * part + speed / llama3["factor"] * (1 - part)


def turn(x, base, places=None, yarn=None, llama3=None):
    """Places along the third dimension, or these, by angles that value i of a head shares with the one
    half a head behind it."""
    tokens, d = x.shape[2:]
    speed = base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    if yarn:
        speed = slowed(speed, base, yarn)
    if llama3:
        speed = stretched(speed, llama3)
    angle = torch.outer(torch.arange(tokens) if places is None else places, speed)
    cos, sin = (part.to(x.dtype) for part in (angle.cos(), angle.sin()))
    first, second = x.split(d // 2, 3)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], 3)


class Attention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        width, d = cfg["hidden_size"], cfg["head_dim"]
        self.heads, self.shared = cfg["num_attention_heads"], cfg["num_key_value_heads"]
        self.base, self.yarn, self.cap = cfg.get("rope_theta", BASE), cfg.get("yarn"), cfg.get("cap")
        self.llama3 = cfg.get("llama3")
        biased, normed = cfg.get("attention_bias", False), cfg.get("qk_norm", True)
        self.q_proj = nn.Linear(width, self.heads * d, bias=biased)
        self.k_proj, self.v_proj = (nn.Linear(width, self.shared * d, bias=biased) for _ in "kv")
        self.o_proj = nn.Linear(self.heads * d, width, bias=False)
        self.q_norm, self.k_norm = (RMSNorm(d) if normed and not biased else nn.Identity()
                                    for _ in "qk")

    def forward(self, x, words, places):
        """words: a slice of the tokens, which alone are seen."""
        n, tokens, _ = x.shape
        q, k, v = (part(x).view(n, tokens, heads, -1).transpose(1, 2)
                   for part, heads in ((self.q_proj, self.heads), (self.k_proj, self.shared),
                                       (self.v_proj, self.shared)))
        q, k = (turn(part, self.base, places, self.yarn, self.llama3)
                for part in (self.q_norm(q), self.k_norm(k)))
        out = torch.empty_like(q)
        for head in range(self.heads):
            own = head * self.shared // self.heads
            score = q[:, head] @ k[:, own].transpose(1, 2) / q.shape[3] ** 0.5
            if self.cap:
                score = self.cap * torch.tanh(score / self.cap)
            padding = torch.ones(tokens, dtype=torch.bool)
            padding[words] = False
            unseen = torch.ones(tokens, tokens, dtype=torch.bool).triu(1) | padding
            share = torch.softmax(score.masked_fill(unseen, -torch.inf), 2)
            share = share.masked_fill(unseen.all(1)[:, None], 0)  # what sees nothing is given zeros
            out[:, head] = share @ v[:, own]
        return self.o_proj(out.transpose(1, 2).flatten(2))


class Gated(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        width, wide = cfg["hidden_size"], cfg["intermediate_size"]
        self.gate_proj, self.up_proj = (nn.Linear(width, wide, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(wide, width, bias=False)
        self.gelu = cfg.get("gemma", False)

    def forward(self, x):
        gate = self.gate_proj(x)
        gate = nn.functional.gelu(gate, approximate="tanh") if self.gelu else gate * torch.sigmoid(gate)
        return self.down_proj(gate * self.up_proj(x))


class LessOne(RMSNorm):
    def forward(self, x):
        return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * (1 + self.weight)


def norm(cfg):
    if cfg.get("gemma"):
        return LessOne(cfg["hidden_size"])
    return RMSNorm(cfg["hidden_size"], cfg.get("rms_norm_eps", 1e-6))


class Layer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.input_layernorm = norm(cfg)
        self.self_attn = Attention(cfg)
        self.post_attention_layernorm = norm(cfg)
        self.mlp = Gated(cfg)
        self.gemma = cfg.get("gemma", False)
        if self.gemma:
            self.pre_feedforward_layernorm, self.post_feedforward_layernorm = norm(cfg), norm(cfg)

    def forward(self, x, words, places=None):
        if self.gemma:
            seen = self.self_attn(self.input_layernorm(x), words, places)
            x = x + self.post_attention_layernorm(seen)
            return x + self.post_feedforward_layernorm(self.mlp(self.pre_feedforward_layernorm(x)))
        x = x + self.self_attn(self.input_layernorm(x), words, places)
        return x + self.mlp(self.post_attention_layernorm(x))


class Model(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.embed_tokens = nn.Embedding(cfg["vocab_size"], cfg["hidden_size"])
        self.layers = nn.ModuleList(Layer(cfg) for _ in range(cfg["num_hidden_layers"]))
        self.norm = norm(cfg)
        self.times = cfg["hidden_size"] ** 0.5 if cfg.get("gemma") else 1


class Qwen3(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.model = Model(cfg)

    def forward(self, tokens):
        """Ids (T) -> hidden (T,width)."""
        return self.empty(tokens, len(tokens))

    def empty(self, tokens, words):
        """The same where the first so many are words, and the others see these alone."""
        x = self.model.embed_tokens(tokens[None]) * self.model.times
        for layer in self.model.layers[:-1]:
            x = layer(x, slice(0, words))
        return x[0]

    def hidden(self, tokens):
        return self(tokens)

    def whole(self, tokens):
        """Ids (T) -> hidden (T,width)."""
        x = self.model.embed_tokens(tokens[None])
        for layer in self.model.layers:
            x = layer(x, slice(None))
        return x[0]

    def normed(self, tokens):
        return self.model.norm(self.whole(tokens))

    def padded(self, tokens, words):
        """Ids (T), of which the first so many are words -> hidden (T,width)."""
        x, places = self.model.embed_tokens(tokens[None]), torch.arange(len(tokens))
        places[words:] = 1
        for layer in self.model.layers:
            x = layer(x, slice(0, words), places)
        return self.model.norm(x[0])

    def side_by_side(self, tokens, words, chosen):
        """Ids (T), of which this slice are words -> hidden (T,layers*width)."""
        x, stream = self.model.embed_tokens(tokens[None]), []
        for layer in self.model.layers[:max(chosen)]:
            x = layer(x, words)
            stream.append(x[0])
        return torch.cat([stream[i - 1] for i in chosen], 1)

    def joined(self, tokens, words):
        """Ids (T), of which the first so many are words -> hidden (T,3*width)."""
        return self.side_by_side(tokens, slice(0, words), JOINED)

    def led(self, tokens, words):
        """The same of the last so many."""
        return self.side_by_side(tokens, slice(len(tokens) - words, None), LED)

    def every(self, tokens, words):
        """Ids (T), of which the first so many are words -> hidden (T,layers*width), the last one normed."""
        x, stream = self.model.embed_tokens(tokens[None]), []
        for layer in self.model.layers:
            x = layer(x, slice(0, words))
            stream.append(x[0])
        return torch.cat([*stream[:-1], self.model.norm(stream[-1])], 1)

    def layered(self, tokens):
        return self.side_by_side(tokens, slice(None), LAYERED)

    def stacked(self, tokens):
        return self.side_by_side(tokens, slice(None), STACKED)


def randomize(net, g, added=1.0, begun=0.5):
    """Values of a size that keeps activations near 1, rounded to what the file stores. `added`: what
    layers add to the stream, which they share; `begun`: the tokens' table, with which it begins."""
    for name, p in net.named_parameters():
        r = torch.randn(p.shape, generator=g)
        if "q_norm" in name or "k_norm" in name:
            r = r * 0.4 + 1.0
        elif "norm" in name:
            r = r * 0.3 + (0.0 if net.model.times > 1 else 1.0)
        elif "embed" in name:
            r = r * begun
        elif name.endswith("bias"):
            r = r * 0.5
        else:
            r = r / p.shape[1] ** 0.5
            if net.model.times > 1 and "q_proj" in name:
                r = r * 5
            if "o_proj" in name or "down_proj" in name:
                r = r * added
        p.data.copy_(r.half().float())


def make_padded(what, cfg, seed, counts, path, metadata):
    """Texts of so many words among so many tokens, and what the method of this name makes of them."""
    g = torch.Generator().manual_seed(seed)
    net = Qwen3(cfg)
    # Mistral's stream is small enough that what its norms add to a square counts.
    randomize(net, g, *{"joined": (0.2, 0.5), "led": (0.02, 0.05), "padded": (1.0, 0.5),
                            "empty": (1.0, 0.5), "every": (1.0, 0.5)}[what])
    tensors = {k: v.half() for k, v in net.state_dict().items()}
    wide = load(Qwen3(cfg), tensors, "").double()
    for k, (words, count) in enumerate(counts):
        tokens = torch.randint(cfg["vocab_size"], (count,), generator=g)
        tokens[slice(0, count - words) if what == "led" else slice(words, None)] = 7
        with torch.no_grad():
            hidden, exact = getattr(net, what)(tokens, words), getattr(wide, what)(tokens, words)
        print(f"{what} case{k}: largest value {hidden.abs().max():.2f},",
              f"{error(hidden, exact):.1g} from float64")
        tensors.update({f"case{k}.tokens": tokens, f"case{k}.words": torch.tensor([words]),
                        f"case{k}.{what}": hidden})
    td.st_save(path, tensors, {**metadata, "golden": json.dumps(cfg)})


def make_prompts(what, cfg, seed, added, counts, path, metadata):
    """Texts of so many tokens each, and what the method of this name makes of them."""
    g = torch.Generator().manual_seed(seed)
    net = Qwen3(cfg)
    randomize(net, g, added)
    tensors = {k: v.half() for k, v in net.state_dict().items()}
    wide = load(Qwen3(cfg), tensors, "").double()
    for k, count in enumerate(counts):
        tokens = torch.randint(cfg["vocab_size"], (count,), generator=g)
        with torch.no_grad():
            hidden, exact = getattr(net, what)(tokens), getattr(wide, what)(tokens)
        print(f"{what} case{k}: largest value {hidden.abs().max():.2f},",
              f"{error(hidden, exact):.1g} from float64")
        tensors.update({f"case{k}.tokens": tokens, f"case{k}.{what}": hidden})
    td.st_save(path, tensors, {**metadata, "golden": json.dumps(cfg)})


def make_gemma(path):
    """Prompts, and behind them the empty one with a token of padding."""
    config = {"config": json.dumps(dict(head_dim=GEMMA["head_dim"]))}
    make_prompts("hidden", GEMMA, 2408, 1.0, TITLED, path, config)
    t = td.st_load(path)
    net = load(Qwen3(GEMMA), {k: v for k, v in t.items() if not k.startswith("case")}, "")
    k, tokens = len(TITLED), torch.tensor([2, 0])
    with torch.no_grad():
        t.update({f"case{k}.tokens": tokens, f"case{k}.words": torch.tensor([1]),
                  f"case{k}.empty": net.empty(tokens, 1)})
    td.st_save(path, {key: v.half() if not key.startswith("case") else v for key, v in t.items()},
               {**config, "golden": json.dumps(GEMMA)})


def make(folder):
    make_padded("joined", DEEP, 2509, PADDED, f"{folder}/qwen3_joined.safetensors", {})
    make_padded("led", MISTRAL, 2310, BEGUN, f"{folder}/mistral.safetensors",
                {"config": json.dumps(dict(head_dim=MISTRAL["head_dim"]))})
    make_prompts("normed", BIASED, 2502, 1.0, DESCRIBED, f"{folder}/qwen25.safetensors",
                 {"config": json.dumps(dict(head_dim=BIASED["head_dim"]))})
    make_padded("padded", BIASED, 2512, SPELLED, f"{folder}/qwen25_padded.safetensors",
                {"config": json.dumps(dict(head_dim=BIASED["head_dim"]))})
    make_prompts("hidden", MINISTRAL, 2512, 1.0, WRITTEN, f"{folder}/ministral.safetensors",
                 {"config": json.dumps(dict(head_dim=MINISTRAL["head_dim"]))})
    make_padded("every", LLAMA, 2407, READ, f"{folder}/llama.safetensors",
                {"config": json.dumps(dict(head_dim=LLAMA["head_dim"], llama=1))})
    make_gemma(f"{folder}/gemma2.safetensors")
    make_prompts("layered", SEEING, 2511, 0.2, ASKED, f"{folder}/qwen3_layered.safetensors", {})
    make_prompts("whole", WHOLE, 2609, 1.0, ANALYZED, f"{folder}/qwen3_whole.safetensors", {})
    make_prompts("stacked", SEEING, 2606, 0.2, TOLD, f"{folder}/qwen3_stacked.safetensors", {})
    g = torch.Generator().manual_seed(2505)
    net = Qwen3(CONFIG)
    randomize(net, g)
    tensors = {k: v.half() for k, v in net.state_dict().items()}
    wide = load(Qwen3(CONFIG), tensors, "").double()
    for k, count in enumerate(CASES):
        tokens = torch.randint(CONFIG["vocab_size"], (count,), generator=g)
        with torch.no_grad():
            hidden, exact = net(tokens), wide(tokens)
        print(f"case{k}: largest value {hidden.abs().max():.2f},",
              f"{error(hidden, exact):.1g} from float64")
        tensors.update({f"case{k}.tokens": tokens, f"case{k}.hidden": hidden})
    td.st_save(f"{folder}/qwen3.safetensors", tensors, {"golden": json.dumps(CONFIG)})


@torch.no_grad()
def check(path):
    """True when every output in the file is what its inputs give here."""
    t, ok, k = td.st_load(path), True, 0
    net = load(Qwen3(config(path, "golden")),
               {key: v for key, v in t.items() if not key.startswith("case")}, "")
    while f"case{k}.tokens" in t:
        tokens, words = t[f"case{k}.tokens"], t.get(f"case{k}.words")
        what = next((name for name in ("normed", "layered", "whole", "stacked", "joined", "led", "padded",
                                       "every", "empty") if f"case{k}.{name}" in t), "hidden")
        got = getattr(net, what)(tokens, *([] if words is None else [words.item()]))
        ok = holds(path, f"case{k}", got, t[f"case{k}.{what}"]) and ok
        k += 1
    return ok and k > 0


if __name__ == "__main__":
    sys.exit(main(__doc__, make, check))
