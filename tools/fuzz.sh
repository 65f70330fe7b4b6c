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

# The smallest set that takes the same branches, as far as MOST_FILES and MOST_BYTES go: the input
# that adds the most comes first, of two that add as many the smaller.
MOST_FILES=60
MOST_BYTES=200000

choose() {
    awk -v files=$MOST_FILES -v bytes=$MOST_BYTES '
        NR == 1 { count = $1 }
        NR > 2 && NR <= count + 2 { path[NR - 3] = $0 }
        NR <= count + 2 { next }
        $1 == "STARTED" { size[$2] = $3 }
        $1 == "FT" { $1 = ""; id = $2; $2 = ""; reached[id] = $0 }
        END {
            for (id in reached) gain[id] = split(reached[id], unused, " ")
            while (files-- > 0) {
                best = ""
                for (id in gain)
                    if (gain[id] > 0 && size[id] <= bytes &&
                        (best == "" || gain[id] > gain[best] ||
                         (gain[id] == gain[best] && size[id] + 0 < size[best] + 0)))
                        best = id
                if (best == "") break
                print path[best]
                bytes -= size[best]
                n = split(reached[best], list, " ")
                for (i = 1; i <= n; i++) covered[list[i]] = 1
                for (id in gain) {
                    n = split(reached[id], list, " ")
                    gain[id] = 0
                    for (i = 1; i <= n; i++) gain[id] += !(list[i] in covered)
                }
            }
        }' "$1"
}

merge() {
    local name=$1 flags scratch file
    mkdir -p "$corpus/$name"
    scratch=$(mktemp -d)
    mkdir "$scratch/cover" "$scratch/chosen"
    mapfile -t flags < <(flags_of "$name")
    "build/fuzz/tests/fuzz/fuzz_$name" "${flags[@]}" -set_cover_merge=1 -use_counters=0 \
        -merge_control_file="$scratch/control" "$scratch/cover" "tests/fuzz/$name" \
        "$corpus/$name" >build/fuzz.log 2>&1 || { tail -n 40 build/fuzz.log >&2 && return 1; }
    while read -r file; do
        cp "$file" "$scratch/chosen/$(sha1sum "$file" | cut -c1-16)"
    done < <(choose "$scratch/control")
    rm -rf "tests/fuzz/$name"
    cp -r "$scratch/chosen" "tests/fuzz/$name"
    echo "$name: $(find "tests/fuzz/$name" -type f | wc -l) files," \
        "$(find "tests/fuzz/$name" -type f -printf '%s\n' | awk '{ s += $1 } END { print s + 0 }') bytes"
    rm -rf "$scratch"
}

names() {
    local file
    for file in tests/fuzz/fuzz_*.c; do
        file=${file##*/fuzz_}
        [ "$file" = folder.c ] || echo "${file%.c}"
    done
}

known() {
    names | grep -qx -- "${1:-}" && return
    echo "tools/fuzz.sh: no parser '${1:-}'; there are $(names | paste -sd' ')" >&2
    return 2
}

mkdir -p build
case ${1:-} in
--list) names ;;
--merge) known "${2:-}" && build && merge "$2" ;;
'' | -*)
    sed -n '2,10s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
*) known "$1" && build && fuzz "$1" "${2:-600}" ;;
esac
