// Embedding, the pieces of the cross-entropy, and AdamW.
#include "dev/cpu/vec.h"

#include <math.h>

INLINE void embed_span(const void *table, ax_dtype tt, void *x, ax_dtype tx, int64_t n)
{
    for (int64_t i = 0; i < n; i += W)
        store_some(x, i, tx, table ? load_some(table, i, tt, n - i) : (vf){0}, n - i);
}

ax_status V(embed_fwd)(ax_device *dev, ax_tensor ids, int64_t first, ax_tensor table, ax_tensor x)
{
    if (x.dtype == AX_F64)
        return ax_kern_ref.embed_fwd(dev, ids, first, table, x);
    BY_TEAM(dev, is_big(x), i, x.rows)
    {
        int64_t row = ((const int32_t *)ids.data)[i] - first;
        const void *from = row >= 0 && row < table.rows ? at(table, row, 0) : NULL;
        void *to = at(x, i, 0);
        BY_DTYPE(table.dtype, TT, BY_DTYPE(x.dtype, TX, embed_span(from, TT, to, TX, x.cols)));
    }
    return AX_OK;
}

// One stripe of columns of every row, in the order of the rows.
INLINE void embed_bwd_stripe(ax_tensor ids, int64_t first, ax_tensor dx, ax_tensor dtable,
                             int64_t col, ax_dtype t)
{
    int64_t n = dx.cols - col < STRIPE ? dx.cols - col : STRIPE;
    for (int64_t r = 0; r < dx.rows; r++) {
        int64_t row = ((const int32_t *)ids.data)[r] - first;
        if (row < 0 || row >= dtable.rows)
            continue;
        const void *from = at(dx, r, col);
        void *to = at(dtable, row, col);
        for (int64_t i = 0; i < n; i += W) {
            vf sum = load_some(to, i, AX_F32, n - i) + load_some(from, i, t, n - i);
            store_some(to, i, AX_F32, sum, n - i);
        }
    }
}

ax_status V(embed_bwd)(ax_device *dev, ax_tensor ids, int64_t first, ax_tensor dx, ax_tensor dtable)
{
    if (dx.dtype == AX_F64)
        return ax_kern_ref.embed_bwd(dev, ids, first, dx, dtable);
    BY_TEAM(dev, is_big(dx), i, stripes_of(dx))
    BY_DTYPE(dx.dtype, T, embed_bwd_stripe(ids, first, dx, dtable, i * STRIPE, T));
    return AX_OK;
}

// Columns of this slice that are true vocabulary, not padding.
static int64_t true_columns(const ax_xent_args *g)
{
    int64_t n = g->vocab - g->first;
    return n < 0 ? 0 : n < g->logits.cols ? n : g->logits.cols;
}

static float row_max(const float *l, int64_t cols)
{
    vf max = splat(-INFINITY);
    int64_t i = 0;
    for (; i + W <= cols; i += W)
        max = vmax(load(l, i, AX_F32), max);
    float top = lanes_max(max);
    for (; i < cols; i++)
        top = l[i] > top ? l[i] : top;
    return top;
}

ax_status V(xent_max)(ax_device *dev, const ax_xent_args *g)
{
    if (g->logits.dtype == AX_F64)
        return ax_kern_ref.xent_max(dev, g);
    int64_t cols = true_columns(g);
    BY_TEAM(dev, is_big(g->logits), i, g->logits.rows)
    *(float *)at(g->max, 0, i) = row_max(at(g->logits, i, 0), cols);
    return AX_OK;
}

// exp(l - max) of the first n of W columns, 0 in the others.
INLINE vf exp_some(const float *l, int64_t i, float max, int64_t n)
{
    vf e = vexp(load_some(l, i, AX_F32, n) - max);
    return n >= W ? e : select(lane_numbers() < (int32_t)n, e, (vf){0});
}

static void sums_row(const ax_xent_args *g, int64_t row, int64_t cols)
{
    const float *l = at(g->logits, row, 0);
    float *out = at(g->sums, row, 0), max = *(const float *)at(g->max, 0, row);
    int32_t id = ((const int32_t *)g->targets.data)[row];
    int64_t target = id - g->first;
    vf sum = {0};
    for (int64_t i = 0; i < cols; i += W)
        sum += exp_some(l, i, max, cols - i);
    out[0] = lanes_sum(sum);
    out[1] = id >= 0 && target >= 0 && target < cols ? l[target] : 0;
}

ax_status V(xent_sums)(ax_device *dev, const ax_xent_args *g)
{
    if (g->logits.dtype == AX_F64)
        return ax_kern_ref.xent_sums(dev, g);
    int64_t cols = true_columns(g);
    BY_TEAM(dev, is_big(g->logits), i, g->logits.rows)
    sums_row(g, i, cols);
    return AX_OK;
}

INLINE void bwd_row(const ax_xent_args *g, int64_t row, int64_t cols, ax_dtype t)
{
    const float *l = at(g->logits, row, 0);
    void *out = at(g->dlogits, row, 0);
    float max = *(const float *)at(g->max, 0, row), sum = *(const float *)at(g->sums, row, 0);
    int32_t id = ((const int32_t *)g->targets.data)[row];
    int64_t target = id - g->first, live = id >= 0 ? cols : 0, all = g->logits.cols;
    float factor = (float)(g->scale / (double)sum), here = 0;
    if (live && target >= 0 && target < cols) // before dlogits, which may lie over the logits
        here = (float)(((double)expf(l[target] - max) / (double)sum - 1) * g->scale);
    for (int64_t i = 0; i < live; i += W) {
        int64_t n = all - i;
        store_some(out, i, t, exp_some(l, i, max, live - i) * factor, n);
    }
    for (int64_t i = (live + W - 1) / W * W; i < all; i += W)
        store_some(out, i, t, (vf){0}, all - i);
    if (live && target >= 0 && target < cols)
        store_some(out, target, t, splat(here), 1);
}

ax_status V(xent_bwd)(ax_device *dev, const ax_xent_args *g)
{
    if (g->logits.dtype == AX_F64)
        return ax_kern_ref.xent_bwd(dev, g);
    int64_t cols = true_columns(g);
    BY_TEAM(dev, is_big(g->logits), i, g->logits.rows)
    BY_DTYPE(g->dlogits.dtype, T, bwd_row(g, i, cols, T));
    return AX_OK;
}

// A plain loop: the compiler vectorises it, square root and all.
INLINE void adamw_span(const ax_adamw_args *g, int64_t first, int64_t n, ax_dtype t)
{
    const ax_step_scalars *s = g->step;
    float *w = at(g->master, 0, first), *m = at(g->m, 0, first), *v = at(g->v, 0, first);
    const float *grad = at(g->grad, 0, first);
    void *weight = at(g->weight, 0, first);
    const float scale = (float)s->grad_scale, lr = (float)s->lr, eps = (float)s->eps;
    const float b1 = (float)s->beta1, c1 = (float)(1 - s->beta1), r1 = (float)(1 / s->bias1);
    const float b2 = (float)s->beta2, c2 = (float)(1 - s->beta2), r2 = (float)(1 / s->bias2);
    const float decay = (float)(s->lr * g->weight_decay);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float d = grad[i] * scale;
        m[i] = b1 * m[i] + c1 * d;
        v[i] = b2 * v[i] + c2 * d * d;
        w[i] -= lr * (m[i] * r1 / (sqrtf(v[i] * r2) + eps)) + decay * w[i];
    }
    if (weight != w)
        for (int64_t i = 0; i < n; i += W)
            store_some(weight, i, t, load_some(w, i, AX_F32, n - i), n - i);
}

ax_status V(adamw)(ax_device *dev, const ax_adamw_args *g)
{
    if (g->master.dtype == AX_F64)
        return ax_kern_ref.adamw(dev, g);
    BY_TEAM(dev, is_big(g->master), i, pieces_of(g->master))
    {
        piece p = piece_at(g->master, i);
        BY_DTYPE(g->weight.dtype, T, adamw_span(g, p.col, p.n, T));
    }
    return AX_OK;
}
