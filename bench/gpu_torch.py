#!/usr/bin/env python3
"""PyTorch beside Graft: one step of the same UNets with the same weights, eager and compiled.

    gpu_torch.py [--json FILE] [--models DIR] sd15|sdxl ...
    gpu_torch.py --check FILE

The network is that of peers/unet.py. It runs in bfloat16, channels last, with
scaled_dot_product_attention. Compiled in three modes, with CUDA graphs and with autotuning, too: the
fastest is what Graft is compared with. Figures go to the JSON file that graft-bench-gpu wrote, with
the ratio to its step. --check runs a small checkpoint on the CPU: it only shows that this file works.
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


# What torch.compile is asked for, and in what the figure's name ends; the slowest to compile last.
MODES = ((None, ""), ("reduce-overhead", "_graphs"), ("max-autotune", "_autotune"))


def load(kind, args):
    net = UNet(os.path.join(args.models, kind + ".safetensors"), torch.bfloat16).to(args.device)
    return net.to(memory_format=torch.channels_last).eval()


def how_of(text):
    return f"bench/gpu_torch.py, torch {torch.__version__} on {torch.cuda.get_device_name()}, {text}"


def eager(kind, args):
    net = load(kind, args)
    given = inputs_of(net, 128 if kind == "sdxl" else 64, args.device, torch.bfloat16)
    with torch.inference_mode():
        note(args.json, f"torch_eager_{kind}_ms", median_ms(lambda: net(*given)), "ms",
             how_of("eager"))


def compiled(kind, mode, ending, args):
    """Notes the step, and how many times as fast Graft's is as the best of all modes so far."""
    torch._dynamo.reset()
    net = load(kind, args)
    given = inputs_of(net, 128 if kind == "sdxl" else 64, args.device, torch.bfloat16)
    how = how_of(f"torch.compile mode {mode or 'default'}")
    with torch.inference_mode():
        fast = torch.compile(net, mode=mode)
        started = time.time()
        fast(*given)
        torch.cuda.synchronize()
        print(f"  {kind}, mode {mode or 'default'}: compiled in {time.time() - started:.1f} s")
        step = median_ms(lambda: fast(*given))
    note(args.json, f"torch_compile{ending}_{kind}_ms", step, "ms", how)
    if kind not in args.best or step < args.best[kind]:
        args.best[kind] = step
        own = figure(args.json, f"{kind}_step_ms")
        if own:
            note(args.json, f"{kind}_vs_compile", step / own,
                 "times as fast as the fastest of torch.compile's modes", how)
        else:
            print(f"  no {kind}_step_ms in {args.json}: nothing to compare with")


def check(path):
    net = UNet(path).eval()
    with torch.inference_mode():
        y = net(*inputs_of(net, 8, "cpu", torch.float32))
    print("built and run:", tuple(y.shape), "finite" if torch.isfinite(y).all() else "NOT FINITE")
    return 0 if torch.isfinite(y).all() else 1


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--json")
    p.add_argument("--models", default="build/gpu/models")
    p.add_argument("--device", default="cuda")
    p.add_argument("--check", metavar="FILE")
    p.add_argument("kinds", nargs="*", help="sd15, sdxl")
    args = p.parse_args()
    if args.check:
        return check(args.check)
    if not torch.cuda.is_available():
        print("gpu_torch.py: PyTorch sees no CUDA device", file=sys.stderr)
        return 3
    args.best = {}
    work = [(eager, kind) for kind in args.kinds]
    work += [(compiled, kind, *mode) for mode in MODES for kind in args.kinds]
    failed = 0
    for run, *what in work:
        try:
            run(*what, args)
        except Exception as e:  # one must not cost the others
            print(f"{what}: {type(e).__name__}: {e}", file=sys.stderr)
            failed = 1
        torch.cuda.empty_cache()
    return failed


if __name__ == "__main__":
    sys.exit(main())
