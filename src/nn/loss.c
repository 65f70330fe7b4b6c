#include "nn/loss.h"

#include <math.h>

int64_t ax_head_chunk_rows(const ax_nn *nn)
{
    // Each chunk reads and writes the table's whole gradient: few chunks, of much the same size.
    enum { LOGITS = 1 << 25, UNIT = 64 }; // elements at most; rows that a matmul is fast with
    int64_t slice = nn->layout.vocab_padded / (nn->grid->shape.x * nn->grid->shape.y);
    int64_t m = nn->layout.rows, most = LOGITS / slice / UNIT * UNIT;
    most = most < UNIT ? UNIT : most;
    int64_t chunks = (m + most - 1) / most, even = (m + chunks - 1) / chunks;
    int64_t rows = (even + UNIT - 1) / UNIT * UNIT;
    return rows < m ? rows : m;
}

// The whole hidden states (m, H) on every rank of x*y.
static ax_status gather_hidden(ax_nn *nn, ax_tensor h, ax_tensor *whole)
{
    *whole = h;
    if (ax_vocab_count(nn) == 1)
        return AX_OK;
    ax_tensor pieces;
    AX_TRY(ax_nn_scratch(nn, nn->layout.rows, nn->arch->hidden, whole));
    AX_TRY(ax_vocab_pieces(nn, nn->act, &pieces));
    AX_TRY(ax_vocab_gather(nn, h, pieces, "head"));
    for (int r = 0; r < ax_vocab_count(nn); r++)
        AX_TRY(ax_copy(nn->dev, ax_tensor_rows(pieces, r * h.rows, h.rows),
                       ax_vocab_window(nn, *whole, r)));
    return AX_OK;
}

// Adds up what each slice of the vocabulary gave, in the dtype of `whole`.
static ax_status scatter_hidden(ax_nn *nn, ax_tensor whole, ax_tensor dh)
{
    ax_tensor pieces = whole, sum = dh;
    if (ax_vocab_count(nn) > 1) {
        AX_TRY(ax_vocab_pieces(nn, whole.dtype, &pieces));
        for (int r = 0; r < ax_vocab_count(nn); r++)
            AX_TRY(ax_copy(nn->dev, ax_vocab_window(nn, whole, r),
                           ax_tensor_rows(pieces, r * dh.rows, dh.rows)));
    }
    if (whole.dtype != dh.dtype)
        AX_TRY(ax_tensor_alloc(nn->call, whole.dtype, dh.rows, dh.cols, &sum));
    AX_TRY(ax_vocab_scatter(nn, pieces, sum, "head backward"));
    return sum.data == dh.data ? AX_OK : ax_copy(nn->dev, sum, dh);
}

typedef struct chunk { // a range of token rows and what is known of their softmax
    ax_tensor h, w;
    ax_xent_args x;
} chunk;

static ax_status reduce_rows(const ax_nn *nn, ax_tensor t, ax_redop op, const char *tag)
{
    return ax_comm_allreduce(nn->grid->xy, &(ax_xfer){.send = t.data,
                                                      .recv = t.data,
                                                      .count = ax_tensor_count(t),
                                                      .dtype = t.dtype,
                                                      .op = op,
                                                      .tag = tag});
}

static ax_status chunk_tensors(ax_nn *nn, int64_t rows, int64_t slice, ax_xent_args *x)
{
    AX_TRY(ax_tensor_alloc(nn->call, nn->acc, rows, slice, &x->logits));
    AX_TRY(ax_tensor_alloc(nn->call, nn->acc, 1, rows, &x->max));
    return ax_tensor_alloc(nn->call, nn->acc, rows, 2, &x->sums);
}

// Logits, then maximum, sum of exponentials and target logit of every row, over the whole
// vocabulary.
static ax_status chunk_softmax(ax_nn *nn, const ax_head *head, chunk *c)
{
    AX_TRY(chunk_tensors(nn, c->h.rows, head->slab->rows, &c->x));
    c->x.first = head->slab->param[0]->first_row;
    c->x.vocab = nn->arch->vocab;
    c->x.scale = nn->loss_scale;
    AX_TRY(ax_gemm(nn->dev, &(ax_gemm_args){.tb = AX_T, .a = c->h, .b = c->w, .c = c->x.logits}));
    AX_TRY(ax_xent_max(nn->dev, &c->x));
    AX_TRY(reduce_rows(nn, c->x.max, AX_MAX, "loss max"));
    AX_TRY(ax_xent_sums(nn->dev, &c->x));
    return reduce_rows(nn, c->x.sums, AX_SUM, "loss sums");
}

// The rows' losses, log(sum) + max - target logit, added up in double on the host.
static ax_status chunk_loss(ax_nn *nn, const ax_head *head, const chunk *c, double *loss_sum,
                            double *token_loss)
{
    if (nn->dev->measuring)
        return AX_OK;
    int64_t rows = c->h.rows;
    size_t size = ax_dtype_size(nn->acc);
    char *host = (char *)head->host_sums;
    int32_t *target = (int32_t *)(host + (size_t)rows * 3 * size);
    AX_TRY(ax_device_copy(nn->dev, host, c->x.max.data, (size_t)rows * size));
    AX_TRY(ax_device_copy(nn->dev, host + (size_t)rows * size, c->x.sums.data,
                          (size_t)rows * 2 * size));
    AX_TRY(ax_device_copy(nn->dev, target, c->x.targets.data, (size_t)rows * sizeof *target));
    for (int64_t i = 0; i < rows; i++) {
        double v[3]; // max, sum of exponentials, target logit
        for (int k = 0; k < 3; k++) {
            int64_t at = k ? rows + 2 * i + k - 1 : i;
            v[k] = nn->acc == AX_F64 ? ((double *)host)[at] : ((float *)host)[at];
        }
        double loss = target[i] < 0 ? 0 : log(v[1]) + v[0] - v[2];
        *loss_sum += loss;
        if (token_loss)
            token_loss[i] = loss;
    }
    return AX_OK;
}

static chunk chunk_at(const ax_head *head, ax_tensor whole, ax_tensor targets, ax_tensor w,
                      int64_t first)
{
    int64_t rows = whole.rows - first < head->chunk_rows ? whole.rows - first : head->chunk_rows;
    return (chunk){.h = ax_tensor_rows(whole, first, rows),
                   .w = w,
                   .x = {.targets = ax_tensor_cols(targets, first, rows)}};
}

ax_status ax_head_loss(ax_nn *nn, ax_head *head, ax_tensor h, ax_tensor targets, double *loss_sum,
                       double *token_loss)
{
    size_t mark = ax_arena_mark(nn->call);
    ax_tensor whole, w;
    *loss_sum = 0;
    AX_TRY(gather_hidden(nn, h, &whole));
    AX_TRY(ax_weights_get(nn, head->slab, &w));
    for (int64_t first = 0; first < whole.rows; first += head->chunk_rows) {
        size_t inner = ax_arena_mark(nn->call);
        chunk c = chunk_at(head, whole, targets, w, first);
        AX_TRY(chunk_softmax(nn, head, &c));
        AX_TRY(chunk_loss(nn, head, &c, loss_sum, token_loss ? token_loss + first : NULL));
        ax_arena_release(nn->call, inner);
    }
    ax_arena_release(nn->call, mark);
    return AX_OK;
}

// dlogits, then its two matmuls. Without rounding between, dlogits may overwrite the logits.
static ax_status chunk_bwd(ax_nn *nn, chunk *c, ax_tensor dwhole, ax_tensor dw, double beta)
{
    c->x.dlogits = c->x.logits;
    if (nn->act != nn->acc)
        AX_TRY(ax_nn_scratch(nn, c->x.logits.rows, c->x.logits.cols, &c->x.dlogits));
    AX_TRY(ax_xent_bwd(nn->dev, &c->x));
    AX_TRY(ax_gemm(nn->dev, &(ax_gemm_args){.a = c->x.dlogits, .b = c->w, .c = dwhole}));
    return ax_gemm(
        nn->dev, &(ax_gemm_args){.ta = AX_T, .a = c->x.dlogits, .b = c->h, .c = dw, .beta = beta});
}

ax_status ax_head_loss_bwd(ax_nn *nn, ax_head *head, ax_tensor h, ax_tensor targets,
                           double *loss_sum, ax_tensor dh)
{
    size_t mark = ax_arena_mark(nn->call);
    ax_tensor whole, dwhole = dh, w, dw;
    double beta;
    *loss_sum = 0;
    AX_TRY(gather_hidden(nn, h, &whole));
    AX_TRY(ax_weights_get(nn, head->slab, &w));
    AX_TRY(ax_grads_open(nn, head->slab, &dw, &beta));
    if (nn->grid->xy->size > 1)
        AX_TRY(ax_tensor_alloc(nn->call, nn->wide_sums ? nn->acc : nn->act, whole.rows, whole.cols,
                               &dwhole));
    for (int64_t first = 0; first < whole.rows; first += head->chunk_rows) {
        size_t inner = ax_arena_mark(nn->call);
        chunk c = chunk_at(head, whole, targets, w, first);
        AX_TRY(chunk_softmax(nn, head, &c));
        AX_TRY(chunk_loss(nn, head, &c, loss_sum, NULL));
        AX_TRY(chunk_bwd(nn, &c, ax_tensor_rows(dwhole, first, c.h.rows), dw, first ? 1 : beta));
        ax_arena_release(nn->call, inner);
    }
    if (nn->grid->xy->size > 1)
        AX_TRY(scatter_hidden(nn, dwhole, dh));
    if (!head->tied)
        AX_TRY(ax_grads_close(nn, head->slab));
    ax_arena_release(nn->call, mark);
    return AX_OK;
}

// Rank r of x*y has made columns r * slice ... of all rows.
static ax_status gather_logits(ax_nn *nn, ax_tensor mine, ax_tensor logits)
{
    ax_tensor pieces;
    int ranks = nn->grid->xy->size;
    AX_TRY(ax_tensor_alloc(nn->call, nn->acc, ranks * mine.rows, mine.cols, &pieces));
    AX_TRY(ax_comm_allgather(nn->grid->xy, &(ax_xfer){.send = mine.data,
                                                      .recv = pieces.data,
                                                      .count = ax_tensor_count(mine),
                                                      .dtype = nn->acc,
                                                      .tag = "logits"}));
    for (int r = 0; r < ranks; r++)
        AX_TRY(ax_copy(nn->dev, ax_tensor_rows(pieces, r * mine.rows, mine.rows),
                       ax_tensor_cols(logits, r * mine.cols, mine.cols)));
    return AX_OK;
}

ax_status ax_head_logits(ax_nn *nn, ax_head *head, ax_tensor h, const int64_t *row, int64_t count,
                         ax_tensor logits)
{
    size_t mark = ax_arena_mark(nn->call);
    ax_tensor whole, rows, w, mine;
    AX_TRY(gather_hidden(nn, h, &whole));
    AX_TRY(ax_nn_scratch(nn, count, whole.cols, &rows));
    for (int64_t i = 0; i < count && !nn->dev->measuring; i++)
        AX_TRY(ax_copy(nn->dev, ax_tensor_rows(whole, row[i], 1), ax_tensor_rows(rows, i, 1)));
    AX_TRY(ax_weights_get(nn, head->slab, &w));
    AX_TRY(ax_tensor_alloc(nn->call, nn->acc, count, head->slab->rows, &mine));
    AX_TRY(ax_gemm(nn->dev, &(ax_gemm_args){.tb = AX_T, .a = rows, .b = w, .c = mine}));
    AX_TRY(gather_logits(nn, mine, logits));
    int64_t vocab = nn->arch->vocab;
    AX_TRY(ax_fill(nn->dev, ax_tensor_cols(logits, vocab, logits.cols - vocab), -INFINITY));
    ax_arena_release(nn->call, mark);
    return AX_OK;
}
