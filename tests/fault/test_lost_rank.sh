#!/usr/bin/env bash
# One rank killed, or one that cannot open its data, under mpirun: all end within 10 seconds with a
# status that is not zero, and the rank is named.
#     test_lost_rank.sh AXONN MPIRUN
set -u
# shellcheck source=tests/fault/check.sh
. "$(dirname "$(realpath "$0")")/check.sh"
axonn=$(realpath "$1") mpirun=$2
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
dir=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$dir"' EXIT
cd "$dir" || exit 1

over=
"$mpirun" --version 2>&1 | grep -qE "Open MPI|OpenRTE" && over=--oversubscribe
for i in $(seq 400); do echo "line $i of a text that four ranks read"; done >"$dir/text.txt"
small=(model.layers=1 model.hidden=64 model.heads=4 model.seq=32 train.batch=8 train.threads=1
    data.valid_fraction=0)

# The pid of the rank that the launcher numbers $1, among the processes of this test's program.
pid_of_rank() {
    local p
    for p in $(pgrep -f "$axonn train data.train=$dir"); do
        tr '\0' '\n' <"/proc/$p/environ" 2>/dev/null |
            grep -qE "^(OMPI_COMM_WORLD_RANK|PMI_RANK)=$1\$" && [ "$(readlink "/proc/$p/exe")" = "$axonn" ] &&
            echo "$p" && return 0
    done
    return 1
}

wait_for() { # SECONDS COMMAND...
    local end=$((SECONDS + $1))
    shift
    while [ $SECONDS -lt $end ]; do
        "$@" && return 0
        sleep 0.2
    done
    return 1
}

none_left() {
    local p
    for p in $(pgrep -f "train data.train=$dir"); do
        [ "$(readlink "/proc/$p/exe")" = "$axonn" ] && return 1
    done
    return 0
}

gone() { ! kill -0 "$1" 2>/dev/null; }

"$mpirun" $over -n 4 "$axonn" train "data.train=$dir/text.txt" "${small[@]}" train.steps=1000000 \
    --grid x=2,z=2 >log 2>&1 &
job=$!
check "four ranks train" wait_for 40 grep -q 'step 10/' log
victim=$(pid_of_rank 2)
check "rank 2 is found" test -n "$victim"
[ -n "$victim" ] && kill -9 "$victim"
check "all end within 10 seconds of the death of a rank" wait_for 10 gone $job
kill -9 $job 2>/dev/null
wait $job
status=$?
check "the status is not zero" test $status -ne 0
# Open MPI says the rank, MPICH the process.
check "the lost rank is named" grep -qE "rank 2|PID $victim " log
check "no rank is left behind" wait_for 5 none_left

# Rank 2 is given a file that is not there.
cat >"$dir/rank.sh" <<EOF
#!/bin/sh
rank=\${OMPI_COMM_WORLD_RANK:-\$PMI_RANK}
file=$dir/text.txt
[ "\$rank" = 2 ] && file=$dir/nowhere.txt
exec $axonn train data.train=\$file ${small[*]} train.steps=5 --grid x=2,z=2
EOF
chmod +x "$dir/rank.sh"
begun=$SECONDS
timeout 40 "$mpirun" $over -n 4 "$dir/rank.sh" >log 2>&1
status=$?
check "a rank without its data ends all with a status" test $status -ne 0 -a $status -ne 124
check "within 10 seconds" test $((SECONDS - begun)) -le 10
check "the file and the rank are named" grep -qE 'rank 2.*nowhere\.txt|nowhere\.txt' log
check "the others say which rank it was" grep -qE 'rank 2' log

# What all ranks agree on is wrong use, not a crash.
timeout 40 "$mpirun" $over -n 2 "$axonn" train "data.train=$dir/nowhere.txt" >log 2>&1
status=$?
check "a file that no rank finds is wrong use" test $status -eq 2
check "it is said once" test "$(grep -c nowhere.txt log)" -eq 1
check "without an abort" sh -c "! grep -qi MPI_ABORT '$dir/log'"

[ $failed -eq 0 ]
