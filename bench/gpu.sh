#!/bin/sh
# Checks and times the CUDA backend on a machine with an NVIDIA GPU: bench/gpu.sh BUILD [OUT].
#
# For a machine that is there for minutes: parts run in an order in which what is cut off matters
# least, each with a limit, in three sets that take less than ten minutes each. A part that fails
# does not stop the next one. In OUT, all of it small:
#
#   gpu.log         everything that was printed, also by a part that was cut short
#   bench.json      the figures, written as they come; untried.json: those of the part `untried`;
#                   whole.json: those of `vae` without bands; bands.json: in small ones
#   results.tar.xz  pictures, at the end
#
# Models, which are large, and caches are in a folder of their own and stay there. Nothing on the
# card is changed.
#
#   GRAFT_GPU_PARTS    sets or parts, in the order given (default: first; all: the three sets);
#                      `bench/gpu.sh --plan` lists them. What is not the default is added to gpu.log
#   GRAFT_GPU_SKIP     parts to leave out
#   GRAFT_GPU_COMPILE  seconds that PyTorch may take to compile beyond the parts before (default: 180)
#   GRAFT_GPU_SECONDS  stop beginning new parts after so many seconds (default: 540 a set)
#   GRAFT_GPU_WORK     folder of models and caches (default: graft-gpu in TMPDIR or /tmp)
#   GRAFT_GPU_INCOMPLETE=1  go on where cuBLASLt, cuDNN or NVRTC is missing: times are those of
#                      Graft's own kernels then
#   GRAFT_GPU_SMALL=1  tiny models, to try this script; figures mean nothing
#   GRAFT_PYTHON       the Python that has PyTorch (default: python3)
set -u

first="versions:10 ops:90 demo:50 sdxl:150 sd15:60 vae:58 torch:90 ceilings:30"
second="quant:100 blocks:28 swaps:125 levels:190 start:95"
third="untried:230 offload:70 steered:70 int8:50 sanitizer:110"

# The parts that are meant by names of parts and sets, with their seconds.
parts_of() {
    for name in $1; do
        case $name in
        first) echo "$first" ;;
        second) echo "$second" ;;
        third) echo "$third" ;;
        all) echo "$first $second $third" ;;
        *)
            found=""
            for p in $first $second $third; do [ "${p%:*}" != "$name" ] || found=$p; done
            [ "$found" ] || { echo "bench/gpu.sh: there is no part $name" >&2; return 1; }
            echo "$found"
            ;;
        esac
    done
}

if [ "${1:-}" = --plan ]; then
    for set in first second third; do
        sum=0
        for p in $(parts_of $set); do sum=$((sum + ${p#*:})); done
        echo "$set, $sum s:" $(parts_of $set)
    done
    exit
fi
[ $# -ge 1 ] || { echo "usage: bench/gpu.sh BUILD [OUT] | --plan" >&2; exit 2; }
build=$(cd "$1" && pwd) || exit 2
here=$(cd "$(dirname "$0")/.." && pwd)
out=${2:-$build/gpu}
mkdir -p "$out" || exit 2
out=$(cd "$out" && pwd)
work=${GRAFT_GPU_WORK:-${TMPDIR:-/tmp}/graft-gpu}
models=$work/models
mkdir -p "$models" "$work/pictures" || exit 2
PATH=$PATH:/usr/local/cuda/bin # compute-sanitizer
# What bench/gpu-pack.sh brought is not for Python, which has libraries of its own.
given=${GRAFT_GPU_GIVEN-${LD_LIBRARY_PATH:-}}
[ ! -d "$build/deps" ] ||
    export GRAFT_GPU_GIVEN="$given" LD_LIBRARY_PATH="$build/deps${given:+:$given}"
python=${GRAFT_PYTHON:-python3}
log=$out/gpu.log
json=$out/bench.json
bench=$build/bin/graft-bench-gpu
signals=$work/signals
small=${GRAFT_GPU_SMALL:-}
begun=$(date +%s)
failed=""

# ---------------------------------------------------------------------- models

# model KIND SEED PARTS FILE: random weights with the shapes of a real checkpoint.
model() {
    kind=$1
    [ ! "$small" ] || case $kind in sd15) kind=tiny-sd1 ;; sdxl) kind=tiny-sdxl ;; esac
    [ -e "$4" ] || "$build/bin/graft-make-model" "$kind" "$4.part" --dtype bf16 --seed "$2" \
        --parts "$3" && { [ -e "$4" ] || mv "$4.part" "$4"; }
}

sd15=$models/sd15${small:+-small}.safetensors
sdxl=$models/sdxl${small:+-small}.safetensors
sd15_b=$models/sd15${small:+-small}-b.safetensors
sdxl_b=$models/sdxl${small:+-small}-b.safetensors

# Makes what the parts need, two at a time, the largest first.
make_models() {
    case " $* " in *" sdxl:"* | *" swaps:"* | *" levels:"* | *" start:"* | *" untried:"* | *" offload:"* | *" steered:"* | *" torch:"*)
        model sdxl 1 unet,vae,clip "$sdxl" & ;;
    esac
    case " $* " in *" swaps:"*) model sdxl 2 unet "$sdxl_b" & ;; esac
    wait
    case " $* " in *" sd15:"* | *" swaps:"* | *" levels:"* | *" vae:"* | *" untried:"* | *" torch:"*)
        model sd15 1 unet,vae "$sd15" & ;;
    esac
    case " $* " in *" swaps:"*) model sd15 2 unet "$sd15_b" & ;; esac
    wait
}

# ---------------------------------------------------------------------- the parts

versions() {
    nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm --format=csv,noheader ||
        echo "no nvidia-smi"
    "$build/bin/graft" --version
    uname -srm
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

# Layers with packed weights: whether they are right, then what that costs.
blocks() {
    [ "$small" ] || lines "$build/tests/test_kernels_blocks" graft_kernels_cuda || return 1
    networks blocks
}

# networks OPTION...: graft-bench-gpu with what all parts share. What one part tuned the next knows.
networks() {
    "$bench" --json "$json" ${small:+--side 8 --repeats 1} "$@"
}

sdxl() {
    networks --cache "$work/cache" --operators --against cpu --overlap sdxl "$sdxl"
}

sd15() {
    networks --cache "$work/cache" --operators --against cpu --overlap sd15 "$sd15"
}

# In bands, which take less memory, and at once; then of a small picture in small bands, beside the
# processor: a large one would take it too long, and operators alone are too small for bands.
vae() {
    networks --cache "$work/cache" --operators ${small:+--side 4} vae "$sd15"
    code=$?
    json=$out/whole.json
    echo "  without bands:"
    GRAFT_CUDA_BANDS=off networks --cache "$work/cache" ${small:+--side 4} vae "$sd15" || code=$?
    json=$out/bands.json side=${small:+4} least=${small:+4} tuning=${small:+off}
    echo "  in small bands:"
    GRAFT_CUDA_BANDS=${least:-1024} networks --side "${side:-32}" --repeats 1 \
        --tuning "${tuning:-fast}" --against cpu vae "$sd15" && return $code
}

ceilings() {
    networks ceilings
}

# both COMMAND...: for both networks, the second also where the first fails.
both() {
    "$@" sdxl
    code=$?
    "$@" sd15 && return $code
}

swap_one() {
    if [ "$1" = sdxl ]; then set -- sdxl "$sdxl" "$sdxl_b"; else set -- sd15 "$sd15" "$sd15_b"; fi
    networks --cache "$work/cache" --swap "$3" "$1" "$2"
}

swaps() {
    both swap_one
}

levels_one() {
    if [ "$1" = sdxl ]; then set -- sdxl "$sdxl"; else set -- sd15 "$sd15"; fi
    networks --cache "$work/cache" --levels --operators "$1" "$2"
}

levels() {
    if [ "$small" ]; then levels_one sdxl; else both levels_one; fi
}

# What a first and a second process take until the UNet has run, and until they have made a picture.
start() {
    rm -rf "$work/cache-start" "$work/cache-picture" "$work/tree"
    mkdir -p "$work/tree/checkpoints"
    ln -s "$sdxl" "$work/tree/checkpoints/sdxl.safetensors"
    for turn in first again; do
        echo "$turn:"
        networks --tuning fast --cache "$work/cache-start" --start sdxl "$sdxl" || return 1
    done
    # The last one with less memory than the checkpoint has weights: text encoders have to go.
    room=$(($(wc -c < "$sdxl") / 1048576 - 400))
    [ $room -ge 64 ] || room=64
    for memory in "" "" $room; do
        GRAFT_MEMORY_MB=$memory networks --cache "$work/cache-picture" picture "$sdxl" \
            "$build/bin/graft" run "$here/workflows/sdxl-txt2img.json" --models "$work/tree" \
            --set 1.ckpt_name=sdxl.safetensors --set 5.steps=20 \
            ${small:+--set 4.width=64 --set 4.height=64 --set 5.steps=2} \
            --output "$work/pictures/start" --quiet || return 1
    done
}

# Kernels that have run on no device yet: whether it opens with them, whether they are right, and
# what they gain. A JSON file of its own, since the figures have the names of those without.
untried() {
    export GRAFT_CUDA_WGMMA=all
    json=$out/untried.json
    rm -f "$json"
    timeout -k 5 60 "$bench" device || return 1
    [ "$small" ] || { ops && quant; } || return 1
    networks --cache "$work/cache-untried" --operators sd15 "$sd15" &&
        networks --cache "$work/cache-untried" --operators --levels sdxl "$sdxl"
}

demo() {
    for test in engine_demo engine_control_demo; do
        GRAFT_TEST_BACKEND=cuda "$build/tests/test_$test" || return 1
    done
    for backend in ref cuda; do
        GRAFT_BACKEND=$backend GRAFT_PRECISION=f32 "$build/bin/graft" run \
            "$here/workflows/txt2img.json" --models "$here/models" \
            --output "$work/pictures/demo-$backend" --quiet || return 1
    done
    GRAFT_BACKEND=cuda GRAFT_PRECISION=bf16 "$build/bin/graft" run "$here/workflows/txt2img.json" \
        --models "$here/models" --output "$work/pictures/demo-cuda-bf16" --quiet
}

# How far 8-bit layers move the demo model's pictures: PSNR, SSIM and the latents step by step.
int8() {
    GRAFT_BACKEND=cuda "$build/bin/graft" compare "$here/workflows/txt2img.json" \
        "$here/workflows/quantize.json" --models "$here/models" --output "$work/pictures/int8" \
        --seeds 2
}

# A step of SDXL with less memory than the 4900 MiB of its weights, some of which then come anew in
# each step.
offload() {
    json=$out/offload.json code=0 rooms=${small:+2}
    for room in ${rooms:-3500 2000}; do
        echo "  in $room MiB:"
        GRAFT_MEMORY_MB=$room networks --tuning fast --cache "$work/cache-offload" sdxl "$sdxl" ||
            code=$?
    done
    return $code
}

# drawn STRENGTH STEPS: seconds of a run of the workflow with a ControlNet.
drawn() {
    before=$(date +%s.%N)
    GRAFT_BACKEND=cuda GRAFT_PRECISION=bf16 GRAFT_CACHE="$work/cache-steered" \
        "$build/bin/graft" run "$here/workflows/controlnet.json" --models "$work/steered" \
        --set 1.ckpt_name=sdxl.safetensors --set 9.control_net_name=control.safetensors \
        --set 4.width=1024 --set 4.height=1024 --set "10.strength=$1" --set "5.steps=$2" \
        ${small:+--set 4.width=64 --set 4.height=64} --set 5.sampler_name=euler \
        --set 5.scheduler=normal --output "$work/pictures/steered" --quiet > /dev/null || return 1
    echo "$before $(date +%s.%N)" | awk '{ print $2 - $1 }'
}

# A step of SDXL with a ControlNet and without, where nothing of it is brought to the host.
steered() {
    mkdir -p "$work/steered/checkpoints" "$work/steered/controlnet"
    model sdxl 3 controlnet "$models/sdxl-control${small:+-small}.safetensors" || return 1
    ln -sf "$sdxl" "$work/steered/checkpoints/sdxl.safetensors"
    ln -sf "$models/sdxl-control${small:+-small}.safetensors" \
        "$work/steered/controlnet/control.safetensors"
    few=${small:+1} few=${few:-5} many=${small:+2} many=${many:-25}
    for strength in 0.0 0.7; do
        drawn $strength $few > /dev/null || return 1 # compiles
        one=$(drawn $strength $few) && more=$(drawn $strength $many) || return 1
        echo "$one $more $few $many $strength" |
            awk '{ printf "a step, strength %s: %.2f ms\n", $5, 1000 * ($2 - $1) / ($4 - $3) }'
    done
}

# PyTorch compiles for minutes, a process for each network, beside the parts before the first that
# is timed.
torch_begin() {
    rm -rf "$signals"
    LD_LIBRARY_PATH=$given "$python" -c 'import torch' 2> /dev/null || return 0
    for kind in sdxl sd15; do
        mkdir -p "$signals/$kind"
        (
            LD_LIBRARY_PATH=$given exec nice "$python" -u "$here/bench/gpu_torch.py" \
                --json "$json" --models "$models" --signals "$signals/$kind" $kind
        ) > "$signals/$kind/torch.txt" 2>&1 &
        torch_pids="${torch_pids:-} $kind:$!"
    done
}

# torch_wait KIND:PID FILE SECONDS: until it has made FILE or has ended.
torch_wait() {
    tenths=$(($3 * 10))
    while [ $tenths -gt 0 ] && [ ! -e "$signals/${1%:*}/$2" ] && kill -0 "${1#*:}" 2> /dev/null; do
        sleep 0.1
        tenths=$((tenths - 1))
    done
    [ -e "$signals/${1%:*}/$2" ]
}

torch_settle() {
    [ "${torch_pids:-}" ] && [ ! "${torch_settled:-}" ] || return 0
    torch_settled=1
    since=$(date +%s)
    left=${GRAFT_GPU_COMPILE:-180}
    for one in $torch_pids; do
        torch_wait $one torch-ready $((left - $(date +%s) + since)) || {
            say "** PyTorch has not compiled ${one%:*} after $(($(date +%s) - since)) s more: it is ended"
            kill "${one#*:}" 2> /dev/null
        }
    done
    say "waited $(($(date +%s) - since)) s for PyTorch to compile"
}

torch_end() {
    for one in ${torch_pids:-}; do kill "${one#*:}" 2> /dev/null; done
    torch_pids=""
}

torch() {
    [ "${torch_pids:-}" ] || { echo "skipped: there is no PyTorch"; return 0; }
    bad=0
    for one in $torch_pids; do
        : > "$signals/${one%:*}/torch-go"
        torch_wait $one torch-done 600
        cat "$signals/${one%:*}/torch.txt"
        [ -e "$signals/${one%:*}/torch-done" ] || bad=1
    done
    return $bad
}

# check SECONDS TOOL COMMAND...: by compute-sanitizer. One that runs out of time is no failure where
# it has found nothing so far.
check() {
    most=$1 tool=$2
    shift 2
    found=$work/sanitizer-$tool.txt
    case $(compute-sanitizer --help 2>&1) in
    *--kernel-name*) own="--kernel-name kns=graft_" ;;
    *) own="--filter kns=graft_" ;;
    esac
    [ "$tool" != memcheck ] || own=""
    echo "$tool, at most $most s:"
    timeout -k 5 "$most" compute-sanitizer --tool "$tool" $own --error-exitcode 9 "$@" \
        > "$found" 2>&1
    code=$?
    grep '^=====' "$found" | head -n 60
    [ $code -ne 124 ] && [ $code -ne 137 ] && return $code
    echo "cut short after $most s"
    ! grep -Eq '^=+ +(Error|Warning|Barrier error|Invalid|Program hit)' "$found"
}

sanitizer() {
    command -v compute-sanitizer > /dev/null || { echo "skipped: no compute-sanitizer"; return 0; }
    bad=0
    GRAFT_BACKEND=cuda check 40 memcheck "$build/bin/graft" run "$here/workflows/txt2img.json" \
        --models "$here/models" --output "$work/pictures/sanitizer" --set 5.steps=1 --quiet || bad=1
    for tool in racecheck synccheck; do
        check 35 $tool "$build/tests/test_kernels_ops" graft_kernels_cuda || bad=1
    done
    return $bad
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

# ---------------------------------------------------------------------- the machine

[ "${GRAFT_GPU_PARTS:-}" ] || : > "$log"
say() { echo "$*" | tee -a "$log"; }

list=$(parts_of "${GRAFT_GPU_PARTS:-first}") || exit 2
list=$(echo $list)
case ${GRAFT_GPU_PARTS:-} in all) limit=${GRAFT_GPU_SECONDS:-1620} ;; *) limit=${GRAFT_GPU_SECONDS:-540} ;; esac
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

# Kernels for Hopper and FP8 compute a product when the device is opened, and a chain of kernels
# starts early. One that faults, rather than being wrong, or that hangs, takes the device with it: a
# new process leaves all of that out.
open_device() { device=$(timeout -k 5 "${GRAFT_GPU_PATIENCE:-90}" "$bench" device 2>&1); }
open_device
code=$?
if [ $code -eq 1 ] || [ $code -ge 124 ]; then
    why=$device was=$code
    export GRAFT_CUDA_WGMMA=off GRAFT_CUDA_FP8=off GRAFT_CUDA_PDL=off
    open_device
    code=$?
    if [ $code -eq 0 ] || [ $code -eq 4 ]; then
        failed=" device($was)"
        say "** THE DEVICE DOES NOT OPEN WITH ALL KERNELS (code $was): $why"
        say "** IT DOES WITHOUT THOSE FOR HOPPER AND FP8 AND WITHOUT STARTS AHEAD OF TIME"
        say "** (GRAFT_CUDA_WGMMA=off GRAFT_CUDA_FP8=off GRAFT_CUDA_PDL=off): ALL THAT FOLLOWS IS WITHOUT THEM"
    fi
fi
if [ $code -eq 4 ] && [ "${GRAFT_GPU_INCOMPLETE:-}" ]; then
    say "** NVIDIA'S LIBRARIES ARE NOT COMPLETE: times are those of Graft's own kernels"
elif [ $code -eq 4 ]; then
    say "$device"
    say "bench/gpu.sh: refused: GRAFT_CUDA_LIBS names folders to look in, GRAFT_GPU_INCOMPLETE=1 goes on without"
    exit 4
elif [ $code -ne 0 ]; then
    say "bench/gpu.sh: refused: $device"
    exit 3
fi
say "$device"

# ---------------------------------------------------------------------- running them

# In a process of its own, with a limit; what it prints goes to the log as it comes.
run_part() {
    size=$(wc -c < "$log")
    timeout -k 5 "$2" env "GRAFT_GPU_PART=$1" "torch_pids=${torch_pids:-}" sh "$0" "$build" "$out" >> "$log" 2>&1
    code=$?
    tail -c "+$((size + 1))" "$log" | tail -n 40
    return $code
}

# part NAME SECONDS: unless time is up; notes failures and goes on.
part() {
    name=$1 most=$2
    case " ${GRAFT_GPU_SKIP:-} " in *" $name "*) say "== $name: left out"; return 0 ;; esac
    case $name in
    sdxl | sd15 | vae | ceilings | swaps | levels | start | untried | offload | steered | torch)
        wait $models_pid
        torch_settle
        ;;
    esac
    used=$(($(date +%s) - begun))
    left=$((limit - used))
    [ $left -ge 10 ] || { say "== $name: no time left"; failed="$failed $name(time)"; return 0; }
    [ "$most" -le $left ] || most=$left
    say "== $name (at $used s, at most $most s)"
    run_part "$name" "$most" && return 0
    code=$?
    failed="$failed $name($code)"
    say "== $name FAILED with $code"
    # A fault loses the device for its process. Perhaps it was a kernel that can be left out.
    case $code:${GRAFT_CUDA_WGMMA:-}:$name in
    1::sdxl | 1::sd15)
        used=$(($(date +%s) - begun))
        left=$((limit - used))
        [ $left -ge 60 ] || return 0
        [ "$2" -le $left ] || set -- "$1" $left
        say "** $name ONCE MORE, WITHOUT THE KERNELS FOR HOPPER AND FP8 AND WITHOUT STARTS AHEAD OF TIME"
        export GRAFT_CUDA_WGMMA=off GRAFT_CUDA_FP8=off GRAFT_CUDA_PDL=off
        run_part "$name" "$2" || say "== $name FAILED again"
        unset GRAFT_CUDA_WGMMA GRAFT_CUDA_FP8 GRAFT_CUDA_PDL
        ;;
    esac
}

make_models $list > "$work/models.txt" 2>&1 &
models_pid=$!
case " $list " in *" torch:"*) torch_begin ;; esac
for p in $list; do part "${p%:*}" "${p#*:}"; done
torch_end
say "== figures"
[ ! -e "$json" ] || awk -F '"' '/\{[ \t]*$/ && NF > 2 { name = $2 }
    /"value":/ { value = $3; gsub(/[:, \t]/, "", value) }
    /"unit":/ { print "  " name, value, $4 }' "$json" | tee -a "$log"
tar -C "$work" -cJf "$out/results.tar.xz" pictures 2>> "$log" || say "no results.tar.xz"
say "finished after $(($(date +%s) - begun)) s; failed:${failed:- none}; log $log"
[ -z "$failed" ]
