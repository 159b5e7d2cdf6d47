"""What the scripts share that make golden files: holding results against a file, and the command line.
"""
import json
import struct
import sys

import torch

import train_demo as td

PREFIX = "model.diffusion_model."   # of a network's weights
LIMIT = 2e-5        # of error(), between an output in a file and what is computed here


def error(a, b):
    return ((a - b).abs().max() / b.abs().max()).item()


def holds(path, what, got, want):
    """Whether they agree, which is printed."""
    e = error(got, want)
    print("ok  " if e < LIMIT else "FAIL", path, f"{what} {e:.2g}")
    return e < LIMIT


def config(path, key="config"):
    """JSON of a file's metadata."""
    with open(path, "rb") as f:
        n, = struct.unpack("<Q", f.read(8))
        return json.loads(json.loads(f.read(n))["__metadata__"][key])


def load(net, tensors, prefix):
    net.load_state_dict({k[len(prefix):]: v.float() for k, v in tensors.items()
                         if k.startswith(prefix)})
    return net


def cases_hold(path, tensors, cases, result):
    """Whether result(inputs, case) is the output that the file has, for each of the cases."""
    ok = True
    for k, case in enumerate(cases):
        i = {key: tensors[f"case{k}.{key}"] for key in ("x", "timesteps", "context", "output")}
        ok = holds(path, f"case{k}", result(i, case), i["output"]) and ok
    return ok


def make_network(path, kind, cfg, seed, randomize, cases, inputs, output, shown=None):
    """Writes kind(cfg) with random weights, and what output(net, i) makes of i = inputs(cfg, case, g) for
    each case; shown: what a model's own file would tell of it."""
    g, net = torch.Generator().manual_seed(seed), kind(cfg)
    randomize(net, g)
    tensors = {PREFIX + k: v.half() for k, v in net.state_dict().items()}
    wide = load(kind(cfg), tensors, PREFIX).double()
    for k, case in enumerate(cases):
        i = inputs(cfg, case, g)
        with torch.no_grad():
            i["output"] = output(net, i)
            exact = output(wide, {key: v.double() if v.is_floating_point() else v for key, v in i.items()})
        print(f"{path} case{k}: largest value {i['output'].abs().max():.2f},",
              f"{error(i['output'], exact):.1g} from float64")
        tensors.update({f"case{k}.{key}": v for key, v in i.items()})
    metadata = {"config": json.dumps(shown)} if shown else {}
    td.st_save(path, tensors, {**metadata, "golden": json.dumps(cfg)})


def prompted(cfg, case, g):
    """Inputs of a network that sees a latent, the time and a prompt of case["words"] tokens."""
    n = len(case["t"])
    return dict(x=torch.randn((n, cfg["channels"], case["h"], case["w"]), generator=g),
                timesteps=torch.tensor(case["t"]),
                context=torch.randn((n, case["words"], cfg["text_width"]), generator=g))


def of_prompted(net, i):
    return net(i["x"], i["timesteps"], i["context"])


@torch.no_grad()
def network_holds(path, kind, output):
    """True when every output in the file is what its inputs give here."""
    t, k, ok = td.st_load(path), 0, True
    net = load(kind(config(path, "golden")), t, PREFIX)
    while f"case{k}.x" in t:
        start = f"case{k}."
        i = {key[len(start):]: v for key, v in t.items() if key.startswith(start)}
        ok = holds(path, f"case{k}", output(net, i), i["output"]) and ok
        k += 1
    return k > 0 and ok


def main(usage, make, check):
    """OUTPUT-FOLDER: make(folder). --check FILE...: whether check(file) is true of all of them."""
    torch.set_num_threads(1)
    if len(sys.argv) > 2 and sys.argv[1] == "--check":
        return 0 if all([check(path) for path in sys.argv[2:]]) else 1
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(usage, file=sys.stderr)
        return 2
    make(sys.argv[1])
    return 0
