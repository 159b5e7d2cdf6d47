#!/bin/sh
# Builds everything for AArch64 and runs the tests under qemu's emulation:
#
#     tools/check-aarch64.sh FOLDER [arguments of ctest]
#
# FOLDER gets root/, Debian's packages for arm64, which are unpacked and not installed, and build/.
# Needs the sources of apt to be Debian's, and what `tools/setup.sh aarch64` installs.
set -eu

[ $# -ge 1 ] || { echo "usage: $0 FOLDER [arguments of ctest]" >&2; exit 2; }
source=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
shift
root=$folder/root
apt=$folder/apt
packages="libc6-dev libgomp1 libcjson-dev libpcre2-dev libpng-dev libwebp-dev libstb-dev libxxhash-dev
          libwebsockets-dev zlib1g-dev libsqlite3-dev libdnnl-dev"

# With lists and a state of its own, in which nothing is installed, apt finds all that they need.
foreign_apt() {
    apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User= \
        -o Dir::State="$apt/state" -o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache" "$@"
}

if [ ! -e "$root/complete" ]; then
    rm -rf "$root" "$apt"
    mkdir -p "$root" "$apt/state/lists/partial" "$apt/cache/archives/partial"
    : > "$apt/status"
    foreign_apt update
    # shellcheck disable=SC2086
    foreign_apt install -y --download-only --no-install-recommends $packages
    for package in "$apt"/cache/archives/*.deb; do
        dpkg-deb -x "$package" "$root"
    done
    find "$root" -type l -lname '/*' | while read -r link; do # they mean places below root
        ln -snf "$root$(readlink "$link")" "$link"
    done
    rm -rf "$apt"
    touch "$root/complete"
fi

cd "$source"
cmake --preset release -B "$folder/build" \
    -DCMAKE_TOOLCHAIN_FILE="$source/tools/aarch64.cmake" -DGRAFT_AARCH64_ROOT="$root" \
    -DGRAFT_WERROR=ON -DGRAFT_CUDA=OFF
cmake --build "$folder/build" -j "${JOBS:-$(nproc)}"
OMP_WAIT_POLICY=passive ctest --test-dir "$folder/build" --output-on-failure --no-tests=error \
    -j "${JOBS:-$(nproc)}" "$@"
