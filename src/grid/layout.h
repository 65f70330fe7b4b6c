// Who holds what: which rows and columns of a model live on which coordinate of the grid, and
// whether a model, a batch and a grid fit together at all.
//
//     ax_layout l;
//     AX_TRY(ax_layout_choose(&arch, &shape, batch, micro_batch, AX_ACT_AUTO, &l));
//     l.rows_outer, l.attention ...
//
// Nothing here allocates or communicates.
#pragma once
#include "arch/arch.h"
#include "grid/grid.h"

// How activations are held between the sums of the 3D product.
typedef enum ax_activations {
    AX_ACT_AUTO,       // sharded where sizes allow, else replicated
    AX_ACT_SHARDED,    // sums are reduce-scatters over token rows
    AX_ACT_REPLICATED, // sums are all-reduces (the paper)
} ax_activations;

// What one side of a linear layer looks like over the axis that sums it.
typedef enum ax_side {
    AX_SIDE_COPY,  // every rank of the axis holds all rows and columns
    AX_SIDE_ROWS,  // token rows are cut
    AX_SIDE_HEADS, // attention heads (columns) are cut
} ax_side;

typedef struct ax_layout {
    ax_activations activations; // never AUTO
    int64_t batch, micro_batch; // global sequences; sequences of one micro-batch at one (data, z)
    int64_t accumulation;       // micro-batches a step
    int64_t seq, rows;          // T; m = micro_batch * T
    int64_t rows_outer;         // rows of the residual stream here: m or m/Gx
    ax_side outer;              // of the residual stream, over x
    ax_side attention, mlp;     // of the inner activations, over y
    int64_t rows_attention;     // rows of q, k, v here
    int64_t rows_mlp;
    int64_t sequences_attention; // rows_attention / T
    int kv_copies;               // Gx/K where K < Gx, else 1
    int64_t vocab_padded;        // multiple of 64*Gx*Gy
} ax_layout;

// AX_EUSAGE with the numbers that do not divide, and the nearest grids of as many ranks that do.
// micro_batch 0: batch / (Gz*Gdata), no accumulation.
ax_status ax_layout_choose(const ax_arch *arch, const ax_grid_shape *shape, int64_t batch,
                           int64_t micro_batch, ax_activations activations, ax_layout *out);

// The same sequences on the same coordinates, with `seq` tokens each (a prompt, or the one token of
// a step). Attention is cut as before; rows are cut where they were and still divide, else
// repeated.
ax_layout ax_layout_resize(const ax_layout *l, const ax_grid_shape *shape, int64_t seq);

// The first grid of `ranks` ranks that fits, trying small x*y first, then small y, then large
// data. AX_EUSAGE when none fits, with the numbers.
ax_status ax_layout_first_grid(const ax_arch *arch, int ranks, int64_t batch, int64_t micro_batch,
                               ax_activations activations, ax_grid_shape *out);

// The i-th grid of `ranks` ranks in that order; false past the last.
bool ax_layout_grid(int ranks, int i, ax_grid_shape *out);
