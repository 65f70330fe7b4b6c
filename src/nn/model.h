// A GPT or Llama model on a grid: embedding, blocks, final norm, head.
//
//     ax_model m;
//     AX_TRY(ax_model_init(&m, &config));              // structure: no memory of the device
//     AX_TRY(ax_model_bind(&m, &run, AX_BIND_STATE | AX_BIND_GRAD)); // takes views from an arena
//     AX_TRY(ax_model_upload(&m));                     // tables, once the arena is real
//     AX_TRY(ax_params_init(&m.params, grid, dev, seed));
//     AX_TRY(ax_model_micro_batch(&m, &(ax_batch){ ids, targets }, &loss_sum)); // and backward
//
// Activations come from the step and call arenas, stack-wise: after each call they are empty again.
// Run the same calls under a measuring device and grid to learn how large the three arenas must be.
#pragma once
#include "nn/block.h"
#include "nn/cache.h"
#include "nn/embed.h"
#include "nn/loss.h"

typedef struct ax_model_config {
    const ax_arch *arch; // checked; must outlive the model
    ax_layout layout;
    const ax_grid *grid;
    ax_device *dev;
    ax_arena *step, *call;
    ax_dtype act;     // f32, bf16 (acc f32) or f64 (acc f64)
    unsigned overlap; // ax_overlap bits
    ax_recompute recompute;
    bool keep_gathered;
    bool wide_sums, narrow_grads; // as ax_nn
    bool document_mask;           // positions of a batch are obeyed
    int64_t cache; // positions of a sequence whose keys and values are kept (infer.h); 0: none
} ax_model_config;

typedef struct ax_model {
    ax_nn nn;
    ax_params params;
    ax_embed embed;
    ax_block *blocks; // L
    ax_norm final_norm;
    ax_head head;
    ax_slab head_slab;      // untied
    ax_slab **slabs;        // all, linear layers first
    ax_block_saved *saved;  // L
    ax_tensor *stream;      // L + 1: inputs of the blocks, and the output of the last
    ax_tensor ids, targets; // (1, m) i32
    ax_tensor in_sequence;  // (1, m) i32: positions in sequences that are one document each
    ax_tensor in_document;  // (1, m) i32: those of the batch at hand, with document_mask
    bool document_mask;
    ax_cache cache;
    int block_first, block_end; // while building: the parameters of the block at hand
} ax_model;

ax_status ax_model_init(ax_model *m, const ax_model_config *config);
void ax_model_fini(ax_model *m); // a zeroed model is legal

// `what`: AX_BIND_STATE, AX_BIND_GRAD (param.h). Twice: measuring, then over memory.
ax_status ax_model_bind(ax_model *m, ax_arena *run, int what);
ax_status ax_model_upload(ax_model *m);

// A micro-batch: m host values each. A target < 0 does not count. Positions are counted from the
// start of each document: row i of a sequence sees its rows [i - positions[i], i]. NULL, or without
// document_mask: a sequence is one document.
typedef struct ax_batch {
    const int32_t *ids, *targets, *positions;
} ax_batch;

// loss_sum: over this (data, z) coordinate's rows, equal on all ranks of x*y. Collective over
// x*y*z. Set nn.first_micro, last_micro and loss_scale before.
ax_status ax_model_micro_batch(ax_model *m, const ax_batch *batch, double *loss_sum);

// Forward alone. token_loss: NULL or m doubles.
ax_status ax_model_loss(ax_model *m, const ax_batch *batch, double *loss_sum, double *token_loss);

// The forward pass up to the final norm: h (rows_outer, H/Gy) act, in the step arena, which the
// caller releases. ids (1, m).
ax_status ax_model_hidden(ax_model *m, ax_tensor ids, ax_tensor *h);

// Logits of the token that follows row `row` of ids: V padded host floats.
ax_status ax_model_logits(ax_model *m, const int32_t *ids, int64_t row, float *logits);
