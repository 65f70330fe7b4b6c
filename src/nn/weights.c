#include "nn/weights.h"

void ax_slab_init(ax_slab *s, int index, int parts, ax_param *const *params)
{
    *s = (ax_slab){.index = index, .parts = parts};
    s->slot = index < 0 ? AX_SLOT_VOCAB : index & 1;
    s->cols = params[0]->block_cols;
    for (int i = 0; i < parts; i++) {
        s->param[i] = params[i];
        s->rows += params[i]->block_rows;
    }
}

static bool follows(ax_tensor a, ax_tensor b)
{
    return (char *)a.data + ax_tensor_bytes(a) == (char *)b.data;
}

// Whether the parameters' own pieces are the stacked blocks already.
static bool weights_are_direct(const ax_nn *nn, const ax_slab *s)
{
    bool direct = nn->grid->shape.z == 1;
    for (int i = 1; i < s->parts; i++)
        direct = direct && follows(s->param[i - 1]->weight, s->param[i]->weight);
    return direct;
}

static bool grads_are_direct(const ax_nn *nn, const ax_slab *s)
{
    bool direct = nn->grid->shape.z == 1;
    for (int i = 1; i < s->parts; i++)
        direct = direct && follows(s->param[i - 1]->grad, s->param[i]->grad);
    return direct;
}

// Whether gradients cross z in bf16. Where nothing crosses, nothing is rounded.
static bool is_narrow(const ax_nn *nn)
{
    return nn->narrow_grads && nn->grid->shape.z > 1;
}

// What is opened for a slot's gradients: a bf16 matmul may round what it makes in one go. The
// vocabulary's gradient is added up in several.
static ax_dtype sums_dtype(const ax_nn *nn, int slot)
{
    return is_narrow(nn) && nn->act == AX_BF16 && slot != AX_SLOT_VOCAB ? AX_BF16 : nn->acc;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

ax_status ax_weights_bind(ax_nn *nn, ax_slab *const *slabs, int count, ax_arena *run,
                          bool with_grads)
{
    int64_t weights[AX_SLOTS] = {0}, sums[AX_SLOTS] = {0}, pieces[AX_SLOTS] = {0};
    for (int i = 0; i < count; i++) {
        const ax_slab *s = slabs[i];
        int64_t piece = 0;
        for (int k = 0; k < s->parts; k++)
            piece += s->param[k]->piece;
        if (!weights_are_direct(nn, s))
            weights[s->slot] = most(weights[s->slot], s->rows * s->cols);
        if (with_grads && !grads_are_direct(nn, s)) {
            sums[s->slot] = most(sums[s->slot], s->rows * s->cols);
            pieces[s->slot] = most(pieces[s->slot], piece);
        }
    }
    ax_dtype wire = is_narrow(nn) ? AX_BF16 : nn->acc;
    for (int i = 0; i < AX_SLOTS; i++) {
        ax_dtype made = sums_dtype(nn, i);
        int64_t narrow = made == wire ? 0 : sums[i];
        if (nn->layout.accumulation == 1 && wire == nn->acc)
            pieces[i] = 0; // sums arrive in the gradients themselves
        AX_TRY(ax_tensor_alloc(run, nn->act, 1, weights[i], &nn->weights.slot[i].weights));
        AX_TRY(ax_tensor_alloc(run, made, 1, sums[i], &nn->weights.slot[i].sums));
        AX_TRY(ax_tensor_alloc(run, wire, 1, narrow, &nn->weights.slot[i].narrow));
        AX_TRY(ax_tensor_alloc(run, wire, 1, pieces[i], &nn->weights.slot[i].pieces));
    }
    return AX_OK;
}

ax_status ax_weights_begin(ax_nn *nn, ax_slab *s)
{
    bool direct = weights_are_direct(nn, s);
    ax_slab **resident = &nn->weights.slot[s->slot].resident;
    if (*resident == s && !direct)
        return AX_OK;
    if (!direct)
        *resident = s;
    char *to = nn->weights.slot[s->slot].weights.data;
    for (int i = 0; i < s->parts; i++) {
        ax_param *p = s->param[i];
        AX_TRY(ax_comm_wait(&p->update)); // the new weights of the last step may still be arriving
        if (direct)
            continue;
        AX_TRY(ax_comm_allgather_begin(nn->grid->z,
                                       &(ax_xfer){.send = p->weight.data,
                                                  .recv = to,
                                                  .count = p->piece,
                                                  .limit = p->block,
                                                  .dtype = nn->act,
                                                  .tag = "weights"},
                                       &s->gather[i]));
        to += p->block * (int64_t)ax_dtype_size(nn->act);
    }
    return AX_OK;
}

static bool starts_block(const ax_slab *s)
{
    return s->index % AX_BLOCK_LINEARS == 0;
}

// Whether a block's products are made again before its backward pass.
static bool is_full(const ax_nn *nn)
{
    return nn->recompute == AX_RECOMPUTE_FULL;
}

// The layer whose weights are needed after those of `s`, used in `phase`; NULL: none that is known
// here.
static ax_slab *next_layer(const ax_nn *nn, ax_phase phase, const ax_slab *s)
{
    int i = s->index;
    if (i < 0)
        return NULL;
    switch (phase) {
    case AX_FORWARD:
        return i + 1 < nn->layers ? nn->order[i + 1] : NULL;
    case AX_RECOMPUTE: // the last layer of the block is not run again, but backward begins with it
        return (i + 1) % AX_BLOCK_LINEARS ? nn->order[i + 1] : NULL;
    case AX_BACKWARD:
        if (i == 0)
            return NULL;
        return nn->order[starts_block(s) && is_full(nn) ? i - AX_BLOCK_LINEARS : i - 1];
    }
    return NULL;
}

ax_status ax_weights_get(ax_nn *nn, ax_slab *s, ax_tensor *w)
{
    AX_TRY(ax_weights_begin(nn, s));
    for (int i = 0; i < s->parts; i++)
        AX_TRY(ax_comm_wait(&s->gather[i]));
    void *data = weights_are_direct(nn, s) ? s->param[0]->weight.data
                                           : nn->weights.slot[s->slot].weights.data;
    *w = ax_tensor_over(data, nn->act, s->rows, s->cols);
    ax_slab *next = next_layer(nn, nn->phase, s);
    if (next && next->slot != s->slot && nn->overlap & AX_OAG)
        AX_TRY(ax_weights_begin(nn, next));
    return AX_OK;
}

// The slot of `s` is free: the next two layers may come, so that a large one after a small one has
// more than the small one to hide under.
ax_status ax_weights_done(ax_nn *nn, ax_slab *s)
{
    ax_slab *next = next_layer(nn, nn->phase, s);
    if (!next || !(nn->overlap & AX_OAG))
        return AX_OK;
    AX_TRY(ax_weights_begin(nn, next));
    bool turns = nn->phase == AX_BACKWARD && is_full(nn) && starts_block(s);
    ax_slab *second = next_layer(nn, turns ? AX_RECOMPUTE : nn->phase, next);
    return second && second->slot != next->slot ? ax_weights_begin(nn, second) : AX_OK;
}

void ax_weights_forget(ax_nn *nn)
{
    for (int i = 0; i < AX_SLOTS; i++)
        nn->weights.slot[i].resident = NULL;
}

static ax_status announce(ax_nn *nn, ax_slab *s)
{
    if (!nn->last_micro || !nn->grad_ready)
        return AX_OK;
    for (int i = 0; i < s->parts; i++)
        AX_TRY(nn->grad_ready(nn->grad_ctx, s->param[i]));
    return AX_OK;
}

// Whether a sum comes back beside the gradient, which it is then copied or added to.
static bool returns_apart(const ax_nn *nn)
{
    return !nn->first_micro || is_narrow(nn);
}

// Ends the sum that uses `slot`: its memory may be written again.
static ax_status settle(ax_nn *nn, int slot)
{
    ax_slab *s = nn->weights.slot[slot].reducing;
    if (!s)
        return AX_OK;
    nn->weights.slot[slot].reducing = NULL;
    int64_t at = 0;
    for (int i = 0; i < s->parts; i++) {
        ax_param *p = s->param[i];
        ax_tensor back = {0};
        AX_TRY(ax_comm_wait(&s->sum[i]));
        if (returns_apart(nn))
            back = ax_tensor_cols(nn->weights.slot[slot].pieces, at, p->piece);
        if (back.data)
            AX_TRY(nn->first_micro ? ax_copy(nn->dev, back, p->grad)
                                   : ax_add(nn->dev, back, p->grad));
        at += p->piece;
    }
    return announce(nn, s);
}

ax_tensor ax_grads_view(const ax_nn *nn, const ax_slab *s)
{
    void *data =
        grads_are_direct(nn, s) ? s->param[0]->grad.data : nn->weights.slot[s->slot].sums.data;
    ax_dtype dtype = grads_are_direct(nn, s) ? nn->acc : sums_dtype(nn, s->slot);
    return ax_tensor_over(data, dtype, s->rows, s->cols);
}

ax_status ax_grads_open(ax_nn *nn, ax_slab *s, ax_tensor *dw, double *beta)
{
    if (grads_are_direct(nn, s)) {
        *dw = ax_grads_view(nn, s);
        *beta = nn->first_micro ? 0 : 1;
        return AX_OK;
    }
    AX_TRY(settle(nn, s->slot));
    *dw = ax_grads_view(nn, s);
    *beta = 0;
    return AX_OK;
}

ax_status ax_grads_close(ax_nn *nn, ax_slab *s)
{
    if (grads_are_direct(nn, s))
        return announce(nn, s);
    ax_tensor made = nn->weights.slot[s->slot].sums, sent = made;
    ax_tensor pieces = nn->weights.slot[s->slot].pieces;
    if (is_narrow(nn) && made.dtype != AX_BF16) {
        sent = nn->weights.slot[s->slot].narrow;
        AX_TRY(ax_copy(nn->dev, ax_tensor_cols(made, 0, s->rows * s->cols),
                       ax_tensor_cols(sent, 0, s->rows * s->cols)));
    }
    int64_t from = 0, back = 0;
    for (int i = 0; i < s->parts; i++) {
        ax_param *p = s->param[i];
        AX_TRY(ax_comm_reduce_scatter_begin(
            nn->grid->z_sum,
            &(ax_xfer){.send = ax_tensor_cols(sent, from, p->block).data,
                       .recv = returns_apart(nn) ? ax_tensor_cols(pieces, back, p->piece).data
                                                 : p->grad.data,
                       .count = p->piece,
                       .limit = p->block,
                       .dtype = sent.dtype,
                       .tag = "dw"},
            &s->sum[i]));
        from += p->block;
        back += p->piece;
    }
    nn->weights.slot[s->slot].reducing = s;
    return nn->overlap & AX_ORS ? AX_OK : settle(nn, s->slot);
}

ax_status ax_grads_drain(ax_nn *nn)
{
    for (int i = 0; i < AX_SLOTS; i++)
        AX_TRY(settle(nn, i));
    return AX_OK;
}
