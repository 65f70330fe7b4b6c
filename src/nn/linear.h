// The 3D linear layer: o = i W^T + bias on a grid x * y * z (arXiv 2502.08145, section on 3D
// matrix multiplication; docs/parallelism.md sections 1 and 2).
//
// W (n, k) is cut over two axes and its local block over z. A normal layer cuts n over x and k over
// y; a transposed one the other way round, so that the output of one is the input of the next.
//
//     ax_linear l;
//     ax_linear_init(nn, &l, &(ax_linear_config){ .index = 0, .weights = { wq, wk, wv }, ... });
//     AX_TRY(ax_linear_fwd(nn, &l, i, o, &kept));
//     AX_TRY(ax_linear_bwd(nn, &l, i, kept, dout, di));
//
// Shapes, m rows whole: i (m, k/Gin) and o (m, n/Gout) as their sides hold them. All act, packed.
// Collective over the layer's two axes and z.
#pragma once
#include "nn/side.h"
#include "nn/weights.h"

typedef struct ax_linear_config {
    int index;                        // in forward order
    ax_param *weights[AX_SLAB_PARTS]; // stacked: q, k, v or gate, up; NULL ends
    ax_param *biases[AX_SLAB_PARTS];  // NULL: none
    bool transposed;
    ax_side inner; // how the inner activations are held over y
} ax_linear_config;

typedef struct ax_linear {
    ax_slab slab;
    ax_param *bias[AX_SLAB_PARTS];
    ax_side_spec in, out;
    bool transposed;
} ax_linear;

void ax_linear_init(ax_nn *nn, ax_linear *l, const ax_linear_config *config);
// Changes how both sides are held, for a layout of other rows.
void ax_linear_hold(ax_linear *l, ax_side outer, ax_side inner);

// `kept`: the gathered input, saved for backward when keep_gathered is on and there was something
// to gather; else data NULL. Backward with it does not read `in`.
ax_status ax_linear_fwd(ax_nn *nn, ax_linear *l, ax_tensor in, ax_tensor out, ax_tensor *kept);
ax_status ax_linear_bwd(ax_nn *nn, ax_linear *l, ax_tensor in, ax_tensor kept, ax_tensor dout,
                        ax_tensor din);
