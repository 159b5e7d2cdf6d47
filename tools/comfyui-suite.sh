#!/bin/sh
# Runs the execution tests of a ComfyUI checkout (not part of Graft) against `graft serve` with the
# test nodes of tests/plugins:
#
#     [PORT=8188] [PYTHON=python3] tools/comfyui-suite.sh CHECKOUT [BUILD] [pytest arguments]
#
# The tests start servers of their own with `python main.py`; that `python` is a program which serves
# with Graft instead, at the address and with the cache they ask for, each time with nothing in the
# history. They need an interpreter with pytest, pytest-asyncio, websocket-client, numpy, Pillow and
# torch.
set -eu
[ $# -ge 1 ] && [ -d "$1/tests/execution" ] || { sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }
checkout=$1
shift
here=$(cd "$(dirname "$0")/.." && pwd)
build=$here/build
if [ $# -ge 1 ] && [ -d "$1" ]; then
    build=$(cd "$1" && pwd)
    shift
fi
python=$(command -v "${PYTHON:-python3}") || { echo "there is no ${PYTHON:-python3}" >&2; exit 1; }
graft=$(readlink -f "$build/bin/graft")
[ -x "$graft" ] || { echo "$build/bin/graft is missing: make all" >&2; exit 1; }
port=${PORT:-8188}
dir=$(mktemp -d)
finish() {
    # Servers that nobody ended, because the tests were cut short.
    [ ! -e "$dir/pids" ] || while read -r pid; do
        [ "$(readlink "/proc/$pid/exe")" != "$graft" ] || kill -9 "$pid"
    done < "$dir/pids"
    [ ! -e "$dir/log" ] || grep '^graft: ' "$dir/log" >&2 || true
    rm -rf "$dir"
}
trap finish EXIT
trap 'exit 1' INT TERM
mkdir "$dir/bin" "$dir/plugins" "$dir/output" "$dir/input" "$dir/models"
ln -s "$build"/lib/graft/*.so "$build/tests/comfy_plugins/comfy_testnodes.so" "$dir/plugins"

# The stand-in. Whatever is not main.py goes to the interpreter.
cat > "$dir/bin/python" <<EOF
#!/bin/sh
dir='$dir' graft='$graft'
case \${1-} in
    main.py | */main.py) ;;
    *) exec '$python' "\$@" ;;
esac
shift
EOF
cat >> "$dir/bin/python" <<'EOF'
listen=127.0.0.1 port=8188 cache=classic
while [ $# -gt 0 ]; do
    case $1 in
        --listen | --port | --cache-lru) name=$1 value=${2-} ;;
        --*=*) name=${1%%=*} value=${1#*=} ;;
        *) name=$1 value= ;;
    esac
    case $name in
        --listen) listen=$value ;;
        --port) port=$value ;;
        --cache-none) cache=none ;;
        --cache-classic) cache=classic ;;
        --cache-lru) cache=lru=$value ;;
    esac
    shift
done
# The server before this one was killed just now, and may have the port for a moment yet.
tries=0
for pid in $(cat "$dir/pids" 2> /dev/null); do
    while stat=$(cat "/proc/$pid/stat" 2> /dev/null) && [ "${stat##*) Z }" = "$stat" ] &&
        [ $tries -lt 100 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
done
echo $$ >> "$dir/pids"
state=$(mktemp -d "$dir/state.XXXXXX")
EOF
cat >> "$dir/bin/python" <<EOF
exec "\$graft" serve --listen "\$listen" --port "\$port" --cache "\$cache" --state "\$state" \\
    --plugins "\$dir/plugins" --models "\$dir/models" --input "\$dir/input" --output "\$dir/output" \\
    --quiet >> "\$dir/log" 2>&1
EOF
chmod +x "$dir/bin/python"

cd "$checkout"
if [ $# -eq 0 ]; then
    for name in execution async_nodes progress_isolation public_api; do
        file=tests/execution/test_$name.py
        [ ! -e "$file" ] || set -- "$@" "$file"
    done
fi
# Newer tests start sys.executable.
PATH=$dir/bin:$PATH "$python" -c '
import sys
sys.executable = sys.argv.pop(1)
import pytest
sys.exit(pytest.main(sys.argv[1:]))
' "$dir/bin/python" --listen 127.0.0.1 --port "$port" "$@"
