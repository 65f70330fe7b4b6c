#!/usr/bin/env bash
# Every header compiles alone, and twice in a row; the installed one also as C++17.
# CC and CXX choose the compilers. Prints the compiler's words for each that fails and exits 1.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
cc=${CC:-cc}
cxx=${CXX:-c++}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

flags="-fsyntax-only -Isrc -Iinclude -D_GNU_SOURCE -Wall -Wextra -Werror"

# One failing header gives one file of messages.
# shellcheck disable=SC2086
check_alone() {
    local header=$1 out=$work/${1//\//_}
    printf '#include "%s"\n#include "%s"\n' "$header" "$header" |
        $cc -std=c11 $flags -x c - >"$out" 2>&1 && rm -f "$out"
    return 0
}
export -f check_alone
export cc flags work

headers=$(find src include -name '*.h' -not -path 'src/dev/cuda/*' | sed -E 's,^(src|include)/,,' | sort)
echo "$headers" | xargs -r -P "$(nproc)" -I{} bash -c 'check_alone {}'
if [ -f include/axonn/axonn.h ]; then
    # shellcheck disable=SC2086
    echo '#include "axonn/axonn.h"' |
        $cxx -std=c++17 $flags -x c++ - >"$work/cxx" 2>&1 && rm -f "$work/cxx"
fi

if [ -n "$(ls -A "$work")" ]; then
    cat "$work"/*
    exit 1
fi
echo "headers: ok ($(echo "$headers" | wc -l) files)"
