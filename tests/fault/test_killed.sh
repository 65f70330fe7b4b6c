#!/usr/bin/env bash
# A run that is killed at any moment, and one whose checkpoints were damaged, goes on from the last
# good one, or says why it cannot; two never write into one directory.
#     test_killed.sh AXONN
set -u
# shellcheck source=tests/fault/runs.sh
. "$(dirname "$(realpath "$0")")/runs.sh"

# ---- killed again and again

small=(model.preset=tiny model.hidden=32 device=ref train.batch=4 data.train=text.txt
    data.valid_fraction=0.05 train.eval_every=10 train.steps=40 train.save_every=1 train.keep=2)
train "${small[@]}" --grid z=2 train.out=calm
check "forty steps undisturbed" test $status -eq 0
check "two checkpoints were kept" test "$(ls -d calm/step-* | wc -l)" -eq 2
kills=0 status=1
for i in $(seq 60); do
    "$axonn" train -q "${small[@]}" --grid z=2 train.out=wild train.resume=auto >log 2>&1 &
    job=$!
    if [ "$i" -le 6 ]; then
        sleep "0.$((RANDOM % 4 + 1))$((RANDOM % 10))"
        kill -9 $job 2>/dev/null && kills=$((kills + 1))
    fi
    wait $job 2>/dev/null
    status=$?
    [ $status -eq 137 ] || break
done
check "killed $kills times, it still ends" test $status -eq 0
check "with the same metrics" same_story calm wild
check "and the same weights and moments" same_files calm/step-00000040 wild/step-00000040

# ---- broken checkpoints

cp -r wild broken
printf 'x' | dd of=broken/step-00000040/model.safetensors bs=1 seek=5000 conv=notrunc 2>/dev/null
train train.out=broken train.resume=auto train.steps=42
check "a flipped byte: the checkpoint before it" test $status -eq 0
check "it is said once, loudly" test "$(grep -c 'step-00000040 is BROKEN' log)" -eq 1
check "the file and its tensor are named" grep -q "step-00000040/model.safetensors.*'" log
check "latest names a whole one" grep -q step-00000042 broken/latest
rm -rf broken && cp -r wild broken
truncate -s -8 broken/step-00000040/optimizer.safetensors
train train.out=broken train.resume=auto
check "a short file: the checkpoint before it" test $status -eq 0
check "with a line" grep -q 'step-00000040 is not whole' log
check "which makes the last step again" same_files calm/step-00000040 broken/step-00000040
check "with the same metrics" same_story calm broken
rm -rf broken && cp -r wild broken
rm broken/step-*/manifest.json
train train.out=broken train.resume=auto
check "no whole checkpoint: an error, and no fresh start" test $status -eq 1
check "that says so" grep -q 'none of its checkpoints is whole' log
check "the metrics are as they were" cmp broken/metrics.jsonl wild/metrics.jsonl
rm -rf broken && cp -r wild broken
for f in broken/step-*/model.safetensors; do printf 'x' | dd of="$f" bs=1 seek=5000 conv=notrunc 2>/dev/null; done
train train.out=broken train.resume=auto --grid data=2
check "all checksums wrong: an error" test $status -eq 1
rm -rf broken && cp -r wild broken && rm broken/latest
train train.out=broken train.resume=auto
check "latest is missing: the newest whole one" test $status -eq 0
check "and latest is back" grep -q step-00000040 broken/latest
mkdir broken/.tmp-step-00000041 && touch broken/.tmp-step-00000041/model.safetensors
train train.out=broken train.resume=auto train.steps=41
check "what a killed save left is swept" test ! -e broken/.tmp-step-00000041

# ---- a run that never saved

"$axonn" train -q "${small[@]}" train.save_every=0 train.out=young >log 2>&1 &
job=$!
wait_for 60 has_step young 3
kill -9 $job
wait $job 2>/dev/null
train "${small[@]}" train.out=young train.resume=auto --grid z=2
check "killed before its first checkpoint, a run begins again" test $status -eq 0
check "and says so" grep -q 'ended before its first checkpoint' log
check "with the same metrics" same_story calm young

# ---- one run at a time

"$axonn" train -q "${small[@]}" train.steps=100000 train.save_every=0 train.out=busy >busy.log 2>&1 &
job=$!
wait_for 60 has_step busy 2
train "${small[@]}" train.out=busy train.resume=auto
check "a directory in use is refused" test $status -eq 2
check "with the process that uses it" grep -q "in use by process $job " log
kill -9 $job
wait $job 2>/dev/null
check "its lock is left behind" test -e busy/lock
train "${small[@]}" train.steps=2 train.out=busy train.resume=auto
check "the lock of a dead process is taken over" test $status -eq 0
printf 'host elsewhere pid 7 job none\n' >busy/lock
train "${small[@]}" train.out=busy train.resume=auto
check "that of another host is not" test $status -eq 2
check "and the way out is named" grep -q 'remove busy/lock' log

[ $failed -eq 0 ]
