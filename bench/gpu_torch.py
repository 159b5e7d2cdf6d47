#!/usr/bin/env python3
"""PyTorch beside Graft: one step of the same UNets with the same weights, eager and compiled.

    gpu_torch.py [--json FILE] [--models DIR] [--modes MODE,...] [--signals DIR] sd15|sdxl ...
    gpu_torch.py --check FILE

The network is that of peers/unet.py. It runs in bfloat16, channels last, with
scaled_dot_product_attention. What is compiled is timed as it is and recorded as a CUDA graph: the
fastest is what Graft is compared with. Figures go to the JSON file that graft-bench-gpu wrote, with
the ratio to its step. With --signals compiling can go on beside other work: it ends with a file
torch-ready in DIR, and timing begins when somebody makes torch-go there. --check runs a small
checkpoint on the CPU: it only shows that this file works.
"""
import argparse
import json
import os
import sys
import time

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers"))
from unet import Block, UNet  # noqa: E402


def inputs_of(net, side, device, dtype):
    context = next(m for m in net.modules() if isinstance(m, Block)).attn2.k.weight.shape[1]
    first = net.inputs[0][0].conv.weight.shape[1]
    x = torch.randn(2, first, side, side, device=device, dtype=dtype)
    y = None
    if net.label0 is not None:
        y = torch.randn(2, net.label0.weight.shape[1], device=device, dtype=dtype)
    return (x.contiguous(memory_format=torch.channels_last),
            torch.full((2,), 500.0, device=device),
            torch.randn(2, 77, context, device=device, dtype=dtype), y)


def median_ms(run, rounds=5, steps=20):
    """One of many steps that are handed over together, as graft-bench-gpu times them."""
    for _ in range(5):
        run()
    times = []
    for _ in range(rounds):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        for _ in range(steps):
            run()
        b.record()
        b.synchronize()
        times.append(a.elapsed_time(b) / steps)
    return sorted(times)[rounds // 2]


def note(path, name, value, unit, how):
    print(f"  {name:28s} {value:12.4g} {unit}", flush=True)
    if not path:
        return
    figures = json.load(open(path)) if os.path.exists(path) else {}
    figures[name] = {"value": value, "unit": unit, "how": how, "date": time.strftime("%Y-%m-%d")}
    with open(path + ".part", "w") as f:
        json.dump(figures, f, indent=1)
    os.replace(path + ".part", path)


def figure(path, name):
    figures = json.load(open(path)) if path and os.path.exists(path) else {}
    return figures.get(name, {}).get("value")


# What torch.compile is asked for, and in what the figure's name ends. Recorded as a CUDA graph by
# hand each is what "reduce-overhead" does, without a second compilation.
MODES = {"default": "", "max-autotune-no-cudagraphs": "_autotune"}


def load(kind, args):
    wait_for(os.path.join(args.models, kind + ".safetensors"))
    net = UNet(os.path.join(args.models, kind + ".safetensors"), torch.bfloat16).to(args.device)
    return net.to(memory_format=torch.channels_last).eval()


def how_of(text):
    return f"bench/gpu_torch.py, torch {torch.__version__} on {torch.cuda.get_device_name()}, {text}"


def recorded(run):
    """The same work as one launch."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def prepare(kind, mode, args):
    """What is to be timed, as (name of the figure, how, function): eager and compiled, each also
    recorded. All that is compiled is compiled here."""
    net = load(kind, args)
    given = inputs_of(net, 128 if kind == "sdxl" else 64, args.device, torch.bfloat16)
    ways = [(f"torch_eager_{kind}_ms", "eager", lambda: net(*given))] if mode == "default" else []
    fast = torch.compile(net, mode=mode)
    started = time.time()
    for _ in range(3):
        fast(*given)
    torch.cuda.synchronize()
    print(f"  {kind}, mode {mode}: compiled in {time.time() - started:.1f} s", flush=True)
    name = f"torch_compile{MODES[mode]}"
    ways.append((f"{name}_{kind}_ms", f"torch.compile mode {mode}", lambda: fast(*given)))
    ways.append((f"{name}_graphs_{kind}_ms", f"torch.compile mode {mode}, recorded",
                 recorded(lambda: fast(*given))))
    return ways


def measure(kind, ways, args):
    """Notes the step of each way, and how many times as fast Graft's is as the fastest."""
    best = None
    for name, text, run in ways:
        step = median_ms(run)
        note(args.json, name, step, "ms", how_of(text))
        if "eager" not in name and (best is None or step < best[0]):
            best = step, text
    own = figure(args.json, f"{kind}_step_ms")
    if best and own:
        note(args.json, f"{kind}_vs_compile", best[0] / own,
             "times as fast as the fastest that was compiled", how_of(best[1]))
    elif best:
        print(f"  no {kind}_step_ms in {args.json}: nothing to compare with")


def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.1)


def tell(path):
    with open(path, "w"):
        pass


def check(path):
    net = UNet(path).eval()
    with torch.inference_mode():
        y = net(*inputs_of(net, 8, "cpu", torch.float32))
    print("built and run:", tuple(y.shape), "finite" if torch.isfinite(y).all() else "NOT FINITE")
    return 0 if torch.isfinite(y).all() else 1


def contest(args):
    work, failed = {}, 0
    for mode in args.modes.split(","):
        for kind in args.kinds:
            try:
                work.setdefault(kind, []).extend(prepare(kind, mode, args))
            except Exception as e:  # one must not cost the others
                print(f"{kind}, {mode}: {type(e).__name__}: {e}", file=sys.stderr, flush=True)
                failed = 1
    if args.signals:
        tell(os.path.join(args.signals, "torch-ready"))
        wait_for(os.path.join(args.signals, "torch-go"))
    for kind, ways in work.items():
        measure(kind, ways, args)
    if args.signals:
        tell(os.path.join(args.signals, "torch-done"))
    return failed


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--json")
    p.add_argument("--models", default="build/gpu/models")
    p.add_argument("--device", default="cuda")
    p.add_argument("--modes", default="default", help=", ".join(MODES))
    p.add_argument("--signals", metavar="DIR")
    p.add_argument("--check", metavar="FILE")
    p.add_argument("kinds", nargs="*", help="sd15, sdxl")
    args = p.parse_args()
    if args.check:
        return check(args.check)
    if not torch.cuda.is_available():
        print("gpu_torch.py: PyTorch sees no CUDA device", file=sys.stderr)
        return 3
    with torch.inference_mode():
        return contest(args)


if __name__ == "__main__":
    sys.exit(main())
