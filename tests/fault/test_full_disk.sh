#!/usr/bin/env bash
# A write that fails in the middle of training (a limit on file sizes stands for a full disk) ends
# all ranks with a message and a status, without a hang, and leaves no half of a checkpoint.
#     test_full_disk.sh AXONN
set -u
# shellcheck source=tests/fault/check.sh
. "$(dirname "$(realpath "$0")")/check.sh"
axonn=$(realpath "$1")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1

for i in $(seq 800); do echo "line $i of a text that four ranks read"; done >"$dir/text.txt"
small=("data.train=$dir/text.txt" model.layers=1 model.hidden=64 model.heads=4 model.seq=32
    train.batch=8 train.threads=1 data.valid_fraction=0)

run() { # LIMIT_KIB ARGUMENTS...
    local limit=$1
    shift
    (ulimit -f "$limit"; timeout 60 "$axonn" train "${small[@]}" "$@" >log 2>&1)
    status=$?
}

# Words go through a pipe: a file of theirs would be limited, too.
for there in no yes; do
    rm -rf out && mkdir out
    [ $there = no ] || echo "host $(hostname) pid 999999999 job none" >out/lock
    (ulimit -f 0; timeout 60 "$axonn" train "${small[@]}" train.steps=2 train.out=out; echo "status $?") 2>&1 | cat >log
    check "a lock that cannot be written ends the job (one is there: $there)" grep -qx 'status 1' log
    check "the message names file and reason" grep -q 'out/lock: cannot write the lock: File too large' log
    check "no empty lock is left" test ! -e out/lock
done

for grid in x=2,data=2 z=2,data=2 x=2,y=2; do
    rm -rf "$dir/out"
    run 8 train.steps=200 "train.out=$dir/out" --ranks 4 --grid $grid
    check "$grid: metrics that cannot be written end the job" test $status -eq 1
    check "$grid: the message names file and reason" grep -q 'metrics.jsonl: File too large' log
done

rm -rf "$dir/out"
run 200 train.steps=5 "train.out=$dir/out" --ranks 4 --grid x=2,data=2
check "a checkpoint that cannot be written ends the job" test $status -eq 1
check "its message names a file of the checkpoint" grep -qE 'safetensors.*File too large' log
check "no half checkpoint is left" test -z "$(ls -d "$dir"/out/*step-* 2>/dev/null)"
check "nothing is called the latest" test ! -e "$dir/out/latest"

# A disk with room for one checkpoint and a half: the first stays, whole, and nothing of the second.
# Where this user may not mount, the limit on file sizes above has to do.
disk=$dir/disk
mkdir "$disk"
if mount -t tmpfs -o size=1200k none "$disk" 2>/dev/null; then
    trap 'umount "$disk"; rm -rf "$dir"' EXIT
    for every in 1 4; do
        run unlimited train.steps=8 train.save_every=$every train.out="$disk/out" --ranks 4 --grid x=2,data=2
        check "a full disk ends the job" test $status -eq 1
        check "its message names a file and the reason" grep -qE 'step-.*: No space left' log
        check "the checkpoint before is named the latest" \
            grep -qx "step-0000000$every" "$disk/out/latest"
        check "no half checkpoint is left" test "$(find "$disk/out" -name "*step-*" | wc -l)" -eq 1
        "$axonn" checkpoint verify "$disk/out" >log 2>&1
        check "it is whole" test $? -eq 0
        rm -rf "$disk/out"
    done
else
    echo "skipped a small tmpfs: this user may not mount"
fi
[ $failed -eq 0 ]
