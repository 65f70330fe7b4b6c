#include "optim/optim.h"

#include <math.h>

static void set_scalars(ax_optim *o, double lr, double norm)
{
    const ax_optim_config *c = &o->config;
    double t = (double)++o->updates;
    o->scalars = (ax_step_scalars){.lr = lr,
                                   .beta1 = c->beta1,
                                   .beta2 = c->beta2,
                                   .eps = c->eps,
                                   .bias1 = 1 - pow(c->beta1, t),
                                   .bias2 = 1 - pow(c->beta2, t),
                                   .grad_scale = ax_clip_factor(c->clip, norm)};
}

static ax_status update_one(ax_optim *o, ax_param *p)
{
    ax_tensor mine = p->weight;
    if (p->matrix)
        mine = ax_tensor_cols(p->weight, o->grid->cd * p->part, p->part);
    AX_TRY(ax_adamw(o->dev, &(ax_adamw_args){.step = &o->scalars,
                                             .weight_decay = p->decay ? o->config.weight_decay : 0,
                                             .master = p->master,
                                             .m = p->m,
                                             .v = p->v,
                                             .grad = p->part_grad,
                                             .weight = mine}));
    if (!p->matrix || o->grid->data->size == 1)
        return AX_OK;
    AX_TRY(ax_comm_allgather_begin(o->grid->data,
                                   &(ax_xfer){.send = mine.data,
                                              .recv = p->weight.data,
                                              .count = p->part,
                                              .dtype = p->weight.dtype,
                                              .tag = "update"},
                                   &p->update));
    return o->config.overlap_update ? AX_OK : ax_comm_wait(&p->update);
}

ax_status ax_optim_update(ax_optim *o, double lr, double norm)
{
    set_scalars(o, lr, norm);
    for (int i = 0; i < o->params->count; i++)
        AX_TRY(update_one(o, &o->params->list[i]));
    return AX_OK;
}

ax_status ax_optim_settle(ax_optim *o)
{
    for (int i = 0; i < o->params->count; i++)
        AX_TRY(ax_comm_wait(&o->params->list[i].update));
    return AX_OK;
}
