// The training loop of one rank: batch, step, metrics, evaluation, checkpoint.
#pragma once
#include "train/eval.h"
#include "train/job.h"

// A job's main for `train`. Collective. Rank 0 writes the run directory.
ax_status ax_train_rank(ax_job *job, ax_comm *world);

// Opens the trainer of a job on this rank, parameters set. Collective. Close with ax_trainer_close.
ax_status ax_train_open(const ax_job *job, ax_comm *world, ax_trainer *t);

// Opens a job's model and scores it: the whole work of one rank of `eval`. Collective.
ax_status ax_train_evaluate(const ax_job *job, ax_comm *world, ax_eval_result *out);
