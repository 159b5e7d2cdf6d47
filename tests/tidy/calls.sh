#!/bin/sh
# calls.sh NM LIBRARY OBJECTS FOLDER...: whether a library's folders, given bottom first, call only themselves and those
# before them. A header at the top, such as engine.h, declares functions of all of them, so the includes alone do not
# tell. OBJECTS: a file with the paths of object files, .../LIBRARY.dir/FOLDER/NAME.c.o, a line each.
set -eu
nm=$1
library=$2
objects=$3
shift 3
xargs "$nm" -A < "$objects" | awk -v library="$library" -v folders="$*" '
BEGIN {
    n = split(folders, f, " ")
    for (i = 1; i <= n; i++) floor[f[i]] = i
}
{
    file = substr($1, 1, index($1, ".o:") + 1) # nm -A joins the path and what comes first
    name = file
    sub(".*" library "\\.dir/(\\./)?", "", name)
    folder = name
    do sub("/?[^/]*$", "", folder)
    while (!(folder in floor) && folder != "")
    if (folder == "") {
        print name ": in none of the folders"
        bad++
        exit
    }
    if ($(NF - 1) ~ /^[TDRB]$/) home[$NF] = folder
    if ($(NF - 1) == "U") { called[++calls] = $NF; by[calls] = name; from[calls] = folder }
}
END {
    for (i = 1; i <= calls; i++) {
        to = home[called[i]]
        if (to == "" || to == from[i]) continue
        seen++
        if (floor[to] > floor[from[i]]) {
            print by[i] " calls " called[i] "(), which is above it, in " to "/"
            bad++
        }
    }
    print seen + 0 " calls between folders, " bad + 0 " of them upward"
    exit bad > 0 || seen == 0
}'
