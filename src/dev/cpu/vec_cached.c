// Attention of a few queries against cached keys: bound by the memory that holds them, so each key
// and value is read from there once, for all queries and heads that share it.
//
// The keys of a (sequence, kv head) are cut into pieces of KEYS, which stay in the nearest cache
// between their uses and are the team's tasks; a piece leaves each query its maximum, its sum of
// exponentials and its part of the output, and a second pass puts the pieces together in order.
// (Flash-decoding; Dao, Haziza, Massa and Sizov, 2023.) Pieces do not depend on the team.
#include "dev/cpu/vec.h"
#include "dev/cpu/team.h"

#include <math.h>

enum { KEYS = 128, COLS = 4 }; // keys of a piece; vectors of the output summed at one time

INLINE int64_t round_to(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

typedef struct sizes {
    int64_t rows;   // queries that share a kv head
    int64_t pitch;  // floats of an output row
    int64_t part;   // floats that a piece leaves of a query: output, maximum, sum
    int64_t pieces; // of a (sequence, kv head), at most
    int64_t thread; // floats of a thread: queries and scores
} sizes;

static sizes sizes_of(const ax_attention_cached_args *g)
{
    int64_t rows = g->heads / g->kv_heads * g->queries, pitch = round_to(g->head_dim, W);
    return (sizes){.rows = rows,
                   .pitch = pitch,
                   .part = pitch + W,
                   .pieces = (g->room + KEYS - 1) / KEYS,
                   .thread = rows * (pitch + KEYS)};
}

size_t V(attention_cached_workspace)(const ax_device *dev, const ax_attention_cached_args *g)
{
    sizes z = sizes_of(g);
    int64_t parts = g->sequences * g->kv_heads * z.pieces * z.rows * z.part;
    return g->q.dtype == AX_F64 ? 0 : (size_t)(parts + dev->threads * z.thread) * sizeof(float);
}

static float *part_of(const ax_device *dev, const sizes *z, int64_t group, int64_t which,
                      int64_t row)
{
    float *parts = (float *)dev->workspace + dev->threads * z->thread;
    return parts + ((group * z->pieces + which) * z->rows + row) * z->part;
}

// The lanes of four vectors added up, in a tree.
INLINE void sum_lanes(const vf v[4], float out[4])
{
    for (int i = 0; i < 4; i++) {
        float lane[W];
        memcpy(lane, &v[i], sizeof lane);
        for (int half = W / 2; half > 0; half /= 2)
            for (int k = 0; k < half; k++)
                lane[k] += lane[k + half];
        out[i] = lane[0];
    }
}

// scores[0..4) of one query with the keys of four rows; `rows` of them exist.
INLINE void dot4(const float *q, const char *key, size_t stride, int64_t rows, int64_t d,
                 ax_dtype t, float *scores)
{
    vf sum[4] = {{0}, {0}, {0}, {0}};
    const char *row[4];
    for (int64_t i = 0; i < 4; i++)
        row[i] = key + (size_t)(i < rows ? i : rows - 1) * stride;
    int64_t c = 0;
    for (; c + W <= d; c += W) {
        vf x = load(q, c, AX_F32);
        for (int i = 0; i < 4; i++)
            sum[i] += x * load(row[i], c, t);
    }
    if (c < d)
        for (int i = 0; i < 4; i++)
            sum[i] += load(q, c, AX_F32) * load_some(row[i], c, t, d - c);
    sum_lanes(sum, scores);
}

// Scores become exponentials relative to their maximum, 0 from `seen` on, up to a whole vector.
static void exponentials(float *s, int64_t seen, float *max, float *sum)
{
    vf top = splat(-INFINITY), total = {0};
    for (int64_t k = seen; k < round_to(seen, W); k++)
        s[k] = -INFINITY;
    for (int64_t k = 0; k < seen; k += W)
        top = vmax(load(s, k, AX_F32), top);
    *max = lanes_max(top);
    for (int64_t k = 0; k < seen; k += W) {
        vf x = load(s, k, AX_F32), e = vexp(x - splat(*max));
        e = select(x == -INFINITY, (vf){0}, e);
        store(s, k, AX_F32, e);
        total += e;
    }
    *sum = lanes_sum(total);
}

// out columns c .. c + count vectors of W = sum of p[k] v[k].
INLINE void weigh(const float *p, int64_t keys, const char *value, size_t stride, int64_t c,
                  int count, int64_t d, ax_dtype t, float *out)
{
    vf sum[COLS] = {{0}};
    for (int64_t k = 0; k < keys; k++) {
        const char *row = value + (size_t)k * stride;
        for (int i = 0; i < count; i++)
            sum[i] += p[k] * (c + (i + 1) * W <= d ? load(row, c + i * W, t)
                                                   : load_some(row, c + i * W, t, d - c - i * W));
    }
    for (int i = 0; i < count; i++)
        store(out, c + i * W, AX_F32, sum[i]);
}

INLINE void weigh_row(const float *p, int64_t keys, const char *value, size_t stride, int64_t d,
                      ax_dtype t, float *out)
{
    int64_t c = 0;
    for (; c + COLS * W <= d; c += COLS * W)
        weigh(p, keys, value, stride, c, COLS, d, t, out);
    for (; c < d; c += W)
        weigh(p, keys, value, stride, c, 1, d, t, out);
}

// A piece: keys first .. first + keys of sequence s and kv head h.
typedef struct span {
    const ax_attention_cached_args *g;
    int64_t s, h, first, keys, length;
    float *q, *scores; // of the thread: (rows, pitch), (rows, KEYS)
} span;

INLINE void piece_of_type(const ax_device *dev, const sizes *z, const span *p, ax_dtype t)
{
    const ax_attention_cached_args *g = p->g;
    int64_t d = g->head_dim, group = g->heads / g->kv_heads, at_group = p->s * g->kv_heads + p->h;
    int64_t row0 = at_group * g->room + p->first;
    const char *key = at(g->k, row0, 0), *value = at(g->v, row0, 0);
    size_t size = t == AX_F32 ? 4 : 2;
    size_t k_stride = (size_t)g->k.stride * size, v_stride = (size_t)g->v.stride * size;
    for (int64_t r = 0; r < z->rows; r++) {
        const void *row = at(g->q, p->s * g->queries + r / group, (p->h * group + r % group) * d);
        for (int64_t c = 0; c < z->pitch; c += W)
            store(p->q + r * z->pitch, c, AX_F32, load_some(row, c, t, d - c) * (float)g->scale);
    }
    for (int64_t k = 0; k < p->keys; k += 4)
        for (int64_t r = 0; r < z->rows; r++)
            dot4(p->q + r * z->pitch, key + (size_t)k * k_stride, k_stride, p->keys - k, d, t,
                 p->scores + r * KEYS + k);
    for (int64_t r = 0; r < z->rows; r++) {
        float *part = part_of(dev, z, at_group, p->first / KEYS, r);
        int64_t seen = p->length - (g->queries - 1 - r / group) - p->first;
        seen = seen < 0 ? 0 : seen < p->keys ? seen : p->keys;
        exponentials(p->scores + r * KEYS, seen, &part[z->pitch], &part[z->pitch + 1]);
        weigh_row(p->scores + r * KEYS, seen, value, v_stride, d, t, part);
    }
}

static void piece_task(const ax_device *dev, const sizes *z, const span *p)
{
    BY_DTYPE(p->g->q.dtype, T, piece_of_type(dev, z, p, T));
}

// One output row and head, from its pieces.
static void join(const ax_device *dev, const ax_attention_cached_args *g, const sizes *z,
                 int64_t row, int64_t head)
{
    int64_t d = g->head_dim, group = g->heads / g->kv_heads, s = row / g->queries;
    int64_t r = row % g->queries * group + head % group, at_group = s * g->kv_heads + head / group;
    int64_t pieces = (((const int32_t *)g->lengths.data)[s] + KEYS - 1) / KEYS;
    float max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < pieces; i++)
        max = fmaxf(max, part_of(dev, z, at_group, i, r)[z->pitch]);
    float *first = part_of(dev, z, at_group, 0, r);
    for (int64_t i = 0; i < pieces; i++) {
        float *part = part_of(dev, z, at_group, i, r), weight = expf(part[z->pitch] - max);
        sum += weight * part[z->pitch + 1];
        for (int64_t c = 0; c < z->pitch; c += W) {
            vf x = load(part, c, AX_F32) * weight;
            store(first, c, AX_F32, i ? load(first, c, AX_F32) + x : x);
        }
    }
    for (int64_t c = 0; c < d; c += W)
        BY_DTYPE(g->out.dtype, T,
                 store_some(at(g->out, row, head * d), c, T, load(first, c, AX_F32) / sum, d - c));
}

ax_status V(attention_cached)(ax_device *dev, const ax_attention_cached_args *g)
{
    if (g->q.dtype == AX_F64)
        return ax_kern_ref.attention_cached(dev, g);
    const sizes z = sizes_of(g);
    const int32_t *length = g->lengths.data;
    int64_t groups = g->sequences * g->kv_heads, keys = 0, heads = g->heads;
    for (int64_t s = 0; s < g->sequences; s++)
        keys += length[s];
    bool big = keys * heads * g->head_dim >= SMALL;
#pragma omp parallel for num_threads(dev->threads) if (big) schedule(dynamic)
    for (int64_t task = 0; task < groups * z.pieces; task++) {
        float *mine = (float *)dev->workspace + team_index() * z.thread;
        int64_t group = task / z.pieces;
        span p = {.g = g,
                  .s = group / g->kv_heads,
                  .h = group % g->kv_heads,
                  .first = task % z.pieces * KEYS,
                  .q = mine,
                  .scores = mine + z.rows * z.pitch};
        p.length = length[p.s];
        p.keys = p.length - p.first < KEYS ? p.length - p.first : KEYS;
        if (p.keys > 0)
            piece_task(dev, &z, &p);
    }
#pragma omp parallel for num_threads(dev->threads) if (big) schedule(static)
    for (int64_t i = 0; i < g->sequences * g->queries * heads; i++)
        join(dev, g, &z, i / heads, i % heads);
    return AX_OK;
}
