// c = op(a) op(b) + beta c in tiles that fit the first cache: a tile of c is summed over all of k
// before it is rounded.
#include "dev/ref/ref.h"

enum { TM = 32, TN = 64, TK = 64 }; // rows, columns and depth of a tile
enum { KEEP = 4, WIDTH = 8 };       // depth and columns are padded by zeros to multiples of these

typedef struct tile {
    int64_t row, col, rows, cols; // the part of op(t) that is wanted
} tile;

static int64_t padded(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

// out (rows, cols at a pitch of TN = TK) = that part of op(t), zero up to `rows` x `cols`.
static void load_tile(ax_tensor t, ax_trans trans, tile at, int64_t rows, int64_t cols, double *out)
{
    double column[TN];
    for (int64_t i = 0; i < at.rows && trans == AX_N; i++)
        load(t, at.row + i, at.col, at.cols, out + i * TN);
    for (int64_t j = 0; j < at.cols && trans == AX_T; j++) {
        load(t, at.col + j, at.row, at.rows, column);
        for (int64_t i = 0; i < at.rows; i++)
            out[i * TN + j] = column[i];
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = i < at.rows ? at.cols : 0; j < cols; j++)
            out[i * TN + j] = 0;
}

// Four steps of k at a time: a quarter of the loads and stores of c.
#define DEFINE_MULTIPLY(name, real)                                                                \
    static void name(tile at, int64_t depth, const double *restrict a, const double *restrict b,   \
                     real *restrict c)                                                             \
    {                                                                                              \
        real bt[TK * TN];                                                                          \
        int64_t width = padded(at.cols, WIDTH);                                                    \
        for (int64_t k = 0; k < padded(depth, KEEP); k++)                                          \
            for (int64_t j = 0; j < width; j++)                                                    \
                bt[k * TN + j] = (real)b[k * TN + j];                                              \
        for (int64_t i = 0; i < at.rows; i++, a += TK, c += TN)                                    \
            for (int64_t k = 0; k < depth; k += KEEP) {                                            \
                const real *bk = bt + k * TN;                                                      \
                real a0 = (real)a[k], a1 = (real)a[k + 1];                                         \
                real a2 = (real)a[k + 2], a3 = (real)a[k + 3];                                     \
                for (int64_t j = 0; j < width; j++)                                                \
                    c[j] += (a0 * bk[j] + a1 * bk[j + TN]) +                                       \
                            (a2 * bk[j + 2 * TN] + a3 * bk[j + 3 * TN]);                           \
            }                                                                                      \
    }
DEFINE_MULTIPLY(multiply_f64, double)
DEFINE_MULTIPLY(multiply_f32, float)

static void gemm_tile(const ax_gemm_args *g, tile at, int64_t depth)
{
    double a[TM * TK], b[TK * TN], c[TM * TN];
    float narrow[TM * TN];
    bool wide = g->a.dtype == AX_F64;
    int64_t width = padded(at.cols, WIDTH), held = at.rows * TN;
    tile old = g->beta != 0 ? at : (tile){0};
    load_tile(g->c, AX_N, old, at.rows, width, c);
    for (int64_t i = 0; i < held && !wide; i++)
        narrow[i] = i % TN < width ? (float)c[i] : 0;
    for (int64_t k = 0; k < depth; k += TK) {
        int64_t kb = depth - k < TK ? depth - k : TK, kept = padded(kb, KEEP);
        load_tile(g->a, g->ta, (tile){at.row, k, at.rows, kb}, at.rows, kept, a);
        load_tile(g->b, g->tb, (tile){k, at.col, kb, at.cols}, kept, width, b);
        if (wide)
            multiply_f64(at, kb, a, b, c);
        else
            multiply_f32(at, kb, a, b, narrow);
    }
    for (int64_t i = 0; i < held && !wide; i++)
        c[i] = (double)narrow[i];
    for (int64_t i = 0; i < at.rows; i++)
        store(g->c, at.row + i, at.col, at.cols, c + i * TN);
}

ax_status ax_ref_gemm(ax_device *dev, const ax_gemm_args *g)
{
    (void)dev;
    int64_t m = g->c.rows, n = g->c.cols, depth = g->ta == AX_N ? g->a.cols : g->a.rows;
    for (int64_t i = 0; i < m; i += TM)
        for (int64_t j = 0; j < n; j += TN) {
            int64_t mb = m - i < TM ? m - i : TM, nb = n - j < TN ? n - j : TN;
            gemm_tile(g, (tile){i, j, mb, nb}, depth);
        }
    return AX_OK;
}
