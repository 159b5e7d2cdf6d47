#!/bin/sh
# Runs every fuzzer of a build folder for some seconds: tests/fuzz/run.sh BUILD SECONDS. New inputs
# are kept in BUILD/corpus; an input that fails is named by the fuzzer and ends the run.
set -eu
build=$1
seconds=$2
here=$(dirname "$0")
for fuzzer in "$build"/tests/fuzz_*; do
    [ -x "$fuzzer" ] || { echo "no fuzzers in $build/tests" >&2; exit 1; }
    name=${fuzzer##*/fuzz_}
    mkdir -p "$build/corpus/$name"
    echo "fuzz: $name, $seconds s"
    "$fuzzer" -dict="$here/json.dict" -max_total_time="$seconds" -print_final_stats=1 -verbosity=0 \
        -artifact_prefix="$build/corpus/" "$build/corpus/$name" "$here/corpus/$name"
done
