// LayerNorm and RMSNorm over a slice of the width; the formulas stand in ref_norm.c.
#include "dev/cpu/vec.h"

#include <math.h>

typedef struct row_stats {
    float mean, rstd;
} row_stats;

INLINE row_stats stats_of(const ax_norm_args *g, int64_t row)
{
    const float *sums = at(g->sums, row, 0);
    double width = (double)g->width, square = (double)sums[0] / width;
    double mean = g->kind == AX_LAYERNORM ? (double)sums[1] / width : 0;
    double var = square - mean * mean;
    return (row_stats){(float)mean, (float)(1 / sqrt((var > 0 ? var : 0) + g->eps))};
}

static void sums_row(const ax_norm_args *g, int64_t row)
{
    const float *x = at(g->x, row, 0);
    float *out = at(g->sums, row, 0);
    vd_half sum[2] = {{0}}, square[2] = {{0}}; // in double: the variance is a small difference
    for (int64_t i = 0; i < g->x.cols; i += W) {
        vf v = load_some(x, i, AX_F32, g->x.cols - i);
        vd_half low = lower_lanes(v), high = upper_lanes(v);
        sum[0] += low;
        sum[1] += high;
        square[0] += low * low;
        square[1] += high * high;
    }
    out[0] = (float)halves_sum(square[0] + square[1]);
    if (g->kind == AX_LAYERNORM)
        out[1] = (float)halves_sum(sum[0] + sum[1]);
}

ax_status V(norm_sums)(ax_device *dev, const ax_norm_args *g)
{
    if (g->x.dtype == AX_F64)
        return ax_kern_ref.norm_sums(dev, g);
    BY_TEAM(dev, is_big(g->x), row, g->x.rows)
    sums_row(g, row);
    return AX_OK;
}

INLINE void fwd_row(const ax_norm_args *g, int64_t row, ax_dtype t)
{
    row_stats s = stats_of(g, row);
    const void *x = at(g->x, row, 0), *w = g->w.data, *b = g->b.data;
    void *y = at(g->y, row, 0);
    for (int64_t i = 0; i < g->x.cols; i += W) {
        int64_t n = g->x.cols - i;
        vf v = (load_some(x, i, AX_F32, n) - s.mean) * s.rstd * load_some(w, i, AX_F32, n);
        if (b)
            v += load_some(b, i, AX_F32, n);
        store_some(y, i, t, v, n);
    }
}

ax_status V(norm_fwd)(ax_device *dev, const ax_norm_args *g)
{
    if (g->x.dtype == AX_F64)
        return ax_kern_ref.norm_fwd(dev, g);
    BY_TEAM(dev, is_big(g->x), row, g->x.rows)
    BY_DTYPE(g->y.dtype, T, fwd_row(g, row, T));
    return AX_OK;
}

INLINE void bwd_sums_row(const ax_norm_args *g, int64_t row, ax_dtype t)
{
    row_stats s = stats_of(g, row);
    const void *x = at(g->x, row, 0), *dy = at(g->dy, row, 0), *w = g->w.data;
    float *out = at(g->dsums, row, 0);
    vf sum = {0}, scaled = {0};
    for (int64_t i = 0; i < g->x.cols; i += W) {
        int64_t n = g->x.cols - i;
        vf d = load_some(dy, i, t, n) * load_some(w, i, AX_F32, n);
        sum += d;
        scaled += d * (load_some(x, i, AX_F32, n) - s.mean);
    }
    out[0] = lanes_sum(scaled) * s.rstd;
    if (g->kind == AX_LAYERNORM)
        out[1] = lanes_sum(sum);
}

ax_status V(norm_bwd_sums)(ax_device *dev, const ax_norm_args *g)
{
    if (g->x.dtype == AX_F64)
        return ax_kern_ref.norm_bwd_sums(dev, g);
    BY_TEAM(dev, is_big(g->x), row, g->x.rows)
    BY_DTYPE(g->dy.dtype, T, bwd_sums_row(g, row, T));
    return AX_OK;
}

INLINE void input_bwd_row(const ax_norm_args *g, int64_t row, ax_dtype t)
{
    row_stats s = stats_of(g, row);
    const void *x = at(g->x, row, 0), *dy = at(g->dy, row, 0), *w = g->w.data;
    const float *dsums = at(g->dsums, row, 0);
    float tilt = dsums[0] / (float)g->width;
    float shift = g->kind == AX_LAYERNORM ? dsums[1] / (float)g->width : 0;
    void *dx = at(g->dx, row, 0);
    for (int64_t i = 0; i < g->x.cols; i += W) {
        int64_t n = g->x.cols - i;
        vf d = load_some(dy, i, t, n) * load_some(w, i, AX_F32, n);
        vf xhat = (load_some(x, i, AX_F32, n) - s.mean) * s.rstd;
        vf slope = s.rstd * (d - shift - xhat * tilt);
        store_some(dx, i, AX_F32, load_some(dx, i, AX_F32, n) + slope, n);
    }
}

// dw and db of one stripe of columns, carried every CARRY rows (see column_sums in vec_rows.c).
INLINE void weight_bwd_stripe(const ax_norm_args *g, int64_t col, ax_dtype t)
{
    int64_t n = g->x.cols - col < STRIPE ? g->x.cols - col : STRIPE;
    float *total_w = at(g->dw, 0, col), *total_b = g->db.data ? at(g->db, 0, col) : NULL;
    for (int64_t first = 0; first < g->x.rows; first += CARRY) {
        float dw[STRIPE] = {0}, db[STRIPE] = {0};
        int64_t end = g->x.rows - first < CARRY ? g->x.rows : first + CARRY;
        for (int64_t row = first; row < end; row++) {
            row_stats s = stats_of(g, row);
            for (int64_t i = 0; i < n; i += W) {
                vf d = load_some(at(g->dy, row, col), i, t, n - i);
                vf xhat = (load_some(at(g->x, row, col), i, AX_F32, n - i) - s.mean) * s.rstd;
                store(dw, i, AX_F32, load(dw, i, AX_F32) + d * xhat);
                store(db, i, AX_F32, load(db, i, AX_F32) + d);
            }
        }
        for (int64_t i = 0; i < n; i++)
            total_w[i] += dw[i];
        for (int64_t i = 0; i < n && total_b; i++)
            total_b[i] += db[i];
    }
}

ax_status V(norm_bwd)(ax_device *dev, const ax_norm_args *g)
{
    if (g->x.dtype == AX_F64)
        return ax_kern_ref.norm_bwd(dev, g);
    BY_TEAM(dev, is_big(g->x), row, g->x.rows)
    BY_DTYPE(g->dy.dtype, T, input_bwd_row(g, row, T));
    BY_TEAM(dev, is_big(g->x), i, stripes_of(g->x))
    BY_DTYPE(g->dy.dtype, T, weight_bwd_stripe(g, i * STRIPE, T));
    return AX_OK;
}
