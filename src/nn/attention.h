// Causal self-attention on the heads and sequences held here: rotary positions (Llama) and
// softmax(q k^T / sqrt(D)) v, inside documents where nn.documents says so. No communication: heads
// are cut over x (and perhaps y), sequences perhaps over y.
//
//     qkv (rows, (heads + 2 kv_heads) D) act: q | k | v, rotated in place by fwd
//     out (rows, heads D) act; lse (rows, heads) acc, saved for backward
//
// With nn.cache (inference) keys and values are kept there, and what came before is read from
// there.
#pragma once
#include "nn/cache.h"

typedef struct ax_attention {
    int layer;
    int64_t heads, kv_heads; // held here
    int64_t head_dim;
    bool rotary;
    ax_tensor inv_freq; // (1, D/2) acc; not rotary: empty
} ax_attention;

// Counts the heads that this rank holds under the layout.
void ax_attention_init(const ax_nn *nn, int layer, ax_attention *a);
int64_t ax_attention_qkv_width(const ax_attention *a);

ax_status ax_attention_layer_fwd(ax_nn *nn, const ax_attention *a, ax_tensor qkv, ax_tensor out,
                                 ax_tensor lse);
// dqkv (rows, (heads + 2 kv_heads) D) act: written.
ax_status ax_attention_layer_bwd(ax_nn *nn, const ax_attention *a, ax_tensor qkv, ax_tensor out,
                                 ax_tensor lse, ax_tensor dout, ax_tensor dqkv);
