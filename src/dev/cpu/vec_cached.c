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

typedef struct sizes {
    int64_t rows;   // queries that share a kv head
    int64_t pitch;  // floats of an output row
    int64_t part;   // floats that a piece leaves of a query: output, maximum, sum
    int64_t pieces; // of a (sequence, kv head), at most
    int64_t thread; // floats of a thread: queries and scores
} sizes;

static sizes sizes_of(const ax_attention_cached_args *g)
{
    int64_t rows = g->heads / g->kv_heads * g->queries, pitch = round_up(g->head_dim, W);
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

typedef float v4 __attribute__((vector_size(16)));

// The lanes of four vectors, added up: one sum each.
INLINE v4 quarter(vf v)
{
    v4 part[W / 4], sum;
    memcpy(part, &v, sizeof part);
    sum = part[0];
    for (int i = 1; i < W / 4; i++)
        sum += part[i];
    return sum;
}

INLINE v4 pair_sums(v4 a, v4 b) // of lanes 0 and 1, 2 and 3
{
    return __builtin_shufflevector(a, b, 0, 2, 4, 6) + __builtin_shufflevector(a, b, 1, 3, 5, 7);
}

INLINE void sum_lanes(const vf v[4], float out[4])
{
    v4 sums =
        pair_sums(pair_sums(quarter(v[0]), quarter(v[1])), pair_sums(quarter(v[2]), quarter(v[3])));
    memcpy(out, &sums, sizeof sums);
}

// Scores of one or two (`n`, a constant) queries, `pitch` apart, with the keys of four rows, of
// which `rows` exist; those of a query stand KEYS apart.
INLINE void dot4(const float *q, int64_t pitch, int n, const char *key, size_t stride, int64_t rows,
                 int64_t d, ax_dtype t, float *scores)
{
    vf sum[2][4] = {{{0}}};
    const char *row[4];
    for (int64_t i = 0; i < 4; i++)
        row[i] = key + (size_t)(i < rows ? i : rows - 1) * stride;
    for (int64_t c = 0; c < d; c += W)
        for (int i = 0; i < 4; i++) {
            vf x = c + W <= d ? load(row[i], c, t) : load_some(row[i], c, t, d - c);
            for (int k = 0; k < n; k++)
                sum[k][i] += load(q + k * pitch, c, AX_F32) * x;
        }
    for (int k = 0; k < n; k++)
        sum_lanes(sum[k], scores + k * KEYS);
}

// The scores of `keys` keys become exponentials relative to their maximum, 0 from `seen` on.
static void exponentials(float *s, int64_t seen, int64_t keys, float *max, float *sum)
{
    vf top = splat(-INFINITY), total = {0};
    for (int64_t k = seen; k < round_up(keys, W); k++)
        s[k] = -INFINITY;
    for (int64_t k = 0; k < seen; k += W)
        top = vmax(load(s, k, AX_F32), top);
    *max = lanes_max(top);
    for (int64_t k = 0; k < keys; k += W) {
        vf x = load(s, k, AX_F32), e = vexp(x - splat(*max));
        e = select(x == -INFINITY, (vf){0}, e);
        store(s, k, AX_F32, e);
        total += e;
    }
    *sum = lanes_sum(total);
}

// Columns c .. c + count vectors of W of `n` outputs, `part` apart: sums of p[k] v[k].
INLINE void weigh(const float *p, int n, int64_t keys, const char *value, size_t stride, int64_t c,
                  int count, int64_t d, ax_dtype t, float *out, int64_t part)
{
    vf sum[2][COLS] = {{{0}}};
    for (int64_t k = 0; k < keys; k++) {
        const char *row = value + (size_t)k * stride;
        for (int i = 0; i < count; i++) {
            int64_t at = c + i * W;
            vf x = at + W <= d ? load(row, at, t) : load_some(row, at, t, d - at);
            for (int r = 0; r < n; r++)
                sum[r][i] += p[r * KEYS + k] * x;
        }
    }
    for (int r = 0; r < n; r++)
        for (int i = 0; i < count; i++)
            store(out + r * part, c + i * W, AX_F32, sum[r][i]);
}

INLINE void weigh_rows(const float *p, int n, int64_t keys, const char *value, size_t stride,
                       int64_t d, ax_dtype t, float *out, int64_t part)
{
    int64_t c = 0;
    for (; c + COLS * W <= d; c += COLS * W)
        weigh(p, n, keys, value, stride, c, COLS, d, t, out, part);
    for (; c < d; c += W)
        weigh(p, n, keys, value, stride, c, 1, d, t, out, part);
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
    int64_t rows = z->rows, even = rows / 2 * 2, pitch = z->pitch;
    for (int64_t k = 0; k < p->keys; k += 4) {
        const char *at_key = key + (size_t)k * k_stride;
        float *scores = p->scores + k;
        for (int64_t r = 0; r < even; r += 2)
            dot4(p->q + r * pitch, pitch, 2, at_key, k_stride, p->keys - k, d, t,
                 scores + r * KEYS);
        if (even < rows)
            dot4(p->q + even * pitch, pitch, 1, at_key, k_stride, p->keys - k, d, t,
                 scores + even * KEYS);
    }
    float *part = part_of(dev, z, at_group, p->first / KEYS, 0);
    for (int64_t r = 0; r < rows; r++) {
        int64_t seen = p->length - (g->queries - 1 - r / group) - p->first;
        seen = seen < 0 ? 0 : seen < p->keys ? seen : p->keys;
        float *sums = part + r * z->part + pitch;
        exponentials(p->scores + r * KEYS, seen, p->keys, &sums[0], &sums[1]);
    }
    for (int64_t r = 0; r < even; r += 2)
        weigh_rows(p->scores + r * KEYS, 2, p->keys, value, v_stride, d, t, part + r * z->part,
                   z->part);
    if (even < rows)
        weigh_rows(p->scores + even * KEYS, 1, p->keys, value, v_stride, d, t,
                   part + even * z->part, z->part);
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
    int team = keys * heads * g->head_dim >= SMALL ? dev->threads : 1;
    (void)team; // without OpenMP there is none
#pragma omp parallel for num_threads(team) schedule(dynamic)
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
#pragma omp parallel for num_threads(team) schedule(static)
    for (int64_t i = 0; i < g->sequences * g->queries * heads; i++)
        join(dev, g, &z, i / heads, i % heads);
    return AX_OK;
}
