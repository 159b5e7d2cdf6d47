#!/bin/sh
# Checks and times the CUDA backend on a machine with an NVIDIA GPU: bench/gpu.sh BUILD [OUT].
#
# In this order, so that a run that is cut short still says the most important: versions, every
# operator against ref, pictures of the demo model, then timings of whole networks with their
# ceilings, each held against the processor's result, PyTorch beside them where it is installed, and
# compute-sanitizer. Figures go to OUT/bench.json, everything that is printed to OUT/gpu.log.
# Nothing on the card is changed.
#
#   GRAFT_GPU_SECONDS  stop beginning new parts after so many seconds (default: 540)
#   GRAFT_PYTHON       the Python that has PyTorch (default: python3)
#   GRAFT_GPU_PARTS    the parts to run, instead of all: versions ops quant demo sd15 sdxl vae start
#                      int8 torch sanitizer
#   GRAFT_GPU_SKIP     parts to leave out
set -u
[ $# -ge 1 ] || { echo "usage: bench/gpu.sh BUILD [OUT]" >&2; exit 2; }
build=$(cd "$1" && pwd) || exit 2
here=$(cd "$(dirname "$0")/.." && pwd)
out=${2:-$build/gpu}
models=$out/models
mkdir -p "$models" || exit 2
PATH=$PATH:/usr/local/cuda/bin # compute-sanitizer
# What bench/gpu-pack.sh brought is not for Python, which has libraries of its own.
given=${GRAFT_GPU_GIVEN-${LD_LIBRARY_PATH:-}}
[ ! -d "$build/deps" ] ||
    export GRAFT_GPU_GIVEN="$given" LD_LIBRARY_PATH="$build/deps${given:+:$given}"
python=${GRAFT_PYTHON:-python3}
log=$out/gpu.log
json=$out/bench.json
limit=${GRAFT_GPU_SECONDS:-540}
begun=$(date +%s)
failed=""

versions() {
    nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm --format=csv,noheader
    "$build/bin/graft" --version
    "$build/tests/test_cuda_library" || true
}

# Line by line, so that what runs out of time has said how far it came.
lines() {
    if command -v stdbuf > /dev/null; then stdbuf -oL "$@"; else "$@"; fi
}

ops() {
    lines "$build/tests/test_kernels_ops" graft_kernels_cuda
}

quant() {
    lines "$build/tests/test_kernels_quant" graft_kernels_cuda
}

sanitizer() {
    command -v compute-sanitizer > /dev/null || { echo "skipped: no compute-sanitizer"; return 0; }
    GRAFT_BACKEND=cuda compute-sanitizer --tool memcheck --error-exitcode 9 "$build/bin/graft" run \
        "$here/workflows/txt2img.json" --models "$here/models" --output "$out/sanitizer" \
        --set 5.steps=1 --quiet
}

demo() {
    for test in engine_demo engine_control_demo; do
        GRAFT_TEST_BACKEND=cuda "$build/tests/test_$test" || return 1
    done
    for backend in ref cuda; do
        GRAFT_BACKEND=$backend GRAFT_PRECISION=f32 "$build/bin/graft" run \
            "$here/workflows/txt2img.json" --models "$here/models" --output "$out/demo-$backend" \
            --quiet || return 1
    done
    GRAFT_BACKEND=cuda GRAFT_PRECISION=bf16 "$build/bin/graft" run "$here/workflows/txt2img.json" \
        --models "$here/models" --output "$out/demo-cuda-bf16" --quiet
}

# How far 8-bit layers move the demo model's pictures: PSNR, SSIM and the latents step by step.
int8() {
    GRAFT_BACKEND=cuda "$build/bin/graft" compare "$here/workflows/txt2img.json" \
        "$here/workflows/quantize.json" --models "$here/models" --output "$out/int8" --seeds 2
}

# model KIND SEED PARTS FILE: random weights with the shapes of a real checkpoint.
model() {
    [ -e "$4" ] || "$build/bin/graft-make-model" "$1" "$4.part" --dtype bf16 --seed "$2" \
        --parts "$3" && { [ -e "$4" ] || mv "$4.part" "$4"; }
}

sd15() {
    model sd15 1 unet,vae "$models/sd15.safetensors" &
    model sd15 2 unet "$models/sd15-b.safetensors" &
    wait
    GRAFT_BENCH_SECOND="$models/sd15-b.safetensors" "$build/bin/graft-bench-gpu" --json "$json" \
        --operators --against cpu sd15 "$models/sd15.safetensors"
}

sdxl() {
    model sdxl 1 unet "$models/sdxl.safetensors" &
    model sdxl 2 unet "$models/sdxl-b.safetensors" &
    wait
    GRAFT_BENCH_SECOND="$models/sdxl-b.safetensors" "$build/bin/graft-bench-gpu" --json "$json" \
        --operators --against cpu sdxl "$models/sdxl.safetensors"
}

# What a first and a second process take until the UNet can run.
start() {
    model sdxl 1 unet "$models/sdxl.safetensors"
    rm -rf "$out/cache"
    for turn in first again; do
        echo "$turn:"
        "$build/bin/graft-bench-gpu" --json "$json" --tuning fast --cache "$out/cache" sdxl \
            "$models/sdxl.safetensors" || return 1
    done
}

vae() {
    model sd15 1 unet,vae "$models/sd15.safetensors"
    "$build/bin/graft-bench-gpu" --json "$json" --operators vae "$models/sd15.safetensors"
}

torch() {
    export LD_LIBRARY_PATH="$given"
    "$python" -c 'import torch' 2> /dev/null || { echo "skipped: PyTorch is not installed"; return 0; }
    "$python" "$here/bench/gpu_torch.py" --json "$json" --models "$models" sd15 sdxl
}

# NVIDIA's libraries as Python packages, which PyTorch brings, where the loader knows none.
if [ -z "${GRAFT_CUDA_LIBS:-}" ] && ! ldconfig -p 2> /dev/null | grep -q 'libcudnn\.so\.9'; then
    GRAFT_CUDA_LIBS=$(LD_LIBRARY_PATH=$given "$python" -c 'import glob, importlib.util as u
p = u.find_spec("nvidia")
print(":".join(sorted(d for f in p.submodule_search_locations for d in glob.glob(f + "/*/lib"))))' \
        2> /dev/null) && export GRAFT_CUDA_LIBS
fi

# timeout runs programs, not functions: the parts run in a shell of their own.
if [ "${GRAFT_GPU_PART:-}" ]; then
    "$GRAFT_GPU_PART"
    exit
fi

[ "${GRAFT_GPU_PARTS:-}" ] || : > "$log"

say() { echo "$*" | tee -a "$log"; }

[ -e "$build/lib/graft/graft_kernels_cuda.so" ] || {
    echo "bench/gpu.sh: $build has no graft_kernels_cuda.so: build it where nvcc is" >&2
    exit 2
}
# Programs look for libraries, and tests for files, where they were built. moved WAS FILE IS: whether
# WAS/FILE is there; an unpacked build (gpu-pack.sh) gets a link.
moved() {
    [ "$1" ] && [ ! -e "$1/$2" ] || return 0
    if [ -d "$build/deps" ] && mkdir -p "$(dirname "$1")" && ln -s "$3" "$1"; then
        say "linked: $1 is $3"
    else
        say "warning: built with $1, which is not here: ln -s $3 $1"
    fi
}
cached() { sed -n "s/^$1:INTERNAL=//p" "$build/CMakeCache.txt" 2> /dev/null; }
moved "$(cached CMAKE_CACHEFILE_DIR)" lib/graft "$build"
moved "$(cached CMAKE_HOME_DIRECTORY)" golden "$here"
if ! device=$("$build/bin/graft-bench-gpu" device 2>&1); then
    say "bench/gpu.sh: refused: $device"
    exit 3
fi
say "$device"

# part NAME SECONDS COMMAND...: runs it with a limit, unless time is up; notes failures and goes on.
part() {
    name=$1 most=$2
    shift 2
    case " ${GRAFT_GPU_PARTS:-$name} " in *" $name "*) ;; *) return 0 ;; esac
    case " ${GRAFT_GPU_SKIP:-} " in *" $name "*) say "== $name: left out"; return 0 ;; esac
    used=$(($(date +%s) - begun))
    left=$((limit - used))
    [ $left -ge 10 ] || { say "== $name: no time left"; failed="$failed $name(time)"; return 0; }
    [ "$most" -le $left ] || most=$left
    say "== $name (at $used s)"
    if timeout -k 5 "$most" "$@" > "$out/$name.txt" 2>&1; then
        tail -n 40 "$out/$name.txt" | tee -a "$log"
    else
        code=$?
        failed="$failed $name($code)"
        tail -n 40 "$out/$name.txt" | tee -a "$log"
        say "== $name FAILED with $code"
    fi
}

for p in versions:30 ops:180 quant:180 demo:60 sd15:180 sdxl:300 vae:90 start:100 int8:120 \
    torch:200 sanitizer:120; do
    part "${p%:*}" "${p#*:}" env "GRAFT_GPU_PART=${p%:*}" sh "$0" "$build" "$out"
done
say "== figures"
[ ! -e "$json" ] || awk -F '"' '/\{[ \t]*$/ && NF > 2 { name = $2 }
    /"value":/ { value = $3; gsub(/[:, \t]/, "", value) }
    /"unit":/ { print "  " name, value, $4 }' "$json" | tee -a "$log"
say "finished after $(($(date +%s) - begun)) s; failed:${failed:- none}; log $log"
[ -z "$failed" ]
