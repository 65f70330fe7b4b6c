#include "nn/embed.h"

static ax_tensor positions_of(const ax_nn *nn)
{
    return ax_nn_positions(nn, nn->layout.outer, nn->grid->x);
}

ax_status ax_embed_layer_fwd(ax_nn *nn, ax_embed *e, ax_tensor ids, ax_tensor x)
{
    size_t mark = ax_arena_mark(nn->call);
    ax_tensor table, pieces, tokens;
    int64_t first = e->slab.param[0]->first_row, rows = nn->layout.rows_outer;
    AX_TRY(ax_weights_get(nn, &e->slab, &table));
    AX_TRY(ax_vocab_pieces(nn, nn->act, &pieces));
    AX_TRY(ax_nn_scratch(nn, rows, x.cols, &tokens));
    for (int r = 0; r < ax_vocab_count(nn); r++) {
        ax_tensor piece = ax_tensor_rows(pieces, r * rows, rows);
        ax_tensor mine = ax_tensor_cols(ids, ax_vocab_first_row(nn, r), rows);
        int64_t column = ax_vocab_column(nn, r);
        AX_TRY(ax_embed_fwd(nn->dev, mine, first, ax_tensor_cols(table, column, x.cols), piece));
    }
    AX_TRY(ax_vocab_scatter(nn, pieces, tokens, "embed"));
    if (e->positions) {
        ax_tensor p =
            ax_tensor_over(e->positions->weight.data, nn->acc, e->positions->rows, x.cols);
        AX_TRY(ax_embed_fwd(nn->dev, positions_of(nn), 0, p, x));
        AX_TRY(ax_add(nn->dev, tokens, x));
    } else {
        AX_TRY(ax_copy(nn->dev, tokens, x));
    }
    ax_arena_release(nn->call, mark);
    return AX_OK;
}

ax_status ax_embed_layer_bwd(ax_nn *nn, ax_embed *e, ax_tensor ids, ax_tensor dx)
{
    size_t mark = ax_arena_mark(nn->call);
    ax_tensor narrow, pieces, dtable;
    int64_t first = e->slab.param[0]->first_row, rows = nn->layout.rows_outer;
    if (e->positions) {
        ax_tensor dp =
            ax_tensor_over(e->positions->grad.data, nn->acc, e->positions->rows, dx.cols);
        AX_TRY(ax_embed_bwd(nn->dev, positions_of(nn), 0, dx, dp));
    }
    narrow = dx;
    if (nn->act != nn->acc) {
        AX_TRY(ax_nn_scratch(nn, rows, dx.cols, &narrow));
        AX_TRY(ax_copy(nn->dev, dx, narrow));
    }
    AX_TRY(ax_vocab_pieces(nn, nn->act, &pieces));
    AX_TRY(ax_vocab_gather(nn, narrow, pieces, "embed backward"));
    double beta = 1;
    if (e->tied)
        dtable = ax_grads_view(nn, &e->slab);
    else
        AX_TRY(ax_grads_open(nn, &e->slab, &dtable, &beta));
    if (beta == 0)
        AX_TRY(ax_fill(nn->dev, dtable, 0.0));
    for (int r = 0; r < ax_vocab_count(nn); r++) {
        ax_tensor piece = ax_tensor_rows(pieces, r * rows, rows);
        ax_tensor mine = ax_tensor_cols(ids, ax_vocab_first_row(nn, r), rows);
        int64_t column = ax_vocab_column(nn, r);
        AX_TRY(ax_embed_bwd(nn->dev, mine, first, piece, ax_tensor_cols(dtable, column, dx.cols)));
    }
    AX_TRY(ax_grads_close(nn, &e->slab));
    ax_arena_release(nn->call, mark);
    return AX_OK;
}
