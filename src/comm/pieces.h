// How a vector is cut over the ranks of a communicator, and how the pieces are added.
//
//     ax_cut cut = ax_cut_of(r->coll, &r->x, c->size);
//     ax_cut_first(cut, 2), ax_cut_count(cut, 2)      // rank 2's elements
//
// Every backend adds through ax_fold, which is why they all give the same bits.
#pragma once
#include "comm/comm.h"

typedef struct ax_cut {
    int64_t piece; // elements from one rank's first to the next one's
    int64_t total; // valid elements; the last pieces may be short or empty
} ax_cut;

// allgather, reduce_scatter: as the caller cut it. allreduce, bcast: even, in whole cache lines.
ax_cut ax_cut_of(ax_coll coll, const ax_xfer *x, int ranks);

static inline int64_t ax_cut_first(ax_cut cut, int rank)
{
    int64_t first = rank * cut.piece;
    return first < cut.total ? first : cut.total;
}
static inline int64_t ax_cut_count(ax_cut cut, int rank)
{
    return ax_cut_first(cut, rank + 1) - ax_cut_first(cut, rank);
}

// Address of element `i`.
static inline void *ax_at(const void *base, ax_dtype dtype, int64_t i)
{
    return (char *)base + i * (int64_t)ax_dtype_size(dtype);
}

// out[i] = from[0][i] op from[1][i] op ... in this order, from[p] read at element offset `at`; the
// same numbers go to each of `outs` places, written at `out_at`. A place may be one of the
// addresses read. A NaN in any source gives NaN, for the maximum too.
typedef struct ax_fold_args {
    ax_redop op;
    ax_dtype dtype;
    const void *const *from;
    int ranks;
    int64_t at, count;
    void *const *out;
    int outs;
    int64_t out_at;
    bool stream; // write past the caches: what is written is larger than they are
} ax_fold_args;
void ax_fold(const ax_fold_args *g);

// A copy, past the caches where `stream`. `to` may be `from`.
void ax_put(void *to, const void *from, size_t bytes, bool stream);

// Whether what a rank receives is worth writing past the caches.
bool ax_is_stream(const ax_xfer *x, ax_coll coll, int ranks);
