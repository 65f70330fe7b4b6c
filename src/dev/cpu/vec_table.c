// The kernel table of one build of the vector kernels.
#include "dev/cpu/vec.h"

extern const ax_kern V(kern);
const ax_kern V(kern) = {
    .gemm = ax_cpu_gemm,
    .gemm_workspace = ax_cpu_gemm_workspace,
    .attention_fwd = V(attention_fwd),
    .attention_bwd = V(attention_bwd),
    .attention_workspace = V(attention_workspace),
    .attention_cached = V(attention_cached),
    .attention_cached_workspace = V(attention_cached_workspace),
    .norm_sums = V(norm_sums),
    .norm_fwd = V(norm_fwd),
    .norm_bwd_sums = V(norm_bwd_sums),
    .norm_bwd = V(norm_bwd),
    .rope = V(rope),
    .gelu_fwd = V(gelu_fwd),
    .gelu_bwd = V(gelu_bwd),
    .swiglu_fwd = V(swiglu_fwd),
    .swiglu_bwd = V(swiglu_bwd),
    .bias_fwd = V(bias_fwd),
    .bias_bwd = V(bias_bwd),
    .embed_fwd = V(embed_fwd),
    .embed_bwd = V(embed_bwd),
    .xent_max = V(xent_max),
    .xent_sums = V(xent_sums),
    .xent_bwd = V(xent_bwd),
    .adamw = V(adamw),
    .copy = V(copy),
    .add = V(add),
    .fill = V(fill),
    .square_sum = V(square_sum),
};
