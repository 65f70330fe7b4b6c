#include "train/step.h"

#include <math.h>

// Targets that count in the whole step: x and y see the same tokens, so only z and data are summed.
static ax_status count_kept(ax_trainer *t, int64_t *kept)
{
    double n = 0;
    int64_t tokens = t->layout.accumulation * t->layout.rows;
    for (int64_t i = 0; i < tokens; i++)
        n += t->targets[i] >= 0;
    AX_TRY(ax_comm_sum(t->grid.zdata, &n, 1));
    *kept = (int64_t)n;
    return AX_OK;
}

ax_status ax_step_gradients(ax_trainer *t, ax_step_result *out)
{
    ax_nn *nn = &t->model.nn;
    const ax_layout *l = &t->layout;
    double loss = 0;
    AX_TRY(count_kept(t, &out->kept));
    if (out->kept == 0 && !t->dev.measuring)
        return AX_OK; // nothing to learn from
    nn->loss_scale = 1.0 / (double)out->kept;
    for (int64_t i = 0; i < l->accumulation; i++) {
        double sum = 0;
        nn->first_micro = i == 0;
        nn->last_micro = i == l->accumulation - 1;
        int64_t at = i * l->rows;
        ax_batch batch = {t->ids + at, t->targets + at, t->positions + at};
        AX_TRY(ax_model_micro_batch(&t->model, &batch, &sum));
        loss += sum;
    }
    AX_TRY(ax_optim_reduce(&t->optim));
    AX_TRY(ax_comm_sum(t->grid.zdata, &loss, 1));
    out->loss = loss / (double)out->kept;
    return AX_OK;
}

// The numbers are the same on every rank, so all stop; one says so.
static ax_status stop(ax_trainer *t, const ax_step_result *r)
{
    if (t->grid.rank == 0)
        ax_fail(AX_ENUMERIC, __FILE__, __LINE__,
                "the loss is %g and %lld gradient elements are not finite; weights and optimizer "
                "are as before this step (train.nonfinite=skip would leave it out)",
                r->loss, (long long)r->nonfinite);
    return ax_comm_agree(t->grid.world, AX_ENUMERIC);
}

ax_status ax_step(ax_trainer *t, double lr, ax_step_result *out)
{
    *out = (ax_step_result){0};
    AX_TRY(ax_step_gradients(t, out));
    if (out->kept == 0 && !t->dev.measuring) {
        out->skipped = true;
        out->loss = NAN;
        return AX_OK;
    }
    AX_TRY(ax_optim_norm(&t->optim, &out->grad_norm, &out->nonfinite));
    if (out->nonfinite > 0 || !isfinite(out->loss)) {
        out->skipped = t->config.skip_nonfinite;
        return out->skipped ? AX_OK : stop(t, out);
    }
    AX_TRY(ax_optim_update(&t->optim, lr, out->grad_norm));
    ax_weights_forget(&t->model.nn);
    return AX_OK;
}
