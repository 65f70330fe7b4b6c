// The run directory: metrics.jsonl, config.yaml, step-NNNNNNNN/, `latest`, which names the newest
// checkpoint, tokenizer/ with the files that belong to the model, and, while a run is going on,
// `lock`.
#pragma once
#include "train/job.h"
#include "train/metrics.h"

// Whether a directory holds a run (metrics, `latest` or a checkpoint), and whether it
// has had a checkpoint: a `latest`, or one that stepped aside.
ax_status ax_rundir_look(const char *out, bool *used, bool *claimed);

// Rank 0. Creates train.out ("": no directory, metrics stay on the screen), takes its lock unless
// the job has it, clears what killed saves left, keeps the tokenizer's files, writes config.yaml,
// opens the metrics where `r` goes on, and says what is about to run. AX_EUSAGE when a run has come
// first.
ax_status ax_rundir_open(ax_job *job, const ax_trainer *t, const ax_resume *r, ax_metrics *m);

// Rank 0. Lets `latest` name a checkpoint; on disk when it returns.
ax_status ax_rundir_name_latest(const char *out, const char *name);
