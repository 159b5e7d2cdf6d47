"""A peer's side of compare.py's protocol."""
import sys
import time


def peak_mib():
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmHWM")) / 1024


def serve(who, take, run, write):
    """Answers until nothing more is asked: take(i, path) reads input i, run() computes a step,
    write(path) writes what it made."""
    print("ready", who, flush=True)
    for line in sys.stdin:
        command, *args = line.split()
        answer = "ok"
        if command == "in":
            take(int(args[0]), args[1])
        elif command == "run":
            start = time.perf_counter()
            run()
            answer = repr(time.perf_counter() - start)
        elif command == "out":
            write(args[0])
        elif command == "peak":
            answer = repr(peak_mib())
        else:
            raise ValueError(line)
        print(answer, flush=True)
