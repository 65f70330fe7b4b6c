#!/usr/bin/env bash
# Replays a transcript: commands, and exactly what each printed and returned.
#
#     tests/cli/run.sh AXONN FILE.t...             compares; prints a diff and exits 1 where it differs
#     tests/cli/run.sh --record AXONN FILE.t...    writes what came out into the files
#     tests/cli/run.sh --only-status AXONN FILE.md...
#                                                  runs the ```console blocks of a document: each
#                                                  command must exit 0
#
# A transcript is read line by line. `# ...` is a comment, `$ ...` a command (`> ...` continues it),
# run by bash in a scratch directory of the transcript where `axonn` is the program under test,
# $MPIEXEC starts a job, and $SOURCE is the repository. Then come its standard output with `| ` in
# front, its standard error with `! `, and `[N]` where it exits with N other than 0. What differs
# from run to run and from machine to machine (times, rates, sizes, the last digits of a number) is
# masked by mask() below.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
SOURCE=$(cd "$here/../.." && pwd)
export SOURCE

record=
only_status=
while [[ ${1-} == --* ]]; do
    case $1 in
    --record) record=yes ;;
    --only-status) only_status=yes ;;
    *) echo "run.sh: no switch $1" >&2 && exit 2 ;;
    esac
    shift
done
if [ $# -lt 2 ]; then
    sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
program=$(realpath "$1") || exit 2
shift

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
ln -s "$program" "$work/bin/axonn"
export PATH="$work/bin:$PATH"
# Open MPI asks for these where root or a shared core is involved.
export MPIEXEC=${MPIEXEC:-mpirun}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 ASAN_OPTIONS=detect_leaks=0

number='[0-9]+([.][0-9]+)?(e[-+]?[0-9]+)?'
mask() {
    sed -E \
        -e "s|$SOURCE|SOURCE|g" \
        -e "s/$number( ?)(tokens\/s|[kMGT]?flop\/s|[KMGT]i?B|ms|s|min)\b/N\3\4/g" \
        -e "s/\"([a-z_]*_s|[a-z_]*_per_s|seconds|share_[a-z_]+|[a-z_]*memory_bytes|bytes|sha256)\":( ?)$number/\"\1\":\2N/g" \
        -e "s/$number ?%/N %/g" \
        -e 's/[0-9]+:[0-9][0-9] left/N left/' \
        -e 's/([0-9][.][0-9]{9})[0-9]+/\1~/g' \
        -e 's/[0-9.]+e-1[3-9]/N/g' \
        -e 's/([a-z_]+\.c):[0-9]+/\1:N/g'
}

# A file of output in the transcript's form; `\` ends a last line that has no end of its own.
show() {
    local mark=$1 file=$2
    mask <"$file" | sed -e "s/^/$mark /" -e "s/^$mark \$/$mark/"
    [ -z "$(tail -c 1 "$file")" ] || echo '\'
}

# One command in the transcript's directory: what it printed and returned, as it stands in a file.
replay() {
    local command=$1 status
    (cd "$work/dir" && exec timeout 120 bash -c "$command") \
        >"$work/stdout" 2>"$work/stderr" </dev/null
    status=$?
    show '|' "$work/stdout"
    show '!' "$work/stderr"
    [ $status = 0 ] || echo "[$status]"
}

# The transcript as it comes out now.
run_transcript() {
    local line command=
    rm -rf "$work/dir"
    mkdir "$work/dir"
    while IFS= read -r line || [ -n "$line" ]; do
        if [[ -n $command && $line == '> '* ]]; then
            echo "$line"
            command+=$'\n'${line#> }
            continue
        fi
        [ -z "$command" ] || replay "$command"
        command=
        case $line in
        '$ '*) command=${line#'$ '} && echo "$line" ;;
        '#'* | '') echo "$line" ;;
        esac
    done
    [ -z "$command" ] || replay "$command"
}

check_transcript() {
    local file=$1
    run_transcript <"$file" >"$work/now"
    if cmp -s "$file" "$work/now"; then
        echo "ok $file"
    elif [ -n "$record" ]; then
        cp "$work/now" "$file"
        echo "recorded $file"
    else
        diff -u --label "$file" --label now "$file" "$work/now"
        return 1
    fi
}

# The commands of a document share one directory, in which the repository's files are seen.
check_document() {
    local file=$1 line failed=0 commands
    rm -rf "$work/dir"
    mkdir "$work/dir"
    for line in "$SOURCE"/*.md "$SOURCE"/docs "$SOURCE"/examples; do
        ln -s "$line" "$work/dir/"
    done
    mapfile -t commands < <(awk '/^```/ { inside = $0 == "```console"; next }
                                 inside && /^\$ / { print substr($0, 3) }' "$file")
    for line in "${commands[@]}"; do
        if ! (cd "$work/dir" && timeout 300 bash -c "$line") >"$work/said" 2>&1 </dev/null; then
            echo "$file: \$ $line"
            tail -n 20 "$work/said"
            failed=1
        fi
    done
    [ $failed = 0 ] && echo "ok $file (${#commands[@]} commands)"
    return $failed
}

failed=0
for file in "$@"; do
    if [ -n "$only_status" ]; then
        check_document "$file" || failed=1
    else
        check_transcript "$file" || failed=1
    fi
done
exit $failed
