#!/usr/bin/env bash
# Told to leave by a signal to any one rank, by the clock or from the keyboard, all ranks finish the
# step, save, and exit together with the status that says so; what is left then goes on.
#     test_leave.sh AXONN MPIRUN
set -u
# shellcheck source=tests/fault/runs.sh
. "$(dirname "$(realpath "$0")")/runs.sh"
mpirun=$2
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
unset SLURM_JOB_END_TIME
over=
"$mpirun" --version 2>&1 | grep -qE "Open MPI|OpenRTE" && over=--oversubscribe
small=(model.preset=tiny model.hidden=32 device=ref train.batch=4 data.train=text.txt
    data.valid_fraction=0.05 train.threads=1 train.log_every=0 train.steps=1000000)

# The process of rank $1 among those of this test.
rank() {
    local p
    for p in $(pgrep -f "$axonn train .*train.out=$2\$"); do
        tr '\0' '\n' <"/proc/$p/environ" 2>/dev/null | grep -qE "^(OMPI_COMM_WORLD_RANK|PMI_RANK)=$1\$" &&
            [ "$(readlink "/proc/$p/exe")" = "$(realpath "$axonn")" ] && echo "$p" && return 0
    done
    return 1
}
ended() { # sets status
    wait_for 60 sh -c "! kill -0 $job 2>/dev/null" || kill -9 "$job"
    wait "$job" 2>/dev/null
    status=$?
}
saved() { # RUN: it is whole, of the last step told, and named
    local last
    last=$(tail -n 1 "$1/metrics.jsonl" | sed -n 's/^{"step":\([0-9]*\),.*/\1/p')
    test -n "$last" -a "$(cat "$1/latest")" = "$(printf 'step-%08d' "$last")" -a ! -e "$1/lock"
}

# ---- under mpirun: one of the ranks is told
for signal in TERM USR1; do
    "$mpirun" $over -n 3 "$axonn" train "${small[@]}" train.batch=6 train.out=$signal >log 2>&1 &
    job=$!
    check "three ranks train" wait_for 60 has_step $signal 3
    kill -$signal "$(rank 2 $signal)"
    ended
    check "SIG$signal to rank 2: mpirun ends with 75" test $status -eq 75
    check "the last step is saved" saved $signal
    check "nobody aborts" sh -c "! grep -qi 'MPI_ABORT\|killed\|error' log"
done
# A launcher hands it on. That of MPICH may then lose the status, and nothing else.
"$mpirun" $over -n 2 "$axonn" train "${small[@]}" train.out=handed >log 2>&1 &
job=$!
wait_for 60 has_step handed 3
kill -USR1 $job
ended
check "SIGUSR1 to mpirun: it ends with 75${over:+, and with nothing else}" \
    test $status -eq 75 -o "$status${over:-mpich}" = 0mpich
check "the last step is saved" saved handed
step=$(sed 's/step-0*//' TERM/latest)
timeout 60 "$mpirun" $over -n 2 "$axonn" train -q train.out=TERM train.resume=auto \
    train.steps=$((step + 3)) >log 2>&1
check "two ranks go on where three left" test $? -eq 0
check "up to the new end" has_step TERM $((step + 3))

# A rank that sees another directory, as on a slow shared disk, decides nothing: it hears from rank 0
# what to read, and all end when it is not there.
mkdir elsewhere
cat >rank.sh <<EOF
#!/bin/sh
[ "\${OMPI_COMM_WORLD_RANK:-\$PMI_RANK}" = 1 ] && cd elsewhere
exec "$axonn" train "\$@"
EOF
chmod +x rank.sh
train "${small[@]}" "data.train=$dir/text.txt" train.steps=3 train.out=seen
timeout 60 "$mpirun" $over -n 2 ./rank.sh train.steps=5 train.out=seen train.resume=auto >log 2>&1
status=$?
check "a rank that cannot see the checkpoint ends all" test $status -ne 0 -a $status -ne 124
check "with the rank and the file" grep -q 'rank 1.*seen/step-00000003' log
check "and the run is as it was" test "$(ls -d seen/step-*)" = seen/step-00000003

# ---- ranks of one process
for signal in TERM USR1; do
    "$axonn" train "${small[@]}" --ranks 2 train.save_every=2 train.out=local$signal >log 2>&1 &
    job=$!
    wait_for 60 has_step local$signal 3
    kill -$signal $job
    ended
    check "SIG$signal: 75" test $status -eq 75
    check "the last step is saved" saved local$signal
done

# ---- in an evaluation that takes long
cat text.txt text.txt >valid.txt
scored=(model.preset=tiny model.hidden=32 device=ref train.batch=4 data.train=text.txt data.valid=valid.txt
    train.threads=1 train.log_every=0 train.steps=4 train.eval_every=2)
train "${scored[@]}" --ranks 2 train.save_every=4 train.out=scored
check "four steps, scored twice" test "$(grep -c valid_loss scored/metrics.jsonl)" -eq 2
is_named() { [ "$(cat "$1/latest" 2>/dev/null)" = "$2" ]; }
for every in 2 4; do
    # Saved before the evaluation, the checkpoint has its name while that goes on; or nothing is due.
    "$axonn" train "${scored[@]}" --ranks 2 train.save_every=$every train.out=scored$every >log 2>&1 &
    job=$!
    if [ $every = 2 ]; then
        check "a checkpoint has its name in the evaluation" wait_for 60 is_named scored2 step-00000002
    else
        wait_for 60 has_step scored4 2
    fi
    kill -TERM $job
    ended
    check "SIGTERM in an evaluation: 75" test $status -eq 75
    check "it is not awaited" sh -c "! grep -q valid_loss scored$every/metrics.jsonl"
    check "the last step is saved" saved scored$every
    train train.out=scored$every train.resume=auto
    check "it goes on to the end" test $status -eq 0
    check "with the metrics of one go" same_story scored scored$every
    check "and the same weights and moments" same_files scored/step-00000004 scored$every/step-00000004
done

# A job started from a script ignores SIGINT; `env` gives it back its meaning.
interruptible() { exec env --default-signal=INT "$@"; }
interruptible "$axonn" train "${small[@]}" train.out=int >log 2>&1 &
job=$!
wait_for 60 has_step int 3
kill -INT $job
ended
check "an interrupt: saved, 130" test $status -eq 130
check "the last step is saved" saved int
# Long steps: the second comes before the first is obeyed.
interruptible "$axonn" train "${small[@]}" train.batch=600 train.out=twice >log 2>&1 &
job=$!
wait_for 60 test -e twice/metrics.jsonl
kill -INT $job
wait_for 20 grep -q 'interrupt again' log
kill -INT $job
ended
check "a second interrupt ends it at once" test $status -eq 130
check "without a checkpoint" test ! -e twice/latest
# With nowhere to save to there is nothing to wait for.
"$axonn" train "${small[@]}" train.log_every=1 >log 2>&1 &
job=$!
wait_for 60 grep -q '^step 3/' log
kill -TERM $job
ended
check "without train.out a signal just ends it" test $status -eq 143

# ---- a log that nobody reads any more
brief=(model.preset=tiny model.hidden=32 device=ref train.batch=4 data.train=text.txt data.valid_fraction=0
    train.threads=1 train.steps=60)
train "${brief[@]}" train.out=read
"$axonn" train "${brief[@]}" train.log_every=1 train.out=unread 2>&1 | head -n 1 >log
status=${PIPESTATUS[0]}
check "its reader has gone: the run ends as it should" test "$status" -eq 0
check "with all its metrics" same_story read unread
check "and its checkpoint" same_files read/step-00000060 unread/step-00000060
{ "$axonn" train "${brief[@]}" train.out=answer --json -q; echo $? >status; } 2>log | true
check "nor does it matter who reads the answer" test "$(cat status)" = 0 -a ! -s log
{ sleep 0.2; (trap '' PIPE; "$axonn" help options-md; echo $? >status) } 2>log | true
check "a page that is not read to its end is no error" test "$(cat status)" = 0 -a ! -s log
{ sleep 0.2; env --default-signal=PIPE "$axonn" help options-md; echo $? >status; } 2>log | true
check "nor a noise" test ! -s log

# ---- signals that the shell had it ignore, as nohup does
(trap '' INT HUP; exec "$axonn" train "${small[@]}" train.out=kept) >log 2>&1 &
job=$!
wait_for 60 has_step kept 3
kill -INT $job
kill -HUP $job
step=$(wc -l <kept/metrics.jsonl)
check "an ignored signal does not end it" wait_for 60 has_step kept $((step + 20))
kill -TERM $job
ended
check "another one does" test $status -eq 75
check "the last step is saved" saved kept
env --default-signal=HUP "$axonn" train "${small[@]}" train.out=closed >log 2>&1 &
job=$!
wait_for 60 has_step closed 3
kill -HUP $job
ended
check "SIGHUP: the terminal was closed: 75" test $status -eq 75
check "the last step is saved" saved closed

# ---- the clock
timeout 60 "$axonn" train "${small[@]}" train.wall_time=2 train.out=time >log 2>&1
check "train.wall_time is over: 75" test $? -eq 75
check "the last step is saved" saved time
SLURM_JOB_END_TIME=$(($(date +%s) + 33)) timeout 25 "$axonn" train "${small[@]}" \
    train.stop_before=30 train.out=slurm >log 2>&1
check "30 seconds before the end that Slurm tells: 75" test $? -eq 75
check "the last step is saved" saved slurm
train "${small[@]}" train.stop_before=30 train.out=none
check "an end that nobody knows is wrong use" test $status -eq 2
train "${small[@]}" train.stop_before=30 train.wall_time=20 train.out=none
check "and so is one that is too near" test $status -eq 2
check "nothing was begun" test ! -e none/metrics.jsonl

[ $failed -eq 0 ]
