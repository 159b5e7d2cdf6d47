#!/bin/sh
# fatbin.sh FOLDER OTHER NVCC OPTION...: compiles the device kernels into FOLDER: kernels.fatbin, what
# it was made from (kernels.fatbin.d), ptxas.log and kernels.sm_90a.cubin.
#
# They are copied from OTHER, the same folder of another build, if that made them with the same
# compiler and options of sources that have not changed since: nvcc takes most of a minute.
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
    cp "$other/ptxas.log" "$other/kernels.sm_90a.cubin" "$other/kernels.fatbin" "$folder"
    sed "1s|^[^ ]* :|$fatbin :|" "$other/kernels.fatbin.d" > "$fatbin.d"
else
    rm -f "$folder/kernels.command"
    mkdir -p "$steps"
    "$@" --keep --keep-dir "$steps" -MD -MF "$fatbin.d" -o "$fatbin" > "$folder/ptxas.log" 2>&1 || {
        cat "$folder/ptxas.log"
        exit 1
    }
    mv "$steps/kernels.compute_90a.cubin" "$folder/kernels.sm_90a.cubin"
    rm -r "$steps"
fi
echo "$command" > "$folder/kernels.command"
