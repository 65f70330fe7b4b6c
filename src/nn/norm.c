#include "nn/norm.h"

int64_t ax_norm_sums_width(const ax_norm *n)
{
    return n->kind == AX_LAYERNORM ? 2 : 1;
}

static ax_norm_args args_of(const ax_nn *nn, const ax_norm *n, ax_tensor x, ax_tensor sums)
{
    return (ax_norm_args){.kind = n->kind,
                          .width = nn->arch->hidden,
                          .eps = nn->arch->norm_eps,
                          .x = x,
                          .w = n->weight->weight,
                          .b = n->bias ? n->bias->weight : (ax_tensor){0},
                          .sums = sums};
}

static ax_status add_over_y(const ax_nn *nn, ax_tensor sums, const char *tag)
{
    return ax_comm_allreduce(nn->grid->y, &(ax_xfer){.send = sums.data,
                                                     .recv = sums.data,
                                                     .count = ax_tensor_count(sums),
                                                     .dtype = sums.dtype,
                                                     .tag = tag});
}

ax_status ax_norm_layer_fwd(ax_nn *nn, const ax_norm *n, ax_tensor x, ax_tensor sums, ax_tensor y)
{
    ax_norm_args g = args_of(nn, n, x, sums);
    AX_TRY(ax_norm_sums(nn->dev, &g));
    AX_TRY(add_over_y(nn, sums, "norm"));
    return ax_norm_layer_again(nn, n, x, sums, y);
}

ax_status ax_norm_layer_again(ax_nn *nn, const ax_norm *n, ax_tensor x, ax_tensor sums, ax_tensor y)
{
    ax_norm_args g = args_of(nn, n, x, sums);
    g.y = y;
    return ax_norm_fwd(nn->dev, &g);
}

ax_status ax_norm_layer_bwd(ax_nn *nn, const ax_norm *n, ax_tensor x, ax_tensor sums, ax_tensor dy,
                            ax_tensor dx)
{
    size_t mark = ax_arena_mark(nn->call);
    ax_norm_args g = args_of(nn, n, x, sums);
    g.dy = dy;
    g.dx = dx;
    g.dw = n->weight->grad;
    g.db = n->bias ? n->bias->grad : (ax_tensor){0};
    AX_TRY(ax_tensor_alloc(nn->call, nn->acc, x.rows, ax_norm_sums_width(n), &g.dsums));
    AX_TRY(ax_norm_bwd_sums(nn->dev, &g));
    AX_TRY(add_over_y(nn, g.dsums, "norm backward"));
    AX_TRY(ax_norm_bwd(nn->dev, &g));
    ax_arena_release(nn->call, mark);
    return AX_OK;
}
