#include "nn/block.h"

// Room for what backward can make again elementwise: kept in the step arena, or, with selective
// recompute, scratch of the caller.
static ax_status cheap(ax_nn *nn, int64_t rows, int64_t cols, ax_tensor *out)
{
    return nn->recompute == AX_RECOMPUTE_SELECTIVE ? ax_nn_scratch(nn, rows, cols, out)
                                                   : ax_nn_saved(nn, rows, cols, out);
}

// Forgets what was only scratch; its shape stays.
static void drop_scratch(const ax_nn *nn, ax_tensor *t)
{
    if (nn->recompute == AX_RECOMPUTE_SELECTIVE)
        t->data = NULL;
}

static ax_status save_attention(ax_nn *nn, const ax_block *b, ax_tensor x, ax_block_saved *s)
{
    const ax_attention *a = &b->attention;
    int64_t rows = nn->layout.rows_attention;
    AX_TRY(ax_tensor_alloc(nn->step, nn->acc, x.rows, ax_norm_sums_width(&b->norm1), &s->sums1));
    AX_TRY(ax_nn_saved(nn, rows, ax_attention_qkv_width(a), &s->qkv));
    AX_TRY(ax_nn_saved(nn, rows, a->heads * a->head_dim, &s->att));
    AX_TRY(ax_tensor_alloc(nn->step, nn->acc, rows, a->heads, &s->lse));
    return ax_tensor_alloc(nn->step, nn->acc, x.rows, x.cols, &s->mid);
}

static ax_status save_mlp(ax_nn *nn, const ax_block *b, ax_tensor x, ax_block_saved *s)
{
    AX_TRY(ax_tensor_alloc(nn->step, nn->acc, x.rows, ax_norm_sums_width(&b->norm2), &s->sums2));
    s->kept_down = (ax_tensor){0};
    return ax_nn_saved(nn, nn->layout.rows_mlp, ax_mlp_inner_width(nn), &s->u);
}

// y = x + l(in). Where no rounding comes between, the product is made in y itself.
static ax_status add_linear(ax_nn *nn, ax_linear *l, ax_tensor in, ax_tensor *kept, ax_tensor x,
                            ax_tensor y)
{
    if (nn->act == nn->acc) {
        AX_TRY(ax_linear_fwd(nn, l, in, y, kept));
        return ax_add(nn->dev, x, y);
    }
    size_t mark = ax_arena_mark(nn->call);
    ax_tensor out;
    AX_TRY(ax_nn_scratch(nn, x.rows, x.cols, &out));
    AX_TRY(ax_linear_fwd(nn, l, in, out, kept));
    AX_TRY(ax_copy(nn->dev, x, y));
    AX_TRY(ax_add(nn->dev, out, y));
    ax_arena_release(nn->call, mark);
    return AX_OK;
}

static ax_status attention_fwd(ax_nn *nn, ax_block *b, ax_tensor x, ax_block_saved *s)
{
    size_t mark = ax_arena_mark(nn->call);
    AX_TRY(save_attention(nn, b, x, s));
    AX_TRY(cheap(nn, x.rows, x.cols, &s->h1));
    AX_TRY(ax_norm_layer_fwd(nn, &b->norm1, x, s->sums1, s->h1));
    AX_TRY(ax_linear_fwd(nn, &b->qkv, s->h1, s->qkv, &s->kept_qkv));
    drop_scratch(nn, &s->h1);
    ax_arena_release(nn->call, mark);
    AX_TRY(ax_attention_layer_fwd(nn, &b->attention, s->qkv, s->att, s->lse));
    return add_linear(nn, &b->o, s->att, &s->kept_o, x, s->mid);
}

// Up to u.
static ax_status mlp_up_fwd(ax_nn *nn, ax_block *b, ax_block_saved *s)
{
    size_t mark = ax_arena_mark(nn->call);
    ax_tensor x = s->mid;
    AX_TRY(save_mlp(nn, b, x, s));
    AX_TRY(cheap(nn, x.rows, x.cols, &s->h2));
    AX_TRY(ax_norm_layer_fwd(nn, &b->norm2, x, s->sums2, s->h2));
    AX_TRY(ax_linear_fwd(nn, &b->up, s->h2, s->u, &s->kept_up));
    drop_scratch(nn, &s->h2);
    ax_arena_release(nn->call, mark);
    return AX_OK;
}

static ax_status activate(ax_nn *nn, ax_block_saved *s)
{
    AX_TRY(cheap(nn, s->u.rows, nn->arch->ffn / nn->grid->shape.x, &s->g));
    return ax_mlp_act_fwd(nn, s->u, s->g);
}

ax_status ax_block_fwd(ax_nn *nn, ax_block *b, ax_tensor x, ax_block_saved *s, ax_tensor y)
{
    AX_TRY(attention_fwd(nn, b, x, s));
    AX_TRY(mlp_up_fwd(nn, b, s));
    size_t mark = ax_arena_mark(nn->call);
    AX_TRY(activate(nn, s));
    AX_TRY(add_linear(nn, &b->down, s->g, &s->kept_down, s->mid, y));
    drop_scratch(nn, &s->g);
    ax_arena_release(nn->call, mark);
    return AX_OK;
}

ax_status ax_block_again(ax_nn *nn, ax_block *b, ax_tensor x, ax_block_saved *s)
{
    AX_TRY(attention_fwd(nn, b, x, s));
    AX_TRY(mlp_up_fwd(nn, b, s));
    return activate(nn, s);
}

// Scratch (rows_outer, H/Gy) act of half a block's backward pass: first the rounded gradient of
// what joined the stream, then, with selective recompute, the norm's output. Without either: none.
static ax_status take_spare(ax_nn *nn, ax_tensor d, ax_tensor *spare)
{
    *spare = (ax_tensor){0};
    if (nn->act == nn->acc && nn->recompute != AX_RECOMPUTE_SELECTIVE)
        return AX_OK;
    return ax_nn_scratch(nn, d.rows, d.cols, spare);
}

// d as a matmul reads it. It is not written to before the matmuls are done.
static ax_status in_act(ax_nn *nn, ax_tensor d, ax_tensor spare, ax_tensor *dy)
{
    *dy = nn->act == nn->acc ? d : spare;
    return nn->act == nn->acc ? AX_OK : ax_copy(nn->dev, d, spare);
}

// The input of a linear layer is needed again, and neither it nor its gathered rows were kept.
static bool is_missing(ax_tensor in, ax_tensor kept)
{
    return !in.data && !kept.data;
}

static ax_status mlp_bwd(ax_nn *nn, ax_block *b, const ax_block_saved *s, ax_tensor d)
{
    ax_tensor spare, dy, dg, du, dh, g = s->g, h = s->h2;
    AX_TRY(take_spare(nn, d, &spare));
    AX_TRY(ax_nn_scratch(nn, g.rows, g.cols, &dg));
    AX_TRY(ax_nn_scratch(nn, s->u.rows, s->u.cols, &du));
    AX_TRY(ax_nn_scratch(nn, d.rows, d.cols, &dh));
    AX_TRY(in_act(nn, d, spare, &dy));
    if (is_missing(g, s->kept_down)) {
        g = ax_tensor_over(du.data, nn->act, g.rows, g.cols); // done with before du is written
        AX_TRY(ax_mlp_act_fwd(nn, s->u, g));
    }
    AX_TRY(ax_linear_bwd(nn, &b->down, g, s->kept_down, dy, dg));
    AX_TRY(ax_mlp_act_bwd(nn, s->u, dg, du));
    if (is_missing(h, s->kept_up)) {
        h = spare;
        AX_TRY(ax_norm_layer_again(nn, &b->norm2, s->mid, s->sums2, h));
    }
    AX_TRY(ax_linear_bwd(nn, &b->up, h, s->kept_up, du, dh));
    return ax_norm_layer_bwd(nn, &b->norm2, s->mid, s->sums2, dh, d);
}

static ax_status attention_bwd(ax_nn *nn, ax_block *b, ax_tensor x, const ax_block_saved *s,
                               ax_tensor d)
{
    ax_tensor spare, dy, datt, dqkv, dh, h = s->h1;
    AX_TRY(take_spare(nn, d, &spare));
    AX_TRY(ax_nn_scratch(nn, s->att.rows, s->att.cols, &datt));
    AX_TRY(ax_nn_scratch(nn, s->qkv.rows, s->qkv.cols, &dqkv));
    AX_TRY(ax_nn_scratch(nn, d.rows, d.cols, &dh));
    AX_TRY(in_act(nn, d, spare, &dy));
    AX_TRY(ax_linear_bwd(nn, &b->o, s->att, s->kept_o, dy, datt));
    AX_TRY(ax_attention_layer_bwd(nn, &b->attention, s->qkv, s->att, s->lse, datt, dqkv));
    if (is_missing(h, s->kept_qkv)) {
        h = spare;
        AX_TRY(ax_norm_layer_again(nn, &b->norm1, x, s->sums1, h));
    }
    AX_TRY(ax_linear_bwd(nn, &b->qkv, h, s->kept_qkv, dqkv, dh));
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
