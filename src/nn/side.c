#include "nn/side.h"

void ax_side_local(const ax_side_spec *s, int64_t rows, int64_t cols, int64_t *local_rows,
                   int64_t *local_cols)
{
    *local_rows = s->side == AX_SIDE_ROWS ? rows / s->comm->size : rows;
    *local_cols = s->side == AX_SIDE_HEADS ? cols / s->comm->size : cols;
}

bool ax_side_is_whole(const ax_side_spec *s)
{
    return s->side == AX_SIDE_COPY || s->comm->size == 1;
}

// Visits the column ranges of the whole tensor in the order in which the pieces hold them.
static ax_status move_columns(ax_nn *nn, const ax_side_spec *s, ax_tensor whole, ax_tensor packed,
                              bool pack)
{
    int ranks = s->comm->size;
    for (int r = 0; r < ranks; r++) {
        ax_tensor piece = ax_tensor_rows(packed, r * whole.rows, whole.rows);
        int64_t first = 0, at = 0;
        for (int i = 0; i < s->parts; i++) {
            int64_t share = s->part[i] / ranks;
            ax_tensor w = ax_tensor_cols(whole, first + r * share, share);
            ax_tensor p = ax_tensor_cols(piece, at, share);
            AX_TRY(pack ? ax_copy(nn->dev, w, p) : ax_copy(nn->dev, p, w));
            first += s->part[i];
            at += share;
        }
    }
    return AX_OK;
}

ax_status ax_side_pack(ax_nn *nn, const ax_side_spec *s, ax_tensor whole, ax_tensor packed)
{
    return move_columns(nn, s, whole, packed, true);
}

ax_status ax_side_unpack(ax_nn *nn, const ax_side_spec *s, ax_tensor packed, ax_tensor whole)
{
    return move_columns(nn, s, whole, packed, false);
}

ax_status ax_side_gather_begin(ax_nn *nn, const ax_side_spec *s, ax_tensor local, ax_arena *arena,
                               ax_flow *f)
{
    *f = (ax_flow){.from = local, .to = local, .out = local};
    if (ax_side_is_whole(s))
        return AX_OK;
    int ranks = s->comm->size;
    AX_ASSERT(ax_tensor_is_packed(local));
    if (s->side == AX_SIDE_ROWS) {
        AX_TRY(ax_tensor_alloc(arena, local.dtype, local.rows * ranks, local.cols, &f->out));
        f->to = f->out;
    } else {
        AX_TRY(ax_tensor_alloc(arena, local.dtype, local.rows, local.cols * ranks, &f->out));
        AX_TRY(ax_tensor_alloc(nn->call, local.dtype, local.rows * ranks, local.cols, &f->to));
    }
    return ax_comm_allgather_begin(s->comm,
                                   &(ax_xfer){.send = local.data,
                                              .recv = f->to.data,
                                              .count = ax_tensor_count(local),
                                              .dtype = local.dtype,
                                              .tag = s->tag_gather},
                                   &f->req);
}

ax_status ax_side_gather_end(ax_nn *nn, const ax_side_spec *s, ax_flow *f, ax_tensor *whole)
{
    AX_TRY(ax_comm_wait(&f->req));
    if (s->side == AX_SIDE_HEADS && !ax_side_is_whole(s))
        AX_TRY(ax_side_unpack(nn, s, f->to, f->out));
    *whole = f->out;
    return AX_OK;
}

// Sums that travel are wider than what they become.
static bool is_wide(const ax_nn *nn, const ax_side_spec *s)
{
    return nn->wide_sums && nn->act != nn->acc && s->comm->size > 1;
}

ax_status ax_side_partial(ax_nn *nn, const ax_side_spec *s, ax_tensor out, ax_tensor *partial)
{
    *partial = out;
    if (ax_side_is_whole(s) && !is_wide(nn, s))
        return AX_OK; // summed in place, or not at all
    int64_t rows = s->side == AX_SIDE_ROWS ? s->comm->size : 1;
    int64_t cols = s->side == AX_SIDE_HEADS ? s->comm->size : 1;
    return ax_tensor_alloc(nn->call, is_wide(nn, s) ? nn->acc : out.dtype, out.rows * rows,
                           out.cols * cols, partial);
}

ax_status ax_side_scatter_begin(ax_nn *nn, const ax_side_spec *s, ax_tensor partial, ax_tensor out,
                                ax_flow *f)
{
    *f = (ax_flow){.from = partial, .to = out, .out = out};
    if (s->comm->size == 1)
        return AX_OK;
    if (is_wide(nn, s) && s->side == AX_SIDE_COPY)
        f->to = partial;
    else if (is_wide(nn, s))
        AX_TRY(ax_tensor_alloc(nn->call, partial.dtype, out.rows, out.cols, &f->to));
    ax_xfer x = {.send = partial.data,
                 .recv = f->to.data,
                 .count = ax_tensor_count(out),
                 .dtype = partial.dtype,
                 .tag = s->tag_scatter};
    if (s->side == AX_SIDE_COPY)
        return ax_comm_allreduce_begin(s->comm, &x, &f->req);
    if (s->side == AX_SIDE_HEADS) {
        AX_TRY(
            ax_tensor_alloc(nn->call, partial.dtype, out.rows * s->comm->size, out.cols, &f->from));
        AX_TRY(ax_side_pack(nn, s, partial, f->from));
        x.send = f->from.data;
    }
    return ax_comm_reduce_scatter_begin(s->comm, &x, &f->req);
}

ax_status ax_side_scatter_end(ax_nn *nn, ax_flow *f)
{
    AX_TRY(ax_comm_wait(&f->req));
    if (f->to.data == f->out.data)
        return AX_OK;
    AX_TRY(ax_copy(nn->dev, f->to, f->out));
    f->to = f->out; // may be ended twice
    return AX_OK;
}
