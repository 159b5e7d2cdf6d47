#!/usr/bin/env python3
"""Graft beside PyTorch, ONNX Runtime and ggml: the same networks, weights and inputs, in the same run.

    compare.py BUILD MODEL.safetensors [--rounds N] [--only FIGURE,...] [--name PREFIX]
               [--threads N] [--tuning off|fast|full] [--pause SECONDS] [--torch-root DIR]

Each contest loads Graft and one peer, lets them run in turn, and takes the ratio of their seconds
round by round: a machine that changes its speed changes both. Who begins changes from round to
round. Only two are loaded at a time, so that float32 fits into 10 GiB. Their outputs are compared:
a contest in which they differ counts as failed. Figures go to BUILD/bench.json.

A participant is a process that says "ready WHO" when it has loaded, and then answers lines:

    in I FILE   takes input I, raw float32       ok
    run         one step                         seconds
    out FILE    writes the step's output         ok
    peak        memory that it needed at most    MiB
    sizes       of its inputs (Graft's only)     numbers of floats
"""
import argparse
import array
import contextlib
import functools
import glob
import json
import os
import random
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ORT_VERSION = "1.30.0"
GGML_VERSION = "3.22.1"  # of the package that has ggml
BUSY = 0.05  # the share of the processors that may go to other programs
UNSUPPORTED = 3  # graft-bench's exit status when the processor lacks a precision

# figure, part, precision, peer
CONTESTS = [
    ("f32_vs_torch", "unet", "f32", "torch"),
    ("f32_vs_ort", "unet", "f32", "ort"),
    ("bf16_vs_torch", "unet", "bf16", "torch"),
    ("vae_bf16_vs_torch", "vae", "bf16", "torch"),
    ("f32_vs_ggml", "unet", "f32", "ggml"),
    ("bf16_vs_ggml", "unet", "bf16", "ggml"),
    ("bf16_vs_ggml_q8", "unet", "bf16", "ggml_q8"),
    ("f32_vs_compile", "unet", "f32", "compile"),
    ("bf16_vs_compile", "unet", "bf16", "compile"),
    ("vae_bf16_vs_compile", "vae", "bf16", "compile"),
    ("upscale_f32_vs_torch", "upscaler", "f32", "torch"),
    ("upscale_bf16_vs_torch", "upscaler", "bf16", "torch"),
    ("sd3_f32_vs_torch", "transformer", "f32", "torch"),
    ("sd3_bf16_vs_torch", "transformer", "bf16", "torch"),
]
# What names of tensors begin with in files that have the part.
MARKS = {"unet": "model.diffusion_model.input_blocks.", "vae": "first_stage_model.",
         "upscaler": "conv_first.", "transformer": "model.diffusion_model.joint_blocks."}
# How far outputs may be apart, as a share of the largest value. Both sides of bf16 round.
LIMITS = {"f32": 2e-3, "bf16": 6e-2}


class Skipped(Exception):
    """Why a contest cannot be held here."""


class Failed(Exception):
    """A participant ended too early, or they disagree."""


class Participant:
    def __init__(self, name, command, environment):
        self.name = name
        start = time.perf_counter()
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env={**os.environ, **environment})
        self.who = self.read().partition("ready ")[2]
        self.loading = time.perf_counter() - start

    def read(self):
        line = self.process.stdout.readline()
        if not line.endswith("\n"):
            status = self.process.wait()
            raise Failed(f"{self.name} ended with status {status}", status)
        return line.strip()

    def ask(self, *words):
        try:
            self.process.stdin.write(" ".join(words) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # read() tells how it ended
        return self.read()

    def run(self):
        return float(self.ask("run"))

    def processor_seconds(self):
        with open(f"/proc/{self.process.pid}/stat") as f:
            fields = f.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


# ------------------------------------------------------------------ who can take part


def in_root(root, command, environment):
    """The command with the programs and libraries of another Debian: that one's /usr and /etc are
    laid over ours, for this command alone. All other paths stay what they are."""
    if not root:
        return command, environment
    lay = 'mount --bind "$0/usr" /usr && mount --bind "$0/etc" /etc && exec "$@"'
    alone = ["unshare", "--mount"] + (["--map-root-user"] if os.geteuid() else [])
    # Told by env, so that a library to load ahead is looked for among those laid over.
    settings = ["/usr/bin/env"] + [f"{name}={value}" for name, value in environment.items()]
    return alone + ["/bin/sh", "-c", lay, os.path.abspath(root)] + settings + command, {}


@functools.lru_cache(None)
def python_with_torch(root="", needs="import numpy, torch"):
    for python in ("/usr/bin/python3",) if root else (sys.executable, "/usr/bin/python3"):
        command, _ = in_root(root, [python, "-c", needs], {})
        if os.path.exists(python) and not subprocess.run(
                command, stderr=subprocess.DEVNULL).returncode:
            return python
    return None


def find_python(root="", compiled=False):
    python = python_with_torch(root)
    if not python:
        raise Skipped((f"in {root} " if root else "") + "PyTorch is not installed: apt-get install "
                      "python3-torch libopenblas0-openmp libjemalloc2")
    if compiled and not python_with_torch(root, "import torch; torch.compile"):
        raise Skipped("torch.compile came with PyTorch 2.0")
    return python


def torch_environment(threads, root):
    """jemalloc that keeps what is freed: otherwise page faults are a large part of a step."""
    found = [f for where in ("/usr/lib/*/", "/usr/lib64/", "/usr/lib/", "/usr/local/lib/")
             for f in glob.glob(root + where + "libjemalloc.so.2")]
    threads = {"OMP_NUM_THREADS": threads, "PYTHONPATH": HERE}
    if not found:
        return threads, "malloc of the system (apt-get install libjemalloc2 makes it faster)"
    keep = "oversize_threshold:0,dirty_decay_ms:-1,muzzy_decay_ms:-1"
    return {**threads, "LD_PRELOAD": found[0][len(root):], "MALLOC_CONF": keep}, "jemalloc"


def start_torch(part, precision, args, how="eager"):
    python = find_python(args.torch_root, how == "compiled")
    environment, memory = torch_environment(args.threads, args.torch_root)
    command = [python, os.path.join(HERE, "torch_peer.py"), part, precision,
               os.path.abspath(args.model), how]
    peer = Participant("PyTorch", *in_root(args.torch_root, command, environment))
    peer.who += ", " + memory
    if args.rounds and precision == "f32" and "BLAS: reference" in peer.who:
        peer.close()
        raise Skipped("PyTorch would use the reference BLAS, which is not meant to be fast: "
                      "apt-get install libopenblas0-openmp")
    return peer


def onnx_file(args):
    """The UNet for ONNX Runtime, exported once; the tensors lie in files beside it."""
    stem = os.path.splitext(os.path.basename(args.model))[0]
    folder = os.path.join(args.peers, stem + "-onnx")
    file = os.path.join(folder, "unet.onnx")
    if not os.path.exists(file) or os.path.getmtime(file) < os.path.getmtime(args.model):
        python = find_python()
        print(f"  exporting {file}", flush=True)
        part = folder + ".part"
        shutil.rmtree(part, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(part)
        subprocess.run([python, "-W", "ignore", os.path.join(HERE, "torch_peer.py"), "export",
                        os.path.join(part, "unet.onnx"), args.model], check=True)
        os.rename(part, folder)
    return file


def npm_package(name, version, args):
    """The folder of a package, which has to be installed in the version that is known to work."""
    folder = os.path.join(args.peers, "node_modules", name)
    how = f"npm install --ignore-scripts --no-save --prefix {args.peers} {name}@{version}"
    file = os.path.join(folder, "package.json")
    if not os.path.exists(file):
        raise Skipped(f"{name} is not installed: {how}")
    with open(file) as f:
        found = json.load(f)["version"]
    if found != version:
        raise Skipped(f"{name} is {found}, not {version}: {how}")
    return folder


def start_ort(part, precision, args):
    if not shutil.which("node"):
        raise Skipped("node is not installed: apt-get install nodejs npm")
    npm_package("onnxruntime-node", ORT_VERSION, args)
    return Participant("ONNX Runtime", ["node", os.path.join(HERE, "ort_peer.mjs"), args.peers,
                                        onnx_file(args), args.threads], {})


def start_ggml(part, precision, args, matrices=None):
    """Matrices are of the faster of its two types of 16 bits beside our bfloat16, or as told."""
    folder = npm_package("@node-llama-cpp/linux-x64", GGML_VERSION, args)
    command = [sys.executable, os.path.join(HERE, "ggml_peer.py"),
               os.path.join(folder, "bins", "linux-x64"),
               matrices or {"f32": "f32", "bf16": "f16,bf16"}[precision], args.threads,
               os.path.abspath(args.model)]
    return Participant("ggml", command, {})


def start_graft(part, precision, args):
    command = [os.path.join(args.build, "bin", "graft-bench"), "--on-demand", part, "--dtype",
               precision, "--tuning", args.tuning, args.model]
    try:
        return Participant("Graft", command, {"GRAFT_THREADS": args.threads})
    except Failed as e:
        if e.args[1:] == (UNSUPPORTED,):
            raise Skipped(f"Graft does not compute in {precision} on this processor") from e
        raise


def check_part(part, args):
    with open(args.model, "rb") as f:
        (size,) = struct.unpack("<Q", f.read(8))
        names = json.loads(f.read(size))
    if not any(name.startswith(MARKS[part]) for name in names):
        raise Skipped(f"{os.path.basename(args.model)} has no {part}")


START = {"torch": start_torch, "compile": functools.partial(start_torch, how="compiled"),
         "ort": start_ort, "ggml": start_ggml,
         "ggml_q8": functools.partial(start_ggml, matrices="q8_0")}


def check_memory(precision, args):
    """Running out of memory would end something, and not always one of ours."""
    need = os.path.getsize(args.model) * (5 if precision == "f32" else 3) + 2**29
    with open("/proc/meminfo") as f:
        free = next(int(line.split()[1]) * 1024 for line in f if line.startswith("MemAvailable"))
    if free < need:
        raise Skipped(f"needs about {need / 2**30:.1f} GiB of memory, {free / 2**30:.1f} are free")


# ------------------------------------------------------------------ a contest


def give_inputs(pair, args):
    rng = random.Random(1)
    for i, size in enumerate(pair[0].ask("sizes").split()):
        size = int(size)
        values = [rng.gauss(0, 1) for _ in range(size)] if size > 1 else [500.0]  # the step
        path = os.path.join(args.scratch, f"in{i}")
        with open(path, "wb") as f:
            array.array("f", values).tofile(f)
        for p in pair:
            p.ask("in", str(i), path)


def output_of(p, args):
    path = os.path.join(args.scratch, "out")
    p.ask("out", path)
    values = array.array("f")
    with open(path, "rb") as f:
        values.frombytes(f.read())
    return values


def difference(a, b):
    """The largest, as a share of b's largest value; NaN counts as infinitely far."""
    if len(a) != len(b):
        return float("inf")
    largest = max(abs(x) for x in b) or 1.0
    return max(d if d == d else float("inf") for d in (abs(x - y) for x, y in zip(a, b))) / largest


def check_outputs(pair, part, precision, references, args):
    ours, theirs = (output_of(p, args) for p in pair)
    apart, limit = difference(ours, theirs), LIMITS[precision]
    print(f"  outputs differ by {apart:.2g} of the largest value (limit {limit:g})")
    if precision == "f32":
        references[part] = theirs
    elif part in references:
        print("  from the peer's float32: "
              f"{difference(ours, references[part]):.2g} Graft, "
              f"{difference(theirs, references[part]):.2g} {pair[1].name}")
    if not apart <= limit:
        raise Failed("they do not compute the same")


def busy_seconds():
    """Of all processors, since the machine started; neither idle nor waiting for a disk."""
    with open("/proc/stat") as f:
        ticks = [int(v) for v in f.readline().split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def take_turns(pair, args):
    """Seconds of each, by round; says when the machine had other things to do."""
    seconds = ([], [])
    start, busy = time.monotonic(), busy_seconds()
    own = [p.processor_seconds() for p in pair]
    for r in range(args.rounds):
        for i in ((0, 1), (1, 0))[r % 2]:
            time.sleep(args.pause)  # until the other's threads have stopped waiting for work
            seconds[i].append(pair[i].run())
    own = [p.processor_seconds() - before for p, before in zip(pair, own)]
    others = (busy_seconds() - busy - sum(own)) / (time.monotonic() - start) / os.cpu_count()
    print("  processor seconds a step:", ", ".join(
        f"{t / args.rounds:.4g} {p.name}" for p, t in zip(pair, own)))
    if others > BUSY:
        print(f"  other programs took {others:.0%} of the processors: seconds and ratio say little")
    return seconds


def contest(figure, part, precision, peer, references, args):
    pair = []
    check_part(part, args)
    check_memory(precision, args)
    try:
        pair.append(START[peer](part, precision, args))
        pair.insert(0, start_graft(part, precision, args))
        print(f"  {pair[0].who}, tuning {args.tuning}\n  {pair[1].who}", flush=True)
        give_inputs(pair, args)
        firsts = [p.loading + p.run() for p in pair]
        check_outputs(pair, part, precision, references, args)
        seconds = take_turns(pair, args) if args.rounds else None
        peaks = [float(p.ask("peak")) for p in pair]
    finally:
        ends = [p.close() for p in pair]
    if any(ends):
        raise Failed(f"ended with status {ends[0]} and {ends[1]}")
    if not seconds:
        return {}
    figures = {figure: ([b / a for a, b in zip(*seconds)], "times as fast")}
    for i, side in enumerate(("graft", peer)):
        figures[f"{figure}_{side}_s"] = (seconds[i], "s")
        figures[f"{figure}_{side}_first_s"] = ([firsts[i]], "s from its start to its first output")
        figures[f"{figure}_{side}_mib"] = ([peaks[i]], "MiB at most, the whole process")
    if (part, precision) == ("unet", "bf16"):
        figures["unet_rss_mib"] = ([peaks[0]], "MiB at most, the whole process")
    return figures


# ------------------------------------------------------------------ program


def machine_name():
    with open("/proc/cpuinfo") as f:
        lines = f.read().splitlines()
    name = next((s.partition(": ")[2] for s in lines if s.startswith("model name")),
                "unknown processor")
    return f"{name}, {sum(s.startswith('processor') for s in lines)} processors"


def note(figures, args):
    path, known = os.path.join(args.build, "bench.json"), {}
    if os.path.exists(path):
        with open(path) as f:
            known = json.load(f)
    how = f"bench/peers/compare.py --rounds {args.rounds} --threads {args.threads} " \
          f"--tuning {args.tuning} {os.path.basename(args.model)}"
    for name, (values, unit) in figures.items():
        value, low, high = statistics.median(values), min(values), max(values)
        spread = f" ({low:.4g} … {high:.4g})" if low < high else ""
        print(f"  {args.name + name:30s} {value:10.4g} {unit}{spread}")
        known[args.name + name] = {"value": value, "low": low, "high": high, "unit": unit,
                                   "how": how, "machine": machine_name(),
                                   "date": time.strftime("%Y-%m-%d", time.gmtime())}
    with open(path + ".part", "w") as f:
        json.dump(known, f, indent="\t", ensure_ascii=False)
    os.replace(path + ".part", path)


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build")
    p.add_argument("model")
    p.add_argument("--rounds", type=int, default=7, help="0: only compare outputs")
    p.add_argument("--only", default="", help=", ".join(c[0] for c in CONTESTS))
    p.add_argument("--name", default="", help="what figures' names begin with")
    p.add_argument("--threads", default=str(len(os.sched_getaffinity(0))))
    p.add_argument("--tuning", default="full", choices=["off", "fast", "full"])
    p.add_argument("--pause", type=float, default=0.3)
    p.add_argument("--torch-root", default="", metavar="DIR",
                   help="a folder with another Debian, whose PyTorch takes part")
    args = p.parse_args()
    args.only = args.only.split(",") if args.only else [c[0] for c in CONTESTS]
    unknown = set(args.only) - {c[0] for c in CONTESTS}
    if not os.path.exists(args.model):
        p.error(f"no file {args.model}")
    if args.torch_root and not os.path.exists(os.path.join(args.torch_root, "usr/bin/python3")):
        p.error(f"no Debian with Python in {args.torch_root}")
    if unknown or args.rounds < 0:
        p.error(f"no figure {', '.join(unknown)}" if unknown else "--rounds: less than 0")
    args.peers = os.path.join(args.build, "peers")
    return args


def hold_contests(args):
    references, status = {}, 0
    for c in CONTESTS:
        if c[0] not in args.only:
            continue
        print(f"{args.name}{c[0]}", flush=True)
        try:
            figures = contest(*c, references, args)
            if figures:
                note(figures, args)
        except Skipped as e:
            print(f"  skipped: {e}")
        except (Failed, subprocess.CalledProcessError) as e:
            print(f"  failed: {e.args[0] if isinstance(e, Failed) else e}")
            status = 1
    return status


def main():
    args = arguments()
    os.makedirs(args.peers, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="graft-peers-") as args.scratch:
        return hold_contests(args)


if __name__ == "__main__":
    sys.exit(main())
