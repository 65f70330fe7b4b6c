#include "nn/mlp.h"

static int64_t width(const ax_nn *nn)
{
    return nn->arch->ffn / nn->grid->shape.x;
}

int64_t ax_mlp_inner_width(const ax_nn *nn)
{
    return nn->arch->kind == AX_LLAMA ? 2 * width(nn) : width(nn);
}

static ax_tensor gate(const ax_nn *nn, ax_tensor u)
{
    return ax_tensor_cols(u, 0, width(nn));
}

static ax_tensor up(const ax_nn *nn, ax_tensor u)
{
    return ax_tensor_cols(u, width(nn), width(nn));
}

ax_status ax_mlp_act_fwd(ax_nn *nn, ax_tensor u, ax_tensor g)
{
    if (nn->arch->kind == AX_GPT)
        return ax_gelu_fwd(nn->dev, u, g);
    return ax_swiglu_fwd(nn->dev, gate(nn, u), up(nn, u), g);
}

ax_status ax_mlp_act_bwd(ax_nn *nn, ax_tensor u, ax_tensor dg, ax_tensor du)
{
    if (nn->arch->kind == AX_GPT)
        return ax_gelu_bwd(nn->dev, u, dg, du);
    return ax_swiglu_bwd(nn->dev, gate(nn, u), up(nn, u), dg, gate(nn, du), up(nn, du));
}
