#!/usr/bin/env bash
# The dependency law of ARCHITECTURE.md: a file includes its own module and lower tiers only, a
# library's header is included in its one place, and no two headers include one another.
# Prints FILE:LINE of each breach and exits 1; otherwise one line.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
found=$(mktemp)
trap 'rm -f "$found"' EXIT

sources() {
    find src -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' | sort
}

# FILE:LINE:NAME of every include; `grep -H` keeps the file name where there is one file.
includes() {
    sources | xargs -r grep -HnE '^[[:space:]]*#[[:space:]]*include' |
        sed -E 's/^([^:]*:[0-9]+):[^"<]*(["<])([^">]*)[">].*/\1:\2\3/'
}

# Tiers: whoever stands higher may include whoever stands lower; modules of one tier are strangers.
check_tiers() {
    includes | awk -F: '
        BEGIN {
            n = split("base:0 dev:1 arch:1 comm:2 grid:3 nn:4 optim:4 data:4 ckpt:4 plan:5 " \
                      "train:6 study:7 cli:8", pair, " ")
            for (i = 1; i <= n; i++) { split(pair[i], part, ":"); tier[part[1]] = part[2] }
        }
        substr($3, 1, 1) != "\"" { next }
        {
            name = substr($3, 2); split($1, path, "/"); own = path[2]
            if (name ~ /^axonn\//) next
            if (split(name, to, "/") < 2) {
                print $1 ":" $2 ": \"" name "\": write the module too, as in \"base/err.h\""; next
            }
            if (!(own in tier)) print $1 ":" $2 ": " own " is in no tier"
            else if (!(to[1] in tier)) print $1 ":" $2 ": \"" name "\": " to[1] " is in no tier"
            else if (own != to[1] && tier[to[1]] >= tier[own])
                print $1 ":" $2 ": " own " (tier " tier[own] ") may not include " name \
                      " (tier " tier[to[1]] ")"
        }'
}

# A foreign header and the files that may include it.
check_libraries() {
    includes | awk -F: '
        function law(header, place) { laws++; h[laws] = header; p[laws] = place }
        BEGIN {
            law("^mpi\\.h$", "^src/comm/mpi(_node)?\\.c$")
            law("^(nccl|rccl)", "^src/comm/nccl\\.c$")
            law("^(cuda|cublas|hip)", "^src/(dev/(cuda|hip)/|comm/nccl\\.c)")
            law("^(dnnl|oneapi/|cblas|omp\\.h)", "^src/dev/cpu/")
            law("^hwloc", "^src/(dev/cpu/|plan/machine\\.c)")
            law("^yaml\\.h$", "^src/train/config[a-z_]*\\.c$")
            law("^xxhash\\.h$", "^src/(ckpt|data)/")
            law("^zstd\\.h$", "^src/data/")
            law("^pcre2\\.h$", "^src/data/")
            law("^utf8proc\\.h$", "^src/data/")
            law("^jansson\\.h$", "^src/(data/|ckpt/|train/metrics)")
        }
        substr($3, 1, 1) == "<" {
            name = substr($3, 2)
            for (i = 1; i <= laws; i++)
                if (name ~ h[i] && $1 !~ p[i])
                    print $1 ":" $2 ": <" name "> belongs in " p[i]
        }'
}

# Which backends are built is known to the registries alone.
check_conditions() {
    sources | grep -v '_registry\.[ch]$' | xargs -r grep -HnE \
        '^[[:space:]]*#[[:space:]]*(el)?if.*(\bAX_WITH_|\bAXONN_|\b(HAVE_)?(MPI|ONEDNN|CUDA|NCCL|HIP)\b)' |
        sed -E 's/^([^:]*:[0-9]+):(.*)/\1: a condition on a backend outside its registry:\2/'
}

check_cycles() {
    includes | awk -F: 'substr($3, 1, 1) == "\"" && $1 ~ /\.h$/ { print $1, "src/" substr($3, 2) }' |
        tsort 2>&1 >/dev/null | sed -E 's/^tsort: -: input contains a loop:/headers include one another:/; s/^tsort: //'
}

{ check_tiers; check_libraries; check_conditions; check_cycles; } >"$found"
if [ -s "$found" ]; then
    cat "$found"
    exit 1
fi
echo "layers: ok ($(sources | wc -l) files)"
