// Names follow docs/parallelism.md, section "Memory".
#include "memory.h"

typedef struct held { // what the formulas are made of
    const ax_arch *a;
    const ax_trainer_config *c;
    const ax_layout *l;
    memory_table *t;
    int64_t Gx, Gy, Gz, Gd;
    int64_t act, acc;
    bool gpt, narrow_z, narrow_data;
    int64_t largest[3];  // local blocks of a layer, by the slot it uses
    int64_t returned[3]; // of them at one z coordinate
    int64_t most_piece;  // of a matrix of a block
    int64_t vocab_piece;
} held;

static int64_t round_up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

// One matrix: a piece of weights and gradient, a part of everything else.
static int64_t add_matrix(held *h, int64_t block, int64_t count)
{
    int64_t piece = round_up(block, 64 * h->Gz * h->Gd) / h->Gz, part = piece / h->Gd;
    memory_table *t = h->t;
    t->weights += count * piece * h->act;
    t->grads += count * piece * h->acc;
    t->reduced += h->Gd > 1 ? count * part * h->acc : 0;
    t->masters += h->act == h->acc ? 0 : count * part * h->acc;
    t->moments += 2 * count * part * h->acc;
    t->run_tensors += 6 * count;
    return piece;
}

static void add_vector(held *h, int64_t width, int64_t count)
{
    h->t->weights += count * width * h->acc; // its own master
    h->t->grads += count * width * h->acc;
    h->t->moments += 2 * count * width * h->acc;
    h->t->run_tensors += 4 * count;
}

// A linear layer of one to three matrices whose blocks are stacked for one matmul.
static void add_linear(held *h, int slot, const int64_t *block, int parts)
{
    int64_t all = 0, pieces = 0;
    bool direct = h->Gz == 1;
    for (int i = 0; i < parts; i++) {
        int64_t piece = add_matrix(h, block[i], h->a->layers);
        h->most_piece = most(h->most_piece, piece);
        pieces += piece;
        direct = direct && (i == parts - 1 || block[i] % (64 * h->Gd) == 0);
        all += block[i];
    }
    if (direct)
        return; // the matrices themselves are what the matmul reads and writes
    h->largest[slot] = most(h->largest[slot], all);
    h->returned[slot] = most(h->returned[slot], pieces);
}

static void add_blocks(held *h)
{
    const ax_arch *a = h->a;
    int64_t columns = a->hidden / h->Gy, layers = a->layers;
    int64_t q = a->heads * a->head_dim / h->Gx;
    int64_t kv = a->kv_heads * h->l->kv_copies * a->head_dim / h->Gx, f = a->ffn / h->Gx;
    add_linear(h, 0, (int64_t[]){q * columns, kv * columns, kv * columns}, 3);
    add_linear(h, 1, (int64_t[]){q * columns}, 1);
    add_linear(h, 0, (int64_t[]){f * columns, f * columns}, h->gpt ? 1 : 2);
    add_linear(h, 1, (int64_t[]){f * columns}, 1);
    add_vector(h, columns, (2 * layers + 1) * (h->gpt ? 2 : 1)); // norms
    if (!h->gpt)
        return;
    add_vector(h, columns, 2 * layers + a->seq); // biases of o and down; positions
    add_vector(h, q, layers);
    add_vector(h, kv, 2 * layers);
    add_vector(h, f, layers);
}

static void add_vocab(held *h)
{
    int64_t padded = round_up(h->a->vocab, 64 * h->Gx * h->Gy);
    int64_t block = padded / (h->Gx * h->Gy) * h->a->hidden;
    h->vocab_piece = add_matrix(h, block, h->a->tied ? 1 : 2);
    h->largest[2] = h->Gz > 1 ? block : 0;
    h->returned[2] = h->Gz > 1 ? h->vocab_piece : 0;
}

// What is gathered and summed over z lies in three slots, what is summed over data in bf16 in five.
static void add_buffers(held *h)
{
    memory_table *t = h->t;
    for (int i = 0; i < 3; i++) {
        bool rounds = h->narrow_z && (h->act != 2 || i == 2); // beside the matmul
        int64_t made = h->narrow_z && !rounds ? 2 : h->acc;
        int64_t wire = h->narrow_z ? 2 : h->acc;
        bool back = h->l->accumulation > 1 || h->narrow_z;
        t->gathered += h->largest[i] * h->act;
        t->sums += h->largest[i] * (made + (rounds ? 2 : 0));
        t->sums += back ? h->returned[i] * wire : 0;
    }
    if (h->narrow_data)
        t->sums += (4 * h->most_piece + h->vocab_piece) * 2 * (h->Gd + 1) / h->Gd;
    t->tables = 3 * h->l->rows * 4 + (h->gpt ? 0 : h->a->head_dim / 2 * h->acc);
    t->run_tensors += 12 + 10 + 5 + 6;
}

// What the step arena holds where backward begins, or, with full recompute, in the last block.
static void add_step(held *h)
{
    const ax_arch *a = h->a;
    const ax_layout *l = h->l;
    int64_t width = a->hidden / h->Gy, row_sums = h->gpt ? 2 : 1, heads_over = 1;
    if (l->attention == AX_SIDE_HEADS)
        heads_over = h->Gy;
    int64_t heads = a->heads / h->Gx / heads_over, f = a->ffn / h->Gx;
    int64_t kv = a->kv_heads * l->kv_copies / h->Gx / heads_over;
    bool selective = h->c->recompute == AX_RECOMPUTE_SELECTIVE;
    int64_t outer = 2 * row_sums * h->acc + width * h->acc + (selective ? 0 : 2 * width * h->act);
    int64_t attention = (2 * heads + 2 * kv) * a->head_dim * h->act + heads * h->acc;
    int64_t mlp = ((h->gpt ? f : 2 * f) + (selective ? 0 : f)) * h->act;
    memory_table *t = h->t;
    t->stream = (a->layers + 1) * l->rows_outer * width * h->acc;
    t->block = l->rows_outer * outer + l->rows_attention * attention + l->rows_mlp * mlp;
    t->ends = l->rows_outer * (row_sums * h->acc + width * (h->act + h->acc));
    bool full = h->c->recompute == AX_RECOMPUTE_FULL;
    t->step = t->stream + t->ends + t->block * (full ? 1 : a->layers);
    t->step_tensors = a->layers + 1 + 3 + 10 * (full ? 1 : a->layers);
}

void memory_expect(const ax_arch *arch, const ax_trainer_config *config, const ax_layout *layout,
                   memory_table *out)
{
    const ax_grid_shape *g = &config->grid;
    *out = (memory_table){0};
    held h = {.a = arch,
              .c = config,
              .l = layout,
              .t = out,
              .Gx = g->x,
              .Gy = g->y,
              .Gz = g->z,
              .Gd = g->data,
              .gpt = arch->kind == AX_GPT};
    h.act = config->act == AX_F64 ? 8 : config->act == AX_F32 ? 4 : 2;
    h.acc = config->act == AX_F64 ? 8 : 4;
    h.narrow_z = config->narrow_grads && h.Gz > 1;
    h.narrow_data = config->narrow_grads && h.Gd > 1;
    add_blocks(&h);
    add_vocab(&h);
    add_buffers(&h);
    add_step(&h);
}

int64_t memory_run(const memory_table *t)
{
    return t->weights + t->grads + t->reduced + t->masters + t->moments + t->gathered + t->sums +
           t->tables;
}
