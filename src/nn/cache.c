#include "nn/cache.h"

#include <math.h>

void ax_cache_init(const ax_nn *nn, int64_t room, ax_cache *c)
{
    const ax_grid_shape *s = &nn->grid->shape;
    const ax_layout *l = &nn->layout;
    int over_y = l->attention == AX_SIDE_HEADS ? s->y : 1;
    c->room = room;
    c->sequences = l->sequences_attention;
    c->first = l->attention == AX_SIDE_ROWS ? nn->grid->cy * l->sequences_attention : 0;
    c->kv_heads = nn->arch->kv_heads * l->kv_copies / s->x / over_y;
}

ax_status ax_cache_bind(const ax_nn *nn, ax_arena *run, ax_cache *c)
{
    int64_t rows = nn->arch->layers * c->sequences * c->kv_heads * c->room;
    int64_t all = nn->layout.micro_batch;
    AX_TRY(ax_tensor_alloc(run, nn->act, rows, nn->arch->head_dim, &c->k));
    AX_TRY(ax_tensor_alloc(run, nn->act, rows, nn->arch->head_dim, &c->v));
    AX_TRY(ax_tensor_alloc(run, AX_I32, 1, all * c->room, &c->positions));
    return ax_tensor_alloc(run, AX_I32, 1, all, &c->lengths);
}

// What a layer keeps of the sequences here; of sequence `s` and kv head `h` from position `at` on.
static ax_tensor layer_of(const ax_cache *c, ax_tensor t, int layer)
{
    int64_t rows = c->sequences * c->kv_heads * c->room;
    return ax_tensor_rows(t, layer * rows, rows);
}

static ax_tensor place_of(const ax_cache *c, ax_tensor t, int64_t s, int64_t h, int64_t at,
                          int64_t count)
{
    return ax_tensor_rows(t, (s * c->kv_heads + h) * c->room + at, count);
}

ax_status ax_cache_store(ax_nn *nn, int layer, ax_tensor k, ax_tensor v)
{
    const ax_cache *c = nn->cache;
    int64_t d = nn->arch->head_dim, seq = nn->layout.seq;
    ax_tensor kept_k = layer_of(c, c->k, layer), kept_v = layer_of(c, c->v, layer);
    if (nn->dev->measuring)
        return AX_OK; // what is copied depends on the lengths, which are not known yet
    for (int64_t s = 0; s < c->sequences; s++) {
        int64_t length = c->length[c->first + s];
        int64_t at = c->prefill ? 0 : length - 1, count = c->prefill ? length : 1;
        for (int64_t h = 0; h < c->kv_heads && c->keep[c->first + s]; h++) {
            ax_tensor from_k = ax_tensor_cols(ax_tensor_rows(k, s * seq, count), h * d, d);
            ax_tensor from_v = ax_tensor_cols(ax_tensor_rows(v, s * seq, count), h * d, d);
            AX_TRY(ax_copy(nn->dev, from_k, place_of(c, kept_k, s, h, at, count)));
            AX_TRY(ax_copy(nn->dev, from_v, place_of(c, kept_v, s, h, at, count)));
        }
    }
    return AX_OK;
}

ax_status ax_cache_attend(ax_nn *nn, int layer, int64_t heads, ax_tensor q, ax_tensor out)
{
    const ax_cache *c = nn->cache;
    return ax_attention_cached(
        nn->dev,
        &(ax_attention_cached_args){.sequences = c->sequences,
                                    .queries = 1,
                                    .heads = heads,
                                    .kv_heads = c->kv_heads,
                                    .head_dim = nn->arch->head_dim,
                                    .room = c->room,
                                    .scale = 1.0 / sqrt((double)nn->arch->head_dim),
                                    .q = q,
                                    .k = layer_of(c, c->k, layer),
                                    .v = layer_of(c, c->v, layer),
                                    .lengths = ax_tensor_cols(c->lengths, c->first, c->sequences),
                                    .out = out});
}
