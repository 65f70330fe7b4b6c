// LayerNorm and RMSNorm over a slice of the width.
//
// With xhat = (x - mean) * rstd (RMSNorm: mean 0) and g = dy * w, the gradient of a row is
// dx = rstd * (g - sum(g) / H - xhat * sum(g * xhat) / H), where RMSNorm lacks the middle term.
#include "dev/ref/ref.h"

#include <math.h>

typedef struct row_stats {
    double mean, rstd;
} row_stats;

static row_stats stats_of(const ax_norm_args *g, int64_t row)
{
    double width = (double)g->width, square = load1(g->sums, row, 0) / width;
    if (g->kind == AX_RMSNORM)
        return (row_stats){0, 1 / sqrt(square + g->eps)};
    double mean = load1(g->sums, row, 1) / width;
    double var = square - mean * mean;
    return (row_stats){mean, 1 / sqrt((var > 0 ? var : 0) + g->eps)};
}

ax_status ax_ref_norm_sums(ax_device *dev, const ax_norm_args *g)
{
    (void)dev;
    double x[SPAN];
    for (int64_t i = 0; i < g->x.rows; i++) {
        double sum = 0, square = 0;
        for (int64_t j = 0; j < g->x.cols; j += SPAN) {
            int64_t n = span_of(g->x.cols, j);
            load(g->x, i, j, n, x);
            for (int64_t c = 0; c < n; c++) {
                sum += x[c];
                square += x[c] * x[c];
            }
        }
        store1(g->sums, i, 0, square);
        if (g->kind == AX_LAYERNORM)
            store1(g->sums, i, 1, sum);
    }
    return AX_OK;
}

ax_status ax_ref_norm_fwd(ax_device *dev, const ax_norm_args *g)
{
    (void)dev;
    double x[SPAN], w[SPAN], b[SPAN] = {0};
    for (int64_t i = 0; i < g->x.rows; i++) {
        row_stats at = stats_of(g, i);
        for (int64_t j = 0; j < g->x.cols; j += SPAN) {
            int64_t n = span_of(g->x.cols, j);
            load(g->x, i, j, n, x);
            load(g->w, 0, j, n, w);
            if (g->b.data)
                load(g->b, 0, j, n, b);
            for (int64_t c = 0; c < n; c++)
                x[c] = (x[c] - at.mean) * at.rstd * w[c] + b[c];
            store(g->y, i, j, n, x);
        }
    }
    return AX_OK;
}

ax_status ax_ref_norm_bwd_sums(ax_device *dev, const ax_norm_args *g)
{
    (void)dev;
    double x[SPAN], w[SPAN], dy[SPAN];
    for (int64_t i = 0; i < g->x.rows; i++) {
        row_stats at = stats_of(g, i);
        double sum = 0, scaled = 0;
        for (int64_t j = 0; j < g->x.cols; j += SPAN) {
            int64_t n = span_of(g->x.cols, j);
            load(g->x, i, j, n, x);
            load(g->w, 0, j, n, w);
            load(g->dy, i, j, n, dy);
            for (int64_t c = 0; c < n; c++) {
                sum += dy[c] * w[c];
                scaled += dy[c] * w[c] * (x[c] - at.mean) * at.rstd;
            }
        }
        store1(g->dsums, i, 0, scaled);
        if (g->kind == AX_LAYERNORM)
            store1(g->dsums, i, 1, sum);
    }
    return AX_OK;
}

static void input_bwd(const ax_norm_args *g, int64_t i)
{
    double x[SPAN], w[SPAN], dy[SPAN], dx[SPAN];
    row_stats at = stats_of(g, i);
    double tilt = load1(g->dsums, i, 0) / (double)g->width;
    double shift = g->kind == AX_LAYERNORM ? load1(g->dsums, i, 1) / (double)g->width : 0;
    for (int64_t j = 0; j < g->x.cols; j += SPAN) {
        int64_t n = span_of(g->x.cols, j);
        load(g->x, i, j, n, x);
        load(g->w, 0, j, n, w);
        load(g->dy, i, j, n, dy);
        load(g->dx, i, j, n, dx);
        for (int64_t c = 0; c < n; c++) {
            double xhat = (x[c] - at.mean) * at.rstd;
            dx[c] += at.rstd * (dy[c] * w[c] - shift - xhat * tilt);
        }
        store(g->dx, i, j, n, dx);
    }
}

// dw and db of one span of columns, summed over all rows before they are rounded.
static void weight_bwd(const ax_norm_args *g, int64_t j)
{
    double x[SPAN], dy[SPAN], dw[SPAN], db[SPAN] = {0};
    int64_t n = span_of(g->x.cols, j);
    load(g->dw, 0, j, n, dw);
    if (g->db.data)
        load(g->db, 0, j, n, db);
    for (int64_t i = 0; i < g->x.rows; i++) {
        row_stats at = stats_of(g, i);
        load(g->x, i, j, n, x);
        load(g->dy, i, j, n, dy);
        for (int64_t c = 0; c < n; c++) {
            dw[c] += dy[c] * (x[c] - at.mean) * at.rstd;
            db[c] += dy[c];
        }
    }
    store(g->dw, 0, j, n, dw);
    if (g->db.data)
        store(g->db, 0, j, n, db);
}

ax_status ax_ref_norm_bwd(ax_device *dev, const ax_norm_args *g)
{
    (void)dev;
    for (int64_t i = 0; i < g->x.rows; i++)
        input_bwd(g, i);
    for (int64_t j = 0; j < g->x.cols; j += SPAN)
        weight_bwd(g, j);
    return AX_OK;
}
