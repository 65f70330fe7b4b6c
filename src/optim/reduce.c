// Sums of gradients beyond z: over data for matrices, over the batch for vectors, over the copies
// of kv heads for both.
#include "optim/optim.h"

static bool is_narrow(const ax_optim *o)
{
    return o->config.narrow_grads && o->grid->data->size > 1;
}

ax_status ax_optim_bind(ax_optim *o, ax_arena *run)
{
    int64_t piece[AX_NARROW_SLOTS] = {0};
    int matrices = 0, ranks = o->grid->data->size;
    for (int i = 0; i < o->params->count && is_narrow(o); i++) {
        ax_param *p = &o->params->list[i];
        if (!p->matrix)
            continue;
        bool vocab = p->row_span == AX_OVER_XY;
        p->turn = vocab ? AX_NARROW_TURNS : matrices++ % AX_NARROW_TURNS;
        piece[p->turn] = p->piece > piece[p->turn] ? p->piece : piece[p->turn];
    }
    for (int i = 0; i < AX_NARROW_SLOTS; i++) {
        AX_TRY(ax_tensor_alloc(run, AX_BF16, 1, piece[i], &o->narrow[i].sent));
        AX_TRY(ax_tensor_alloc(run, AX_BF16, 1, piece[i] / ranks, &o->narrow[i].back));
    }
    return AX_OK;
}

static ax_status settle(ax_optim *o, ax_narrow *n)
{
    ax_param *p = n->busy;
    n->busy = NULL;
    if (!p)
        return AX_OK;
    AX_TRY(ax_comm_wait(&p->reduce));
    return ax_copy(o->dev, ax_tensor_cols(n->back, 0, p->part), p->part_grad);
}

static ax_status begin_narrow(ax_optim *o, ax_param *p)
{
    ax_narrow *n = &o->narrow[p->turn];
    AX_TRY(settle(o, n));
    AX_TRY(ax_copy(o->dev, p->grad, ax_tensor_cols(n->sent, 0, p->piece)));
    AX_TRY(ax_comm_reduce_scatter_begin(o->grid->data,
                                        &(ax_xfer){.send = n->sent.data,
                                                   .recv = n->back.data,
                                                   .count = p->part,
                                                   .dtype = AX_BF16,
                                                   .tag = "gradients"},
                                        &p->reduce));
    n->busy = p;
    return o->config.overlap_data ? AX_OK : settle(o, n);
}

ax_status ax_optim_grad_ready(void *optim, ax_param *p)
{
    ax_optim *o = optim;
    if (o->grid->data->size == 1)
        return AX_OK; // part_grad is grad
    if (is_narrow(o))
        return begin_narrow(o, p);
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
    for (int i = 0; i < AX_NARROW_SLOTS; i++)
        AX_TRY(settle(o, &o->narrow[i]));
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
