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

// Adds this rank's loss and targets of `windows` windows to sums[2]; *cut: not of all of them.
static ax_status score(ax_trainer *t, const ax_corpus *c, const ax_eval_plan *plan, int64_t windows,
                       double *sums, bool *cut)
{
    const ax_grid_shape *s = &t->grid.shape;
    int64_t mine = ((int64_t)t->grid.cd * s->z + t->grid.cz) * t->layout.micro_batch;
    int64_t stride = (int64_t)s->z * s->data * t->layout.micro_batch;
    for (int64_t first = 0; first < windows; first += stride) {
        double loss;
        ax_batch batch = {t->ids, t->targets, t->positions};
        if (first > 0 && plan->leave)
            AX_TRY(plan->leave(plan->ctx, cut));
        if (*cut)
            return AX_OK;
        AX_TRY(fill(t, c, plan->split, first + mine, windows));
        AX_TRY(ax_model_loss(&t->model, &batch, &loss, NULL));
        sums[0] += loss;
        sums[1] += kept(t);
    }
    return AX_OK;
}

ax_status ax_evaluate(ax_trainer *t, const ax_corpus *c, const ax_eval_plan *plan,
                      ax_eval_result *out)
{
    double started = ax_metrics_clock(), sums[2] = {0, 0}; // loss, targets
    int64_t all = ax_corpus_windows(c, plan->split), most = plan->most_windows;
    int64_t windows = most > 0 && most < all ? most : all;
    bool cut = false;
    AX_CHECK(windows > 0, AX_EUSAGE,
             "no held-out tokens to evaluate on: give data.valid, or data.valid_fraction above 0");
    AX_TRY(score(t, c, plan, windows, sums, &cut));
    if (cut) {
        *out = (ax_eval_result){.loss = NAN, .cut = true};
        return AX_OK;
    }
    AX_TRY(ax_comm_sum(t->grid.zdata, sums, 2));
    bool known = windows == all && plan->split == AX_VALID;
    int64_t bytes = known ? ax_corpus_held_out_bytes(c) : 0;
    *out = (ax_eval_result){.loss = sums[1] > 0 ? sums[0] / sums[1] : NAN,
                            .tokens = (int64_t)sums[1],
                            .seconds = ax_metrics_clock() - started,
                            .bits_per_byte = bytes ? sums[0] / log(2.0) / (double)bytes : 0};
    return AX_OK;
}
