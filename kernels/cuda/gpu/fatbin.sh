#!/bin/sh
# fatbin.sh FOLDER OTHER NVCC OPTION...: compiles the device kernels into FOLDER: kernels.fatbin, what
# it was made from (kernels.fatbin.d), ptxas.log, kernels.sm_89.cubin and kernels.sm_90a.cubin.
#
# They are copied from OTHER, the same folder of another build, if that made them with the same
# compiler and options of sources that have not changed since: nvcc takes two minutes.
set -eu
folder=$1
other=$2
shift 2
command="$* $("$1" --version | tail -n 1)"
steps=$folder/steps
fatbin=$folder/kernels.fatbin

same() {
    [ -n "$other" ] && [ "$other" != "$folder" ] || return 1
    [ "$(cat "$other/kernels.command" 2> /dev/null)" = "$command" ] || return 1
    for source in $(sed -e '1s/^[^ ]* : //' -e 's/\\$//' "$other/kernels.fatbin.d"); do
        [ "$source" -ot "$other/kernels.fatbin" ] || return 1
    done
}

if same; then
    for made in ptxas.log kernels.sm_89.cubin kernels.sm_90a.cubin kernels.fatbin; do
        cp "$other/$made" "$folder"
    done
    sed "1s|^[^ ]* :|$fatbin :|" "$other/kernels.fatbin.d" > "$fatbin.d"
else
    rm -f "$folder/kernels.command"
    mkdir -p "$steps"
    "$@" --keep --keep-dir "$steps" -MD -MF "$fatbin.d" -o "$fatbin" > "$folder/ptxas.log" 2>&1 || {
        cat "$folder/ptxas.log"
        exit 1
    }
    for arch in 89 90a; do
        mv "$steps/kernels.compute_$arch.cubin" "$folder/kernels.sm_$arch.cubin"
    done
    rm -r "$steps"
fi
echo "$command" > "$folder/kernels.command"
