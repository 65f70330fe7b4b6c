#include "whole.h"

#include <string.h>

int64_t whole_count(const ax_params *ps)
{
    int64_t n = 0;
    for (int i = 0; i < ps->count; i++)
        n += ps->list[i].rows * ps->list[i].cols;
    return n;
}

double whole_value(ax_tensor t, int64_t i)
{
    switch (t.dtype) {
    case AX_F64:
        return ((const double *)t.data)[i];
    case AX_F32:
        return (double)((const float *)t.data)[i];
    case AX_BF16:
        return (double)ax_bf16_to_f32(((const ax_bf16 *)t.data)[i]);
    case AX_I32:
        break;
    }
    return ((const int32_t *)t.data)[i];
}

// What a parameter looks like when its whole piece, not only this rank's part, is walked.
static ax_param by_piece(const ax_param *p, const ax_grid *g)
{
    ax_param wide = *p;
    if (p->matrix) {
        wide.first -= g->cd * p->part;
        wide.part = p->piece;
    }
    return wide;
}

static ax_tensor picked(const ax_param *p, whole_pick pick)
{
    return pick == WHOLE_GRAD ? p->part_grad : pick == WHOLE_WEIGHT ? p->weight : p->master;
}

typedef struct visit {
    whole_pick pick;
    double *all; // of this parameter
    bool give;   // else compare
    int64_t wrong;
} visit;

static void walk(const ax_param *p, visit *v)
{
    ax_tensor mine = picked(p, v->pick);
    ax_run r = {0};
    while (ax_param_next_run(p, &r)) {
        double *to = v->all + r.row * p->cols + r.col;
        for (int64_t i = 0; i < r.count; i++) {
            double value = v->pick == WHOLE_COVER ? 1 : whole_value(mine, r.at + i);
            if (v->give)
                to[i] = value;
            else
                v->wrong += !(to[i] == value);
        }
    }
}

static void walk_all(const ax_trainer *t, visit *v)
{
    const ax_params *ps = &t->model.params;
    double *all = v->all;
    for (int i = 0; i < ps->count; i++) {
        const ax_param *p = &ps->list[i];
        ax_param wide = v->pick == WHOLE_WEIGHT ? by_piece(p, &t->grid) : *p;
        // Copies over data hold the whole piece each: the first one speaks for all.
        bool speaks = p->owner && (v->pick != WHOLE_WEIGHT || t->grid.cd == 0);
        if (!v->give || speaks)
            walk(&wide, v);
        v->all += p->rows * p->cols;
    }
    v->all = all;
}

ax_status whole_gather(ax_trainer *t, whole_pick pick, double *out, int64_t *wrong)
{
    int64_t count = whole_count(&t->model.params);
    if (pick == WHOLE_WEIGHT)
        AX_TRY(ax_optim_settle(&t->optim));
    memset(out, 0, (size_t)count * sizeof *out);
    visit v = {.pick = pick, .all = out, .give = true};
    walk_all(t, &v);
    AX_TRY(ax_comm_allreduce(
        t->grid.world,
        &(ax_xfer){
            .send = out, .recv = out, .count = count, .dtype = AX_F64, .tag = "whole model"}));
    v.give = false;
    walk_all(t, &v);
    *wrong += v.wrong;
    return AX_OK;
}
