// Rotary positions, activations, biases, copies and sums.
#include "dev/ref/ref.h"

#include <math.h>

ax_status ax_ref_rope(ax_device *dev, ax_tensor x, ax_tensor positions, ax_tensor inv_freq,
                      int64_t head_dim, int direction)
{
    (void)dev;
    int64_t half = head_dim / 2;
    double freq[AX_HEAD_DIM_MAX / 2], v[AX_HEAD_DIM_MAX];
    double cosine[AX_HEAD_DIM_MAX / 2], sine[AX_HEAD_DIM_MAX / 2];
    load(inv_freq, 0, 0, half, freq);
    for (int64_t row = 0; row < x.rows; row++) {
        for (int64_t i = 0; i < half; i++) {
            double angle = load_id(positions, row) * freq[i];
            cosine[i] = cos(angle);
            sine[i] = direction * sin(angle);
        }
        for (int64_t col = 0; col < x.cols; col += head_dim) {
            load(x, row, col, head_dim, v);
            for (int64_t i = 0; i < half; i++) {
                double a = v[i], b = v[i + half];
                v[i] = a * cosine[i] - b * sine[i];
                v[i + half] = b * cosine[i] + a * sine[i];
            }
            store(x, row, col, head_dim, v);
        }
    }
    return AX_OK;
}

// Visits a matrix in spans of its rows.
#define FOR_SPANS(t, i, j, n)                                                                      \
    for (int64_t i = 0; i < (t).rows; i++)                                                         \
        for (int64_t j = 0, n; j < (t).cols && (n = span_of((t).cols, j)); j += SPAN)

// gelu(x) = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3): the tanh form, rewritten.
static const double GELU_A = 0.79788456080286535588, GELU_B = 0.044715;

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double gelu(double x)
{
    return x * sigmoid(2 * GELU_A * (x + GELU_B * x * x * x));
}

static double gelu_slope(double x)
{
    double s = sigmoid(2 * GELU_A * (x + GELU_B * x * x * x));
    return s + x * s * (1 - s) * 2 * GELU_A * (1 + 3 * GELU_B * x * x);
}

ax_status ax_ref_gelu_fwd(ax_device *dev, ax_tensor x, ax_tensor y)
{
    (void)dev;
    double v[SPAN];
    FOR_SPANS(x, i, j, n)
    {
        load(x, i, j, n, v);
        for (int64_t c = 0; c < n; c++)
            v[c] = gelu(v[c]);
        store(y, i, j, n, v);
    }
    return AX_OK;
}

ax_status ax_ref_gelu_bwd(ax_device *dev, ax_tensor x, ax_tensor dy, ax_tensor dx)
{
    (void)dev;
    double v[SPAN], g[SPAN];
    FOR_SPANS(x, i, j, n)
    {
        load(x, i, j, n, v);
        load(dy, i, j, n, g);
        for (int64_t c = 0; c < n; c++)
            g[c] *= gelu_slope(v[c]);
        store(dx, i, j, n, g);
    }
    return AX_OK;
}

ax_status ax_ref_swiglu_fwd(ax_device *dev, ax_tensor gate, ax_tensor up, ax_tensor y)
{
    (void)dev;
    double g[SPAN], u[SPAN];
    FOR_SPANS(gate, i, j, n)
    {
        load(gate, i, j, n, g);
        load(up, i, j, n, u);
        for (int64_t c = 0; c < n; c++)
            u[c] *= g[c] * sigmoid(g[c]);
        store(y, i, j, n, u);
    }
    return AX_OK;
}

ax_status ax_ref_swiglu_bwd(ax_device *dev, ax_tensor gate, ax_tensor up, ax_tensor dy,
                            ax_tensor dgate, ax_tensor dup)
{
    (void)dev;
    double g[SPAN], u[SPAN], d[SPAN];
    FOR_SPANS(gate, i, j, n)
    {
        load(gate, i, j, n, g);
        load(up, i, j, n, u);
        load(dy, i, j, n, d);
        for (int64_t c = 0; c < n; c++) {
            double s = sigmoid(g[c]), silu = g[c] * s;
            g[c] = d[c] * u[c] * (s + silu * (1 - s));
            u[c] = d[c] * silu;
        }
        store(dgate, i, j, n, g);
        store(dup, i, j, n, u);
    }
    return AX_OK;
}

ax_status ax_ref_bias_fwd(ax_device *dev, ax_tensor y, ax_tensor b)
{
    (void)dev;
    double v[SPAN], bias[SPAN];
    FOR_SPANS(y, i, j, n)
    {
        load(y, i, j, n, v);
        load(b, 0, j, n, bias);
        for (int64_t c = 0; c < n; c++)
            v[c] += bias[c];
        store(y, i, j, n, v);
    }
    return AX_OK;
}

ax_status ax_ref_bias_bwd(ax_device *dev, ax_tensor dy, ax_tensor db)
{
    (void)dev;
    double v[SPAN], sum[SPAN];
    for (int64_t j = 0; j < dy.cols; j += SPAN) {
        int64_t n = span_of(dy.cols, j);
        load(db, 0, j, n, sum);
        for (int64_t i = 0; i < dy.rows; i++) {
            load(dy, i, j, n, v);
            for (int64_t c = 0; c < n; c++)
                sum[c] += v[c];
        }
        store(db, 0, j, n, sum);
    }
    return AX_OK;
}

ax_status ax_ref_copy(ax_device *dev, ax_tensor x, ax_tensor y)
{
    (void)dev;
    double v[SPAN];
    FOR_SPANS(x, i, j, n)
    {
        load(x, i, j, n, v);
        store(y, i, j, n, v);
    }
    return AX_OK;
}

ax_status ax_ref_add(ax_device *dev, ax_tensor x, ax_tensor y)
{
    (void)dev;
    double v[SPAN], sum[SPAN];
    FOR_SPANS(x, i, j, n)
    {
        load(x, i, j, n, v);
        load(y, i, j, n, sum);
        for (int64_t c = 0; c < n; c++)
            sum[c] += v[c];
        store(y, i, j, n, sum);
    }
    return AX_OK;
}

ax_status ax_ref_fill(ax_device *dev, ax_tensor x, double value)
{
    (void)dev;
    double v[SPAN];
    for (int64_t c = 0; c < SPAN; c++)
        v[c] = value;
    FOR_SPANS(x, i, j, n)
    store(x, i, j, n, v);
    return AX_OK;
}

ax_status ax_ref_square_sum(ax_device *dev, ax_tensor x, double out[2])
{
    (void)dev;
    double v[SPAN], sum = 0, broken = 0;
    FOR_SPANS(x, i, j, n)
    {
        load(x, i, j, n, v);
        for (int64_t c = 0; c < n; c++) {
            bool finite = isfinite(v[c]);
            sum += finite ? v[c] * v[c] : 0;
            broken += finite ? 0 : 1;
        }
    }
    out[0] += sum;
    out[1] += broken;
    return AX_OK;
}
