#include "nn/block.h"

static ax_status save_attention(ax_nn *nn, const ax_block *b, ax_tensor x, ax_block_saved *s)
{
    const ax_attention *a = &b->attention;
    int64_t rows = nn->layout.rows_attention;
    AX_TRY(ax_tensor_alloc(nn->step, nn->acc, x.rows, ax_norm_sums_width(&b->norm1), &s->sums1));
    AX_TRY(ax_nn_saved(nn, x.rows, x.cols, &s->h1));
    AX_TRY(ax_nn_saved(nn, rows, ax_attention_qkv_width(a), &s->qkv));
    AX_TRY(ax_nn_saved(nn, rows, a->heads * a->head_dim, &s->att));
    AX_TRY(ax_tensor_alloc(nn->step, nn->acc, rows, a->heads, &s->lse));
    return ax_tensor_alloc(nn->step, nn->acc, x.rows, x.cols, &s->mid);
}

static ax_status save_mlp(ax_nn *nn, const ax_block *b, ax_tensor x, ax_block_saved *s)
{
    int64_t rows = nn->layout.rows_mlp;
    AX_TRY(ax_tensor_alloc(nn->step, nn->acc, x.rows, ax_norm_sums_width(&b->norm2), &s->sums2));
    AX_TRY(ax_nn_saved(nn, x.rows, x.cols, &s->h2));
    AX_TRY(ax_nn_saved(nn, rows, ax_mlp_inner_width(nn), &s->u));
    return ax_nn_saved(nn, rows, nn->arch->ffn / nn->grid->shape.x, &s->g);
}

// y = x + l(in)
static ax_status add_linear(ax_nn *nn, ax_linear *l, ax_tensor in, ax_tensor *kept, ax_tensor x,
                            ax_tensor y)
{
    size_t mark = ax_arena_mark(nn->call);
    ax_tensor out;
    AX_TRY(ax_nn_scratch(nn, x.rows, x.cols, &out));
    AX_TRY(ax_linear_fwd(nn, l, in, out, kept));
    AX_TRY(ax_copy(nn->dev, x, y));
    AX_TRY(ax_add(nn->dev, out, y));
    ax_arena_release(nn->call, mark);
    return AX_OK;
}

ax_status ax_block_fwd(ax_nn *nn, ax_block *b, ax_tensor x, ax_block_saved *s, ax_tensor y)
{
    AX_TRY(save_attention(nn, b, x, s));
    AX_TRY(ax_norm_layer_fwd(nn, &b->norm1, x, s->sums1, s->h1));
    AX_TRY(ax_linear_fwd(nn, &b->qkv, s->h1, s->qkv, &s->kept_qkv));
    AX_TRY(ax_attention_layer_fwd(nn, &b->attention, s->qkv, s->att, s->lse));
    AX_TRY(add_linear(nn, &b->o, s->att, &s->kept_o, x, s->mid));

    AX_TRY(save_mlp(nn, b, x, s));
    AX_TRY(ax_norm_layer_fwd(nn, &b->norm2, s->mid, s->sums2, s->h2));
    AX_TRY(ax_linear_fwd(nn, &b->up, s->h2, s->u, &s->kept_up));
    AX_TRY(ax_mlp_act_fwd(nn, s->u, s->g));
    return add_linear(nn, &b->down, s->g, &s->kept_down, s->mid, y);
}

static ax_status mlp_bwd(ax_nn *nn, ax_block *b, const ax_block_saved *s, ax_tensor d)
{
    ax_tensor dy, dg, du, dh;
    AX_TRY(ax_nn_scratch(nn, d.rows, d.cols, &dy));
    AX_TRY(ax_nn_scratch(nn, s->g.rows, s->g.cols, &dg));
    AX_TRY(ax_nn_scratch(nn, s->u.rows, s->u.cols, &du));
    AX_TRY(ax_nn_scratch(nn, d.rows, d.cols, &dh));
    AX_TRY(ax_copy(nn->dev, d, dy));
    AX_TRY(ax_linear_bwd(nn, &b->down, s->g, s->kept_down, dy, dg));
    AX_TRY(ax_mlp_act_bwd(nn, s->u, dg, du));
    AX_TRY(ax_linear_bwd(nn, &b->up, s->h2, s->kept_up, du, dh));
    return ax_norm_layer_bwd(nn, &b->norm2, s->mid, s->sums2, dh, d);
}

static ax_status attention_bwd(ax_nn *nn, ax_block *b, ax_tensor x, const ax_block_saved *s,
                               ax_tensor d)
{
    ax_tensor dy, datt, dqkv, dh;
    AX_TRY(ax_nn_scratch(nn, d.rows, d.cols, &dy));
    AX_TRY(ax_nn_scratch(nn, s->att.rows, s->att.cols, &datt));
    AX_TRY(ax_nn_scratch(nn, s->qkv.rows, s->qkv.cols, &dqkv));
    AX_TRY(ax_nn_scratch(nn, d.rows, d.cols, &dh));
    AX_TRY(ax_copy(nn->dev, d, dy));
    AX_TRY(ax_linear_bwd(nn, &b->o, s->att, s->kept_o, dy, datt));
    AX_TRY(ax_attention_layer_bwd(nn, &b->attention, s->qkv, s->att, s->lse, datt, dqkv));
    AX_TRY(ax_linear_bwd(nn, &b->qkv, s->h1, s->kept_qkv, dqkv, dh));
    return ax_norm_layer_bwd(nn, &b->norm1, x, s->sums1, dh, d);
}

ax_status ax_block_bwd(ax_nn *nn, ax_block *b, ax_tensor x, const ax_block_saved *s, ax_tensor d)
{
    size_t mark = ax_arena_mark(nn->call);
    AX_TRY(mlp_bwd(nn, b, s, d));
    ax_arena_release(nn->call, mark);
    AX_TRY(attention_bwd(nn, b, x, s, d));
    ax_arena_release(nn->call, mark);
    return AX_OK;
}
