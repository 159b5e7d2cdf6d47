#!/bin/sh
# install.sh NPM FOLDER: installs the clients of package-lock.json there, once. Succeeds without them
# when the registry cannot be reached: the test that needs them then says so.
set -eu
here=$(dirname "$0")
mkdir -p "$2"
if cmp -s "$here/package-lock.json" "$2/package-lock.json" && [ -d "$2/node_modules/ws" ]; then
    exit 0
fi
cp "$here/package.json" "$2/"
cp "$here/package-lock.json" "$2/"
cd "$2"
"$1" ci --no-audit --no-fund --ignore-scripts --omit=optional || {
    rm -rf node_modules package-lock.json
    echo "skipped: npm ci failed"
}
