#!/usr/bin/env bash
# The habits of CONTRIBUTING.md that a script can see. Prints FILE:LINE of each breach and exits 1;
# otherwise one line. The patterns are heuristics on one line: they look for slips, not for tricks.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
found=$(mktemp)
trap 'rm -f "$found"' EXIT

files() {
    git ls-files -co --exclude-standard 2>/dev/null || find . -type f -not -path './.git/*' | sed 's,^\./,,'
}
all=$(files | while read -r f; do [ -f "$f" ] && echo "$f"; done)
written=$(echo "$all" | grep -E '\.(c|h|cu|cuh|sh|py|md|yaml|yml|cmake|json)$|(^|/)CMakeLists\.txt$' |
    grep -vE '^tests/(golden|cli|fuzz)/.*\.(json|md|yaml)$')
code=$(echo "$written" | grep -E '^(src|include|tests|bench|examples)/.*\.(c|h|cu|cuh)$')
src=$(echo "$code" | grep '^src/')

# find_lines WHAT FILES PATTERN: every line that matches, comments and strings left out of the sight.
find_lines() {
    local what=$1 list=$2 pattern=$3
    [ -n "$list" ] || return 0
    # shellcheck disable=SC2086
    awk -v what="$what" -v pattern="$pattern" '
        { text = $0; gsub(/"([^"\\]|\\.)*"/, "\"\"", text); sub(/\/\/.*/, "", text) }
        text ~ pattern { print FILENAME ":" FNR ": " what ": " $0 }' $list
}

# The same with nothing left out.
find_raw() {
    local what=$1 list=$2 pattern=$3
    [ -n "$list" ] || return 0
    # shellcheck disable=SC2086
    grep -HnE "$pattern" $list | sed -E "s/^([^:]*:[0-9]+):(.*)/\1: $what: \2/"
}

check_length() {
    # shellcheck disable=SC2046
    awk 'FNR == 801 { print FILENAME ":801: longer than 800 lines" }' \
        $(echo "$written" | grep -E '\.(c|h|cu|cuh|sh|py)$')
}

check_names() {
    echo "$all" | grep -iE '(^|/|[_-])(utils?|commons?|misc|helpers?)([_.-][^/]*)?(/|$)' |
        sed 's/$/:1: name it after what it does/'
    echo "$code" | awk -F/ '
        $NF in first { print $0 ":1: the name is taken by " first[$NF]; next }
        { first[$NF] = $0 }'
}

check_unfinished() {
    # The brackets keep this line from finding itself.
    find_raw 'unfinished work' "$written" '\b(TO[D]O|FIX[M]E|X[X]X)\b'
}

check_exits() {
    find_lines 'only cli/ ends the program' "$(echo "$src" | grep -v '^src/cli/')" \
        '(^|[^_[:alnum:]])(_exit|exit|_Exit|quick_exit)[ ]*\('
}

# Layers and kernels take memory from arenas; the model's description (model.c, shape.c), devices, primitive caches and topology own theirs.
check_allocation() {
    local list
    list=$(echo "$src" | grep -E '^src/(nn|dev/ref|dev/cpu)/|^src/dev/kern\.c$' |
        grep -vE '/([a-z]*_?device|cpu|onednn[a-z_]*|[a-z_]*topology)\.c$|^src/nn/(model|shape)\.c$')
    find_lines 'take memory from an arena' "$list" \
        '(^|[^_[:alnum:]])(malloc|calloc|realloc|aligned_alloc|posix_memalign|strdup|strndup|free)[ ]*\('
}

# Ranks may be threads of one process. The logger's set-up is a thread's own; a signal has nowhere
# else to leave its number.
check_globals() {
    local list
    list=$(echo "$src" | grep -E '\.c$' | grep -vE '^src/(base/log|cli/signals)\.c$')
    find_lines 'a mutable global' "$list" \
        '^[[:space:]]*static [^(]*(;|=|\[[^]]*\];?)[^(]*$' | grep -vE ': [[:space:]]*static [^=]*\bconst\b|: [[:space:]]*(static )?_Static_assert'
    find_lines 'a mutable global' "$list" '^[[:space:]]*static const [_a-zA-Z0-9 ]+\*+[ ]*[_a-zA-Z0-9]+(\[[^]]*\])?[ ]*(=|;)'
    find_lines 'a mutable global' "$list" \
        '^(unsigned |signed |struct |volatile )?[a-z][_a-zA-Z0-9]*[ ]+\**[_a-z][_a-zA-Z0-9]*(\[[^]]*\])?[ ]*(=|;)' |
        grep -vE ': (const|typedef|extern|return|goto|enum|static|struct [a-z_0-9]+;)'
    find_lines 'thread-local state' "$list" '_Thread_local|__thread'
}

check_blanks() {
    find_raw 'blanks at the end' "$written" '[[:blank:]]+$'
    find_raw 'a tab' "$written" "$(printf '\t')"
}

check_paths() {
    find_raw 'a path of one machine' "$written" '(^|[^[:alnum:]_.$}/])/(wor[k]|roo[t]|hom[e])(/|[^[:alnum:]_-]|$)'
}

# The map of all traffic: who may issue a collective.
check_collectives() {
    local list
    list=$(echo "$src" | grep -vE '^src/(comm|train|study|cli)/|^src/nn/(weights|side|norm|vocab|loss)\.c$|^src/optim/(reduce|clip|optim)\.c$|^src/grid/(grid|param)\.c$|^src/ckpt/')
    find_lines 'collectives are issued elsewhere' "$list" \
        'ax_comm_(allreduce|allgather|reduce_scatter|bcast|sum|max)(_begin)?[ ]*\('
}

{
    check_length
    check_names
    check_unfinished
    check_exits
    check_allocation
    check_globals
    check_blanks
    check_paths
    check_collectives
} >"$found"
if [ -s "$found" ]; then
    cat "$found"
    exit 1
fi
echo "habits: ok ($(echo "$written" | wc -l) files)"
