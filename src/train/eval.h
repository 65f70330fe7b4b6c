// Teacher-forced evaluation: token-weighted loss over the windows of a split. Collective.
//
//     ax_eval_result r;
//     AX_TRY(ax_evaluate(t, corpus, AX_VALID, 0, &r));   // 0: every window
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
} ax_eval_result;

ax_status ax_evaluate(ax_trainer *t, const ax_corpus *c, ax_split split, int64_t most_windows,
                      ax_eval_result *out);
