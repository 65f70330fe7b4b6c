// The vocabulary-parallel embedding and the learned positions: ids to the residual stream.
//
//     ids (1, m) i32 -> x (rows_outer, H/Gy) acc. Collective over x*y.
#pragma once
#include "nn/vocab.h"
#include "nn/weights.h"

typedef struct ax_embed {
    ax_slab slab;        // the table (V/(Gx*Gy), H)
    ax_param *positions; // (T, H/Gy); NULL: none (rotary models)
    bool tied;           // the head added its gradient already, and left the sum open
} ax_embed;

ax_status ax_embed_layer_fwd(ax_nn *nn, ax_embed *e, ax_tensor ids, ax_tensor x);
ax_status ax_embed_layer_bwd(ax_nn *nn, ax_embed *e, ax_tensor ids, ax_tensor dx);
