#!/usr/bin/env bash
# Builds and tests. What is missing is installed first (tools/deps.sh).
#
#     ./test.sh            what CI runs: below 20 minutes on 2 cores
#     ./test.sh --quick    one build: unit, ops and cli, for the edit loop
#     ./test.sh --all      the default, with the full product of grids and modes
#     ./test.sh --long     --all, with the sanitizers over every test they can run, what goes over MPI
#                          once more over MPICH, and each parser fuzzed for FUZZ_SECONDS (600)
#     ./test.sh REGEX      the tests of the release build whose name matches
#
# The closing line counts test programs and checks. Logs lie under build/log/.
set -uo pipefail
cd "$(dirname "$0")" || exit 2

tier=default
only=
for word in "$@"; do
    case $word in
    --quick | --all | --long) tier=${word#--} ;;
    -h | --help)
        sed -n '2,11s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
    -*)
        echo "test.sh: unknown switch $word; there are --quick, --all and --long" >&2
        exit 2
        ;;
    *) only=$word ;;
    esac
done

bash tools/deps.sh build checks || exit 1

jobs=$(nproc)
passed=0
failed=0
failures=()
log=build/log
mkdir -p "$log"
began=$SECONDS

# Ranks and teams of several tests share the cores: a thread that waits must not spin.
export OMP_WAIT_POLICY=passive

if [ -t 1 ]; then
    green=$'\e[32m' red=$'\e[31m' plain=$'\e[0m'
else
    green='' red='' plain=''
fi

say() {
    printf '%4d s  %s\n' $((SECONDS - began)) "$*"
}

count_pass() {
    passed=$((passed + $1))
    say "${green}ok${plain}      $2"
}

count_fail() {
    failed=$((failed + $1))
    failures+=("$2")
    say "${red}FAILED${plain}  $2"
}

# check NAME COMMAND...: one check; its words are shown when it fails.
check() {
    local name=$1 words=$log/${1//[^a-z0-9]/-}.log
    shift
    if "$@" >"$words" 2>&1 </dev/null; then
        count_pass 1 "$name"
        return 0
    fi
    tail -n 60 "$words"
    count_fail 1 "$name"
    return 1
}

configure_and_build() {
    cmake --preset "$1" && cmake --build --preset "$1" -j "$jobs"
}

# tests PRESET WHAT CTEST-ARGUMENTS...: the programs that ctest picks, each counted.
tests() {
    local preset=$1 what=$2 words
    shift 2
    words=$log/ctest-$preset-${what//[^a-z0-9]/-}.log
    ctest --test-dir "build/$preset" -j "$jobs" --timeout 300 --output-on-failure \
        --no-tests=error "$@" >"$words" 2>&1 </dev/null
    local status=$? bad all
    all=$(sed -nE 's/.* tests failed out of ([0-9]+)$/\1/p' "$words")
    bad=$(sed -nE 's/.* ([0-9]+) tests? failed out of [0-9]+$/\1/p' "$words")
    if [ -z "$all" ] || { [ "$status" != 0 ] && [ "$bad" = 0 ]; }; then
        tail -n 60 "$words"
        count_fail 1 "$preset: $what (ctest: status $status)"
        return
    fi
    [ "$all" = "$bad" ] || count_pass $((all - bad)) "$preset: $what, $((all - bad)) of $all programs"
    if [ "$bad" != 0 ]; then
        # What the failing tests said, without the lines of those that passed.
        grep -vE '^ *[0-9]+/[0-9]+ Test .* Passed ' "$words" | tail -n 300
        count_fail "$bad" "$preset: $what, $bad of $all programs"
    fi
}

finish() {
    local name
    echo
    for name in "${failures[@]}"; do
        echo "failed: $name"
    done
    echo "$((SECONDS - began)) s"
    echo "$passed passed, $failed failed"
    [ "$failed" = 0 ] && [ "$passed" -gt 0 ]
    exit
}

check_format() {
    local list
    mapfile -t list < <(find src include tests bench examples -name '*.[ch]' 2>/dev/null | sort)
    clang-format --dry-run -Werror "${list[@]}" && echo "format: ok (${#list[@]} files)"
}

check_options() {
    build/release/axonn help options-md | diff -u docs/options.md - ||
        { echo 'docs/options.md is not current: axonn help options-md > docs/options.md' && false; }
}

check_sources() {
    check layers tools/check_layers.sh
    check headers tools/check_headers.sh
    check habits tools/check_habits.sh
    # Other versions break lines elsewhere.
    if clang-format --version 2>/dev/null | grep -q 'version 14\.'; then
        check format check_format
    else
        say "skipped format (needs clang-format 14)"
    fi
    if command -v shellcheck >/dev/null; then
        check shell shellcheck -S warning test.sh quickstart.sh .ci/run -x tools/*.sh tests/cli/*.sh tests/fault/*.sh
    fi
}

# clang has no OpenMP here: two OpenMP runtimes in one process would fight.
run_clang() {
    command -v clang >/dev/null || return 0
    check 'build clang' configure_and_build clang && tests clang unit -R '^unit'
}

# Address and undefined behaviour: all units and operations, and a few grids. Under a sanitizer
# missing_wait would be caught at what it does on purpose.
run_asan() {
    local ranks='^ranks[.]grids_(bytes|refusals|pitfalls)$'
    [ "$tier" = long ] && ranks='^(golden|ranks|fault|cli)'
    check 'build asan' configure_and_build asan || return
    tests asan 'unit, ops and corpora' -R '^(unit|ops|fuzz)'
    tests asan ranks -R "$ranks" -E missing_wait
}

# Races between ranks that are threads.
run_tsan() {
    local ranks='^ranks[.]grids_bytes$'
    [ "$tier" = long ] && ranks='^(golden|ranks)'
    check 'build tsan' configure_and_build tsan || return
    tests tsan comm -R 'test_comm$'
    tests tsan ranks -R "$ranks" -E missing_wait
}

# The launchers differ most where something goes wrong. Debian has both side by side: the other one
# is mpich and libmpich-dev.
run_mpich() {
    local over='^(ranks[.](comm|grids)_mpi|cli[.]mpi|fault[.](a_lost_rank|all_ranks_leave|a_.*requeued))'
    [ "$tier" = long ] || return 0
    if ! command -v mpicc.mpich >/dev/null || ! command -v mpiexec.mpich >/dev/null; then
        say "skipped MPICH (needs mpicc.mpich and mpiexec.mpich)"
        return 0
    fi
    check 'build mpich' configure_and_build mpich && tests mpich 'over MPI' -R "$over"
}

# Each parser of foreign bytes, one after the other: a timeout is a finding.
run_fuzz() {
    local name
    [ "$tier" = long ] || return 0
    while read -r name; do
        check "fuzz $name" tools/fuzz.sh "$name" "${FUZZ_SECONDS:-600}"
    done < <(tools/fuzz.sh --list)
}

check 'build release' configure_and_build release || finish
if [ -n "$only" ]; then
    tests release "$only" -R "$only"
    finish
fi
check 'docs/options.md' check_options
if [ "$tier" = quick ]; then
    tests release 'unit, ops and cli' -R '^(unit|ops|cli)'
    finish
fi
check_sources
product=()
[ "$tier" = default ] || product=(-C all)
tests release 'all tests' "${product[@]}"
run_clang
run_asan
run_tsan
run_mpich
run_fuzz
finish
