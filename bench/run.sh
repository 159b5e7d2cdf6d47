#!/bin/sh
# Runs the benches of a build folder on models of Stable Diffusion's real size, made of random
# weights: bench/run.sh BUILD. Figures go to BUILD/bench.json.
set -eu
build=$1
model=$build/models/checkpoints/sd15.safetensors
mkdir -p "$build/models/checkpoints"
[ -e "$model" ] || "$build/bin/graft-make-model" sd15 "$model"
"$build/bin/graft-bench-kernels"
"$build/bin/graft-bench" --json "$build/bench.json" "$model"
for part in unet vae picture; do
  "$build/bin/graft-bench" --json "$build/bench.json" --tuning full --name tuned_ --only $part "$model"
done
sdxl=$build/models/checkpoints/sdxl.safetensors
if [ -e "$sdxl" ]; then
  "$build/bin/graft-bench" --json "$build/bench.json" --tuning full --name sdxl_ --dtype bf16 --only unet "$sdxl"
else
  echo "skipped: SDXL; $build/bin/graft-make-model sdxl $sdxl makes the model (7 GB)"
fi
"$build/bin/graft-bench-swap" --json "$build/bench.json" "$model"
OMP_WAIT_POLICY=passive "$build/bin/graft-bench-quant" --json "$build/bench.json" "$model"
if command -v node > /dev/null && [ -x "$build/bin/graft" ]; then
    node "$(dirname "$0")/serve.mjs" "$build"
fi
echo "figures: $build/bench.json"
