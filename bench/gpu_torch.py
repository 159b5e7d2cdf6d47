#!/usr/bin/env python3
"""PyTorch beside Graft: one step of the same UNets with the same weights, eager and compiled.

    gpu_torch.py [--json FILE] [--models DIR] [--autotune] sd15|sdxl ...
    gpu_torch.py --check FILE

The network is that of peers/unet.py. It runs in bfloat16, channels last, with
scaled_dot_product_attention. Figures go to the JSON file that graft-bench-gpu wrote, with the ratio
to its step. --check runs a small checkpoint on the CPU: it only shows that this file works.
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


def median_ms(run, repeats=30):
    for _ in range(5):
        run()
    times = []
    for _ in range(repeats):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        run()
        b.record()
        b.synchronize()
        times.append(a.elapsed_time(b))
    return sorted(times)[repeats // 2]


def note(path, name, value, unit, how):
    print(f"  {name:28s} {value:12.4g} {unit}", flush=True)
    if not path:
        return
    figures = json.load(open(path)) if os.path.exists(path) else {}
    figures[name] = {"value": value, "unit": unit, "how": how, "date": time.strftime("%Y-%m-%d")}
    with open(path + ".part", "w") as f:
        json.dump(figures, f, indent=1)
    os.replace(path + ".part", path)


def bench(kind, args):
    side = 128 if kind == "sdxl" else 64
    net = UNet(os.path.join(args.models, kind + ".safetensors"), torch.bfloat16).to(args.device)
    net = net.to(memory_format=torch.channels_last).eval()
    given = inputs_of(net, side, args.device, torch.bfloat16)
    how = f"bench/gpu_torch.py, torch {torch.__version__} on {torch.cuda.get_device_name()}"
    with torch.inference_mode():
        note(args.json, f"torch_eager_{kind}_ms", median_ms(lambda: net(*given)), "ms", how)
        fast = torch.compile(net, mode="max-autotune-no-cudagraphs" if args.autotune else None)
        started = time.time()
        fast(*given)
        torch.cuda.synchronize()
        print(f"  compiled in {time.time() - started:.1f} s")
        step = median_ms(lambda: fast(*given))
    note(args.json, f"torch_compile_{kind}_ms", step, "ms", how)
    figures = json.load(open(args.json)) if args.json and os.path.exists(args.json) else {}
    own = figures.get(f"{kind}_step_ms", {}).get("value")
    if own:
        note(args.json, f"{kind}_vs_compile", step / own, "times as fast", how)


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
    p.add_argument("--autotune", action="store_true")
    p.add_argument("--check", metavar="FILE")
    p.add_argument("kinds", nargs="*", help="sd15, sdxl")
    args = p.parse_args()
    if args.check:
        return check(args.check)
    if not torch.cuda.is_available():
        print("gpu_torch.py: PyTorch sees no CUDA device", file=sys.stderr)
        return 3
    failed = 0
    for kind in args.kinds:
        try:
            bench(kind, args)
        except Exception as e:  # one kind must not cost the other
            print(f"{kind}: {type(e).__name__}: {e}", file=sys.stderr)
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
