// Embedding, the pieces of the cross-entropy, and AdamW.
#include "dev/ref/ref.h"

#include <math.h>

ax_status ax_ref_embed_fwd(ax_device *dev, ax_tensor ids, int64_t first, ax_tensor table,
                           ax_tensor x)
{
    (void)dev;
    double v[SPAN];
    for (int64_t i = 0; i < x.rows; i++) {
        int64_t row = load_id(ids, i) - first;
        bool here = row >= 0 && row < table.rows;
        for (int64_t j = 0; j < x.cols; j += SPAN) {
            int64_t n = span_of(x.cols, j);
            for (int64_t c = 0; c < n && !here; c++)
                v[c] = 0;
            if (here)
                load(table, row, j, n, v);
            store(x, i, j, n, v);
        }
    }
    return AX_OK;
}

ax_status ax_ref_embed_bwd(ax_device *dev, ax_tensor ids, int64_t first, ax_tensor dx,
                           ax_tensor dtable)
{
    (void)dev;
    double v[SPAN], sum[SPAN];
    for (int64_t i = 0; i < dx.rows; i++) {
        int64_t row = load_id(ids, i) - first;
        if (row < 0 || row >= dtable.rows)
            continue;
        for (int64_t j = 0; j < dx.cols; j += SPAN) {
            int64_t n = span_of(dx.cols, j);
            load(dx, i, j, n, v);
            load(dtable, row, j, n, sum);
            for (int64_t c = 0; c < n; c++)
                sum[c] += v[c];
            store(dtable, row, j, n, sum);
        }
    }
    return AX_OK;
}

// Columns of this slice that are true vocabulary, not padding.
static int64_t true_columns(const ax_xent_args *g)
{
    int64_t n = g->vocab - g->first;
    return n < 0 ? 0 : n < g->logits.cols ? n : g->logits.cols;
}

ax_status ax_ref_xent_max(ax_device *dev, const ax_xent_args *g)
{
    (void)dev;
    double l[SPAN];
    int64_t cols = true_columns(g);
    for (int64_t i = 0; i < g->logits.rows; i++) {
        double max = -INFINITY;
        for (int64_t j = 0; j < cols; j += SPAN) {
            int64_t n = span_of(cols, j);
            load(g->logits, i, j, n, l);
            for (int64_t c = 0; c < n; c++) // a NaN is passed over here and reaches the sum
                max = l[c] > max ? l[c] : max;
        }
        store1(g->max, 0, i, max);
    }
    return AX_OK;
}

ax_status ax_ref_xent_sums(ax_device *dev, const ax_xent_args *g)
{
    (void)dev;
    double l[SPAN];
    int64_t cols = true_columns(g);
    for (int64_t i = 0; i < g->logits.rows; i++) {
        double max = load1(g->max, 0, i), sum = 0;
        int64_t target = load_id(g->targets, i) - g->first;
        bool here = load_id(g->targets, i) >= 0 && target >= 0 && target < cols;
        for (int64_t j = 0; j < cols; j += SPAN) {
            int64_t n = span_of(cols, j);
            load(g->logits, i, j, n, l);
            for (int64_t c = 0; c < n; c++)
                sum += exp(l[c] - max);
        }
        store1(g->sums, i, 0, sum);
        store1(g->sums, i, 1, here ? load1(g->logits, i, target) : 0);
    }
    return AX_OK;
}

ax_status ax_ref_xent_bwd(ax_device *dev, const ax_xent_args *g)
{
    (void)dev;
    double l[SPAN];
    int64_t cols = true_columns(g);
    for (int64_t i = 0; i < g->logits.rows; i++) {
        double max = load1(g->max, 0, i), sum = load1(g->sums, i, 0);
        int64_t target = load_id(g->targets, i) - g->first;
        bool counts = load_id(g->targets, i) >= 0;
        for (int64_t j = 0; j < g->logits.cols; j += SPAN) {
            int64_t n = span_of(g->logits.cols, j);
            load(g->logits, i, j, n, l);
            for (int64_t c = 0; c < n; c++) {
                double p = exp(l[c] - max) / sum - (j + c == target ? 1 : 0);
                l[c] = counts && j + c < cols ? p * g->scale : 0;
            }
            store(g->dlogits, i, j, n, l);
        }
    }
    return AX_OK;
}

// Decoupled weight decay (Loshchilov and Hutter, 2019).
ax_status ax_ref_adamw(ax_device *dev, const ax_adamw_args *g)
{
    (void)dev;
    const ax_step_scalars *s = g->step;
    double w[SPAN], m[SPAN], v[SPAN], grad[SPAN];
    if (g->master.rows == 0)
        return AX_OK;
    for (int64_t j = 0; j < g->master.cols; j += SPAN) {
        int64_t n = span_of(g->master.cols, j);
        load(g->master, 0, j, n, w);
        load(g->m, 0, j, n, m);
        load(g->v, 0, j, n, v);
        load(g->grad, 0, j, n, grad);
        for (int64_t c = 0; c < n; c++) {
            double d = grad[c] * s->grad_scale;
            m[c] = s->beta1 * m[c] + (1 - s->beta1) * d;
            v[c] = s->beta2 * v[c] + (1 - s->beta2) * d * d;
            double update = m[c] / s->bias1 / (sqrt(v[c] / s->bias2) + s->eps);
            w[c] -= s->lr * (update + g->weight_decay * w[c]);
        }
        store(g->m, 0, j, n, m);
        store(g->v, 0, j, n, v);
        store(g->master, 0, j, n, w);
        store(g->weight, 0, j, n, w);
    }
    return AX_OK;
}
