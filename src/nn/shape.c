// The parameters of GPT and Llama models: names, shapes, cuts and initial values.
#include "nn/shape.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct builder {
    ax_params *params;
    const ax_arch *arch;
    const ax_layout *layout;
    int room;
} builder;

// A vector's gradient is complete on fewer ranks the more of its rows each of them saw.
static ax_sum sum_of(const builder *b, bool inner, ax_side side)
{
    if (!inner)
        return b->layout->outer == AX_SIDE_ROWS ? AX_SUM_XZDATA : AX_SUM_ZDATA;
    return side == AX_SIDE_COPY ? AX_SUM_ZDATA : AX_SUM_YZDATA;
}

static ax_param *add(builder *b, const char *prefix, const char *name, ax_param p)
{
    AX_ASSERT(b->params->count < b->room);
    ax_param *slot = &b->params->list[b->params->count++];
    *slot = p;
    snprintf(slot->name, sizeof slot->name, "%s%s", prefix, name);
    return slot;
}

static void add_norm(builder *b, const char *prefix, const char *name)
{
    char full[48];
    ax_param p = {.rows = 1,
                  .cols = b->arch->hidden,
                  .col_span = AX_OVER_Y,
                  .sum = sum_of(b, false, AX_SIDE_COPY),
                  .init_value = 1};
    snprintf(full, sizeof full, "%s.weight", name);
    add(b, prefix, full, p);
    if (b->arch->kind != AX_GPT)
        return;
    p.init_value = 0;
    snprintf(full, sizeof full, "%s.bias", name);
    add(b, prefix, full, p);
}

static void add_matrix(builder *b, const char *prefix, const char *name, ax_param p)
{
    p.matrix = p.decay = true;
    add(b, prefix, name, p);
}

static void add_bias(builder *b, const char *prefix, const char *name, ax_param p)
{
    p.rows = 1;
    add(b, prefix, name, p);
}

// Of an output that joins the residual stream.
static ax_param outer_bias(const builder *b)
{
    return (ax_param){
        .cols = b->arch->hidden, .col_span = AX_OVER_Y, .sum = sum_of(b, false, AX_SIDE_COPY)};
}

static void add_attention(builder *b, const char *prefix)
{
    const ax_arch *a = b->arch;
    int64_t h = a->hidden, q = a->heads * a->head_dim, kv = a->kv_heads * a->head_dim;
    double std = a->init_std, std_out = std / sqrt(2.0 * (double)a->layers);
    const ax_param wq = {
        .rows = q, .cols = h, .row_span = AX_OVER_X, .col_span = AX_OVER_Y, .init_std = std};
    ax_param wkv = wq;
    wkv.rows = kv;
    wkv.row_span = AX_OVER_KV;
    wkv.joined = true;
    add_matrix(b, prefix, "attn.q.weight", wq);
    add_matrix(b, prefix, "attn.k.weight", wkv);
    add_matrix(b, prefix, "attn.v.weight", wkv);
    bool biases = ax_arch_has_attention_bias(a);
    ax_sum inner = sum_of(b, true, b->layout->attention);
    const ax_param bkv = {.cols = kv, .col_span = AX_OVER_KV, .sum = inner};
    if (biases) {
        add_bias(b, prefix, "attn.q.bias",
                 (ax_param){.cols = q, .col_span = AX_OVER_X, .sum = inner});
        add_bias(b, prefix, "attn.k.bias", bkv);
        add_bias(b, prefix, "attn.v.bias", bkv);
    }
    add_matrix(b, prefix, "attn.o.weight",
               (ax_param){.rows = h,
                          .cols = q,
                          .row_span = AX_OVER_Y,
                          .col_span = AX_OVER_X,
                          .init_std = std_out});
    if (biases)
        add_bias(b, prefix, "attn.o.bias", outer_bias(b));
}

static void add_mlp(builder *b, const char *prefix)
{
    const ax_arch *a = b->arch;
    int64_t h = a->hidden, f = a->ffn;
    double std = a->init_std, std_out = std / sqrt(2.0 * (double)a->layers);
    ax_param up = {
        .rows = f, .cols = h, .row_span = AX_OVER_X, .col_span = AX_OVER_Y, .init_std = std};
    if (a->kind == AX_LLAMA) {
        add_matrix(b, prefix, "mlp.gate.weight", up);
        up.joined = true;
    }
    add_matrix(b, prefix, "mlp.up.weight", up);
    bool biases = ax_arch_has_mlp_bias(a);
    const ax_param inner = {
        .cols = f, .col_span = AX_OVER_X, .sum = sum_of(b, true, b->layout->mlp)};
    if (biases && a->kind == AX_LLAMA)
        add_bias(b, prefix, "mlp.gate.bias", inner);
    if (biases)
        add_bias(b, prefix, "mlp.up.bias", inner);
    add_matrix(b, prefix, "mlp.down.weight",
               (ax_param){.rows = h,
                          .cols = f,
                          .row_span = AX_OVER_Y,
                          .col_span = AX_OVER_X,
                          .init_std = std_out});
    if (biases)
        add_bias(b, prefix, "mlp.down.bias", outer_bias(b));
}

static void add_ends(builder *b, bool front)
{
    const ax_arch *a = b->arch;
    const ax_param vocab = {.rows = a->vocab,
                            .padded_rows = b->layout->vocab_padded,
                            .cols = a->hidden,
                            .row_span = AX_OVER_XY,
                            .init_std = a->init_std};
    if (front) {
        add_matrix(b, "", "embed.weight", vocab);
        if (a->kind == AX_GPT)
            add(b, "", "positions.weight",
                (ax_param){.rows = a->seq,
                           .cols = a->hidden,
                           .col_span = AX_OVER_Y,
                           .sum = sum_of(b, false, AX_SIDE_COPY),
                           .decay = true,
                           .init_std = a->init_std});
        return;
    }
    add_norm(b, "", "final_norm");
    if (!a->tied)
        add_matrix(b, "", "head.weight", vocab);
}

ax_status ax_shape_params(const ax_arch *arch, const ax_layout *layout, ax_params *out)
{
    enum { PER_BLOCK = 16, ENDS = 5 };
    builder b = {.params = out, .arch = arch, .layout = layout};
    b.room = (int)arch->layers * PER_BLOCK + ENDS;
    out->count = 0;
    out->list = calloc((size_t)b.room, sizeof *out->list);
    AX_CHECK(out->list, AX_ENOMEM, "no memory for the list of %d parameters", b.room);
    add_ends(&b, true);
    for (int64_t i = 0; i < arch->layers; i++) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "blk.%lld.", (long long)i);
        add_norm(&b, prefix, "attn_norm");
        add_attention(&b, prefix);
        add_norm(&b, prefix, "mlp_norm");
        add_mlp(&b, prefix);
    }
    add_ends(&b, false);
    return AX_OK;
}
