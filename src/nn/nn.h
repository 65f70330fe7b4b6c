// What every layer of a model shares: the device, the grid, the layout of activations, dtypes,
// memory, and where in the step we are.
//
// Letters: m token rows of a micro-batch at one (data, z), H hidden width, F feed-forward width,
// A heads, K kv heads, D head size, V vocabulary. "act" is the activation dtype, "acc" its
// accumulation dtype. The residual stream and its gradient are held in acc (as autocast does), so
// that adding up blocks does not round; what enters a matmul or travels is act.
//
// Layers come in pairs fwd/bwd. Backward functions take the gradient of their output, write the
// gradient of their input, and add to (or begin to sum) the gradients of their parameters.
#pragma once
#include "dev/kern.h"
#include "grid/layout.h"
#include "grid/param.h"

typedef struct ax_slab ax_slab;
typedef struct ax_cache ax_cache;

typedef enum ax_overlap { // section 4 of docs/parallelism.md
    AX_OAG = 1,           // gather of the next layer's weights over z
    AX_RAG = 2,           // gather of a layer's input rows again, under its dI
    AX_OAR = 4,           // sum of dI, under dW
    AX_ORS = 8,           // sum of dW over z, under later layers
    AX_ODATA = 16,        // sum of gradients over data, under the rest of the backward pass
    AX_OUPDATE = 32,      // gather of new weights over data, under the next step
    AX_OVERLAP_ALL = 63,
} ax_overlap;

// What a step keeps for backward (section 6 of docs/parallelism.md).
typedef enum ax_recompute {
    AX_RECOMPUTE_NONE,      // everything
    AX_RECOMPUTE_SELECTIVE, // what no elementwise pass can make again
    AX_RECOMPUTE_FULL,      // each block's input
} ax_recompute;

typedef enum ax_phase {
    AX_FORWARD,
    AX_RECOMPUTE,
    AX_BACKWARD,
} ax_phase;

enum { AX_SLOTS = 3, AX_SLOT_VOCAB = 2, AX_SLAB_PARTS = 3, AX_BLOCK_LINEARS = 4 };

// The memory through which weights come and gradients leave: two slots that the linear layers
// take in turn, by the parity of their index, and one for the vocabulary.
typedef struct ax_weights {
    struct {
        ax_tensor weights; // (1, elements) act: gathered over z
        ax_tensor sums; // (1, elements): a layer's dW on its way; acc, or bf16 where a bf16 matmul
                        // writes what travels
        ax_tensor narrow;  // (1, elements) bf16: sums rounded, where the matmul cannot
        ax_tensor pieces;  // (1, elements): what came back, in the dtype that travelled
        ax_slab *resident; // whose weights lie in `weights`
        ax_slab *reducing; // whose gradient is under way
    } slot[AX_SLOTS];
} ax_weights;

typedef struct ax_nn {
    ax_device *dev;
    const ax_grid *grid;
    const ax_arch *arch;
    ax_layout layout;
    ax_dtype act, acc;
    ax_arena *step; // saved activations: a stack that backward unwinds
    ax_arena *call; // scratch inside one layer
    unsigned overlap;
    ax_recompute recompute;
    bool keep_gathered;
    bool wide_sums;      // partial activations are summed in acc: comm.activations=fp32
    bool narrow_grads;   // gradients of matrices are summed in bf16: comm.gradients=bf16
    ax_tensor positions; // (1, m) i32: where each token of this micro-batch stands
    bool documents;      // they start anew with each document, and attention does not look back
    ax_cache *cache;     // NULL: attention is among these tokens alone

    ax_weights weights;
    ax_slab **order; // the slabs of the linear layers in forward order
    int layers;      // of them
    ax_phase phase;
    bool first_micro, last_micro; // of the step: gradients start afresh; gradients are complete
    double loss_scale;            // 1/N, N = targets that count in the whole step
    // Called when a matrix's gradient is complete at this z coordinate, in the last micro-batch.
    ax_status (*grad_ready)(void *ctx, ax_param *p);
    void *grad_ctx;
} ax_nn;

// Positions of the rows held where `side` of an axis of communicator `c` cuts m rows.
static inline ax_tensor ax_nn_positions(const ax_nn *nn, ax_side side, const ax_comm *c)
{
    if (side != AX_SIDE_ROWS)
        return nn->positions;
    int64_t rows = nn->layout.rows / c->size;
    return ax_tensor_cols(nn->positions, c->rank * rows, rows);
}

// A tensor of the activations' dtype in the step (saved) or call (scratch) arena.
static inline ax_status ax_nn_saved(ax_nn *nn, int64_t rows, int64_t cols, ax_tensor *out)
{
    return ax_tensor_alloc(nn->step, nn->act, rows, cols, out);
}
static inline ax_status ax_nn_scratch(ax_nn *nn, int64_t rows, int64_t cols, ax_tensor *out)
{
    return ax_tensor_alloc(nn->call, nn->act, rows, cols, out);
}
