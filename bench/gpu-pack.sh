#!/bin/sh
# What bench/gpu.sh needs of a build, in one archive, for a machine that has a GPU and none of the
# libraries that Graft is built with: bench/gpu-pack.sh BUILD ARCHIVE.tar.xz. There, beside the sources:
#
#   mkdir build-gpu && tar xf ARCHIVE.tar.xz -C build-gpu && bench/gpu.sh build-gpu
#
# Of the libraries only those of the C and C++ compilers and NVIDIA's stay behind.
set -eu
[ $# -eq 2 ] || { echo "usage: bench/gpu-pack.sh BUILD ARCHIVE.tar.xz" >&2; exit 2; }
build=$(cd "$1" && pwd)
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir -p "$stage/bin" "$stage/lib/graft" "$stage/tests" "$stage/deps"
for program in bin/graft bin/graft-bench-gpu bin/graft-make-model tests/test_kernels_ops \
    tests/test_kernels_quant tests/test_kernels_blocks tests/test_engine_demo \
    tests/test_engine_control_demo; do
    cp "$build/$program" "$stage/$program"
done
cp "$build"/lib/graft/*.so "$stage/lib/graft"
cp "$build/CMakeCache.txt" "$stage"
ldd "$stage"/bin/* "$stage"/lib/graft/* "$stage"/tests/* |
    awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u | while read -r library; do
    case ${library##*/} in
    libc.so* | libm.so* | libdl.so* | libpthread.so* | librt.so* | libgcc_s.so* | libstdc++.so*) ;;
    *) cp -L "$library" "$stage/deps" ;;
    esac
done
strip --strip-debug "$stage"/bin/* "$stage"/lib/graft/* "$stage"/tests/*
tar -C "$stage" -cf - . | xz -9 -T0 > "$2"
ls -l "$2"
