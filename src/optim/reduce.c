// Sums of gradients beyond z: over data for matrices, over the batch for vectors, over the copies
// of kv heads for both.
#include "optim/optim.h"

ax_status ax_optim_grad_ready(void *optim, ax_param *p)
{
    ax_optim *o = optim;
    if (o->grid->data->size == 1)
        return AX_OK; // part_grad is grad
    AX_TRY(ax_comm_reduce_scatter_begin(o->grid->data,
                                        &(ax_xfer){.send = p->grad.data,
                                                   .recv = p->part_grad.data,
                                                   .count = p->part,
                                                   .dtype = p->grad.dtype,
                                                   .tag = "gradients"},
                                        &p->reduce));
    return o->config.overlap_data ? AX_OK : ax_comm_wait(&p->reduce);
}

static ax_status add_over(ax_comm *c, ax_tensor t, const char *tag)
{
    if (t.cols == 0)
        return AX_OK;
    return ax_comm_allreduce(
        c,
        &(ax_xfer){.send = t.data, .recv = t.data, .count = t.cols, .dtype = t.dtype, .tag = tag});
}

static ax_status reduce_vectors(ax_optim *o)
{
    ax_comm *const over[AX_SUMS] = {[AX_SUM_ZDATA] = o->grid->zdata,
                                    [AX_SUM_XZDATA] = o->grid->xzdata,
                                    [AX_SUM_YZDATA] = o->grid->yzdata};
    for (int sum = 0; sum < AX_SUMS; sum++) {
        for (int copies = 0; copies < 2; copies++) {
            ax_tensor all = o->params->vector_grad[sum][copies];
            AX_TRY(add_over(over[sum], all, "vectors"));
            if (copies)
                AX_TRY(add_over(o->grid->kv, all, "kv copies"));
        }
    }
    return AX_OK;
}

ax_status ax_optim_reduce(ax_optim *o)
{
    for (int i = 0; i < o->params->count; i++) {
        ax_param *p = &o->params->list[i];
        if (!p->matrix)
            continue;
        AX_TRY(ax_comm_wait(&p->reduce));
        if (p->row_span == AX_OVER_KV)
            AX_TRY(add_over(o->grid->kv, p->part_grad, "kv copies"));
    }
    return reduce_vectors(o);
}
