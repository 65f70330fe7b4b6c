#include "comm/pieces.h"

enum {
    LINE_ELEMENTS = 32,
    // Beyond this a line that is written leaves the caches before it is read again, and reading it
    // only to overwrite it would cost a third of the traffic.
    STREAM_BYTES = 8 << 20,
};

ax_cut ax_cut_of(ax_coll coll, const ax_xfer *x, int ranks)
{
    if (coll == AX_ALLGATHER || coll == AX_REDUCE_SCATTER)
        return (ax_cut){.piece = x->count, .total = x->limit ? x->limit : ranks * x->count};
    int64_t piece = (x->count + ranks - 1) / ranks;
    piece = (piece + LINE_ELEMENTS - 1) / LINE_ELEMENTS * LINE_ELEMENTS;
    return (ax_cut){.piece = piece, .total = x->count};
}

bool ax_is_stream(const ax_xfer *x, ax_coll coll, int ranks)
{
    int64_t pieces = coll == AX_ALLGATHER ? ranks : 1;
    return pieces * x->count >= STREAM_BYTES / (int64_t)ax_dtype_size(x->dtype);
}
