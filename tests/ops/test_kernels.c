// Every kernel on every device and dtype against the reference in double, over shapes that are
// odd, empty, one row, strided, and larger than a tile or a piece. One line for each: the worst
// error and the speed at the last shape.
#include "operand.h"

#include <stdio.h>
#include <time.h>
#ifdef AX_WITH_ONEDNN
#include "dev/cpu/cpu.h"
#endif

typedef struct shape {
    int64_t n[5];
    int64_t gap;
} shape;

typedef struct scene {
    ax_device *gold, *dev;
    ax_dtype act, acc;
    shape at;
    double worst, seconds, work; // work: flops or bytes of the last shape
    double slack;                // errors may be this much larger than the band of `act`
} scene;

// Largest error as a share of the largest element: rounding of the dtype, and of sums in it.
static const double bands[] = {[AX_F64] = 1e-12, [AX_F32] = 1e-5, [AX_BF16] = 1.2e-2};

typedef struct op {
    const char *name, *unit;
    void (*run)(scene *s);
    const shape *shapes;
    int count;
} op;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Runs the call on the device under test and keeps its time.
#define TIMED(s, call)                                                                             \
    do {                                                                                           \
        double timed_from = now_s();                                                               \
        assert_int_equal(call, AX_OK);                                                             \
        (s)->seconds = now_s() - timed_from;                                                       \
    } while (0)
#define GOLD(call) assert_int_equal(call, AX_OK)

static void compare(scene *s, const operand *o)
{
    double e = error_of(o) / s->slack;
    s->worst = e <= s->worst ? s->worst : e;
    assert_guards(o);
}

static double bytes_of(ax_tensor t)
{
    return (double)ax_tensor_bytes(t);
}

static double uniform(uint64_t i)
{
    return ax_rng_uniform(3, 5, i);
}

static ax_tensor make_ids(int64_t count, int64_t low, int64_t high)
{
    int32_t *ids = malloc((size_t)count * sizeof *ids + 1);
    assert_non_null(ids);
    for (int64_t i = 0; i < count; i++)
        ids[i] = (int32_t)(low + (int64_t)(uniform((uint64_t)i) * (double)(high - low)));
    return ax_tensor_over(ids, AX_I32, 1, count);
}

// ---- gemm ----

static void gemm_case(scene *s, ax_trans ta, ax_trans tb, ax_dtype c_dtype, double beta)
{
    int64_t m = s->at.n[0], n = s->at.n[1], k = s->at.n[2], gap = s->at.gap;
    operand a = make(s->act, ta ? k : m, ta ? m : k, gap, 1);
    operand b = make(s->act, tb ? n : k, tb ? k : n, gap, 1);
    operand c = make(c_dtype, m, n, gap, 1);
    ax_gemm_args g = {ta, tb, a.gold, b.gold, c.gold, beta};
    GOLD(ax_gemm(s->gold, &g));
    g = (ax_gemm_args){ta, tb, a.t, b.t, c.t, beta};
    TIMED(s, ax_gemm(s->dev, &g));
    s->work = 2.0 * (double)(m * n * k);
    compare(s, &c);
    release(&a);
    release(&b);
    release(&c);
}

static void run_gemm(scene *s)
{
    for (int form = 0; form < 4; form++)
        for (int beta = 0; beta < 2; beta++) {
            gemm_case(s, (ax_trans)(form & 1), (ax_trans)(form >> 1), s->acc, beta);
            if (s->act != s->acc)
                gemm_case(s, (ax_trans)(form & 1), (ax_trans)(form >> 1), s->act, beta);
        }
}

static const shape gemm_shapes[] = {
    {{1, 1, 1}, 0},      {{3, 5, 7}, 3},       {{64, 64, 64}, 0},    {{33, 65, 66}, 1},
    {{0, 4, 4}, 0},      {{4, 0, 4}, 0},       {{5, 6, 0}, 2},       {{1, 100, 40}, 0},
    {{100, 1, 40}, 5},   {{4300, 10, 250}, 0}, {{10, 4300, 250}, 8}, {{256, 272, 400}, 0},
    {{70, 61, 9000}, 0}, {{7, 1100, 4500}, 3}, // deeper than one chunk of packed columns
};

// ---- attention ----

typedef struct attention_case {
    operand qkv, out, lse, dout, dqkv;
    ax_attention_args gold, test;
} attention_case;

static ax_attention_args attention_args(const shape *at, const attention_case *c, bool gold)
{
    int64_t q = at->n[2] * at->n[4], kv = at->n[3] * at->n[4];
    ax_tensor qkv = gold ? c->qkv.gold : c->qkv.t, dqkv = gold ? c->dqkv.gold : c->dqkv.t;
    return (ax_attention_args){
        .sequences = at->n[0],
        .seq = at->n[1],
        .heads = at->n[2],
        .kv_heads = at->n[3],
        .head_dim = at->n[4],
        .scale = 1 / sqrt((double)at->n[4]),
        .q = ax_tensor_cols(qkv, 0, q),
        .k = ax_tensor_cols(qkv, q, kv),
        .v = ax_tensor_cols(qkv, q + kv, kv),
        .out = gold ? c->out.gold : c->out.t,
        .lse = gold ? c->lse.gold : c->lse.t,
        .dout = gold ? c->dout.gold : c->dout.t,
        .dq = ax_tensor_cols(dqkv, 0, q),
        .dk = ax_tensor_cols(dqkv, q, kv),
        .dv = ax_tensor_cols(dqkv, q + kv, kv),
    };
}

static attention_case make_attention(const scene *s)
{
    const shape *at = &s->at;
    int64_t rows = at->n[0] * at->n[1], q = at->n[2] * at->n[4], kv = at->n[3] * at->n[4];
    attention_case c = {
        .qkv = make(s->act, rows, q + 2 * kv, at->gap, 1.5),
        .out = make(s->act, rows, q, at->gap, 1),
        .lse = make(s->acc, rows, at->n[2], at->gap, 1),
        .dout = make(s->act, rows, q, at->gap, 1),
        .dqkv = make(s->act, rows, q + 2 * kv, at->gap, 1),
    };
    c.gold = attention_args(at, &c, true);
    c.test = attention_args(at, &c, false);
    return c;
}

static void release_attention(attention_case *c)
{
    release(&c->qkv);
    release(&c->out);
    release(&c->lse);
    release(&c->dout);
    release(&c->dqkv);
}

static double attention_work(const scene *s)
{
    const int64_t *n = s->at.n;
    return 4.0 * (double)(n[0] * n[2] * n[4] * n[1] * (n[1] + 1) / 2);
}

// Where rows stand in their documents: nowhere, documents of mixed lengths (ones and long ones
// among them), or a window of the last 40 rows, which begins at no border.
typedef enum documents {
    NO_DOCUMENTS,
    DOCUMENTS,
    WINDOWS,
    FORMS,
} documents;

static void set_positions(scene *s, attention_case *c, documents form)
{
    int64_t rows = s->at.n[0] * s->at.n[1], seq = s->at.n[1];
    int32_t *position = calloc((size_t)rows + 1, sizeof *position);
    assert_non_null(position);
    for (int64_t i = 0; i < rows; i++) {
        int64_t at = i % seq;
        bool border = at == 0 || uniform((uint64_t)i) < (i / 100 % 2 ? 0.2 : 0.01);
        int64_t document = border ? 0 : position[i - 1] + 1;
        position[i] = (int32_t)(form == DOCUMENTS ? document : at < 40 ? at : 40);
    }
    if (form != NO_DOCUMENTS)
        c->gold.positions = c->test.positions = ax_tensor_over(position, AX_I32, 1, rows);
    else
        free(position);
}

static void attention_fwd_case(scene *s, documents form)
{
    attention_case c = make_attention(s);
    set_positions(s, &c, form);
    GOLD(ax_attention_fwd(s->gold, &c.gold));
    TIMED(s, ax_attention_fwd(s->dev, &c.test));
    s->work = attention_work(s);
    compare(s, &c.out);
    compare(s, &c.lse);
    free(c.gold.positions.data);
    release_attention(&c);
}

static void run_attention_fwd(scene *s)
{
    for (int form = 0; form < FORMS; form++)
        attention_fwd_case(s, (documents)form);
}

static void attention_bwd_case(scene *s, documents form)
{
    attention_case c = make_attention(s);
    set_positions(s, &c, form);
    GOLD(ax_attention_fwd(s->gold, &c.gold));
    tensor_from_twin(&c.out);
    tensor_from_twin(&c.lse);
    GOLD(ax_attention_bwd(s->gold, &c.gold));
    TIMED(s, ax_attention_bwd(s->dev, &c.test));
    s->work = 2.5 * attention_work(s);
    compare(s, &c.dqkv);
    free(c.gold.positions.data);
    release_attention(&c);
}

static void run_attention_bwd(scene *s)
{
    for (int form = 0; form < FORMS; form++)
        attention_bwd_case(s, (documents)form);
}

static const shape attention_shapes[] = {
    // sequences, T, heads, kv heads, head size
    {{1, 1, 1, 1, 8}, 0},    {{2, 5, 4, 2, 16}, 3},    {{0, 4, 2, 2, 8}, 0},
    {{1, 97, 2, 1, 64}, 0},  {{3, 33, 6, 3, 20}, 1},   {{1, 110, 1, 1, 128}, 0},
    {{1, 192, 4, 1, 5}, 2},  {{1, 100, 1, 1, 256}, 0}, {{2, 96, 3, 3, 32}, 0},
    {{1, 300, 2, 1, 32}, 0},
};

static void cached_case(scene *s, int64_t queries)
{
    const int64_t *n = s->at.n, gap = s->at.gap;
    operand q = make(s->act, n[0] * queries, n[2] * n[4], gap, 1.5);
    operand k = make(s->act, n[0] * n[3] * n[1], n[4], gap, 1.5);
    operand v = make(s->act, n[0] * n[3] * n[1], n[4], gap, 1);
    operand out = make(s->act, n[0] * queries, n[2] * n[4], gap, 1);
    ax_tensor lengths = make_ids(n[0], queries, n[1] + 1);
    if (n[0] > 0)
        ((int32_t *)lengths.data)[0] = (int32_t)n[1]; // one is full
    ax_attention_cached_args gold = {.sequences = n[0],
                                     .queries = queries,
                                     .heads = n[2],
                                     .kv_heads = n[3],
                                     .head_dim = n[4],
                                     .room = n[1],
                                     .scale = 1 / sqrt((double)n[4]),
                                     .q = q.gold,
                                     .k = k.gold,
                                     .v = v.gold,
                                     .lengths = lengths,
                                     .out = out.gold};
    ax_attention_cached_args test = gold;
    test.q = q.t;
    test.k = k.t;
    test.v = v.t;
    test.out = out.t;
    GOLD(ax_attention_cached(s->gold, &gold));
    TIMED(s, ax_attention_cached(s->dev, &test));
    s->work = bytes_of(k.t) + bytes_of(v.t);
    compare(s, &out);
    operand *all[] = {&q, &k, &v, &out};
    for (int i = 0; i < 4; i++)
        release(all[i]);
    free(lengths.data);
}

static void run_attention_cached(scene *s)
{
    cached_case(s, 3);
    cached_case(s, 1);
}

static const shape cached_shapes[] = {
    // sequences, room, heads, kv heads, head size
    {{1, 3, 1, 1, 8}, 0},    {{2, 5, 4, 2, 16}, 3},    {{0, 4, 2, 2, 8}, 0},
    {{1, 129, 2, 1, 64}, 0}, {{3, 33, 6, 3, 20}, 1},   {{5, 300, 1, 1, 128}, 0},
    {{1, 192, 4, 1, 5}, 2},  {{1, 100, 1, 1, 256}, 0}, {{4, 1000, 8, 2, 64}, 0},
};

// ---- norms ----

typedef struct norm_case {
    operand x, w, b, sums, y, dy, dsums, dx, dw, db;
} norm_case;

static ax_norm_args norm_args(const norm_case *c, ax_norm_kind kind, bool gold)
{
#define SIDE(field) .field = gold ? c->field.gold : c->field.t
    ax_norm_args g = {.kind = kind,
                      .width = c->x.t.cols > 0 ? c->x.t.cols : 1,
                      .eps = 1e-5,
                      SIDE(x),
                      SIDE(w),
                      SIDE(sums),
                      SIDE(y),
                      SIDE(dy),
                      SIDE(dsums),
                      SIDE(dx),
                      SIDE(dw)};
#undef SIDE
    if (kind == AX_LAYERNORM) {
        g.b = gold ? c->b.gold : c->b.t;
        g.db = gold ? c->db.gold : c->db.t;
    }
    return g;
}

static void norm_kind(scene *s, ax_norm_kind kind)
{
    int64_t m = s->at.n[0], cols = s->at.n[1], gap = s->at.gap;
    int64_t width = kind == AX_LAYERNORM ? 2 : 1; // of the row sums
    norm_case c = {make(s->acc, m, cols, gap, 1), make(s->acc, 1, cols, 0, 1),
                   make(s->acc, 1, cols, 0, 1),   make(s->acc, m, width, gap, 1),
                   make(s->act, m, cols, gap, 1), make(s->act, m, cols, gap, 1),
                   make(s->acc, m, width, 0, 1),  make(s->acc, m, cols, gap, 1),
                   make(s->acc, 1, cols, 0, 1),   make(s->acc, 1, cols, 0, 1)};
    ax_norm_args gold = norm_args(&c, kind, true), test = norm_args(&c, kind, false);
    GOLD(ax_norm_sums(s->gold, &gold));
    TIMED(s, ax_norm_sums(s->dev, &test));
    compare(s, &c.sums);
    tensor_from_twin(&c.sums);
    GOLD(ax_norm_fwd(s->gold, &gold));
    TIMED(s, ax_norm_fwd(s->dev, &test));
    compare(s, &c.y);
    GOLD(ax_norm_bwd_sums(s->gold, &gold));
    TIMED(s, ax_norm_bwd_sums(s->dev, &test));
    compare(s, &c.dsums);
    tensor_from_twin(&c.dsums);
    GOLD(ax_norm_bwd(s->gold, &gold));
    TIMED(s, ax_norm_bwd(s->dev, &test));
    s->work = 2 * (2 * bytes_of(c.x.t) + bytes_of(c.dy.t));
    compare(s, &c.dx);
    compare(s, &c.dw);
    compare(s, &c.db);
    operand *all = &c.x;
    for (size_t i = 0; i < sizeof c / sizeof c.x; i++)
        release(&all[i]);
}

// Wide enough that the variance is not lost between E[x^2] and the mean's square.
static const shape norm_shapes[] = {
    {{1, 9}, 0}, {{3, 30}, 2},    {{5, 64}, 0},    {{17, 100}, 1},
    {{0, 5}, 0}, {{2, 20000}, 3}, {{150, 257}, 7}, {{300, 384}, 0},
};

static void run_norm(scene *s)
{
    norm_kind(s, AX_LAYERNORM);
    norm_kind(s, AX_RMSNORM);
}

static const shape row_shapes[] = {
    {{1, 1}, 0}, {{3, 7}, 2},     {{5, 64}, 0},    {{17, 100}, 1},
    {{0, 5}, 0}, {{2, 20000}, 3}, {{150, 257}, 7}, {{300, 384}, 0},
};

// ---- rope, activations, bias ----

static void run_rope(scene *s)
{
    int64_t m = s->at.n[0], heads = s->at.n[1], d = s->at.n[2];
    operand x = make(s->act, m, heads * d, s->at.gap, 1), freq = make(s->acc, 1, d / 2, 0, 1);
    ax_tensor positions = make_ids(m, 0, 200000);
    for (int64_t i = 0; i < d / 2; i++)
        set(freq.t, 0, i, pow(10000, -2.0 * (double)i / (double)d));
    twin_from_tensor(&freq);
    for (int direction = 1; direction >= -1; direction -= 2) {
        GOLD(ax_rope(s->gold, x.gold, positions, freq.gold, d, direction));
        TIMED(s, ax_rope(s->dev, x.t, positions, freq.t, d, direction));
        compare(s, &x);
        tensor_from_twin(&x);
    }
    s->work = 2 * bytes_of(x.t);
    release(&x);
    release(&freq);
    free(positions.data);
}

static const shape rope_shapes[] = {
    // m, heads, head size
    {{1, 1, 2}, 0},   {{5, 3, 10}, 3},    {{0, 2, 8}, 0},
    {{70, 4, 64}, 0}, {{100, 2, 256}, 1}, {{1000, 8, 64}, 0},
};

static void run_gelu(scene *s)
{
    int64_t m = s->at.n[0], n = s->at.n[1], gap = s->at.gap;
    operand x = make(s->act, m, n, gap, 3), y = make(s->act, m, n, gap, 1);
    operand dy = make(s->act, m, n, gap + 1, 1), dx = make(s->act, m, n, gap, 1);
    GOLD(ax_gelu_fwd(s->gold, x.gold, y.gold));
    TIMED(s, ax_gelu_fwd(s->dev, x.t, y.t));
    compare(s, &y);
    GOLD(ax_gelu_bwd(s->gold, x.gold, dy.gold, dx.gold));
    TIMED(s, ax_gelu_bwd(s->dev, x.t, dy.t, dx.t));
    compare(s, &dx);
    s->work = 3 * bytes_of(x.t);
    release(&x);
    release(&y);
    release(&dy);
    release(&dx);
}

static void run_swiglu(scene *s)
{
    int64_t m = s->at.n[0], n = s->at.n[1], gap = s->at.gap;
    operand gate = make(s->act, m, n, gap, 3), up = make(s->act, m, n, gap + 2, 1);
    operand y = make(s->act, m, n, gap, 1), dy = make(s->act, m, n, gap, 1);
    operand dgate = make(s->act, m, n, gap, 1), dup = make(s->act, m, n, gap, 1);
    GOLD(ax_swiglu_fwd(s->gold, gate.gold, up.gold, y.gold));
    TIMED(s, ax_swiglu_fwd(s->dev, gate.t, up.t, y.t));
    compare(s, &y);
    GOLD(ax_swiglu_bwd(s->gold, gate.gold, up.gold, dy.gold, dgate.gold, dup.gold));
    TIMED(s, ax_swiglu_bwd(s->dev, gate.t, up.t, dy.t, dgate.t, dup.t));
    compare(s, &dgate);
    compare(s, &dup);
    s->work = 5 * bytes_of(y.t);
    operand *all[] = {&gate, &up, &y, &dy, &dgate, &dup};
    for (int i = 0; i < 6; i++)
        release(all[i]);
}

static void run_bias(scene *s)
{
    int64_t m = s->at.n[0], n = s->at.n[1], gap = s->at.gap;
    operand y = make(s->act, m, n, gap, 1), b = make(s->acc, 1, n, 0, 1);
    GOLD(ax_bias_fwd(s->gold, y.gold, b.gold));
    TIMED(s, ax_bias_fwd(s->dev, y.t, b.t));
    compare(s, &y);
    tensor_from_twin(&y);
    GOLD(ax_bias_bwd(s->gold, y.gold, b.gold));
    TIMED(s, ax_bias_bwd(s->dev, y.t, b.t));
    compare(s, &b);
    s->work = bytes_of(y.t);
    release(&y);
    release(&b);
}

// ---- embedding and loss ----

static void embed_case(scene *s, ax_dtype table_dtype, ax_dtype x_dtype)
{
    int64_t m = s->at.n[0], n = s->at.n[1], gap = s->at.gap, rows = 40, first = 10;
    operand table = make(table_dtype, rows, n, gap, 1), x = make(x_dtype, m, n, gap, 1);
    operand dtable = make(s->acc, rows, n, gap, 1);
    ax_tensor ids = make_ids(m, 0, first + rows + 10);
    GOLD(ax_embed_fwd(s->gold, ids, first, table.gold, x.gold));
    TIMED(s, ax_embed_fwd(s->dev, ids, first, table.t, x.t));
    compare(s, &x);
    GOLD(ax_embed_bwd(s->gold, ids, first, x.gold, dtable.gold));
    tensor_from_twin(&x);
    TIMED(s, ax_embed_bwd(s->dev, ids, first, x.t, dtable.t));
    compare(s, &dtable);
    s->work = 3 * bytes_of(x.t);
    release(&table);
    release(&x);
    release(&dtable);
    free(ids.data);
}

static void run_embed(scene *s)
{
    embed_case(s, s->act, s->act);
    embed_case(s, s->act, s->acc);
}

static void xent_case(scene *s, int64_t first, int64_t vocab)
{
    int64_t m = s->at.n[0], n = s->at.n[1], gap = s->at.gap;
    operand logits = make(s->acc, m, n, gap, 4), max = make(s->acc, 1, m, 0, 1);
    operand sums = make(s->acc, m, 2, gap, 1), dlogits = make(s->act, m, n, gap, 1);
    ax_tensor targets = make_ids(m, -2, vocab + 3);
    ax_xent_args gold = {first,    vocab,     logits.gold, targets,
                         max.gold, sums.gold, 1.0 / 7,     dlogits.gold};
    ax_xent_args test = {first, vocab, logits.t, targets, max.t, sums.t, 1.0 / 7, dlogits.t};
    GOLD(ax_xent_max(s->gold, &gold));
    TIMED(s, ax_xent_max(s->dev, &test));
    compare(s, &max);
    for (int64_t i = 0; i < m; i++) // as if a larger logit stood in another slice
        set(max.gold, 0, i, fmax(get(max.gold, 0, i), 1) + 0.5);
    tensor_from_twin(&max);
    GOLD(ax_xent_sums(s->gold, &gold));
    TIMED(s, ax_xent_sums(s->dev, &test));
    compare(s, &sums);
    for (int64_t i = 0; i < m; i++)
        set(sums.gold, i, 0, get(sums.gold, i, 0) + 1);
    tensor_from_twin(&sums);
    GOLD(ax_xent_bwd(s->gold, &gold));
    TIMED(s, ax_xent_bwd(s->dev, &test));
    compare(s, &dlogits);
    s->work = bytes_of(logits.t) + bytes_of(dlogits.t);
    operand *all[] = {&logits, &max, &sums, &dlogits};
    for (int i = 0; i < 4; i++)
        release(all[i]);
    free(targets.data);
}

static void run_xent(scene *s)
{
    int64_t n = s->at.n[1];
    xent_case(s, n, n + n / 2); // half of the slice is padding
    xent_case(s, 2 * n, n);     // all of it
    xent_case(s, 0, 3 * n);     // none
}

// ---- optimizer, copies, sums ----

static void adamw_case(scene *s, ax_dtype weight_dtype)
{
    int64_t n = s->at.n[1];
    operand w = make(s->acc, 1, n, 0, 1), m = make(s->acc, 1, n, 0, 0.1);
    operand v = make(s->acc, 1, n, 0, 0.1), grad = make(s->acc, 1, n, 0, 1);
    operand weight = make(weight_dtype, 1, n, 0, 1);
    for (int64_t i = 0; i < n; i++)
        set(v.t, 0, i, fabs(get(v.t, 0, i)));
    twin_from_tensor(&v);
    ax_step_scalars step = {1e-2, 0.9, 0.95, 1e-8, 0.19, 0.0975, 0.5};
    ax_adamw_args gold = {&step, 0.1, w.gold, m.gold, v.gold, grad.gold, weight.gold};
    ax_adamw_args test = {&step, 0.1, w.t, m.t, v.t, grad.t, weight.t};
    GOLD(ax_adamw(s->gold, &gold));
    TIMED(s, ax_adamw(s->dev, &test));
    s->work = 7 * bytes_of(w.t) + bytes_of(weight.t);
    operand *all[] = {&w, &m, &v, &grad, &weight};
    for (int i = 0; i < 5; i++) {
        compare(s, all[i]);
        release(all[i]);
    }
}

static void run_adamw(scene *s)
{
    adamw_case(s, s->act);
    adamw_case(s, s->acc);
}

static void copy_case(scene *s, ax_dtype from, ax_dtype to)
{
    int64_t m = s->at.n[0], n = s->at.n[1], gap = s->at.gap;
    operand x = make(from, m, n, gap, 1), y = make(to, m, n, gap + 1, 1);
    s->slack = fmax(1, fmax(bands[from], bands[to]) / bands[s->act]);
    GOLD(ax_copy(s->gold, x.gold, y.gold));
    TIMED(s, ax_copy(s->dev, x.t, y.t));
    compare(s, &y);
    tensor_from_twin(&y);
    GOLD(ax_add(s->gold, x.gold, y.gold));
    TIMED(s, ax_add(s->dev, x.t, y.t));
    compare(s, &y);
    s->work = bytes_of(x.t) + 2 * bytes_of(y.t);
    GOLD(ax_fill(s->gold, y.gold, 0.75));
    assert_int_equal(ax_fill(s->dev, y.t, 0.75), AX_OK);
    compare(s, &y);
    release(&x);
    release(&y);
}

static void run_copy(scene *s)
{
    static const ax_dtype all[] = {AX_F64, AX_F32, AX_BF16};
    for (int i = 0; i < 3; i++) {
        copy_case(s, s->act, all[i]);
        copy_case(s, all[i], s->act);
    }
}

static void run_square_sum(scene *s)
{
    operand x = make(s->act, s->at.n[0], s->at.n[1], s->at.gap, 1);
    double broken = 0;
    for (int64_t i = 0; i < x.t.rows && x.t.cols > 2; i += 3) {
        set(x.t, i, x.t.cols - 1, i % 2 ? NAN : INFINITY);
        broken++;
    }
    twin_from_tensor(&x);
    double gold[2] = {1, 2}, test[2] = {1, 2};
    GOLD(ax_square_sum(s->gold, x.gold, gold));
    TIMED(s, ax_square_sum(s->dev, x.t, test));
    assert_true(test[1] == broken + 2 && gold[1] == broken + 2);
    double e = fabs(test[0] - gold[0]) / gold[0];
    s->worst = e <= s->worst ? s->worst : e;
    s->work = bytes_of(x.t);
    release(&x);
}

// ---- the product of all ----

#define SHAPES(list) list, (int)(sizeof list / sizeof list[0])
static const op ops[] = {
    {"gemm", "Gflop/s", run_gemm, SHAPES(gemm_shapes)},
    {"attention_fwd", "Gflop/s", run_attention_fwd, SHAPES(attention_shapes)},
    {"attention_bwd", "Gflop/s", run_attention_bwd, SHAPES(attention_shapes)},
    {"attention_cached", "GB/s", run_attention_cached, SHAPES(cached_shapes)},
    {"norm", "GB/s", run_norm, SHAPES(norm_shapes)},
    {"rope", "GB/s", run_rope, SHAPES(rope_shapes)},
    {"gelu", "GB/s", run_gelu, SHAPES(row_shapes)},
    {"swiglu", "GB/s", run_swiglu, SHAPES(row_shapes)},
    {"bias", "GB/s", run_bias, SHAPES(row_shapes)},
    {"embed", "GB/s", run_embed, SHAPES(row_shapes)},
    {"xent", "GB/s", run_xent, SHAPES(row_shapes)},
    {"adamw", "GB/s", run_adamw, SHAPES(row_shapes)},
    {"copy", "GB/s", run_copy, SHAPES(row_shapes)},
    {"square_sum", "GB/s", run_square_sum, SHAPES(row_shapes)},
};

static void run_op(const op *o, ax_device *dev, const char *label, ax_dtype act)
{
    ax_device gold;
    assert_int_equal(ax_device_open(&(ax_device_config){.name = "ref", .core = -1}, &gold), AX_OK);
    scene s = {&gold, dev, act, act == AX_F64 ? AX_F64 : AX_F32, {{0}, 0}, 0, 0, 0, 1};
    for (int i = 0; i < o->count; i++) {
        s.at = o->shapes[i];
        o->run(&s);
    }
    print_message("%-16s %-12s %-5s error %.1e  %8.2f %s\n", o->name, label, ax_dtype_name(act),
                  s.worst, s.work / s.seconds * 1e-9, o->unit);
    if (!(s.worst <= bands[act]))
        fail_msg("%s on %s in %s: error %g beyond %g", o->name, label, ax_dtype_name(act), s.worst,
                 bands[act]);
    ax_device_close(&gold);
}

static void on_device(const op *o, const char *name, const char *label, const ax_kern *kern)
{
    static const ax_dtype dtypes[] = {AX_F64, AX_F32, AX_BF16};
    ax_device dev;
    ax_device_config config = {.name = name, .threads = 2, .core = -1, .workspace = 64 << 20};
    assert_int_equal(ax_device_open(&config, &dev), AX_OK);
    if (kern)
        dev.kern = kern;
    for (int i = 0; i < 3; i++)
        run_op(o, &dev, label, dtypes[i]);
    ax_device_close(&dev);
}

static void test_op(void **state)
{
    const op *o = *state;
    on_device(o, "ref", "ref", NULL);
#ifdef AX_WITH_ONEDNN
    for (const ax_cpu_build *b = ax_cpu_builds; b->isa; b++)
        if (b->runs())
            on_device(o, "cpu", b->isa, b->kern);
#endif
}

int main(void)
{
    enum { COUNT = sizeof ops / sizeof ops[0] };
    static char names[COUNT][80];
    struct CMUnitTest tests[COUNT];
    for (int i = 0; i < COUNT; i++) {
        snprintf(names[i], sizeof names[i], "%s agrees with the reference in double", ops[i].name);
        tests[i] = (struct CMUnitTest){names[i], test_op, NULL, NULL, (void *)(uintptr_t)&ops[i]};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
