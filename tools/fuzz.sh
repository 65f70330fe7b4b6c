#!/usr/bin/env bash
# Fuzzes the parsers of tests/fuzz: libFuzzer under address and undefined behaviour sanitizers.
#
#     tools/fuzz.sh NAME [SECONDS]   one parser, 600 s by default; fails when it finds something
#     tools/fuzz.sh --list           the names
#     tools/fuzz.sh --merge NAME     a minimal set of what was found replaces tests/fuzz/NAME
#
# Inputs that reach something new are kept in build/fuzz/corpus/NAME, findings in
# build/fuzz/findings. A leak, a timeout of 10 s, an allocation of 256 MiB and 512 MiB in all are
# findings. FUZZ_FLAGS are handed on to the program.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
corpus=build/fuzz/corpus
findings=build/fuzz/findings

build() {
    bash tools/deps.sh build fuzz || return
    { cmake --preset fuzz && cmake --build --preset fuzz -j "$(nproc)"; } >build/fuzz.log 2>&1 ||
        { tail -n 40 build/fuzz.log >&2 && return 1; }
}

# The limits that a small file must not break, and where findings go.
flags_of() {
    local words=(-timeout=10 -rss_limit_mb=512 -malloc_limit_mb=256 -max_len=16384
        "-artifact_prefix=$findings/$1-")
    [ -f "tests/fuzz/$1.dict" ] && words+=("-dict=tests/fuzz/$1.dict")
    printf '%s\n' "${words[@]}"
}

# What a sanitizer must know: a request that cannot be met gives NULL, as it does without one.
export ASAN_OPTIONS=allocator_may_return_null=1:${ASAN_OPTIONS:-}

fuzz() {
    local name=$1 seconds=$2 flags
    mkdir -p "$corpus/$name" "$findings"
    mapfile -t flags < <(flags_of "$name")
    # shellcheck disable=SC2086
    "build/fuzz/tests/fuzz/fuzz_$name" "${flags[@]}" -max_total_time="$seconds" \
        -print_final_stats=1 ${FUZZ_FLAGS:-} "$corpus/$name" "tests/fuzz/$name"
}

# First by branches taken, then the smallest inputs where that leaves too many.
merge() {
    local name=$1 flags fresh
    fresh=$(mktemp -d)
    mapfile -t flags < <(flags_of "$name")
    "build/fuzz/tests/fuzz/fuzz_$name" "${flags[@]}" -merge=1 -use_counters=0 "$fresh" \
        "tests/fuzz/$name" "$corpus/$name" || return
    rm -rf "tests/fuzz/$name"
    mv "$fresh" "tests/fuzz/$name"
    chmod 755 "tests/fuzz/$name"
    echo "$name: $(find "tests/fuzz/$name" -type f | wc -l) files," \
        "$(find "tests/fuzz/$name" -type f -printf '%s\n' | awk '{ s += $1 } END { print s + 0 }') bytes"
}

names() {
    local file
    for file in tests/fuzz/fuzz_*.c; do
        file=${file##*/fuzz_}
        [ "$file" = folder.c ] || echo "${file%.c}"
    done
}

mkdir -p build
case ${1:-} in
--list) names ;;
--merge) build && merge "$2" ;;
'' | -*)
    sed -n '2,10s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
*) build && fuzz "$1" "${2:-600}" ;;
esac
