// The two sides of a linear layer: how a tensor becomes whole over an axis, and how partial sums
// over that axis become a tensor again (section 2 of docs/parallelism.md).
//
//     whole = gather(local)       ROWS: token rows gathered   HEADS: head columns   COPY: as it is
//     out   = scatter(partial)    ROWS, HEADS: reduce-scatter                        COPY:
//     all-reduce
//
//     ax_flow f;
//     AX_TRY(ax_side_gather_begin(nn, &side, local, nn->call, &f));
//     ...                                             // local may not change meanwhile
//     AX_TRY(ax_side_gather_end(nn, &side, &f, &whole));
//
// Collective over the side's communicator.
#pragma once
#include "nn/nn.h"

typedef struct ax_side_spec {
    ax_side side;
    ax_comm *comm; // the axis that cuts it
    const char *tag_gather, *tag_scatter;
    int parts;                   // of columns: q, k, v; HEADS cuts each of them
    int64_t part[AX_SLAB_PARTS]; // their widths when whole
} ax_side_spec;

typedef struct ax_flow { // in flight; caller's memory
    ax_req req;
    ax_tensor from, to; // what the collective reads and writes
    ax_tensor out;      // what the caller gets
} ax_flow;

// Rows and columns of a (rows, cols) whole tensor that are held here.
void ax_side_local(const ax_side_spec *s, int64_t rows, int64_t cols, int64_t *local_rows,
                   int64_t *local_cols);

// Whether every rank of the axis holds all of it: then a gather moves nothing.
bool ax_side_is_whole(const ax_side_spec *s);

// `whole` is taken from `arena` unless the side is whole already.
ax_status ax_side_gather_begin(ax_nn *nn, const ax_side_spec *s, ax_tensor local, ax_arena *arena,
                               ax_flow *f);
ax_status ax_side_gather_end(ax_nn *nn, const ax_side_spec *s, ax_flow *f, ax_tensor *whole);

// Where to write partial sums that will be scattered into `out`: `out` itself, or scratch, in the
// dtype in which sums travel (ax_nn.wide_sums).
ax_status ax_side_partial(ax_nn *nn, const ax_side_spec *s, ax_tensor out, ax_tensor *partial);
ax_status ax_side_scatter_begin(ax_nn *nn, const ax_side_spec *s, ax_tensor partial, ax_tensor out,
                                ax_flow *f);
ax_status ax_side_scatter_end(ax_nn *nn, ax_flow *f);

// Copies between a whole tensor (rows, cols) and its pieces over `ranks`, stacked by rank, each
// holding a share of the columns of every part. Used where columns are cut.
ax_status ax_side_pack(ax_nn *nn, const ax_side_spec *s, ax_tensor whole, ax_tensor packed);
ax_status ax_side_unpack(ax_nn *nn, const ax_side_spec *s, ax_tensor packed, ax_tensor whole);
