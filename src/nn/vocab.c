#include "nn/vocab.h"

static bool sharded(const ax_nn *nn)
{
    return nn->layout.outer == AX_SIDE_ROWS;
}

// Sharded: pieces are cut by rows over x and columns over y. Replicated: by columns over y.
static ax_comm *carrier(const ax_nn *nn)
{
    return sharded(nn) ? nn->grid->xy : nn->grid->y;
}

int ax_vocab_count(const ax_nn *nn)
{
    return carrier(nn)->size;
}

int64_t ax_vocab_first_row(const ax_nn *nn, int r)
{
    return sharded(nn) ? r % nn->grid->shape.x * nn->layout.rows_outer : 0;
}

int64_t ax_vocab_column(const ax_nn *nn, int r)
{
    int column = sharded(nn) ? r / nn->grid->shape.x : r;
    return column * (nn->arch->hidden / nn->grid->shape.y);
}

ax_tensor ax_vocab_window(const ax_nn *nn, ax_tensor whole, int r)
{
    ax_tensor rows = ax_tensor_rows(whole, ax_vocab_first_row(nn, r), nn->layout.rows_outer);
    return ax_tensor_cols(rows, ax_vocab_column(nn, r), nn->arch->hidden / nn->grid->shape.y);
}

ax_status ax_vocab_pieces(ax_nn *nn, ax_dtype dtype, ax_tensor *pieces)
{
    return ax_tensor_alloc(nn->call, dtype, ax_vocab_count(nn) * nn->layout.rows_outer,
                           nn->arch->hidden / nn->grid->shape.y, pieces);
}

ax_status ax_vocab_gather(ax_nn *nn, ax_tensor local, ax_tensor pieces, const char *tag)
{
    return ax_comm_allgather(carrier(nn), &(ax_xfer){.send = local.data,
                                                     .recv = pieces.data,
                                                     .count = ax_tensor_count(local),
                                                     .dtype = local.dtype,
                                                     .tag = tag});
}

ax_status ax_vocab_scatter(ax_nn *nn, ax_tensor pieces, ax_tensor local, const char *tag)
{
    ax_xfer x = {.send = pieces.data,
                 .recv = local.data,
                 .count = ax_tensor_count(local),
                 .dtype = local.dtype,
                 .tag = tag};
    AX_TRY(ax_comm_reduce_scatter(carrier(nn), &x));
    if (sharded(nn))
        return AX_OK;
    x.send = local.data; // over y the slices of this x are summed; now those of the other x
    return ax_comm_allreduce(nn->grid->x, &x);
}
