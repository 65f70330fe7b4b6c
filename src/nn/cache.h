// The keys (rotated) and values of every block, kept between the steps of a generation, of the
// sequences and heads held here. Kept apart by sequence and kv head, so that a step reads each in
// one stretch.
//
// A pass either fills the cache (`prefill`: the rows of the sequences with keep[s], from their
// first position on) or adds one row to each of those sequences and lets it see all of its own.
// Which sequences, and how long they are, the host decides; infer.h is the way in.
#pragma once
#include "nn/nn.h"

struct ax_cache {
    int64_t room;             // positions of a sequence; 0: there is no cache
    int64_t first, sequences; // of this (data, z) coordinate's, those held here
    int64_t kv_heads;         // held here
    ax_tensor k, v;           // (L * sequences * kv_heads * room, D) act
    ax_tensor positions;      // (1, micro_batch * room) i32: of the tokens of a pass
    ax_tensor lengths; // (1, micro_batch) i32: tokens of each sequence, those of the pass too

    // On the host, micro_batch each, owned by the model.
    int32_t *length;
    int64_t *row; // of the pass: the last token of each sequence
    bool *keep;
    bool prefill;
};

// Counts what is held here; no memory of the device.
void ax_cache_init(const ax_nn *nn, int64_t room, ax_cache *c);
ax_status ax_cache_bind(const ax_nn *nn, ax_arena *run, ax_cache *c);

// k, v (rows_attention, kv_heads D) act: the rows of this pass.
ax_status ax_cache_store(ax_nn *nn, int layer, ax_tensor k, ax_tensor v);
// One query a sequence: q, out (sequences, heads D) act. After the store.
ax_status ax_cache_attend(ax_nn *nn, int layer, int64_t heads, ax_tensor q, ax_tensor out);
