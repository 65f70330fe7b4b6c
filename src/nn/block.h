// One transformer block, pre-norm: x += attention(norm(x)); x += mlp(norm(x)).
//
//     AX_TRY(ax_block_fwd(nn, &b, x, &saved, y));     // x, y (rows_outer, H/Gy) acc
//     AX_TRY(ax_block_bwd(nn, &b, x, &saved, d));     // d: gradient of y in, of x out
//
// What backward needs is taken from the step arena and described by `saved`. With selective
// recompute the outputs of norms and of the mlp's activation are not among it: bwd makes them
// again. With full recompute the model frees all of it after fwd and has it made again before bwd.
#pragma once
#include "nn/attention.h"
#include "nn/linear.h"
#include "nn/mlp.h"
#include "nn/norm.h"

typedef struct ax_block {
    ax_norm norm1, norm2;
    ax_linear qkv, o, up, down;
    ax_attention attention;
} ax_block;

typedef struct ax_block_saved {
    ax_tensor sums1, h1;     // row sums; (rows_outer, H/Gy) act, data NULL: to be made again
    ax_tensor qkv, att, lse; // as attention.h
    ax_tensor mid;           // (rows_outer, H/Gy) acc: the residual stream between the halves
    ax_tensor sums2, h2;
    ax_tensor u, g;                                 // as mlp.h; g as h1
    ax_tensor kept_qkv, kept_o, kept_up, kept_down; // gathered inputs, with keep_gathered
} ax_block_saved;

ax_status ax_block_fwd(ax_nn *nn, ax_block *b, ax_tensor x, ax_block_saved *s, ax_tensor y);
// The forward pass but for its last product, whose output backward does not need: all of `saved`
// again, to the same bits.
ax_status ax_block_again(ax_nn *nn, ax_block *b, ax_tensor x, ax_block_saved *s);
ax_status ax_block_bwd(ax_nn *nn, ax_block *b, ax_tensor x, const ax_block_saved *s, ax_tensor d);
