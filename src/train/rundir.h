// The run directory: metrics.jsonl, config.yaml, step-NNNNNNNN/, and `latest`, which names the
// newest checkpoint.
#pragma once
#include "train/job.h"
#include "train/metrics.h"

// Rank 0. Creates `out` ("": no directory, metrics stay on the screen), writes config.yaml, opens
// the metrics and says what is about to run. AX_EUSAGE when `out` holds a run already.
ax_status ax_rundir_open(const char *out, const ax_job *job, const ax_trainer *t, ax_metrics *m);

// Collective. Writes out/step-NNNNNNNN and then `latest`.
ax_status ax_rundir_save(const char *out, const ax_run_config *config, ax_trainer *t, int64_t step,
                         int64_t tokens);
