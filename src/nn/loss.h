// The head and the loss: final hidden states to token losses, vocabulary-parallel, in row chunks,
// so that logits never exist whole.
//
//     h (rows_outer, H/Gy) act, targets (1, m) i32 (< 0: does not count)
//     -> sum of the counting tokens' losses, the same bits on all ranks of x*y
//     -> dh (rows_outer, H/Gy) act, of loss_scale * sum; and the head's gradient
//
// Collective over x*y. There is no sum of partial logits: the width is whole here.
#pragma once
#include "nn/vocab.h"
#include "nn/weights.h"

typedef struct ax_head {
    ax_slab *slab;      // (V/(Gx*Gy), H); tied: the embedding's
    bool tied;          // leave the gradient's sum open for the embedding
    int64_t chunk_rows; // token rows whose logits exist at once
    double *host_sums;  // 4 chunk_rows, owned by the model: what the host reads of a chunk
} ax_head;

// Rows of a chunk for this model: bounded memory, the same on every rank.
int64_t ax_head_chunk_rows(const ax_nn *nn);

// Loss alone. token_loss: NULL, or m doubles that receive each row's loss (0 where it does not
// count).
ax_status ax_head_loss(ax_nn *nn, ax_head *head, ax_tensor h, ax_tensor targets, double *loss_sum,
                       double *token_loss);
ax_status ax_head_loss_bwd(ax_nn *nn, ax_head *head, ax_tensor h, ax_tensor targets,
                           double *loss_sum, ax_tensor dh);

// Logits (count, V padded) acc of some token rows of m, whole on every rank of x*y; padding is
// -inf.
ax_status ax_head_logits(ax_nn *nn, ax_head *head, ax_tensor h, const int64_t *row, int64_t count,
                         ax_tensor logits);
