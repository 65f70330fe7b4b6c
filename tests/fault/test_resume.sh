#!/usr/bin/env bash
# A run that was cut goes on as if nothing had been: on the same grid bit for bit, on any other with
# the same samples, the same moments, and numbers to rounding.
#     test_resume.sh AXONN
set -u
# shellcheck source=tests/fault/runs.sh
. "$(dirname "$(realpath "$0")")/runs.sh"

# Sizes that 2, 3, 4 and 8 ranks can cut; a learning rate that shows a moment gone wrong.
cat >run.yaml <<'EOF'
model: {layers: 2, hidden: 96, heads: 12, kv_heads: 12, ffn: 96, seq: 16}
data: {train: text.txt, valid_fraction: 0.02, seed: 7}
train: {batch: 24, lr: 1e-2, warmup: 4, threads: 1, precision: fp32, eval_every: 6, log_every: 0}
EOF

# ---- 20 steps; 10, killed, and on to 20

train --config run.yaml --grid x=2,data=2 train.steps=20 train.save_every=5 train.out=whole
check "twenty steps in one go" test $status -eq 0
"$axonn" train -q --config run.yaml --grid x=2,data=2 train.steps=20 train.save_every=5 train.out=cut \
    >log 2>&1 &
job=$!
check "it passes step 12" wait_for 60 has_step cut 12
kill -9 $job
wait $job 2>/dev/null
check "it was killed in time" test ! -e cut/step-00000020
train train.out=cut train.resume=auto
check "it goes on to step 20, told nothing but where" test $status -eq 0
check "every line of its metrics is the same" same_story whole cut
check "weights and moments are the same bytes" same_files whole/step-00000020 cut/step-00000020
check "the lock is gone" test ! -e cut/lock
check "nothing half is left" test -z "$(ls -d cut/.tmp-* 2>/dev/null)"
train train.out=cut train.resume=auto
check "once more: nothing is left to do" test $status -eq 0

# ---- other grids

train --config run.yaml --grid x=2,y=2,z=2 train.steps=8 train.save_every=7 train.out=cube
check "seven steps on 2x2x2x1, and an eighth" test $status -eq 0
want=$(loss cube 8)
for grid in x=1 x=4,data=2 z=8 data=8 x=3; do
    # Without a step to do, what was read is written again.
    rm -rf copy next
    train --grid $grid train.resume=cube/step-00000007 train.steps=7 train.out=copy
    check "$grid: reads the checkpoint" test $status -eq 0
    check "$grid: weights and moments are the same bytes" same_files cube/step-00000007 copy/step-00000007
    train --grid $grid train.resume=cube/step-00000007 train.out=next
    got=$(loss next 8)
    check "$grid: the next loss, $got, is $want" near "$want" "$got"
done
# Four ranks hold positions in the data; two and eight take them over.
train --grid data=4 --config run.yaml train.steps=9 train.save_every=4 train.out=four
for ranks in 2 8; do
    rm -rf other
    train --grid data=$ranks train.resume=four/step-00000004 train.out=other
    check "$ranks ranks go on where four stood" near "$(loss four 9)" "$(loss other 9)"
done
check "one position in the data for all" \
    test "$(grep -o 'next_sample[^,}]*' four/step-00000004/manifest.json | tr -dc '0-9')" = 96

[ $failed -eq 0 ]
