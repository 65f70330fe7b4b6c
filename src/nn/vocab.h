// How tensors of the residual stream travel to and from the vocabulary, which is cut over x*y and
// does not cut the width: used by the embedding (embed.h) and the head (loss.h).
//
//     whole (m, H) act on every rank of x*y  <->  local (rows_outer, H/Gy) act
//
// gather: the whole hidden states on every rank. scatter: partial sums over x*y, one for each
// vocabulary slice, become the local sum. Collective over x*y (sharded), else over y and x.
#pragma once
#include "nn/nn.h"

// A buffer, in the call arena, of the pieces that travel: (pieces * rows_outer, H/Gy), piece r =
// the rows and columns of rank r of the communicator.
ax_status ax_vocab_pieces(ax_nn *nn, ax_dtype dtype, ax_tensor *pieces);
// The view (rows_outer, H/Gy) of `whole` (m, H) that piece `r` holds.
ax_tensor ax_vocab_window(const ax_nn *nn, ax_tensor whole, int r);
int ax_vocab_count(const ax_nn *nn);
// First token row and first column of piece `r`.
int64_t ax_vocab_first_row(const ax_nn *nn, int r);
int64_t ax_vocab_column(const ax_nn *nn, int r);

ax_status ax_vocab_gather(ax_nn *nn, ax_tensor local, ax_tensor pieces, const char *tag);
ax_status ax_vocab_scatter(ax_nn *nn, ax_tensor pieces, ax_tensor local, const char *tag);
