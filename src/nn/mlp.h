// The inner part of the feed-forward layer: GELU (GPT) or SwiGLU (Llama), between the two linear
// layers. Elementwise on what is held here; no communication.
//
//     u (rows, F/Gx) or, for SwiGLU, gate | up (rows, 2F/Gx) -> g (rows, F/Gx). All act.
#pragma once
#include "nn/nn.h"

int64_t ax_mlp_inner_width(const ax_nn *nn); // F/Gx or 2F/Gx
ax_status ax_mlp_act_fwd(ax_nn *nn, ax_tensor u, ax_tensor g);
ax_status ax_mlp_act_bwd(ax_nn *nn, ax_tensor u, ax_tensor dg, ax_tensor du); // du written
