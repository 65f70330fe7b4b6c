#include "train/eval.h"

#include "train/metrics.h"

#include <math.h>

// Fills one micro-batch with windows first, first + stride, ...; rows past the end count nothing.
static ax_status fill(ax_trainer *t, const ax_corpus *c, ax_split split, int64_t first,
                      int64_t windows)
{
    int64_t seq = t->layout.seq;
    for (int64_t i = 0; i < t->layout.micro_batch; i++) {
        ax_row row = {t->ids + i * seq, t->targets + i * seq, t->positions + i * seq};
        if (first + i < windows) {
            AX_TRY(ax_corpus_window(c, split, first + i, &row));
            continue;
        }
        for (int64_t k = 0; k < seq; k++) {
            row.ids[k] = 0;
            row.targets[k] = -1;
            row.positions[k] = (int32_t)k;
        }
    }
    return AX_OK;
}

static double kept(const ax_trainer *t)
{
    double n = 0;
    for (int64_t i = 0; i < t->layout.rows; i++)
        n += t->targets[i] >= 0;
    return n;
}

ax_status ax_evaluate(ax_trainer *t, const ax_corpus *c, ax_split split, int64_t most_windows,
                      ax_eval_result *out)
{
    const ax_grid_shape *s = &t->grid.shape;
    double started = ax_metrics_clock(), sums[2] = {0, 0}; // loss, targets
    int64_t all = ax_corpus_windows(c, split);
    int64_t windows = most_windows > 0 && most_windows < all ? most_windows : all;
    int64_t mine = ((int64_t)t->grid.cd * s->z + t->grid.cz) * t->layout.micro_batch;
    int64_t stride = (int64_t)s->z * s->data * t->layout.micro_batch;
    AX_CHECK(windows > 0, AX_EUSAGE,
             "no held-out tokens to evaluate on: give data.valid, or data.valid_fraction above 0");
    for (int64_t first = 0; first < windows; first += stride) {
        double loss;
        ax_batch batch = {t->ids, t->targets, t->positions};
        AX_TRY(fill(t, c, split, first + mine, windows));
        AX_TRY(ax_model_loss(&t->model, &batch, &loss, NULL));
        sums[0] += loss;
        sums[1] += kept(t);
    }
    AX_TRY(ax_comm_sum(t->grid.zdata, sums, 2));
    bool known = windows == all && split == AX_VALID;
    int64_t bytes = known ? ax_corpus_held_out_bytes(c) : 0;
    *out = (ax_eval_result){.loss = sums[1] > 0 ? sums[0] / sums[1] : NAN,
                            .tokens = (int64_t)sums[1],
                            .seconds = ax_metrics_clock() - started,
                            .bits_per_byte = bytes ? sums[0] / log(2.0) / (double)bytes : 0};
    return AX_OK;
}
