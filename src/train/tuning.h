// Tuning of matrix products: what is remembered, what the first step measures, and what all ranks
// make of it.
//
//     ax_tuning *tuning;
//     AX_TRY(ax_tuning_open(config, resume, world, &tuning));   // collective; NULL: train.tune=off
//     trainer_config.tuner = ax_tuning_tuner(tuning);
//     ... ax_trainer_open ...
//     ax_tuning_begin(tuning);                  // times what is not known yet
//     AX_TRY(ax_step(...));
//     AX_TRY(ax_tuning_end(tuning, &t.dev, world, result.kept > 0)); // collective: it is decided
//     ax_tuning_close(tuning);
//
// A product that is timed keeps the default's result in that step. From the next step on every rank
// makes it the way whose times, summed over all ranks, are the least: replicas stay bit-equal. What
// was decided is written by rank 0 into the user's file, for later runs, and as tuning.txt into the
// run directory: a run that is resumed reads that alone, and so goes on bit for bit.
#pragma once
#include "comm/comm.h"
#include "train/resume.h"
#include "train/tuning_file.h"

typedef struct ax_tuning ax_tuning;

// Collective. Rank 0 reads: tuning.txt of the run that is resumed, or, where there is none, the
// user's file. *out is this rank's own.
ax_status ax_tuning_open(const ax_run_config *c, const ax_resume *from, ax_comm *world,
                         ax_tuning **out);
void ax_tuning_close(ax_tuning *t);      // NULL is legal
ax_tuner *ax_tuning_tuner(ax_tuning *t); // NULL: of NULL

// Around a step; once a step that worked is over, nothing happens in either. NULL is legal.
void ax_tuning_begin(ax_tuning *t);
// Collective. `dev`: the rank's device; worked: the step had targets, as every rank knows. A file
// of the user's that cannot be written is a warning.
ax_status ax_tuning_end(ax_tuning *t, ax_device *dev, ax_comm *world, bool worked);

// Collective; what ax_tuning_end does about it: the open products that rank 0 timed become those
// of the least sum. A way must save 3 % to be taken in place of the default. Times become means.
ax_status ax_tuning_agree(ax_tuner *tuner, ax_comm *world);

// The file that a configuration means; "" where the user has no place for one.
void ax_tuning_path(const ax_run_config *c, char *path, size_t size);
