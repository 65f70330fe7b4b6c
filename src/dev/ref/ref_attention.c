// Causal attention, one query row at a time. The forward pass keeps a running maximum and sum
// (online softmax; Milakov and Gimelshein, 2018); the backward pass makes each probability again
// from the saved log-sum-exp and uses sum_j p_ij dp_ij = dout_i . out_i (Dao et al., 2022).
#include "dev/ref/ref.h"

#include <math.h>
#include <string.h>

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static void axpy(double *y, double a, const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] += a * x[i];
}

// The first row of its sequence that row i sees.
static int64_t first_seen(const ax_attention_args *g, int64_t first, int64_t i)
{
    return g->positions.data ? i - load_id(g->positions, first + i) : 0;
}

// Where the keys of a query stand in k and v: rows first .. first + count, columns from `col` on.
typedef struct keys {
    ax_tensor k, v;
    int64_t first, count, col, head_dim;
    double scale;
} keys;

// out = softmax(q k^T * scale) v for the query at (row, col); returns the log of the sum of
// exponentials.
static double attend(const keys *w, ax_tensor query, int64_t row, int64_t col, double *out)
{
    int64_t d = w->head_dim;
    double q[AX_HEAD_DIM_MAX], x[AX_HEAD_DIM_MAX], max = -INFINITY, sum = 0;
    load(query, row, col, d, q);
    memset(out, 0, (size_t)d * sizeof *out);
    for (int64_t j = w->first; j < w->first + w->count; j++) {
        load(w->k, j, w->col, d, x);
        double s = dot(q, x, d) * w->scale;
        if (s > max) {
            double shrink = exp(max - s);
            sum *= shrink;
            for (int64_t c = 0; c < d; c++)
                out[c] *= shrink;
            max = s;
        }
        double p = exp(s - max);
        sum += p;
        load(w->v, j, w->col, d, x);
        axpy(out, p, x, d);
    }
    for (int64_t c = 0; c < d; c++)
        out[c] /= sum;
    return max + log(sum);
}

static void query_fwd(const ax_attention_args *g, int64_t first, int64_t head, int64_t i)
{
    int64_t d = g->head_dim, from = first_seen(g, first, i);
    double out[AX_HEAD_DIM_MAX];
    keys w = {.k = g->k,
              .v = g->v,
              .first = first + from,
              .count = i - from + 1,
              .col = head / (g->heads / g->kv_heads) * d,
              .head_dim = d,
              .scale = g->scale};
    double lse = attend(&w, g->q, first + i, head * d, out);
    store(g->out, first + i, head * d, d, out);
    store1(g->lse, first + i, head, lse);
}

ax_status ax_ref_attention_fwd(ax_device *dev, const ax_attention_args *g)
{
    (void)dev;
    for (int64_t s = 0; s < g->sequences; s++)
        for (int64_t head = 0; head < g->heads; head++)
            for (int64_t i = 0; i < g->seq; i++)
                query_fwd(g, s * g->seq, head, i);
    return AX_OK;
}

// What a pair (query i, key j) contributes: the probability and the gradient of the score.
typedef struct pair {
    double p, ds;
} pair;

typedef struct query {
    double q[AX_HEAD_DIM_MAX], dout[AX_HEAD_DIM_MAX];
    double lse, delta;
} query;

static void load_query(const ax_attention_args *g, int64_t row, int64_t head, query *out)
{
    int64_t d = g->head_dim;
    double o[AX_HEAD_DIM_MAX];
    load(g->q, row, head * d, d, out->q);
    load(g->dout, row, head * d, d, out->dout);
    load(g->out, row, head * d, d, o);
    out->lse = load1(g->lse, row, head);
    out->delta = dot(out->dout, o, d);
}

static pair pair_of(const ax_attention_args *g, const query *q, const double *k, const double *v)
{
    double p = exp(dot(q->q, k, g->head_dim) * g->scale - q->lse);
    return (pair){p, p * (dot(q->dout, v, g->head_dim) - q->delta) * g->scale};
}

static void query_bwd(const ax_attention_args *g, int64_t first, int64_t head, int64_t i)
{
    int64_t d = g->head_dim, kv = head / (g->heads / g->kv_heads) * d;
    double k[AX_HEAD_DIM_MAX], v[AX_HEAD_DIM_MAX], dq[AX_HEAD_DIM_MAX] = {0};
    query q;
    load_query(g, first + i, head, &q);
    for (int64_t j = first_seen(g, first, i); j <= i; j++) {
        load(g->k, first + j, kv, d, k);
        load(g->v, first + j, kv, d, v);
        axpy(dq, pair_of(g, &q, k, v).ds, k, d);
    }
    store(g->dq, first + i, head * d, d, dq);
}

// The rows of dk and dv that belong to key j: sums over the later queries of all heads that read
// it.
static void key_bwd(const ax_attention_args *g, int64_t first, int64_t kv_head, int64_t j)
{
    int64_t d = g->head_dim, group = g->heads / g->kv_heads;
    double k[AX_HEAD_DIM_MAX], v[AX_HEAD_DIM_MAX];
    double dk[AX_HEAD_DIM_MAX] = {0}, dv[AX_HEAD_DIM_MAX] = {0};
    load(g->k, first + j, kv_head * d, d, k);
    load(g->v, first + j, kv_head * d, d, v);
    for (int64_t head = kv_head * group; head < (kv_head + 1) * group; head++)
        for (int64_t i = j; i < g->seq; i++) {
            query q;
            if (first_seen(g, first, i) > j)
                continue;
            load_query(g, first + i, head, &q);
            pair at = pair_of(g, &q, k, v);
            axpy(dk, at.ds, q.q, d);
            axpy(dv, at.p, q.dout, d);
        }
    store(g->dk, first + j, kv_head * d, d, dk);
    store(g->dv, first + j, kv_head * d, d, dv);
}

ax_status ax_ref_attention_bwd(ax_device *dev, const ax_attention_args *g)
{
    (void)dev;
    for (int64_t s = 0; s < g->sequences; s++) {
        for (int64_t head = 0; head < g->heads; head++)
            for (int64_t i = 0; i < g->seq; i++)
                query_bwd(g, s * g->seq, head, i);
        for (int64_t head = 0; head < g->kv_heads; head++)
            for (int64_t j = 0; j < g->seq; j++)
                key_bwd(g, s * g->seq, head, j);
    }
    return AX_OK;
}

ax_status ax_ref_attention_cached(ax_device *dev, const ax_attention_cached_args *g)
{
    (void)dev;
    int64_t d = g->head_dim, group = g->heads / g->kv_heads;
    double out[AX_HEAD_DIM_MAX];
    for (int64_t row = 0; row < g->sequences * g->queries; row++)
        for (int64_t head = 0; head < g->heads; head++) {
            int64_t s = row / g->queries, later = g->queries - 1 - row % g->queries;
            keys w = {.k = g->k,
                      .v = g->v,
                      .first = (s * g->kv_heads + head / group) * g->room,
                      .count = load_id(g->lengths, s) - later,
                      .head_dim = d,
                      .scale = g->scale};
            attend(&w, g->q, row, head * d, out);
            store(g->out, row, head * d, d, out);
        }
    return AX_OK;
}
