// Weights in, gradients out: the traffic of a matrix over z.
//
//     AX_TRY(ax_weights_get(nn, slab, &w));        // gathers (or waits for) the local block;
//     begins
//     ... matmul ...                               // the next layer's
//     AX_TRY(ax_weights_done(nn, slab));
//     AX_TRY(ax_grads_open(nn, slab, &dw, &beta)); // where dW goes; beta 1: it is added to
//     ... matmul ...
//     AX_TRY(ax_grads_close(nn, slab));            // begins the sum over z
//
// A slab is what one matmul reads: one parameter, or several whose rows are stacked (q, k, v).
// Where Gz = 1 and no padding comes between, both are the parameters' own memory and nothing moves.
#pragma once
#include "nn/nn.h"

struct ax_slab {
    int index; // of the layer in forward order; -1: embedding or head
    int slot;  // of ax_weights
    int parts; // parameters
    ax_param *param[AX_SLAB_PARTS];
    int64_t rows, cols; // of the stacked local blocks
    ax_req gather[AX_SLAB_PARTS], sum[AX_SLAB_PARTS];
};

void ax_slab_init(ax_slab *s, int index, int parts, ax_param *const *params);

// Takes the slots' memory for the given slabs from the run arena. After ax_params_bind.
ax_status ax_weights_bind(ax_nn *nn, ax_slab *const *slabs, int count, ax_arena *run,
                          bool with_grads);

// Collective over z. w (rows, cols) act is valid until another slab of the same slot is fetched.
ax_status ax_weights_begin(ax_nn *nn, ax_slab *s);
ax_status ax_weights_get(ax_nn *nn, ax_slab *s, ax_tensor *w);
ax_status ax_weights_done(ax_nn *nn, ax_slab *s);
void ax_weights_forget(ax_nn *nn); // the weights changed: what lies in the slots is stale

// dw (rows, cols) acc; bf16 where ax_nn.narrow_grads lets a bf16 matmul write what travels, and
// then beta is 0. Collective over z.
ax_status ax_grads_open(ax_nn *nn, ax_slab *s, ax_tensor *dw, double *beta);
ax_status ax_grads_close(ax_nn *nn, ax_slab *s);
// The gradient that was opened and not yet closed (a tied table, between head and embedding).
ax_tensor ax_grads_view(const ax_nn *nn, const ax_slab *s);
// Waits for all sums over z that are under way and adds them. At the end of each micro-batch.
ax_status ax_grads_drain(ax_nn *nn);
