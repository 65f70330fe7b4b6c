#!/bin/bash
# A run that outlives its jobs: each one trains until shortly before its time is over, saves, and
# puts itself back into the queue, until train.steps are done.
#
#     sbatch --nodes=4 --ntasks-per-node=8 examples/slurm-train.sh --config run.yaml train.out=out/run
#
# Everything behind the script's name is given to `axonn train`. AXONN: the program, if it is not on
# PATH; AXONN_SRUN: how srun starts MPI here (Open MPI: --mpi=pmix, MPICH: --mpi=pmi2).
#SBATCH --job-name=axonn
#SBATCH --time=04:00:00
#SBATCH --signal=USR1@300
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=axonn-%j.log
set -u

# Five minutes before the end Slurm sends SIGUSR1 to every task (--signal above): the step is
# finished, all is saved, and every task exits with 75. Where the end of the job is known, the run
# keeps an eye on it itself, should the signal be lost. Slurm before 23.02 tells no job its end.
if [ -z "${SLURM_JOB_END_TIME:-}" ]; then
    end=$(squeue -h -j "$SLURM_JOB_ID" -o %e) && end=$(date -d "$end" +%s 2>/dev/null) &&
        export SLURM_JOB_END_TIME=$end
fi
watch=()
[ -n "${SLURM_JOB_END_TIME:-}" ] && watch=(train.stop_before=240)

# A job that ends in the first minute has not the time to be of use: it would come back for ever.
begun=$SECONDS
srun ${AXONN_SRUN:---mpi=pmix} "${AXONN:-axonn}" train "$@" train.resume=auto "${watch[@]}"
status=$?

if [ $status -eq 75 ]; then
    echo "job $SLURM_JOB_ID saved after $((SECONDS - begun)) s; it goes back into the queue"
    scontrol requeue "$SLURM_JOB_ID" && exit 0
    echo "scontrol requeue failed; submit this script again to go on" >&2
fi
exit $status # of anything else Slurm shall say FAILED
