// Teacher-forced evaluation: token-weighted loss over the held-out windows. Collective.
//
//     ax_eval_result r;
//     AX_TRY(ax_evaluate(t, corpus, AX_VALID, 0, &r));   // 0: every window
//
// Windows of model.seq targets, stride model.seq, the last shorter one included; every id but the
// first is a target once. The number does not depend on grid or batch but to rounding.
#pragma once
#include "data/loader.h"
#include "train/trainer.h"

typedef struct ax_eval_result {
    double loss;    // mean over the tokens
    int64_t tokens; // targets
    double seconds;
    double bits_per_byte; // 0 where the windows are not the whole split
} ax_eval_result;

ax_status ax_evaluate(ax_trainer *t, const ax_corpus *c, ax_split split, int64_t most_windows,
                      ax_eval_result *out);
