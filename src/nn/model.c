#include "nn/model.h"

#include "nn/shape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A block's parameters are looked for among its own, so that deep models open in linear time.
static ax_param *find(ax_model *m, int block, const char *name)
{
    char full[64];
    if (block < 0)
        snprintf(full, sizeof full, "%s", name);
    else
        snprintf(full, sizeof full, "blk.%d.%s", block, name);
    int first = block < 0 ? 0 : m->block_first, end = block < 0 ? m->params.count : m->block_end;
    for (int i = first; i < end; i++)
        if (strcmp(m->params.list[i].name, full) == 0)
            return &m->params.list[i];
    return NULL;
}

static void enter_block(ax_model *m, int block)
{
    char prefix[32];
    int n = snprintf(prefix, sizeof prefix, "blk.%d.", block);
    int i = m->block_end;
    while (i < m->params.count && strncmp(m->params.list[i].name, prefix, (size_t)n) != 0)
        i++;
    m->block_first = i;
    while (i < m->params.count && strncmp(m->params.list[i].name, prefix, (size_t)n) == 0)
        i++;
    m->block_end = i;
}

static ax_norm norm_of(ax_model *m, int block, const char *weight, const char *bias)
{
    bool gpt = m->nn.arch->kind == AX_GPT;
    return (ax_norm){.kind = gpt ? AX_LAYERNORM : AX_RMSNORM,
                     .weight = find(m, block, weight),
                     .bias = find(m, block, bias)};
}

static void build_attention(ax_model *m, int i, ax_block *b)
{
    ax_side side = m->nn.layout.attention;
    b->norm1 = norm_of(m, i, "attn_norm.weight", "attn_norm.bias");
    ax_linear_init(
        &m->nn, &b->qkv,
        &(ax_linear_config){.index = i * AX_BLOCK_LINEARS,
                            .weights = {find(m, i, "attn.q.weight"), find(m, i, "attn.k.weight"),
                                        find(m, i, "attn.v.weight")},
                            .biases = {find(m, i, "attn.q.bias"), find(m, i, "attn.k.bias"),
                                       find(m, i, "attn.v.bias")},
                            .inner = side});
    ax_linear_init(&m->nn, &b->o,
                   &(ax_linear_config){.index = i * AX_BLOCK_LINEARS + 1,
                                       .weights = {find(m, i, "attn.o.weight")},
                                       .biases = {find(m, i, "attn.o.bias")},
                                       .transposed = true,
                                       .inner = side});
    ax_attention_init(&m->nn, i, &b->attention);
}

static void build_mlp(ax_model *m, int i, ax_block *b)
{
    ax_linear_config up = {.index = i * AX_BLOCK_LINEARS + 2, .inner = m->nn.layout.mlp};
    ax_param *gate = find(m, i, "mlp.gate.weight");
    b->norm2 = norm_of(m, i, "mlp_norm.weight", "mlp_norm.bias");
    up.weights[0] = gate ? gate : find(m, i, "mlp.up.weight");
    up.weights[1] = gate ? find(m, i, "mlp.up.weight") : NULL;
    up.biases[0] = find(m, i, gate ? "mlp.gate.bias" : "mlp.up.bias");
    up.biases[1] = gate ? find(m, i, "mlp.up.bias") : NULL;
    ax_linear_init(&m->nn, &b->up, &up);
    ax_linear_init(&m->nn, &b->down,
                   &(ax_linear_config){.index = i * AX_BLOCK_LINEARS + 3,
                                       .weights = {find(m, i, "mlp.down.weight")},
                                       .biases = {find(m, i, "mlp.down.bias")},
                                       .transposed = true,
                                       .inner = m->nn.layout.mlp});
}

static void build_ends(ax_model *m)
{
    ax_param *table = find(m, -1, "embed.weight"), *head = find(m, -1, "head.weight");
    m->embed = (ax_embed){.positions = find(m, -1, "positions.weight"), .tied = !head};
    ax_slab_init(&m->embed.slab, -1, 1, &table);
    if (head)
        ax_slab_init(&m->head_slab, -1, 1, &head);
    m->final_norm = norm_of(m, -1, "final_norm.weight", "final_norm.bias");
    m->head.slab = head ? &m->head_slab : &m->embed.slab;
    m->head.tied = !head;
}

static void build(ax_model *m)
{
    int layers = (int)m->nn.arch->layers, n = 0;
    for (int i = 0; i < layers; i++) {
        ax_block *b = &m->blocks[i];
        enter_block(m, i);
        build_attention(m, i, b);
        build_mlp(m, i, b);
        m->slabs[n++] = &b->qkv.slab;
        m->slabs[n++] = &b->o.slab;
        m->slabs[n++] = &b->up.slab;
        m->slabs[n++] = &b->down.slab;
    }
    build_ends(m);
    m->nn.order = m->slabs;
    m->nn.layers = n;
    m->slabs[n++] = &m->embed.slab;
    m->slabs[n] = m->head.slab;
}

static bool make_cache(ax_model *m, int64_t room)
{
    size_t sequences = (size_t)m->nn.layout.micro_batch;
    if (room == 0)
        return true;
    ax_cache_init(&m->nn, room, &m->cache);
    m->cache.length = calloc(sequences, sizeof *m->cache.length);
    m->cache.row = calloc(sequences, sizeof *m->cache.row);
    m->cache.keep = calloc(sequences, sizeof *m->cache.keep);
    return m->cache.length && m->cache.row && m->cache.keep;
}

ax_status ax_model_init(ax_model *m, const ax_model_config *config)
{
    *m = (ax_model){.nn = {.dev = config->dev,
                           .grid = config->grid,
                           .arch = config->arch,
                           .layout = config->layout,
                           .act = config->act,
                           .acc = config->act == AX_F64 ? AX_F64 : AX_F32,
                           .step = config->step,
                           .call = config->call,
                           .overlap = config->overlap,
                           .recompute = config->recompute,
                           .keep_gathered = config->keep_gathered,
                           .wide_sums = config->wide_sums,
                           .narrow_grads = config->narrow_grads,
                           .first_micro = true,
                           .last_micro = true},
                    .document_mask = config->document_mask};
    size_t layers = (size_t)config->arch->layers;
    m->params.act = m->nn.act;
    m->params.acc = m->nn.acc;
    ax_status st = ax_shape_params(config->arch, &config->layout, &m->params);
    for (int i = 0; i < m->params.count && st == AX_OK; i++)
        st = ax_param_place(&m->params.list[i], config->grid);
    m->head.chunk_rows = ax_head_chunk_rows(&m->nn);
    m->blocks = calloc(layers, sizeof *m->blocks);
    m->saved = calloc(layers, sizeof *m->saved);
    m->stream = calloc(layers + 1, sizeof *m->stream);
    m->slabs = calloc(layers * AX_BLOCK_LINEARS + 2, sizeof *m->slabs);
    m->head.host_sums = malloc((size_t)m->head.chunk_rows * 4 * sizeof(double));
    bool described = make_cache(m, config->cache);
    if (st == AX_OK && m->blocks && m->saved && m->stream && m->slabs && m->head.host_sums &&
        described) {
        build(m);
        return AX_OK;
    }
    ax_model_fini(m);
    AX_CHECK(st != AX_OK, AX_ENOMEM, "no memory to describe a model of %zu blocks", layers);
    return st;
}

void ax_model_fini(ax_model *m)
{
    ax_params_fini(&m->params);
    free(m->blocks);
    free(m->saved);
    free(m->stream);
    free(m->slabs);
    free(m->head.host_sums);
    free(m->cache.length);
    free(m->cache.row);
    free(m->cache.keep);
    *m = (ax_model){0};
}

static ax_status bind_tables(ax_model *m, ax_arena *run)
{
    const ax_layout *l = &m->nn.layout;
    ax_tensor inv_freq = {0};
    AX_TRY(ax_tensor_alloc(run, AX_I32, 1, l->rows, &m->ids));
    AX_TRY(ax_tensor_alloc(run, AX_I32, 1, l->rows, &m->targets));
    AX_TRY(ax_tensor_alloc(run, AX_I32, 1, l->rows, &m->in_sequence));
    if (m->document_mask)
        AX_TRY(ax_tensor_alloc(run, AX_I32, 1, l->rows, &m->in_document));
    m->nn.positions = m->in_sequence;
    if (m->cache.room)
        AX_TRY(ax_cache_bind(&m->nn, run, &m->cache));
    if (m->nn.arch->kind == AX_LLAMA)
        AX_TRY(ax_tensor_alloc(run, m->nn.acc, 1, m->nn.arch->head_dim / 2, &inv_freq));
    for (int64_t i = 0; i < m->nn.arch->layers; i++)
        m->blocks[i].attention.inv_freq = inv_freq;
    return AX_OK;
}

ax_status ax_model_bind(ax_model *m, ax_arena *run, int what)
{
    AX_TRY(ax_params_bind(&m->params, m->nn.grid, run, what));
    int slabs = m->nn.layers + 2;
    AX_TRY(ax_weights_bind(&m->nn, m->slabs, slabs, run, what & AX_BIND_GRAD));
    return bind_tables(m, run);
}

static ax_status upload_positions(ax_model *m, ax_tensor to)
{
    for (int64_t i = 0; i < to.cols; i++) {
        int32_t position = (int32_t)(i % m->nn.layout.seq);
        AX_TRY(ax_device_copy(m->nn.dev, (int32_t *)to.data + i, &position, sizeof position));
    }
    return AX_OK;
}

static ax_status upload_frequencies(ax_model *m, ax_tensor to)
{
    for (int64_t i = 0; i < to.cols; i++) {
        double wide = ax_arch_rope_frequency(m->nn.arch, i);
        float narrow = (float)wide;
        size_t size = ax_dtype_size(to.dtype);
        AX_TRY(ax_device_copy(m->nn.dev, (char *)to.data + (size_t)i * size,
                              to.dtype == AX_F64 ? (void *)&wide : (void *)&narrow, size));
    }
    return AX_OK;
}

ax_status ax_model_upload(ax_model *m)
{
    const ax_attention *a = &m->blocks[0].attention;
    AX_TRY(upload_positions(m, m->in_sequence));
    if (a->rotary)
        AX_TRY(upload_frequencies(m, a->inv_freq));
    for (int i = 0; i < m->params.count; i++)
        if (m->params.list[i].matrix && m->params.list[i].grad.data)
            AX_TRY(ax_fill(m->nn.dev, m->params.list[i].grad, 0.0)); // padding stays zero
    return AX_OK;
}

// Kernels index by positions: they are checked here, once.
static ax_status load_positions(ax_model *m, const int32_t *positions)
{
    const ax_layout *l = &m->nn.layout;
    m->nn.documents = m->document_mask && positions;
    m->nn.positions = m->nn.documents ? m->in_document : m->in_sequence;
    if (!m->nn.documents || m->nn.dev->measuring)
        return AX_OK;
    for (int64_t i = 0; i < l->rows; i++)
        AX_CHECK(positions[i] >= 0 && positions[i] <= i % l->seq, AX_EINTERNAL,
                 "row %lld of a sequence has position %d in its document", (long long)(i % l->seq),
                 (int)positions[i]);
    return ax_device_copy(m->nn.dev, m->in_document.data, positions,
                          ax_tensor_bytes(m->in_document));
}

static ax_status load_batch(ax_model *m, const ax_batch *b)
{
    size_t bytes = ax_tensor_bytes(m->ids);
    AX_TRY(load_positions(m, b->positions));
    if (m->nn.dev->measuring)
        return AX_OK;
    AX_TRY(ax_device_copy(m->nn.dev, m->ids.data, b->ids, bytes));
    return b->targets ? ax_device_copy(m->nn.dev, m->targets.data, b->targets, bytes) : AX_OK;
}

static ax_status new_stream(ax_model *m, ax_tensor *out)
{
    const ax_nn *nn = &m->nn;
    return ax_tensor_alloc(nn->step, nn->acc, nn->layout.rows_outer,
                           nn->arch->hidden / nn->grid->shape.y, out);
}

// Embedding and blocks. `save`: what backward needs stays in the step arena; else two streams take
// turns.
static ax_status forward(ax_model *m, ax_tensor ids, bool save)
{
    ax_nn *nn = &m->nn;
    nn->phase = AX_FORWARD;
    if (nn->overlap & AX_OAG)
        AX_TRY(ax_weights_begin(nn, nn->order[0])); // arrives under the embedding
    AX_TRY(new_stream(m, &m->stream[0]));
    AX_TRY(ax_embed_layer_fwd(nn, &m->embed, ids, m->stream[0]));
    for (int64_t i = 0; i < nn->arch->layers; i++) {
        if (save || i == 0)
            AX_TRY(new_stream(m, &m->stream[i + 1]));
        else
            m->stream[i + 1] = m->stream[i - 1];
        size_t mark = ax_arena_mark(nn->step);
        AX_TRY(ax_block_fwd(nn, &m->blocks[i], m->stream[i], &m->saved[i], m->stream[i + 1]));
        if (!save || nn->recompute == AX_RECOMPUTE_FULL)
            ax_arena_release(nn->step, mark);
    }
    return AX_OK;
}

typedef struct final_state {
    ax_tensor sums, h; // of the final norm: row sums; (rows_outer, H/Gy) act
} final_state;

static ax_status final_fwd(ax_model *m, final_state *f)
{
    ax_nn *nn = &m->nn;
    ax_tensor x = m->stream[nn->arch->layers];
    AX_TRY(
        ax_tensor_alloc(nn->step, nn->acc, x.rows, ax_norm_sums_width(&m->final_norm), &f->sums));
    AX_TRY(ax_nn_saved(nn, x.rows, x.cols, &f->h));
    return ax_norm_layer_fwd(nn, &m->final_norm, x, f->sums, f->h);
}

static ax_status block_bwd(ax_model *m, int64_t i, ax_tensor d)
{
    ax_nn *nn = &m->nn;
    size_t mark = ax_arena_mark(nn->step);
    if (nn->recompute == AX_RECOMPUTE_FULL) {
        nn->phase = AX_RECOMPUTE;
        AX_TRY(ax_block_again(nn, &m->blocks[i], m->stream[i], &m->saved[i]));
    }
    nn->phase = AX_BACKWARD;
    AX_TRY(ax_block_bwd(nn, &m->blocks[i], m->stream[i], &m->saved[i], d));
    ax_arena_release(nn->step, mark);
    return AX_OK;
}

static ax_status clear_vector_grads(ax_model *m)
{
    for (int sum = 0; sum < AX_SUMS; sum++)
        for (int copies = 0; copies < 2; copies++)
            AX_TRY(ax_fill(m->nn.dev, m->params.vector_grad[sum][copies], 0.0));
    return AX_OK;
}

ax_status ax_model_micro_batch(ax_model *m, const ax_batch *batch, double *loss_sum)
{
    ax_nn *nn = &m->nn;
    size_t mark = ax_arena_mark(nn->step), call = ax_arena_mark(nn->call);
    final_state f;
    ax_tensor d, dh;
    AX_TRY(load_batch(m, batch));
    if (nn->first_micro)
        AX_TRY(clear_vector_grads(m));
    AX_TRY(forward(m, m->ids, true));
    AX_TRY(final_fwd(m, &f));

    AX_TRY(new_stream(m, &d));
    AX_TRY(ax_nn_scratch(nn, d.rows, d.cols, &dh));
    AX_TRY(ax_head_loss_bwd(nn, &m->head, f.h, m->targets, loss_sum, dh));
    AX_TRY(ax_fill(nn->dev, d, 0.0));
    AX_TRY(ax_norm_layer_bwd(nn, &m->final_norm, m->stream[nn->arch->layers], f.sums, dh, d));
    for (int64_t i = nn->arch->layers - 1; i >= 0; i--)
        AX_TRY(block_bwd(m, i, d));
    AX_TRY(ax_embed_layer_bwd(nn, &m->embed, m->ids, d));
    AX_TRY(ax_grads_drain(nn));
    ax_arena_release(nn->call, call);
    ax_arena_release(nn->step, mark);
    return AX_OK;
}

ax_status ax_model_hidden(ax_model *m, ax_tensor ids, ax_tensor *h)
{
    final_state f;
    AX_TRY(forward(m, ids, false));
    AX_TRY(final_fwd(m, &f));
    *h = f.h;
    return AX_OK;
}

ax_status ax_model_loss(ax_model *m, const ax_batch *batch, double *loss_sum, double *token_loss)
{
    ax_nn *nn = &m->nn;
    size_t mark = ax_arena_mark(nn->step);
    ax_tensor h;
    AX_TRY(load_batch(m, batch));
    AX_TRY(ax_model_hidden(m, m->ids, &h));
    AX_TRY(ax_head_loss(nn, &m->head, h, m->targets, loss_sum, token_loss));
    ax_arena_release(nn->step, mark);
    return AX_OK;
}

ax_status ax_model_logits(ax_model *m, const int32_t *ids, int64_t row, float *logits)
{
    ax_nn *nn = &m->nn;
    size_t mark = ax_arena_mark(nn->step);
    ax_tensor h, out, narrow;
    AX_TRY(load_batch(m, &(ax_batch){.ids = ids}));
    AX_TRY(ax_model_hidden(m, m->ids, &h));
    AX_TRY(ax_tensor_alloc(nn->step, nn->acc, 1, nn->layout.vocab_padded, &out));
    AX_TRY(ax_tensor_alloc(nn->step, AX_F32, 1, nn->layout.vocab_padded, &narrow));
    AX_TRY(ax_head_logits(nn, &m->head, h, &row, 1, out));
    AX_TRY(ax_copy(nn->dev, out, narrow));
    if (!nn->dev->measuring)
        AX_TRY(ax_device_copy(nn->dev, logits, narrow.data, ax_tensor_bytes(narrow)));
    ax_arena_release(nn->step, mark);
    return AX_OK;
}
