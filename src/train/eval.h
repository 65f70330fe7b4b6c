// Teacher-forced evaluation: token-weighted loss over the windows of a split. Collective.
//
//     ax_eval_result r;
//     AX_TRY(ax_evaluate(t, corpus, &(ax_eval_plan){.split = AX_VALID}, &r));
//
// The windows are the rows of the corpus (data/corpus.h): on running text every id of a source but
// the first is a target once, with a document mask those that begin a document are not, and of
// pairs of prompt and completion the completions count. The number does not depend on grid or batch
// but to rounding.
#pragma once
#include "data/loader.h"
#include "train/trainer.h"

typedef struct ax_eval_result {
    double loss;    // mean over the tokens; NaN where there are none
    int64_t tokens; // targets
    double seconds;
    double bits_per_byte; // 0 where the windows are not all, or their bytes not known
    bool cut;             // between two batches, by ax_eval_plan.leave: no result
} ax_eval_result;

typedef struct ax_eval_plan {
    ax_split split;
    int64_t most_windows; // 0: every window
    // Called on every rank between two batches, and may be collective; what it says of leaving all
    // ranks must say alike. NULL: nobody asks.
    ax_status (*leave)(void *ctx, bool *leaves);
    void *ctx;
} ax_eval_plan;

// AX_EUSAGE when the split has no windows.
ax_status ax_evaluate(ax_trainer *t, const ax_corpus *c, const ax_eval_plan *plan,
                      ax_eval_result *out);
