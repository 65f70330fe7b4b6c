#include "nn/attention.h"

#include <math.h>

void ax_attention_init(const ax_nn *nn, int layer, ax_attention *a)
{
    const ax_grid_shape *s = &nn->grid->shape;
    int over_y = nn->layout.attention == AX_SIDE_HEADS ? s->y : 1;
    *a = (ax_attention){.layer = layer,
                        .heads = nn->arch->heads / s->x / over_y,
                        .kv_heads = nn->arch->kv_heads * nn->layout.kv_copies / s->x / over_y,
                        .head_dim = nn->arch->head_dim,
                        .rotary = nn->arch->kind == AX_LLAMA};
}

int64_t ax_attention_qkv_width(const ax_attention *a)
{
    return (a->heads + 2 * a->kv_heads) * a->head_dim;
}

typedef struct qkv_view {
    ax_tensor q, k, v;
} qkv_view;

static qkv_view split(const ax_attention *a, ax_tensor qkv)
{
    int64_t q = a->heads * a->head_dim, kv = a->kv_heads * a->head_dim;
    return (qkv_view){ax_tensor_cols(qkv, 0, q), ax_tensor_cols(qkv, q, kv),
                      ax_tensor_cols(qkv, q + kv, kv)};
}

static ax_tensor positions_of(const ax_nn *nn)
{
    return ax_nn_positions(nn, nn->layout.attention, nn->grid->y);
}

static ax_status rotate(ax_nn *nn, const ax_attention *a, ax_tensor qkv, int direction)
{
    if (!a->rotary)
        return AX_OK;
    qkv_view w = split(a, qkv);
    ax_tensor positions = positions_of(nn);
    AX_TRY(ax_rope(nn->dev, w.q, positions, a->inv_freq, a->head_dim, direction));
    return ax_rope(nn->dev, w.k, positions, a->inv_freq, a->head_dim, direction);
}

static ax_attention_args args_of(const ax_nn *nn, const ax_attention *a, ax_tensor qkv,
                                 ax_tensor out, ax_tensor lse)
{
    qkv_view w = split(a, qkv);
    return (ax_attention_args){.sequences = qkv.rows / nn->layout.seq,
                               .seq = nn->layout.seq,
                               .heads = a->heads,
                               .kv_heads = a->kv_heads,
                               .head_dim = a->head_dim,
                               .scale = 1.0 / sqrt((double)a->head_dim),
                               .q = w.q,
                               .k = w.k,
                               .v = w.v,
                               .out = out,
                               .lse = lse,
                               .positions = nn->documents ? positions_of(nn) : (ax_tensor){0}};
}

ax_status ax_attention_layer_fwd(ax_nn *nn, const ax_attention *a, ax_tensor qkv, ax_tensor out,
                                 ax_tensor lse)
{
    AX_TRY(rotate(nn, a, qkv, +1));
    ax_attention_args g = args_of(nn, a, qkv, out, lse);
    if (nn->cache) {
        AX_TRY(ax_cache_store(nn, a->layer, g.k, g.v));
        if (!nn->cache->prefill)
            return ax_cache_attend(nn, a->layer, a->heads, g.q, out);
    }
    return ax_attention_fwd(nn->dev, &g);
}

ax_status ax_attention_layer_bwd(ax_nn *nn, const ax_attention *a, ax_tensor qkv, ax_tensor out,
                                 ax_tensor lse, ax_tensor dout, ax_tensor dqkv)
{
    ax_attention_args g = args_of(nn, a, qkv, out, lse);
    qkv_view d = split(a, dqkv);
    g.dout = dout;
    g.dq = d.q;
    g.dk = d.k;
    g.dv = d.v;
    AX_TRY(ax_attention_bwd(nn->dev, &g));
    return rotate(nn, a, dqkv, -1);
}
