// The proof on the user's machine: a model shape trained a few steps on a grid and on one rank.
#pragma once
#include "train/job.h"

enum { AX_SELFTEST_STEPS = 5 };

typedef struct ax_selftest_result {
    int steps;
    double loss[AX_SELFTEST_STEPS], serial_loss[AX_SELFTEST_STEPS];
    double norm[AX_SELFTEST_STEPS], serial_norm[AX_SELFTEST_STEPS];
    double worst_loss, worst_norm; // relative differences
    double band;                   // allowed: 1e-12 double, 1e-5 fp32, 3e-2 bf16
    bool scaled;                   // the model was scaled down
    bool passed;
} ax_selftest_result;

// Replaces the job's model by one of the same divisibility that runs in seconds, if it is larger:
// heads, kv heads and grid stay; width, feed-forward width, layers, vocabulary and sequence shrink.
void ax_selftest_scale(ax_arch *arch, bool *scaled);

// A job's main, after `result` (rank 0's is filled). Collective.
ax_status ax_selftest_rank(ax_job *job, ax_comm *world, ax_selftest_result *result);
