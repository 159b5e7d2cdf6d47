#!/bin/sh
# Installs what building and testing need and this machine lacks:
#
#     tools/setup.sh [fuzz] [format] [browser] [aarch64]
#
# Looks for each thing itself, not for a package, so on other systems than Debian and Ubuntu it tells
# what to install and fails. Never asks; does nothing when nothing is missing.
set -eu

missing=

need() { # need PACKAGE COMMAND...: the package, unless the command succeeds
    package=$1
    shift
    "$@" > /dev/null 2>&1 || missing="$missing $package"
}

has() { command -v "$1"; }

header() { # header NAME: the compiler finds it
    echo "#include <$1>" | gcc -E -x c -
}

browser() { # one that the page's test can drive
    [ -n "${CHROMIUM:-}" ] || has chromium-headless-shell || has chromium || has chromium-browser ||
        has google-chrome
}

need gcc has gcc
need libc6-dev header stdio.h
need make has make
need git has git
need cmake has cmake
need ninja-build has ninja
need pkg-config has pkg-config
need libcjson-dev header cjson/cJSON.h
need libpcre2-dev test -e /usr/include/pcre2.h
need libpng-dev header png.h
need libwebp-dev header webp/demux.h
need libstb-dev header stb/stb_image.h
need libxxhash-dev header xxhash.h
need libwebsockets-dev header libwebsockets.h
need zlib1g-dev header zlib.h
need libsqlite3-dev header sqlite3.h
case $(uname -m) in
x86_64 | aarch64) need libdnnl-dev header oneapi/dnnl/dnnl.h ;;
esac
if [ -z "${GRAFT_MERGES:-}" ]; then # CLIP's vocabulary is fetched with npm
    need nodejs has node
    need npm has npm
    need ca-certificates test -e /etc/ssl/certs/ca-certificates.crt
fi
for extra; do
    case $extra in
    fuzz) need clang has clang ;;
    format) need clang-format has clang-format ;;
    browser) need chromium-headless-shell browser ;;
    aarch64)
        need gcc-aarch64-linux-gnu has aarch64-linux-gnu-gcc
        need qemu-user-static has qemu-aarch64-static
        ;;
    *) echo "usage: $0 [fuzz] [format] [browser] [aarch64]" >&2; exit 2 ;;
    esac
done
[ -n "$missing" ] || exit 0

if ! has apt-get > /dev/null; then
    echo "setup: this machine has no apt-get; please install what these Debian packages bring:" >&2
    echo "setup:$missing" >&2
    exit 1
fi
if [ "$(id -u)" = 0 ]; then
    as_root=
elif has sudo > /dev/null; then
    as_root="sudo"
else
    echo "setup: not root, and there is no sudo; please run as root:" >&2
    echo "setup:     apt-get install$missing" >&2
    exit 1
fi

echo "setup: installing$missing"
install() {
    # shellcheck disable=SC2086
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
        $missing > /dev/null < /dev/null
}
# The lists of packages may be absent (fresh containers) or stale; they are fetched only then.
install 2> /dev/null || {
    $as_root apt-get update -qq < /dev/null && install
} || {
    echo "setup: apt-get could not install:$missing" >&2
    exit 1
}
