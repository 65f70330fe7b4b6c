// LayerNorm and RMSNorm over a width that y may cut: row sums are added over y, so the result is
// the serial norm.
//
//     x (rows, H/Gy) acc -> y (rows, H/Gy) act; sums (rows, 2 or 1) acc are saved for backward.
//
// Collective over y.
#pragma once
#include "nn/nn.h"

typedef struct ax_norm {
    ax_norm_kind kind;
    ax_param *weight, *bias; // bias NULL: none
} ax_norm;

// Columns of `sums`.
int64_t ax_norm_sums_width(const ax_norm *n);

ax_status ax_norm_layer_fwd(ax_nn *nn, const ax_norm *n, ax_tensor x, ax_tensor sums, ax_tensor y);
// The same y from sums that are known: no communication.
ax_status ax_norm_layer_again(ax_nn *nn, const ax_norm *n, ax_tensor x, ax_tensor sums,
                              ax_tensor y);
// dx (rows, H/Gy) acc +=.
ax_status ax_norm_layer_bwd(ax_nn *nn, const ax_norm *n, ax_tensor x, ax_tensor sums, ax_tensor dy,
                            ax_tensor dx);
