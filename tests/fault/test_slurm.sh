#!/usr/bin/env bash
# examples/slurm-train.sh in a Slurm of one node, started here: a job that is told to leave saves,
# requeues itself and goes on to the end. `stand-in`: srun, scontrol and squeue are played by scripts
# that set the same variables and pass on the same signals. Exits with 77 where Slurm (Debian:
# slurm-wlm) is not installed or does not start.
#     test_slurm.sh AXONN MPIRUN slurm|stand-in
set -u
script=$(dirname "$(realpath "$0")")/../../examples/slurm-train.sh
# shellcheck source=tests/fault/runs.sh
. "$(dirname "$(realpath "$0")")/runs.sh"
mpirun=$2 how=$3
export AXONN=$axonn
unset SLURM_JOB_ID SLURM_JOB_END_TIME

cat >run.yaml <<'EOF'
model: {preset: tiny, hidden: 32}
data: {train: text.txt, valid_fraction: 0}
train: {batch: 4, steps: 150, lr: 1e-2, threads: 1, log_every: 0, out: run}
device: ref
EOF

# ---- Slurm itself

servers=()
stop_servers() {
    [ ${#servers[@]} -eq 0 ] && return
    kill "${servers[@]}" 2>/dev/null
    wait "${servers[@]}" 2>/dev/null
}
trap 'stop_servers; kill -9 $(jobs -p) 2>/dev/null; rm -rf "$dir"' EXIT

is_idle() { sinfo -h -o %T 2>/dev/null | grep -q idle; }

start_slurm() {
    local port=$((20000 + $$ % 20000)) host
    host=$(hostname)
    for tool in slurmctld slurmd sbatch srun scontrol scancel; do
        command -v $tool >/dev/null || return 1
    done
    [ "$(id -u)" = 0 ] || return 1
    mkdir state spool
    cat >slurm.conf <<EOF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
AuthInfo=cred_expire=3
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
SchedulerParameters=sched_interval=1,bf_interval=1
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.pid
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.log
JobRequeue=1
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
EOF
    export SLURM_CONF=$dir/slurm.conf
    slurmctld -D >/dev/null 2>&1 &
    servers+=($!)
    slurmd -D >/dev/null 2>&1 &
    servers+=($!)
    wait_for 15 is_idle
}

if [ "$how" = slurm ] && ! start_slurm; then
    echo "skipped: no Slurm could be started here"
    exit 77
fi

state_of() { scontrol show job "$1" | sed -n 's/.*JobState=\([A-Z]*\).*/\1/p'; }
# A requeued job would wait for two minutes.
hurry() { # JOB
    case $(state_of "$1") in
    PENDING) scontrol update JobId="$1" StartTime=now >>slurm.log 2>&1 ;;
    RUNNING | COMPLETED) return 0 ;;
    esac
    sleep 3
    return 1
}
is_state() { [ "$(state_of "$1")" = "$2" ]; }

# Which --mpi goes with the program's MPI.
mpi=--mpi=pmix
"$axonn" info 2>/dev/null | grep -q MPICH && mpi=--mpi=pmi2

if [ "$how" = slurm ]; then
    export AXONN_SRUN="$mpi --overcommit"
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    job=$(sbatch --parsable --ntasks=2 --overcommit --time=10 --output=log "$script" --config run.yaml 2>log)
    check "a job of two tasks is submitted" test -n "$job"
    check "it trains" wait_for 60 has_step run 5
    scancel --signal=USR1 "$job" # to the tasks, as --signal=USR1@300 does
    check "told to leave, it goes back into the queue" wait_for 60 grep -q 'goes back into the queue' log
    left=$(sed 's/step-0*//' run/latest)
    check "with what it has saved" test "${left:-0}" -ge 5
    sleep 3 # within the second of its end its credential is still the revoked one
    wait_for 150 hurry "$job" || { scontrol show job "$job" && tail -n 20 slurmctld.log; } >>log
    check "it is started again" wait_for 60 has_step run $((left + 5))
    check "and goes on to the end" wait_for 120 is_state "$job" COMPLETED
    check "its restart is counted" grep -q 'Restarts=1' <(scontrol show job "$job")

    # Bad settings must not come back for ever, nor look like success.
    bad=$(sbatch --parsable --ntasks=2 --overcommit --time=10 --output=bad.log "$script" --config run.yaml \
        train.lr=1)
    check "a setting that a run cannot change fails the job" wait_for 60 is_state "$bad" FAILED
    check "with the program's words" grep -q 'train.lr=1, but the run' bad.log
else
    mkdir bin
    cat >bin/srun <<EOF
#!/bin/bash
while [[ \$1 == --* ]]; do shift; done
tell() { # every task, as Slurm does; a launcher that hands a signal on can lose the status (MPICH 4.0)
    for p in \$(pgrep -f "$axonn train "); do
        [ "\$(readlink /proc/\$p/cwd)" = "$dir" ] && [ "\$(readlink /proc/\$p/exe)" = "$(realpath "$axonn")" ] &&
            kill -USR1 \$p
    done
}
trap tell USR1
"$mpirun" \$(\"$mpirun\" --version 2>&1 | grep -qE 'Open MPI|OpenRTE' && echo --oversubscribe) -n 2 "\$@" &
child=\$!
echo \$\$ >"$dir/srun.pid"
wait \$child
status=\$?
while kill -0 \$child 2>/dev/null; do wait \$child; status=\$?; done
exit \$status
EOF
    printf '#!/bin/sh\necho "$@" >>"%s"\n' "$dir/scontrol.said" >bin/scontrol
    printf '#!/bin/sh\ndate -d "+1 hour" +%%FT%%T\n' >bin/squeue
    chmod +x bin/*
    export PATH="$dir/bin:$PATH" SLURM_JOB_ID=77 SLURM_JOB_NUM_NODES=1
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    bash "$script" --config run.yaml >log 2>&1 &
    job=$!
    check "it trains" wait_for 60 has_step run 5
    kill -USR1 "$(cat srun.pid)"
    wait $job
    status=$?
    check "told to leave, it goes back into the queue" grep -q 'requeue 77' scontrol.said
    check "and ends well" test $status -eq 0
    left=$(sed 's/step-0*//' run/latest)
    bash "$script" --config run.yaml >log 2>&1
    status=$?
    check "started again, it goes on to the end" test $status -eq 0
    bash "$script" --config run.yaml train.lr=1 >log 2>&1
    status=$?
    check "a setting that a run cannot change fails the job" test $status -ne 0 -a $status -ne 75
    check "with the program's words" grep -q 'train.lr=1, but the run' log
fi
check "it went on where it had left" grep -q "\"resumed_from\":$left}" run/metrics.jsonl
train --config run.yaml train.out=whole grid=data=2
check "in the end the metrics are those of one go" same_story whole run
check "and so are weights and moments" same_files whole/step-00000150 run/step-00000150
[ $failed -eq 0 ]
