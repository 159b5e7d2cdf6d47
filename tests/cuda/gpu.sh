#!/bin/sh
# bench/gpu.sh with the emulated device: what it does where the device does not open, where libraries
# are missing, and that each part of it runs, with tiny models. gpu.sh SOURCES BUILD FAKES.
set -u
source=$1 build=$2 fakes=$3
folder=$build/tests/gpu-script
gpu=$source/bench/gpu.sh
bad=0
rm -rf "$folder"
mkdir -p "$folder/libs"
export GRAFT_GPU_SMALL=1 GRAFT_GPU_WORK="$folder/work" GRAFT_PYTHON=no-python
export GRAFT_CUDA_LIBS="$fakes"

# expect NAME CODE TEXT...: the last run ended with this code and printed all of these.
expect() {
    name=$1 wanted=$2
    shift 2
    good=1
    [ "$code" -eq "$wanted" ] || { echo "  code $code, not $wanted"; good=0; }
    for text in "$@"; do
        grep -q -- "$text" "$folder/printed" || { echo "  it does not say: $text"; good=0; }
    done
    [ $good = 1 ] && { echo "ok   $name"; return; }
    echo "FAIL $name"
    cat "$folder/printed"
    bad=$((bad + 1))
}

run() {
    timeout 500 "$gpu" "$build" "$folder/out" > "$folder/printed" 2>&1
    code=$?
}

# Each set has time for all its parts.
"$gpu" --plan > "$folder/printed"
code=$(awk '{ if ($2 + 0 > 540) n++ } END { print n + (NR != 3) }' "$folder/printed")
expect "sets are short" 0 "first, .* sdxl:.* torch:" "first, .* torch:" "second, .* swaps:" "third, .* sanitizer:"

GRAFT_GPU_PARTS="nonsense" run
expect "unknown parts are refused" 2 "there is no part nonsense"

FAKE_CUDA_DEVICES=0 GRAFT_GPU_PARTS=versions run
expect "no device" 3 "refused: .*no NVIDIA GPU"

FAKE_CUDA_FAULT=graft_wgmma GRAFT_GPU_PARTS=versions run
expect "a kernel that faults is left out" 1 "DOES NOT OPEN WITH ALL KERNELS" "WITHOUT THEM" \
    "Emulated GPU" "== versions" "failed: device(1)"

FAKE_CUDA_HANG=graft_wgmma GRAFT_GPU_PATIENCE=5 GRAFT_GPU_PARTS=versions run
expect "and so is one that hangs" 1 "code 124" "WITHOUT THEM" "== versions"

FAKE_CUDA_FAULT_EARLY=1 GRAFT_GPU_PARTS=versions run
expect "so are starts ahead of time" 1 "GRAFT_CUDA_PDL=off" "WITHOUT THEM" "== versions"

for file in "$fakes"/*; do
    case $file in *cudnn.so.9) ;; *) ln -s "$file" "$folder/libs" ;; esac
done
# The loader finds NVIDIA's own, where it is installed: it must be this one that is missing.
FAKE_CUDNN_VERSION=80000 GRAFT_GPU_PARTS=versions run
expect "no cuDNN" 4 "MISSING: cuDNN" "refused: .*GRAFT_CUDA_LIBS"
FAKE_CUDNN_VERSION=80000 GRAFT_GPU_INCOMPLETE=1 GRAFT_GPU_PARTS=versions run
expect "no cuDNN, and it is known" 0 "LIBRARIES ARE NOT COMPLETE" "== versions"

rm -rf "$folder/out"
GRAFT_GPU_PARTS="versions sdxl sd15 vae ceilings blocks swaps levels start untried offload steered" run
cat "$folder/out/gpu.log" >> "$folder/printed" # of long parts the end alone is printed
expect "the parts" 0 "cuBLASLt .* is $fakes/libcublasLt" "cuDNN .* is $fakes/libcudnn" \
    "tried_sdxl_step_ms" "tried_sdxl_run_ms" "operators one by one" "us each" "cublasLt 0" \
    "compared with cpu" "results differ by 0$" "tried_pdl_sdxl_ratio" "tried_pdl_sd15_ratio" \
    "tried_gpu_layer_bf16_ms" "tried_gpu_layer_q3_k_ms" \
    "tried_vae_1024_ms" "without bands:" "in small bands:" "tried_vae_nmse" \
    "tried_swap_sd15_resident_ms" "tried_sdxl_int8_step_ms" \
    "tried_sdxl_ready_again_s" "tried_swap_sdxl_file_step_ratio" "tried_picture_first_s" \
    "tried_picture_again_s" "tried_picture_limited_s" "in .* MiB:" "MiB of weights come anew in each run" \
    "a step, strength 0.7: .* ms" "failed: none"
made="bands.json bench.json gpu.log offload.json results.tar.xz untried.json whole.json "
[ "$(ls "$folder/out" | tr '\n' ' ')" = "$made" ] ||
    { echo "FAIL few files: $(ls "$folder/out" | tr '\n' ' ')"; bad=$((bad + 1)); }
grep -q " wgmma turns wgmma8 ahead " "$folder/out/gpu.log" ||
    { echo "FAIL the untried kernels are not tried"; bad=$((bad + 1)); }
[ $bad -eq 0 ]
