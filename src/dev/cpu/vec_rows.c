// Rotary positions, activations, biases, copies and sums.
#include "dev/cpu/vec.h"

// sin and cos of position * freq. The angle is reduced in double, as positions go to 1e5 and more;
// the polynomials on [-pi/4, pi/4] are Cephes' sinf and cosf.
INLINE void vsincos(double position, vf freq, vf *sine, vf *cosine)
{
    const double magic = 6755399441055744.0; // 1.5 * 2^52
    vd x = __builtin_convertvector(freq, vd) * position;
    vd n = (x * 0.63661977236758134308 + magic) - magic;
    vf r = __builtin_convertvector(x - n * 1.57079632679489661923, vf);
    vi quarter = __builtin_convertvector(n, vi);
    vf z = r * r;
    vf s = ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * r + r;
    vf c =
        ((2.443315711809948e-5f * z - 1.388731625493765e-3f) * z + 4.166664568298827e-2f) * z * z -
        0.5f * z + 1.0f;
    vi odd = (quarter & 1) != 0;
    *sine = (vf)((vi)select(odd, c, s) ^ ((quarter & 2) << 30));
    *cosine = (vf)((vi)select(odd, s, c) ^ (((quarter + 1) & 2) << 30));
}

INLINE void rotate_head(void *head, int64_t half, const float *cosine, const float *sine,
                        ax_dtype t)
{
    for (int64_t i = 0; i < half; i += W) {
        int64_t n = half - i;
        vf c = load(cosine, i, AX_F32), s = load(sine, i, AX_F32);
        vf a = load_some(head, i, t, n), b = load_some(head, half + i, t, n);
        store_some(head, i, t, a * c - b * s, n);
        store_some(head, half + i, t, b * c + a * s, n);
    }
}

static void rope_row(ax_tensor x, int64_t row, int32_t position, const float *freq,
                     int64_t head_dim, int direction)
{
    float cosine[AX_HEAD_DIM_MAX / 2 + W], sine[AX_HEAD_DIM_MAX / 2 + W];
    int64_t half = head_dim / 2;
    for (int64_t i = 0; i < half; i += W) {
        vf s, c;
        vsincos(position, load_some(freq, i, AX_F32, half - i), &s, &c);
        store(sine, i, AX_F32, s * (float)direction);
        store(cosine, i, AX_F32, c);
    }
    for (int64_t col = 0; col < x.cols; col += head_dim)
        BY_DTYPE(x.dtype, T, rotate_head(at(x, row, col), half, cosine, sine, T));
}

ax_status V(rope)(ax_device *dev, ax_tensor x, ax_tensor positions, ax_tensor inv_freq,
                  int64_t head_dim, int direction)
{
    if (x.dtype == AX_F64)
        return ax_kern_ref.rope(dev, x, positions, inv_freq, head_dim, direction);
    BY_TEAM(dev, is_big(x), row, x.rows)
    rope_row(x, row, ((const int32_t *)positions.data)[row], inv_freq.data, head_dim, direction);
    return AX_OK;
}

// gelu(x) = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3): the tanh form, rewritten.
#define GELU_A 1.59576912160573071176f // 2 sqrt(2/pi)
#define GELU_B 0.044715f

INLINE void gelu_fwd_span(const void *x, void *y, int64_t n, ax_dtype t)
{
    for (int64_t i = 0; i < n; i += W) {
        vf v = load_some(x, i, t, n - i);
        vf s = vsigmoid(GELU_A * (v + GELU_B * v * v * v));
        store_some(y, i, t, v * s, n - i);
    }
}

INLINE void gelu_bwd_span(const void *x, const void *dy, void *dx, int64_t n, ax_dtype t)
{
    for (int64_t i = 0; i < n; i += W) {
        vf v = load_some(x, i, t, n - i);
        vf s = vsigmoid(GELU_A * (v + GELU_B * v * v * v));
        vf slope = s + v * s * (1.0f - s) * (GELU_A * (1.0f + 3.0f * GELU_B * v * v));
        store_some(dx, i, t, load_some(dy, i, t, n - i) * slope, n - i);
    }
}

ax_status V(gelu_fwd)(ax_device *dev, ax_tensor x, ax_tensor y)
{
    if (x.dtype == AX_F64)
        return ax_kern_ref.gelu_fwd(dev, x, y);
    BY_TEAM(dev, is_big(x), i, pieces_of(x))
    {
        piece p = piece_at(x, i);
        BY_DTYPE(x.dtype, T, gelu_fwd_span(at(x, p.row, p.col), at(y, p.row, p.col), p.n, T));
    }
    return AX_OK;
}

ax_status V(gelu_bwd)(ax_device *dev, ax_tensor x, ax_tensor dy, ax_tensor dx)
{
    if (x.dtype == AX_F64)
        return ax_kern_ref.gelu_bwd(dev, x, dy, dx);
    BY_TEAM(dev, is_big(x), i, pieces_of(x))
    {
        piece p = piece_at(x, i);
        BY_DTYPE(
            x.dtype, T,
            gelu_bwd_span(at(x, p.row, p.col), at(dy, p.row, p.col), at(dx, p.row, p.col), p.n, T));
    }
    return AX_OK;
}

INLINE void swiglu_fwd_span(const void *gate, const void *up, void *y, int64_t n, ax_dtype t)
{
    for (int64_t i = 0; i < n; i += W) {
        vf g = load_some(gate, i, t, n - i), u = load_some(up, i, t, n - i);
        store_some(y, i, t, g * vsigmoid(g) * u, n - i);
    }
}

INLINE void swiglu_bwd_span(const void *gate, const void *up, const void *dy, void *dgate,
                            void *dup, int64_t n, ax_dtype t)
{
    for (int64_t i = 0; i < n; i += W) {
        vf g = load_some(gate, i, t, n - i), u = load_some(up, i, t, n - i);
        vf d = load_some(dy, i, t, n - i), s = vsigmoid(g), silu = g * s;
        store_some(dgate, i, t, d * u * (s + silu * (1.0f - s)), n - i);
        store_some(dup, i, t, d * silu, n - i);
    }
}

ax_status V(swiglu_fwd)(ax_device *dev, ax_tensor gate, ax_tensor up, ax_tensor y)
{
    if (gate.dtype == AX_F64)
        return ax_kern_ref.swiglu_fwd(dev, gate, up, y);
    BY_TEAM(dev, is_big(y), i, pieces_of(y))
    {
        piece p = piece_at(y, i);
        BY_DTYPE(y.dtype, T,
                 swiglu_fwd_span(at(gate, p.row, p.col), at(up, p.row, p.col), at(y, p.row, p.col),
                                 p.n, T));
    }
    return AX_OK;
}

ax_status V(swiglu_bwd)(ax_device *dev, ax_tensor gate, ax_tensor up, ax_tensor dy, ax_tensor dgate,
                        ax_tensor dup)
{
    if (gate.dtype == AX_F64)
        return ax_kern_ref.swiglu_bwd(dev, gate, up, dy, dgate, dup);
    BY_TEAM(dev, is_big(dy), i, pieces_of(dy))
    {
        piece p = piece_at(dy, i);
        BY_DTYPE(dy.dtype, T,
                 swiglu_bwd_span(at(gate, p.row, p.col), at(up, p.row, p.col), at(dy, p.row, p.col),
                                 at(dgate, p.row, p.col), at(dup, p.row, p.col), p.n, T));
    }
    return AX_OK;
}

INLINE void add_span(const void *x, ax_dtype tx, void *y, ax_dtype ty, int64_t n)
{
    for (int64_t i = 0; i < n; i += W)
        store_some(y, i, ty, load_some(y, i, ty, n - i) + load_some(x, i, tx, n - i), n - i);
}

INLINE void copy_span(const void *x, ax_dtype tx, void *y, ax_dtype ty, int64_t n)
{
    if (tx == ty) {
        memmove(y, x, (size_t)n * (tx == AX_BF16 ? 2 : 4));
        return;
    }
    for (int64_t i = 0; i < n; i += W)
        store_some(y, i, ty, load_some(x, i, tx, n - i), n - i);
}

ax_status V(bias_fwd)(ax_device *dev, ax_tensor y, ax_tensor b)
{
    if (y.dtype == AX_F64)
        return ax_kern_ref.bias_fwd(dev, y, b);
    BY_TEAM(dev, is_big(y), i, pieces_of(y))
    {
        piece p = piece_at(y, i);
        BY_DTYPE(y.dtype, T, add_span(at(b, 0, p.col), AX_F32, at(y, p.row, p.col), T, p.n));
    }
    return AX_OK;
}

// Column sums of one stripe. Every CARRY rows the sum is carried into the total, so that rounding
// errors grow with the square root of that, not of all rows.
INLINE void column_sums(ax_tensor dy, int64_t col, float *total, ax_dtype t)
{
    int64_t n = dy.cols - col < STRIPE ? dy.cols - col : STRIPE;
    for (int64_t first = 0; first < dy.rows; first += CARRY) {
        float sum[STRIPE] = {0};
        int64_t end = dy.rows - first < CARRY ? dy.rows : first + CARRY;
        for (int64_t row = first; row < end; row++)
            for (int64_t i = 0; i < n; i += W) {
                vf v = load_some(at(dy, row, col), i, t, n - i);
                store(sum, i, AX_F32, load(sum, i, AX_F32) + v);
            }
        for (int64_t i = 0; i < n; i++)
            total[i] += sum[i];
    }
}

ax_status V(bias_bwd)(ax_device *dev, ax_tensor dy, ax_tensor db)
{
    if (dy.dtype == AX_F64)
        return ax_kern_ref.bias_bwd(dev, dy, db);
    BY_TEAM(dev, is_big(dy), i, stripes_of(dy))
    BY_DTYPE(dy.dtype, T, column_sums(dy, i * STRIPE, at(db, 0, i * STRIPE), T));
    return AX_OK;
}

ax_status V(copy)(ax_device *dev, ax_tensor x, ax_tensor y)
{
    if (x.dtype == AX_F64 || y.dtype == AX_F64)
        return ax_kern_ref.copy(dev, x, y);
    BY_TEAM(dev, is_big(x), i, pieces_of(x))
    {
        piece p = piece_at(x, i);
        const void *from = at(x, p.row, p.col);
        void *to = at(y, p.row, p.col);
        BY_DTYPE(x.dtype, TX, BY_DTYPE(y.dtype, TY, copy_span(from, TX, to, TY, p.n)));
    }
    return AX_OK;
}

ax_status V(add)(ax_device *dev, ax_tensor x, ax_tensor y)
{
    if (x.dtype == AX_F64 || y.dtype == AX_F64)
        return ax_kern_ref.add(dev, x, y);
    BY_TEAM(dev, is_big(x), i, pieces_of(x))
    {
        piece p = piece_at(x, i);
        const void *from = at(x, p.row, p.col);
        void *to = at(y, p.row, p.col);
        BY_DTYPE(x.dtype, TX, BY_DTYPE(y.dtype, TY, add_span(from, TX, to, TY, p.n)));
    }
    return AX_OK;
}

INLINE void fill_span(void *x, float value, int64_t n, ax_dtype t)
{
    for (int64_t i = 0; i < n; i += W)
        store_some(x, i, t, splat(value), n - i);
}

ax_status V(fill)(ax_device *dev, ax_tensor x, double value)
{
    if (x.dtype == AX_F64)
        return ax_kern_ref.fill(dev, x, value);
    BY_TEAM(dev, is_big(x), i, pieces_of(x))
    {
        piece p = piece_at(x, i);
        BY_DTYPE(x.dtype, T, fill_span(at(x, p.row, p.col), (float)value, p.n, T));
    }
    return AX_OK;
}

typedef struct square_part {
    double sum;
    int64_t broken;
} square_part;

INLINE void square_span(const void *x, int64_t n, ax_dtype t, square_part *part)
{
    vd_half sum = {0}, more = {0};
    vi broken = {0};
    for (int64_t i = 0; i < n; i += W) {
        vf v = load_some(x, i, t, n - i);
        vi bad = ((vi)v & 0x7f800000) == 0x7f800000;
        v = (vf)((vi)v & ~bad);
        sum += lower_lanes(v) * lower_lanes(v);
        more += upper_lanes(v) * upper_lanes(v);
        broken -= bad;
    }
    part->sum += halves_sum(sum + more);
    for (int i = 0; i < W; i++)
        part->broken += broken[i];
}

ax_status V(square_sum)(ax_device *dev, ax_tensor x, double out[2])
{
    if (x.dtype == AX_F64)
        return ax_kern_ref.square_sum(dev, x, out);
    enum { PARTS = 64 }; // fixed, so that the order of the sum is
    square_part part[PARTS] = {{0}};
    int64_t pieces = pieces_of(x);
    BY_TEAM(dev, is_big(x), k, PARTS)
    for (int64_t i = pieces * k / PARTS; i < pieces * (k + 1) / PARTS; i++) {
        piece p = piece_at(x, i);
        BY_DTYPE(x.dtype, T, square_span(at(x, p.row, p.col), p.n, T, &part[k]));
    }
    for (int k = 0; k < PARTS; k++) {
        out[0] += part[k].sum;
        out[1] += (double)part[k].broken;
    }
    return AX_OK;
}
