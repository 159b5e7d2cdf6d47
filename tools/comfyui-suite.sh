#!/bin/sh
# Runs the execution tests of a ComfyUI checkout (not part of Graft) against `graft serve` with the
# test nodes of tests/plugins:
#
#     tools/comfyui-suite.sh CHECKOUT [BUILD] [pytest arguments]
#
# The tests want to start a server of their own with `python main.py`; here that is a program which
# only waits, and the one that answers at their address is ours. They need python3 with pytest,
# pytest-asyncio, websocket-client, numpy, Pillow and torch.
set -eu
[ $# -ge 1 ] && [ -d "$1/tests/execution" ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
checkout=$1
shift
here=$(cd "$(dirname "$0")/.." && pwd)
build=$here/build
if [ $# -ge 1 ] && [ -d "$1" ]; then
    build=$(cd "$1" && pwd)
    shift
fi
port=${PORT:-8188}
dir=$(mktemp -d)
server=
finish() {
    [ -z "$server" ] || kill "$server" 2> /dev/null || true
    rm -rf "$dir"
}
trap finish EXIT
trap 'exit 1' INT TERM
mkdir "$dir/bin" "$dir/plugins" "$dir/output" "$dir/input" "$dir/models"
printf '#!/bin/sh\nexec sleep 86400\n' > "$dir/bin/python"
chmod +x "$dir/bin/python"
ln -s "$build"/lib/graft/*.so "$build/tests/comfy_plugins/comfy_testnodes.so" "$dir/plugins"
"$build/bin/graft" serve --port "$port" --plugins "$dir/plugins" --models "$dir/models" \
    --input "$dir/input" --output "$dir/output" --state "$dir/state" --quiet > "$dir/log" 2>&1 &
server=$!
tries=0
until grep -qs "http://" "$dir/log"; do
    tries=$((tries + 1))
    if [ $tries -gt 100 ] || ! kill -0 "$server" 2> /dev/null; then
        cat "$dir/log" >&2
        exit 1
    fi
    sleep 0.1
done
cd "$checkout"
[ $# -gt 0 ] || set -- tests/execution/test_execution.py tests/execution/test_async_nodes.py \
    tests/execution/test_progress_isolation.py
PATH=$dir/bin:$PATH python3 -m pytest --listen 127.0.0.1 --port "$port" "$@"
