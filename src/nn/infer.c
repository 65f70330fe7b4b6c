#include "nn/infer.h"

// ---- layouts of other rows

static void hold(ax_model *m, const ax_layout *l)
{
    m->nn.layout = *l;
    for (int64_t i = 0; i < m->nn.arch->layers; i++) {
        ax_block *b = &m->blocks[i];
        ax_linear_hold(&b->qkv, l->outer, l->attention);
        ax_linear_hold(&b->o, l->outer, l->attention);
        ax_linear_hold(&b->up, l->outer, l->mlp);
        ax_linear_hold(&b->down, l->outer, l->mlp);
    }
}

int64_t ax_infer_seq(const ax_model *m, int64_t tokens)
{
    int64_t seq = 16;
    while (seq < tokens)
        seq = seq & (seq - 1) ? seq / 3 * 4 : seq / 2 * 3; // 16, 24, 32, 48, 64, ...
    return seq < m->cache.room ? seq : m->cache.room;
}

// ---- a pass

static ax_status put(ax_model *m, ax_tensor to, int64_t at, const int32_t *values, int64_t count)
{
    return ax_device_copy(m->nn.dev, (int32_t *)to.data + at, values,
                          (size_t)count * sizeof *values);
}

static ax_status read_logits(ax_model *m, ax_tensor logits, double *out)
{
    for (int64_t s = 0; s < logits.rows && !m->nn.dev->measuring; s++) {
        ax_tensor row = ax_tensor_rows(logits, s, 1);
        if (m->cache.keep[s])
            AX_TRY(
                ax_device_copy(m->nn.dev, out + s * logits.cols, row.data, ax_tensor_bytes(row)));
    }
    return AX_OK;
}

static ax_status forward(ax_model *m, double *logits)
{
    ax_nn *nn = &m->nn;
    size_t mark = ax_arena_mark(nn->step);
    ax_tensor h, out, wide;
    int64_t count = nn->layout.micro_batch, vocab = nn->layout.vocab_padded;
    AX_TRY(ax_model_hidden(m, ax_tensor_cols(m->ids, 0, nn->layout.rows), &h));
    AX_TRY(ax_tensor_alloc(nn->step, nn->acc, count, vocab, &out));
    AX_TRY(ax_tensor_alloc(nn->step, AX_F64, count, vocab, &wide));
    AX_TRY(ax_head_logits(nn, &m->head, h, m->cache.row, count, out));
    AX_TRY(ax_copy(nn->dev, out, wide));
    AX_TRY(read_logits(m, wide, logits));
    ax_arena_release(nn->step, mark);
    return AX_OK;
}

// The ids, and the tensors that say where they stand, are in place.
static ax_status run(ax_model *m, int64_t seq, double *logits)
{
    ax_nn *nn = &m->nn;
    const ax_layout whole = nn->layout, part = ax_layout_resize(&whole, &nn->grid->shape, seq);
    const ax_tensor positions = nn->positions;
    const bool documents = nn->documents;
    nn->cache = &m->cache;
    nn->documents = false;
    nn->positions = ax_tensor_cols(m->cache.positions, 0, part.rows);
    hold(m, &part);
    ax_status st = forward(m, logits);
    hold(m, &whole);
    nn->cache = NULL;
    nn->documents = documents;
    nn->positions = positions;
    return st;
}

static ax_status load_prefill(ax_model *m, const ax_prefill *p)
{
    ax_cache *c = &m->cache;
    int64_t count = m->nn.layout.micro_batch;
    for (int64_t s = 0; s < count; s++) {
        c->keep[s] = p->keep[s];
        AX_CHECK(!c->keep[s] || (p->length[s] > 0 && p->length[s] <= p->seq), AX_EINTERNAL,
                 "prefill: sequence %lld has %d tokens in rows of %lld", (long long)s,
                 (int)p->length[s], (long long)p->seq);
        if (c->keep[s])
            c->length[s] = p->length[s];
        c->row[s] = s * p->seq + (c->keep[s] ? c->length[s] - 1 : 0);
        // The table of a whole row of the model starts with 0, 1, ...
        AX_TRY(put(m, c->positions, s * p->seq, m->in_sequence.data, p->seq));
    }
    return put(m, m->ids, 0, p->ids, count * p->seq);
}

ax_status ax_infer_prefill(ax_model *m, const ax_prefill *p, double *logits)
{
    ax_cache *c = &m->cache;
    AX_CHECK(p->seq > 0 && p->seq <= c->room, AX_EINTERNAL,
             "prefill: rows of %lld tokens in a cache of %lld", (long long)p->seq,
             (long long)c->room);
    c->prefill = true;
    if (!m->nn.dev->measuring)
        AX_TRY(load_prefill(m, p));
    return run(m, p->seq, logits);
}

static ax_status load_step(ax_model *m, const int32_t *ids)
{
    ax_cache *c = &m->cache;
    for (int64_t s = 0; s < m->nn.layout.micro_batch; s++) {
        c->keep[s] = ids[s] >= 0;
        c->row[s] = s;
        AX_CHECK(!c->keep[s] || (c->length[s] > 0 && c->length[s] < c->room), AX_EINTERNAL,
                 "a step of sequence %lld: it has %d tokens, the cache room for %lld", (long long)s,
                 (int)c->length[s], (long long)c->room);
        c->length[s] += c->keep[s];
        // One that rests computes on what it has; nothing of it is kept.
        int32_t id = c->keep[s] ? ids[s] : 0, length = c->length[s] ? c->length[s] : 1;
        int32_t position = length - 1;
        AX_TRY(put(m, m->ids, s, &id, 1));
        AX_TRY(put(m, c->lengths, s, &length, 1));
        AX_TRY(put(m, c->positions, s, &position, 1));
    }
    return AX_OK;
}

ax_status ax_infer_step(ax_model *m, const int32_t *ids, double *logits)
{
    m->cache.prefill = false;
    if (!m->nn.dev->measuring)
        AX_TRY(load_step(m, ids));
    return run(m, 1, logits);
}
