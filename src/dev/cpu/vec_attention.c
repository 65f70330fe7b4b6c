// Causal attention in tiles of TILE queries by TILE keys, with an online softmax: no T x T matrix
// exists, tiles above the diagonal are never visited, and on the diagonal the products skip what
// the mask would drop. (Dao et al., FlashAttention, 2022; the backward pass makes the
// probabilities again from the saved log-sum-exp.)
//
// With positions a query also has a first key: key tiles that lie wholly before the documents of a
// query tile are not visited, and those that some query sees in part are masked.
//
// Forward: the keys and values of some kv heads are laid out once, then there is one task a (head,
// query tile), in any order. Backward: one task a (sequence, kv head), so that dk and dv are summed
// in one fixed order.
//
// Tiles are f32 in the device's workspace whatever the dtype of the tensors: rows of a head lie far
// apart in these, so that reading a tile costs as much as a product with it, and each is read,
// converted, and laid out as the products want it once a head, not once a pair of tiles.
#include "dev/cpu/vec.h"
#include "dev/cpu/team.h"

#include <math.h>

// The micro-kernel holds MR x NR sums in registers. TILE is a multiple of both.
enum { MR = W == 16 ? 8 : 6, NR = 2 * W, TILE = 96 };

// What the causal mask leaves of a product on the diagonal.
typedef enum mask {
    WHOLE,
    COLS_TO_ROW,    // c is lower triangular: columns up to the row
    COLS_FROM_ROW,  // c is upper triangular
    DEPTH_TO_ROW,   // a is lower triangular
    DEPTH_FROM_ROW, // a is upper triangular
} mask;

typedef struct product {
    const float *a; // element (i, k) at a[i / MR * MR * a_strip + i % MR * a_row + k * a_step]
    int64_t a_strip, a_row, a_step;
    const float *b; // element (k, j) at b[k * b_row + j]
    int64_t b_row;
    float *c;
    int64_t c_row;
    int64_t rows, cols, depth; // rows and cols are rounded up to MR and NR: tiles have the room
    bool add;                  // c += a b, else c = a b
    mask mask;
} product;

INLINE void micro(const product *p, int64_t i, int64_t j, int64_t from, int64_t to)
{
    vf sum[MR][2];
    float *c = p->c + i * p->c_row + j;
    for (int r = 0; r < MR; r++)
        for (int v = 0; v < 2; v++)
            sum[r][v] = p->add ? load(c + r * p->c_row, v * W, AX_F32) : (vf){0};
    const float *a = p->a + i * p->a_strip + from * p->a_step;
    const float *b = p->b + from * p->b_row + j;
    int64_t a_row = p->a_row, a_step = p->a_step, b_row = p->b_row;
    for (int64_t k = from; k < to; k++, a += a_step, b += b_row) {
        vf b0 = load(b, 0, AX_F32), b1 = load(b, W, AX_F32);
        for (int r = 0; r < MR; r++) {
            float x = a[r * a_row];
            sum[r][0] += x * b0;
            sum[r][1] += x * b1;
        }
    }
    for (int r = 0; r < MR; r++)
        for (int v = 0; v < 2; v++)
            store(c + r * p->c_row, v * W, AX_F32, sum[r][v]);
}

static void multiply(const product *p)
{
    for (int64_t j = 0; j < p->cols; j += NR)
        for (int64_t i = 0; i < p->rows; i += MR) {
            if ((p->mask == COLS_TO_ROW && j >= i + MR) ||
                (p->mask == COLS_FROM_ROW && j + NR <= i))
                continue;
            int64_t from = p->mask == DEPTH_FROM_ROW ? i : 0;
            int64_t to = p->mask == DEPTH_TO_ROW && i + MR < p->depth ? i + MR : p->depth;
            micro(p, i, j, from, to);
        }
}

// The first columns of row r that a product with COLS_TO_ROW has written.
INLINE int64_t columns_of_row(int64_t r)
{
    return round_up(r / MR * MR + MR, NR);
}

// tile (rows, pitch) = t[first.., col..col+d], zero in the columns up to pitch and in the rows up
// to a multiple of MR.
INLINE void load_rows(ax_tensor t, int64_t first, int64_t rows, int64_t col, int64_t d, float *tile,
                      int64_t pitch, ax_dtype dtype)
{
    for (int64_t r = 0; r < rows; r++) {
        const void *row = at(t, first + r, col);
        for (int64_t i = 0; i < pitch; i += W)
            store(tile + r * pitch, i, AX_F32, i < d ? load_some(row, i, dtype, d - i) : (vf){0});
    }
    memset(tile + rows * pitch, 0, (size_t)((round_up(rows, MR) - rows) * pitch) * sizeof *tile);
}

// tile (d, TILE) = the transpose of the same part, from the loaded rows.
static void transpose(const float *rows_of, int64_t pitch, int64_t rows, int64_t d, float *tile)
{
    enum { B = 8 };
    int64_t r = 0;
    for (; r + B <= rows; r += B)
        for (int64_t i = 0; i < d; i++)
            for (int64_t s = 0; s < B; s++)
                tile[i * TILE + r + s] = rows_of[(r + s) * pitch + i];
    for (int64_t i = 0; i < d; i++) {
        for (int64_t s = r; s < rows; s++)
            tile[i * TILE + s] = rows_of[s * pitch + i];
        for (int64_t s = rows; s < TILE; s++)
            tile[i * TILE + s] = 0;
    }
}

static void load_tile(ax_tensor t, int64_t first, int64_t rows, int64_t col, int64_t d, float *tile,
                      int64_t pitch)
{
    BY_DTYPE(t.dtype, T, load_rows(t, first, rows, col, d, tile, pitch, T));
}

// tensor rows = tile rows * factor.
INLINE void store_row(ax_tensor t, int64_t row, int64_t col, int64_t d, const float *v,
                      float factor)
{
    for (int64_t i = 0; i < d; i += W)
        BY_DTYPE(t.dtype, T, store_some(at(t, row, col), i, T, load(v, i, AX_F32) * factor, d - i));
}

// Where a task stands. Pointers lie in the part of the workspace that belongs to its thread.
typedef struct place {
    const ax_attention_args *g;
    int64_t first;              // the sequence's first row
    int64_t head, kv_head;      // column offsets follow
    int64_t pitch;              // of tiles of head-sized rows: head_dim rounded up to NR
    const float *keys, *values; // fwd: of the kv head; keys in strips of MR, each (d, MR)
    float *q, *qt, *k, *kt, *v, *vt, *s, *dp, *out; // tiles
    float *qs, *douts, *dq, *dk, *dv;               // bwd: whole sequences
    float *lse, *delta;
} place;

INLINE int64_t pitch_of(const ax_attention_args *g)
{
    return round_up(g->head_dim, NR);
}

// Floats of workspace for one thread: the larger of the two passes.
static int64_t floats_of_thread(const ax_attention_args *g)
{
    int64_t pitch = pitch_of(g), rows = round_up(g->seq, TILE);
    return 7 * TILE * pitch + 2 * TILE * TILE + 5 * rows * pitch + 2 * rows;
}

// Forward: kv heads (of all sequences) that are laid out at a time, enough for the team to have
// several tasks each.
enum { TASKS = 4 };
static int64_t heads_at_a_time(const ax_device *dev, const ax_attention_args *g)
{
    int64_t tasks = (g->seq + TILE - 1) / TILE * (g->heads / g->kv_heads);
    int64_t wanted = tasks ? (TASKS * dev->threads + tasks - 1) / tasks : 1;
    int64_t all = g->sequences * g->kv_heads;
    return wanted < all ? wanted : all;
}

// Floats of a kv head's keys, and as many of its values.
static int64_t floats_of_head(const ax_attention_args *g)
{
    return round_up(g->seq, TILE) * pitch_of(g);
}

size_t V(attention_workspace)(const ax_device *dev, const ax_attention_args *g)
{
    if (g->q.dtype == AX_F64)
        return 0;
    int64_t floats = dev->threads * floats_of_thread(g);
    floats += heads_at_a_time(dev, g) * 2 * floats_of_head(g);
    return (size_t)floats * sizeof(float);
}

static place place_of(const ax_device *dev, const ax_attention_args *g, int thread)
{
    int64_t pitch = pitch_of(g), tile = TILE * pitch, rows = round_up(g->seq, TILE);
    place p = {.g = g, .pitch = pitch};
    p.q = (float *)dev->workspace + thread * floats_of_thread(g);
    p.qt = p.q + tile;
    p.k = p.qt + tile;
    p.kt = p.k + tile;
    p.v = p.kt + tile;
    p.vt = p.v + tile;
    p.out = p.vt + tile;
    p.s = p.out + tile;
    p.dp = p.s + TILE * TILE;
    p.qs = p.dp + TILE * TILE;
    p.douts = p.qs + rows * pitch;
    p.dq = p.douts + rows * pitch;
    p.dk = p.dq + rows * pitch;
    p.dv = p.dk + rows * pitch;
    p.lse = p.dv + rows * pitch;
    p.delta = p.lse + rows;
    return p;
}

INLINE int64_t tile_rows(const ax_attention_args *g, int64_t first)
{
    return g->seq - first < TILE ? g->seq - first : TILE;
}

// ---- forward ----

// The scores of a query tile stand in columns here: s (keys, queries) = k qt. So the softmax runs
// down the columns, W queries at a time, and needs no sums across lanes.
typedef struct running {
    float max[TILE], sum[TILE], shrink[TILE];
    int32_t start[TILE]; // the first key that a query sees, from the key tile at hand
} running;

// What drops keys of a tile: the diagonal, and with `documents` the first keys of the queries.
typedef struct shadow {
    bool diagonal, documents;
    vi start; // of queries c .. c+W
} shadow;

// `v` with `other` in the place of what queries c .. c+W do not see of key k.
INLINE vf seen(const shadow *w, int64_t k, int64_t c, vf v, float other)
{
    if (w->diagonal && k > c)
        v = select(lane_numbers() >= (int32_t)(k - c), v, splat(other));
    return w->documents ? select(w->start <= (int32_t)k, v, splat(other)) : v;
}

// Scores become probabilities relative to the running maximum. On the diagonal the product that
// follows reads up to W + MR keys beyond a query: those must be 0.
INLINE void softmax_columns(float *s, int64_t c, int64_t keys, bool diagonal, bool documents,
                            running *run)
{
    int64_t end = diagonal && c + W + MR < keys ? c + W + MR : keys;
    vf old = load(run->max, c, AX_F32), top = old, total = {0};
    shadow w = {.diagonal = diagonal, .documents = documents};
    if (documents)
        memcpy(&w.start, run->start + c, sizeof w.start);
    for (int64_t k = 0; k < end; k++)
        top = vmax(seen(&w, k, c, load(s + k * TILE, c, AX_F32), -INFINITY), top);
    vf max = top; // of a query that has seen no key yet there is none to subtract
    if (documents)
        top = select(top == -INFINITY, (vf){0}, top);
    for (int64_t k = 0; k < end; k++) {
        vf e = vexp(seen(&w, k, c, load(s + k * TILE, c, AX_F32), -INFINITY) - top);
        e = seen(&w, k, c, e, 0);
        store(s + k * TILE, c, AX_F32, e);
        total += e;
    }
    vf shrink = vexp(old - top);
    store(run->max, c, AX_F32, documents ? max : top);
    store(run->shrink, c, AX_F32, shrink);
    store(run->sum, c, AX_F32, load(run->sum, c, AX_F32) * shrink + total);
}

static void softmax_tile(const place *p, int64_t rows, int64_t keys, bool diagonal, bool documents,
                         running *run)
{
    for (int64_t c = 0; c < rows; c += W)
        if (documents)
            softmax_columns(p->s, c, keys, diagonal, true, run);
        else if (diagonal)
            softmax_columns(p->s, c, keys, true, false, run);
        else
            softmax_columns(p->s, c, keys, false, false, run);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < p->pitch && run->shrink[r] != 1; i += W) {
            float *out = p->out + r * p->pitch;
            store(out, i, AX_F32, load(out, i, AX_F32) * run->shrink[r]);
        }
}

// The first keys of the queries of a tile, counted from key k0 on: into `start` (NULL: not wanted),
// with the lowest and the highest.
typedef struct starts {
    int64_t lowest, highest;
} starts;

static starts starts_of(const place *p, int64_t q0, int64_t k0, int32_t *start)
{
    int64_t rows = tile_rows(p->g, q0);
    const int32_t *position = (const int32_t *)p->g->positions.data + p->first + q0;
    starts s = {INT64_MAX, INT64_MIN};
    for (int64_t r = 0; r < rows; r++) {
        int64_t key = q0 + r - position[r] - k0;
        s.lowest = key < s.lowest ? key : s.lowest;
        s.highest = key > s.highest ? key : s.highest;
        if (start)
            start[r] = (int32_t)key;
    }
    for (int64_t r = rows; r < TILE && start; r++)
        start[r] = 0;
    return s;
}

static void fwd_tile(const place *p, int64_t q0, int64_t k0, running *run)
{
    const ax_attention_args *g = p->g;
    int64_t rows = tile_rows(g, q0), keys = tile_rows(g, k0), d = g->head_dim;
    bool diagonal = q0 == k0;
    bool documents = g->positions.data && starts_of(p, q0, k0, run->start).highest > 0;
    multiply(&(product){p->keys + k0 * p->pitch, d, 1, MR, p->qt, TILE, p->s, TILE, keys, rows, d,
                        false, diagonal ? COLS_FROM_ROW : WHOLE});
    softmax_tile(p, rows, keys, diagonal, documents, run);
    multiply(&(product){p->s, 1, 1, TILE, p->values + k0 * p->pitch, p->pitch, p->out, p->pitch,
                        rows, d, keys, true, diagonal ? DEPTH_TO_ROW : WHOLE});
}

static void fwd_task(const place *p, int64_t q0)
{
    const ax_attention_args *g = p->g;
    int64_t rows = tile_rows(g, q0), d = g->head_dim;
    running run;
    load_tile(g->q, p->first + q0, rows, p->head * d, d, p->q, p->pitch);
    for (int64_t i = 0; i < rows * p->pitch; i++)
        p->q[i] *= (float)g->scale;
    transpose(p->q, p->pitch, rows, d, p->qt);
    memset(p->out, 0, (size_t)(TILE * p->pitch) * sizeof *p->out);
    for (int64_t r = 0; r < TILE; r++) {
        run.max[r] = -INFINITY;
        run.sum[r] = 0;
    }
    int64_t k0 = g->positions.data ? starts_of(p, q0, 0, NULL).lowest / TILE * TILE : 0;
    for (; k0 <= q0; k0 += TILE)
        fwd_tile(p, q0, k0, &run);
    for (int64_t r = 0; r < rows; r++) {
        store_row(g->out, p->first + q0 + r, p->head * d, d, p->out + r * p->pitch, 1 / run.sum[r]);
        *(float *)at(g->lse, p->first + q0 + r, p->head) = run.max[r] + logf(run.sum[r]);
    }
}

// A tile of a kv head's keys and values to its place among those of the whole sequence.
static void lay_out(const place *p, int64_t k0, float *keys, float *values)
{
    const ax_attention_args *g = p->g;
    int64_t count = tile_rows(g, k0), d = g->head_dim, pitch = p->pitch;
    load_tile(g->v, p->first + k0, count, p->kv_head * d, d, values + k0 * pitch, pitch);
    load_tile(g->k, p->first + k0, count, p->kv_head * d, d, p->k, pitch);
    float *to = keys + k0 * pitch;
    for (int64_t i = 0; i < count; i += MR)
        for (int64_t c = 0; c < d; c++)
            for (int64_t r = 0; r < MR; r++)
                *to++ = p->k[(i + r) * pitch + c];
}

// One round: `count` kv heads from number `first` on, counted through the sequences.
static void fwd_round(const ax_device *dev, const ax_attention_args *g, int64_t first,
                      int64_t count)
{
    int64_t tiles = (g->seq + TILE - 1) / TILE, group = g->heads / g->kv_heads;
    float *laid = (float *)dev->workspace + dev->threads * floats_of_thread(g);
    int64_t floats = floats_of_head(g);
#pragma omp parallel for num_threads(dev->threads) schedule(static)
    for (int64_t i = 0; i < count * tiles; i++) {
        place p = place_of(dev, g, team_index());
        int64_t head = i / tiles;
        p.first = (first + head) / g->kv_heads * g->seq;
        p.kv_head = (first + head) % g->kv_heads;
        lay_out(&p, i % tiles * TILE, laid + 2 * head * floats, laid + (2 * head + 1) * floats);
    }
    // The longest tasks (the last query tiles) first: the team then ends together.
#pragma omp parallel for num_threads(dev->threads) schedule(dynamic)
    for (int64_t task = 0; task < count * group * tiles; task++) {
        place p = place_of(dev, g, team_index());
        int64_t tile = tiles - 1 - task / (count * group), which = task % (count * group);
        int64_t head = which / group;
        p.first = (first + head) / g->kv_heads * g->seq;
        p.kv_head = (first + head) % g->kv_heads;
        p.head = p.kv_head * group + which % group;
        p.keys = laid + 2 * head * floats;
        p.values = laid + (2 * head + 1) * floats;
        fwd_task(&p, tile * TILE);
        if (dev->poll && team_index() == 0)
            dev->poll(dev->poll_ctx);
    }
}

ax_status V(attention_fwd)(ax_device *dev, const ax_attention_args *g)
{
    if (g->q.dtype == AX_F64)
        return ax_kern_ref.attention_fwd(dev, g);
    int64_t all = g->sequences * g->kv_heads, step = heads_at_a_time(dev, g);
    for (int64_t first = 0; first < all; first += step)
        fwd_round(dev, g, first, all - first < step ? all - first : step);
    return AX_OK;
}

// ---- backward ----

// s becomes p = exp(scale s - lse), dp becomes ds = p (dp - delta) scale; both 0 where masked: in
// the columns below `skip` and from `keep` on.
static void bwd_row(const place *p, int64_t r, int64_t row, int64_t cols, int64_t skip,
                    int64_t keep)
{
    float *s = p->s + r * TILE, *dp = p->dp + r * TILE, scale = (float)p->g->scale;
    float lse = p->lse[row], delta = p->delta[row];
    for (int64_t c = 0; c < cols; c += W) {
        vf e = {0}, ds = {0};
        if (c < keep) {
            e = vexp(load(s, c, AX_F32) * scale - lse);
            ds = e * (load(dp, c, AX_F32) - delta) * scale;
        }
        if (c < keep && c + W > keep) {
            vi kept = lane_numbers() < (int32_t)(keep - c);
            e = select(kept, e, (vf){0});
            ds = select(kept, ds, (vf){0});
        }
        if (c < skip) {
            vi kept = lane_numbers() >= (int32_t)(skip - c);
            e = select(kept, e, (vf){0});
            ds = select(kept, ds, (vf){0});
        }
        store(s, c, AX_F32, e);
        store(dp, c, AX_F32, ds);
    }
}

static void bwd_tile(const place *p, int64_t q0, int64_t k0)
{
    const ax_attention_args *g = p->g;
    int64_t rows = tile_rows(g, q0), keys = tile_rows(g, k0), d = g->head_dim, pitch = p->pitch;
    bool diagonal = q0 == k0;
    mask cols = diagonal ? COLS_TO_ROW : WHOLE, to = diagonal ? DEPTH_TO_ROW : WHOLE;
    mask from = diagonal ? DEPTH_FROM_ROW : WHOLE;
    int32_t start[TILE] = {0};
    if (g->positions.data && starts_of(p, q0, k0, start).lowest >= keys)
        return;
    const float *q = p->qs + q0 * pitch, *dout = p->douts + q0 * pitch;
    multiply(&(product){q, pitch, pitch, 1, p->kt, TILE, p->s, TILE, rows, keys, d, false, cols});
    multiply(
        &(product){dout, pitch, pitch, 1, p->vt, TILE, p->dp, TILE, rows, keys, d, false, cols});
    for (int64_t r = 0; r < rows; r++)
        bwd_row(p, r, q0 + r, diagonal ? columns_of_row(r) : TILE, start[r],
                diagonal ? r + 1 : TILE);
    multiply(&(product){p->s, 1, 1, TILE, dout, pitch, p->dv + k0 * pitch, pitch, keys, d, rows,
                        true, from});
    multiply(&(product){p->dp, 1, 1, TILE, q, pitch, p->dk + k0 * pitch, pitch, keys, d, rows, true,
                        from});
    multiply(&(product){p->dp, TILE, TILE, 1, p->k, pitch, p->dq + q0 * pitch, pitch, rows, d, keys,
                        true, to});
}

// The queries and gradients of a head, and of every query delta = dout . out and its lse.
static void bwd_prepare(const place *p)
{
    const ax_attention_args *g = p->g;
    int64_t d = g->head_dim;
    for (int64_t q0 = 0; q0 < g->seq; q0 += TILE) {
        int64_t rows = tile_rows(g, q0);
        float *dout = p->douts + q0 * p->pitch;
        load_tile(g->q, p->first + q0, rows, p->head * d, d, p->qs + q0 * p->pitch, p->pitch);
        load_tile(g->dout, p->first + q0, rows, p->head * d, d, dout, p->pitch);
        load_tile(g->out, p->first + q0, rows, p->head * d, d, p->out, p->pitch);
        for (int64_t r = 0; r < rows; r++) {
            vf sum = {0};
            for (int64_t i = r * p->pitch; i < (r + 1) * p->pitch; i += W)
                sum += load(p->out, i, AX_F32) * load(dout, i, AX_F32);
            p->delta[q0 + r] = lanes_sum(sum);
            p->lse[q0 + r] = *(const float *)at(g->lse, p->first + q0 + r, p->head);
        }
    }
}

static void bwd_head(const place *p)
{
    const ax_attention_args *g = p->g;
    int64_t d = g->head_dim;
    bwd_prepare(p);
    memset(p->dq, 0, (size_t)(round_up(g->seq, TILE) * p->pitch) * sizeof *p->dq);
    for (int64_t k0 = 0; k0 < g->seq; k0 += TILE) {
        int64_t keys = tile_rows(g, k0);
        load_tile(g->k, p->first + k0, keys, p->kv_head * d, d, p->k, p->pitch);
        transpose(p->k, p->pitch, keys, d, p->kt);
        load_tile(g->v, p->first + k0, keys, p->kv_head * d, d, p->v, p->pitch);
        transpose(p->v, p->pitch, keys, d, p->vt);
        for (int64_t q0 = k0; q0 < g->seq; q0 += TILE)
            bwd_tile(p, q0, k0);
    }
    for (int64_t r = 0; r < g->seq; r++)
        store_row(g->dq, p->first + r, p->head * d, d, p->dq + r * p->pitch, 1);
}

static void bwd_task(place p)
{
    const ax_attention_args *g = p.g;
    int64_t d = g->head_dim, group = g->heads / g->kv_heads;
    size_t bytes = (size_t)(round_up(g->seq, TILE) * p.pitch) * sizeof *p.dk;
    memset(p.dk, 0, bytes);
    memset(p.dv, 0, bytes);
    for (p.head = p.kv_head * group; p.head < (p.kv_head + 1) * group; p.head++)
        bwd_head(&p);
    for (int64_t r = 0; r < g->seq; r++) {
        store_row(g->dk, p.first + r, p.kv_head * d, d, p.dk + r * p.pitch, 1);
        store_row(g->dv, p.first + r, p.kv_head * d, d, p.dv + r * p.pitch, 1);
    }
}

ax_status V(attention_bwd)(ax_device *dev, const ax_attention_args *g)
{
    if (g->q.dtype == AX_F64)
        return ax_kern_ref.attention_bwd(dev, g);
#pragma omp parallel for num_threads(dev->threads) schedule(dynamic)
    for (int64_t task = 0; task < g->sequences * g->kv_heads; task++) {
        place p = place_of(dev, g, team_index());
        p.first = task / g->kv_heads * g->seq;
        p.kv_head = task % g->kv_heads;
        bwd_task(p);
    }
    return AX_OK;
}
