// Names follow docs/parallelism.md, section "Bytes".
#include "bytes.h"

#include <stdio.h>
#include <string.h>

typedef enum held {
    WHOLE, // each rank of y holds all rows and heads
    CUT,   // rows or heads are cut over y
} held;

typedef struct step { // what the formulas are made of
    const ax_arch *a;
    bytes_table *t;
    int64_t Gx, Gy, Gz, Gd;
    int64_t m;        // token rows of a micro-batch
    int64_t M;        // micro-batches of a step
    int64_t act, acc; // bytes of an element
    int64_t sum;      // of partial activations that are added up
    int64_t dw;       // of gradients of matrices on their way
    int64_t copies;   // ranks that hold the same kv heads
    int64_t layers;   // linear layers
    bool sharded, recompute, keep;
    held attention, mlp;
} step;

static int64_t axis_size(const step *s, const char *axis)
{
    const struct {
        const char *name;
        int64_t size;
    } all[] = {{"x", s->Gx},
               {"y", s->Gy},
               {"z", s->Gz},
               {"data", s->Gd},
               {"xy", s->Gx * s->Gy},
               {"zdata", s->Gz * s->Gd},
               {"xzdata", s->Gx * s->Gz * s->Gd},
               {"yzdata", s->Gy * s->Gz * s->Gd},
               {"kv", s->copies},
               {"world", s->Gx * s->Gy * s->Gz * s->Gd}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strcmp(all[i].name, axis) == 0)
            return all[i].size;
    return 0;
}

// `calls` calls that move `bytes` altogether. An axis of one rank moves nothing.
static void add(const step *s, const char *axis, ax_coll coll, const char *tag, int64_t calls,
                int64_t bytes)
{
    if (calls == 0 || axis_size(s, axis) == 1)
        return;
    for (int i = 0; i < s->t->rows; i++) {
        bytes_row *r = &s->t->row[i];
        if (r->coll == coll && strcmp(r->axis, axis) == 0 && strcmp(r->tag, tag) == 0) {
            r->calls += calls;
            r->bytes += bytes;
            return;
        }
    }
    s->t->row[s->t->rows++] = (bytes_row){axis, tag, coll, calls, bytes};
}

static int64_t round_up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

// ---- weights ----

// A matrix that crosses z `gathers` times as weights and `sums` times as gradient in a step, and
// data once each way.
static void add_matrix(const step *s, int64_t block, int64_t gathers, int64_t sums)
{
    int64_t padded = round_up(block, 64 * s->Gz * s->Gd), piece = padded / s->Gz;
    add(s, "z", AX_ALLGATHER, "weights", gathers, gathers * padded * s->act);
    add(s, "z", AX_REDUCE_SCATTER, "dw", sums, sums * padded * s->dw);
    add(s, "data", AX_REDUCE_SCATTER, "gradients", 1, piece * s->dw);
    add(s, "data", AX_ALLGATHER, "update", 1, piece * s->act);
}

// Two slots hold the last two layers that were used. Forward leaves the last two for backward, and
// backward the first two for the next micro-batch; with recomputation every block is gathered
// once more, and backward finds the last two of its four.
static int64_t gathers_of(const step *s, int64_t layer)
{
    int64_t forward = 1 + (s->M - 1) * (layer >= 2);
    int64_t backward = s->recompute ? 1 + (layer % 4 < 2) : layer < s->layers - 2;
    return forward + s->M * backward;
}

static void add_weights(const step *s)
{
    const ax_arch *a = s->a;
    int64_t columns = a->hidden / s->Gy;
    int64_t q = a->heads * a->head_dim / s->Gx * columns;
    int64_t kv = a->kv_heads * s->copies * a->head_dim / s->Gx * columns;
    int64_t f = a->ffn / s->Gx * columns;
    for (int64_t i = 0; i < a->layers; i++) {
        add_matrix(s, q, gathers_of(s, 4 * i), s->M);
        add_matrix(s, kv, gathers_of(s, 4 * i), s->M);
        add_matrix(s, kv, gathers_of(s, 4 * i), s->M);
        add_matrix(s, q, gathers_of(s, 4 * i + 1), s->M);
        add_matrix(s, f, gathers_of(s, 4 * i + 2), s->M);
        if (a->kind == AX_LLAMA)
            add_matrix(s, f, gathers_of(s, 4 * i + 2), s->M);
        add_matrix(s, f, gathers_of(s, 4 * i + 3), s->M);
        int64_t part = round_up(kv, 64 * s->Gz * s->Gd) / (s->Gz * s->Gd);
        add(s, "kv", AX_ALLREDUCE, "kv copies", 2, 2 * part * s->acc);
    }
    // The vocabulary has one slot: a tied table stays in it for the whole step, two tables push
    // each other out.
    int64_t slice = round_up(a->vocab, 64 * s->Gx * s->Gy) / (s->Gx * s->Gy) * a->hidden;
    add_matrix(s, slice, a->tied ? 1 : s->M, s->M);
    if (!a->tied)
        add_matrix(s, slice, s->M, s->M);
}

// ---- vectors ----

// One call sums all vectors that have the same ranks to sum over.
static void add_vectors(const step *s)
{
    const ax_arch *a = s->a;
    bool gpt = a->kind == AX_GPT;
    int64_t h = a->hidden / s->Gy, norms = (2 * a->layers + 1) * (gpt ? 2 : 1);
    int64_t q = a->heads * a->head_dim / s->Gx;
    int64_t kv = a->kv_heads * s->copies * a->head_dim / s->Gx;
    int64_t outer = norms * h + (gpt ? (2 * a->layers + a->seq) * h : 0);
    int64_t attention = gpt ? a->layers * (q + (s->copies == 1 ? 2 * kv : 0)) : 0;
    int64_t copied = gpt && s->copies > 1 ? a->layers * 2 * kv : 0;
    int64_t mlp = gpt ? a->layers * a->ffn / s->Gx : 0;
    int64_t over_zdata = 0, over_yzdata = 0;
    if (s->sharded)
        add(s, "xzdata", AX_ALLREDUCE, "vectors", 1, outer * s->acc);
    else
        over_zdata += outer;
    *(s->attention == CUT ? &over_yzdata : &over_zdata) += attention;
    *(s->mlp == CUT ? &over_yzdata : &over_zdata) += mlp;
    add(s, "zdata", AX_ALLREDUCE, "vectors", over_zdata > 0, over_zdata * s->acc);
    add(s, "yzdata", AX_ALLREDUCE, "vectors", over_yzdata > 0, over_yzdata * s->acc);
    add(s, s->attention == CUT ? "yzdata" : "zdata", AX_ALLREDUCE, "vectors", copied > 0,
        copied * s->acc);
    add(s, "kv", AX_ALLREDUCE, "kv copies", copied > 0, copied * s->acc);
}

// ---- activations ----

static void add_sum(const step *s, const char *axis, bool scattered, const char *tag, int64_t times,
                    int64_t elements)
{
    add(s, axis, scattered ? AX_REDUCE_SCATTER : AX_ALLREDUCE, tag, times,
        times * elements * s->sum);
}

static void add_rows(const step *s, const char *axis, bool cut, const char *tag, int64_t times,
                     int64_t elements)
{
    if (cut)
        add(s, axis, AX_ALLGATHER, tag, times, times * elements * s->act);
}

// A pair of linear layers: into the inner activations (width `in` there) and back out of them
// (width `out`). Times: forward, forward again when recomputing (but for the last layer of a
// block), and backward.
static void add_pair(const step *s, held inner, int64_t in, int64_t out, bool last)
{
    int64_t forward = s->M * (s->recompute ? 2 : 1), again = s->keep ? 0 : s->M;
    int64_t forward_out = last ? s->M : forward;
    int64_t again_out = last && s->recompute ? s->M : again;
    int64_t stream = s->m * (s->a->hidden / s->Gy);
    // Residual stream, over x: the first layer reads it, the second one adds to it.
    add_rows(s, "x", s->sharded, "rows outer", forward + again + s->M, stream);
    add_sum(s, "x", s->sharded, "sum outer", forward_out + s->M, stream);
    // Inner activations, over y: the first layer writes them, the second one reads them.
    add_sum(s, "y", inner == CUT, "sum inner", forward, s->m * in);
    add_rows(s, "y", inner == CUT, "rows inner", s->M, s->m * in);
    add_rows(s, "y", inner == CUT, "rows inner", forward_out + again_out, s->m * out);
    add_sum(s, "y", inner == CUT, "sum inner", s->M, s->m * out);
}

static void add_blocks(const step *s)
{
    const ax_arch *a = s->a;
    int64_t q = a->heads * a->head_dim / s->Gx;
    int64_t kv = a->kv_heads * s->copies * a->head_dim / s->Gx;
    int64_t f = a->ffn / s->Gx;
    for (int64_t i = 0; i < a->layers; i++) {
        add_pair(s, s->attention, q + 2 * kv, q, false);
        add_pair(s, s->mlp, a->kind == AX_LLAMA ? 2 * f : f, f, true);
    }
    int64_t rows = s->sharded ? s->m / s->Gx : s->m, norms = 2 * a->layers + 1;
    int64_t floats = a->kind == AX_GPT ? 2 : 1; // a row
    int64_t forward = norms + (s->recompute ? 2 * a->layers : 0);
    add(s, "y", AX_ALLREDUCE, "norm", s->M * forward, s->M * forward * floats * rows * s->acc);
    add(s, "y", AX_ALLREDUCE, "norm backward", s->M * norms, s->M * norms * floats * rows * s->acc);
}

// Between the vocabulary, cut over x*y, and the residual stream.
static void add_to_stream(const step *s, const char *tag, int64_t element)
{
    int64_t bytes = s->M * s->m * s->a->hidden * element;
    add(s, s->sharded ? "xy" : "y", AX_REDUCE_SCATTER, tag, s->M, bytes);
    if (!s->sharded)
        add(s, "x", AX_ALLREDUCE, tag, s->M, bytes / s->Gy);
}

static void add_from_stream(const step *s, const char *tag)
{
    add(s, s->sharded ? "xy" : "y", AX_ALLGATHER, tag, s->M, s->M * s->m * s->a->hidden * s->act);
}

static void add_ends(const step *s)
{
    add_to_stream(s, "embed", s->act); // zeros but for one rank: any dtype is exact
    add_from_stream(s, "head");
    add_to_stream(s, "head backward", s->sum);
    add_from_stream(s, "embed backward");

    // Logits exist in even chunks of at most 2^25 elements, of 64 rows at least.
    int64_t slice = round_up(s->a->vocab, 64 * s->Gx * s->Gy) / (s->Gx * s->Gy);
    int64_t most = (1 << 25) / slice / 64 * 64;
    most = most < 64 ? 64 : most;
    int64_t wanted = (s->m + most - 1) / most;
    int64_t rows = round_up((s->m + wanted - 1) / wanted, 64);
    int64_t chunks = (s->m + rows - 1) / rows;
    add(s, "xy", AX_ALLREDUCE, "loss max", s->M * chunks, s->M * s->m * s->acc);
    add(s, "xy", AX_ALLREDUCE, "loss sums", s->M * chunks, s->M * 2 * s->m * s->acc);
    add(s, "zdata", AX_ALLREDUCE, "sum", 2, 2 * 8); // targets that count; loss
    add(s, "world", AX_ALLREDUCE, "sum", 1, 2 * 8); // norm^2 and non-finite elements
}

void bytes_expect(const ax_arch *arch, const ax_trainer_config *config, bytes_table *out)
{
    const ax_grid_shape *g = &config->grid;
    step s = {.a = arch, .t = out, .Gx = g->x, .Gy = g->y, .Gz = g->z, .Gd = g->data};
    int64_t here = config->batch / (s.Gz * s.Gd), b = config->micro_batch;
    b = b ? b : here;
    s.m = b * arch->seq;
    s.M = here / b;
    s.act = config->act == AX_F64 ? 8 : config->act == AX_F32 ? 4 : 2;
    s.acc = config->act == AX_F64 ? 8 : 4;
    s.sum = config->wide_sums ? s.acc : s.act;
    s.dw = config->narrow_grads ? 2 : s.acc;
    s.copies = arch->kv_heads < s.Gx ? s.Gx / arch->kv_heads : 1;
    s.layers = 4 * arch->layers;
    s.recompute = config->recompute == AX_RECOMPUTE_FULL;
    s.keep = config->keep_gathered;
    s.sharded = config->activations != AX_ACT_REPLICATED && s.m % s.Gx == 0 && s.m % s.Gy == 0;
    bool heads = arch->heads % (s.Gx * s.Gy) == 0 && arch->kv_heads % (s.Gx * s.Gy) == 0;
    s.mlp = s.sharded ? CUT : WHOLE;
    s.attention = s.sharded && (b % s.Gy == 0 || heads) ? CUT : WHOLE;
    *out = (bytes_table){0};
    add_weights(&s);
    add_vectors(&s);
    add_blocks(&s);
    add_ends(&s);
}

// ---- comparison ----

static const char *const coll_name[] = {"allreduce", "allgather", "reduce-scatter", "bcast"};

static const ax_comm_trace_row *find_seen(const ax_comm_trace *t, const bytes_row *r)
{
    for (int i = 0; i < t->rows; i++)
        if (t->row[i].coll == r->coll && strcmp(t->row[i].axis, r->axis) == 0 &&
            strcmp(t->row[i].tag, r->tag) == 0)
            return &t->row[i];
    return NULL;
}

static bool is_expected(const bytes_table *e, const ax_comm_trace_row *r)
{
    for (int i = 0; i < e->rows; i++)
        if (e->row[i].coll == r->coll && strcmp(e->row[i].axis, r->axis) == 0 &&
            strcmp(e->row[i].tag, r->tag) == 0)
            return true;
    return false;
}

int bytes_compare(const bytes_table *expected, const ax_comm_trace *seen, bool print)
{
    int wrong = 0;
    for (int i = 0; i < expected->rows; i++) {
        const bytes_row *e = &expected->row[i];
        const ax_comm_trace_row *s = find_seen(seen, e);
        if (s && s->calls == e->calls && s->bytes == e->bytes)
            continue;
        wrong++;
        if (print)
            printf("       %s over %s, '%s': %lld bytes in %lld calls by the formula, %lld in %lld "
                   "seen\n",
                   coll_name[e->coll], e->axis, e->tag, (long long)e->bytes, (long long)e->calls,
                   s ? (long long)s->bytes : 0, s ? (long long)s->calls : 0);
    }
    for (int i = 0; i < seen->rows; i++) {
        const ax_comm_trace_row *s = &seen->row[i];
        if (is_expected(expected, s))
            continue;
        wrong++;
        if (print)
            printf("       %s over %s, '%s': %lld bytes in %lld calls that no formula names\n",
                   coll_name[s->coll], s->axis, s->tag, (long long)s->bytes, (long long)s->calls);
    }
    return wrong;
}
