// One optimizer step. Read step.c first: it is the whole of training in one page.
#pragma once
#include "train/trainer.h"

typedef struct ax_step_result {
    double loss;       // mean over the targets that count, of the whole batch
    double grad_norm;  // global, before clipping
    int64_t kept;      // targets that count
    int64_t nonfinite; // gradient elements that are not finite
    bool skipped;      // parameters and state untouched
} ax_step_result;

// Collective. t->ids and t->targets hold this coordinate's rows. AX_ENUMERIC: the loss or a
// gradient is not finite and skip_nonfinite is off; parameters and state are untouched.
ax_status ax_step(ax_trainer *t, double lr, ax_step_result *out);

// The parts of a step, for tests that look at gradients: all micro-batches and all sums.
ax_status ax_step_gradients(ax_trainer *t, ax_step_result *out);
