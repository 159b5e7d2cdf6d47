#!/usr/bin/env python3
"""Makes golden/small/hidream_*.safetensors: small random networks of HiDream-I1's kind, inputs, and what
hidream.py computes of them in float32. golden/README.md lists the tensors.

    tools/golden_hidream.py OUTPUT-FOLDER     write the files
    tools/golden_hidream.py --check FILE...   hold hidream.py against such files

Debian: python3-torch python3-numpy. The generator's sequence and the last bits of sums depend on
PyTorch's version and the processor; those in the repository are from 1.13.
"""
import sys

import torch

from golden_file import main, make_network, network_holds
from hidream import Experts, HiDream, randomize

CONFIGS = {
    "two": dict(channels=4, num_heads=2, num_head_channels=16, rope_dim=4, depth=2, single=2, t5=24,
                llama=20, llama_layers=3, pooled=12, experts=4, num_activated_experts=2, mlp=40,
                shared_mlp=24, text_mlp=44),
    "one": dict(channels=6, num_heads=3, num_head_channels=12, rope_dim=4, depth=1, single=1, t5=16,
                llama=16, llama_layers=2, pooled=20, experts=5, num_activated_experts=3, mlp=28,
                shared_mlp=20, text_mlp=36),
}
# seed: of the inputs. clear: of such inputs as choose experts that are so far apart in all blocks that
# 16 bits choose no others; it counts up to such ones.
CASES = {
    "two": [dict(h=4, w=6, words=2, t=[501.0], clear=True), dict(h=16, w=16, words=1, t=[1000.0]),
            dict(h=2, w=10, words=40, t=[0.0]), dict(h=6, w=4, words=3, t=[250.5, 999.0]),
            dict(h=2, w=4, words=4, t=[730.25], clear=True), dict(h=4, w=4, words=128, t=[88.0])],
    "one": [dict(h=6, w=8, words=7, t=[88.5, 640.0]), dict(h=6, w=2, words=5, t=[75.0], clear=True)],
}
CLEAR = 0.15    # between the logits of the last expert that is chosen and the first that is not
# What shapes do not tell.
SHOWN = ("num_heads", "num_head_channels", "rope_dim", "llama_layers", "num_activated_experts")


def inputs(cfg, case, _):
    g = torch.Generator().manual_seed(case["seed"])
    n, numbers = len(case["t"]), cfg["t5"] + cfg["llama_layers"] * cfg["llama"]
    return dict(x=torch.randn((n, cfg["channels"], case["h"], case["w"]), generator=g),
                timesteps=torch.tensor(case["t"]),
                context=torch.randn((n, case["words"], numbers), generator=g),
                y=torch.randn((n, cfg["pooled"]), generator=g),
                **(dict(clear=torch.ones(1)) if case.get("clear") else {}))


def output(net, i):
    """With its sign changed, as samplers read it."""
    return -net(i["x"], i["timesteps"], i["context"], i["y"])


@torch.no_grad()
def least(net, cfg, case):
    """How far apart the closest choice of these inputs is."""
    output(net, inputs(cfg, case, None))
    gaps = []
    for module in net.modules():
        if isinstance(module, Experts):
            logits = module.seen.log().sort(1, descending=True).values
            gaps.append((logits[:, module.chosen - 1] - logits[:, module.chosen]).min().item())
    return min(gaps)


def seeded(cfg, seed, cases):
    """The cases with seeds of inputs."""
    net = HiDream(cfg)
    randomize(net, torch.Generator().manual_seed(seed))
    for k, case in enumerate(cases):
        case = dict(case, seed=1000 * k)
        while case.get("clear") and least(net, cfg, case) < CLEAR:
            case["seed"] += 1
        yield case


def make(folder):
    for i, (name, cfg) in enumerate(CONFIGS.items()):
        make_network(f"{folder}/hidream_{name}.safetensors", HiDream, cfg, 2505 + i, randomize,
                     list(seeded(cfg, 2505 + i, CASES[name])), inputs, output,
                     {key: cfg[key] for key in SHOWN})


def check(path):
    return network_holds(path, HiDream, output)


if __name__ == "__main__":
    sys.exit(main(__doc__, make, check))
