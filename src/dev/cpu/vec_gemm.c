// A matrix product over packed panels, for what oneDNN has no code for: bf16 operands on
// processors without bf16 instructions. The operands become f32 while they are packed, which has
// to be done in any case, so that a product of bf16 costs no more than one of f32. It also stands
// as a candidate beside oneDNN's f32 products (cpu_tune.h).
// (Goto and van de Geijn, Anatomy of high-performance matrix multiplication, 2008.)
//
//     for a chunk of b: DEPTH x columns, packed by the whole team into strips of NR columns
//         a task: a block of rows x a tile of those columns, in any order by any thread
//             for KC of the depth: pack the rows in strips of MR; MR x NR products into the tile
//             the tile, complete for this chunk, goes to c
//
// Sums over the depth run in one fixed order whatever the team.
#include "dev/cpu/vec.h"
#include "dev/cpu/team.h"

enum {
    MR = W == 16  ? 12
         : W == 8 ? 6
                  : 4, // MR x NR sums stand in registers; at most W
    NR = 2 * W,
    KC = 256,        // depth of one pass: a strip of b stays in L1
    MC = 96,         // rows of a block, at most: with KC they stay in L2
    NT = 2048,       // columns of a tile, at most
    DEPTH = 16 * KC, // of a chunk of b, at most
    CHUNK = 4 << 20, // floats of a chunk of b, and of sums between two chunks of the depth
    TASKS = 4,       // wanted for each thread
    NARROWEST = 4 * NR,
};

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t depth_of(const ax_gemm_args *g)
{
    return g->ta == AX_N ? g->a.cols : g->a.rows;
}

// How a product is cut.
typedef struct cut {
    int64_t depth;   // of a chunk
    int64_t columns; // of a chunk, a multiple of NR except at the end
    int64_t rows;    // between two rounds of chunks: all, unless sums must be kept
    int64_t block, tile;
    bool sums; // c is too narrow to hold the sums between two chunks of the depth
} cut;

static cut cut_of(const ax_device *dev, const ax_gemm_args *g)
{
    int64_t m = g->c.rows, n = g->c.cols, k = depth_of(g), teams = dev->threads;
    cut c = {.depth = smaller(k, DEPTH), .rows = m};
    c.columns = smaller(round_up(n, NR), CHUNK / c.depth / NR * NR);
    c.sums = k > c.depth && g->c.dtype != AX_F32;
    if (c.sums)
        c.rows = smaller(m, CHUNK / c.columns);
    // Blocks of equal size, so that the threads end together.
    int64_t rounds = (c.rows + teams * MC - 1) / (teams * MC);
    c.block = smaller(MC, round_up((c.rows + teams * rounds - 1) / (teams * rounds), MR));
    int64_t blocks = (c.rows + c.block - 1) / c.block;
    int64_t tiles = blocks < TASKS * teams ? (TASKS * teams + blocks - 1) / blocks : 1;
    c.tile = round_up((c.columns + tiles - 1) / tiles, NR);
    c.tile = c.tile < NARROWEST ? NARROWEST : c.tile;
    c.tile = smaller(c.tile, smaller(NT, c.columns));
    return c;
}

// Floats of one thread: a block of a, with room for the lanes that a strip's last store writes
// beyond its end, and a tile of c.
static int64_t floats_of_thread(const cut *c)
{
    return round_up(MC * KC + W, W) + MC * c->tile;
}

size_t V(panel_gemm_workspace)(const ax_device *dev, const ax_gemm_args *g)
{
    cut c = cut_of(dev, g);
    int64_t floats = c.depth * c.columns + dev->threads * floats_of_thread(&c);
    return (size_t)(floats + (c.sums ? c.rows * c.columns : 0)) * sizeof(float);
}

// ---- packing ----

#if W_BYTES == 64
#define INTERLEAVE_LOW 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define INTERLEAVE_HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif W_BYTES == 32
#define INTERLEAVE_LOW 0, 8, 1, 9, 2, 10, 3, 11
#define INTERLEAVE_HIGH 4, 12, 5, 13, 6, 14, 7, 15
#else
#define INTERLEAVE_LOW 0, 4, 1, 5
#define INTERLEAVE_HIGH 2, 6, 3, 7
#endif

// W rows of W lanes become their transpose: log2 W perfect shuffles.
INLINE void transpose(vf v[W])
{
    for (int round = 1; round < W; round *= 2) {
        vf next[W];
        for (int i = 0; i < W / 2; i++) {
            next[2 * i] = __builtin_shufflevector(v[i], v[i + W / 2], INTERLEAVE_LOW);
            next[2 * i + 1] = __builtin_shufflevector(v[i], v[i + W / 2], INTERLEAVE_HIGH);
        }
        for (int i = 0; i < W; i++)
            v[i] = next[i];
    }
}

// A strip of `lines` lines at `line`, whose elements along the depth are neighbours in memory:
// to[p * width + i] = element `from` + p of line i, zero beyond the lines. Up to W floats beyond
// the strip may be written.
INLINE void pack_along(ax_tensor t, int64_t line, int64_t lines, int64_t from, int64_t depth,
                       float *to, int64_t width, ax_dtype dtype)
{
    for (int64_t i = 0; i < width; i += W) // once where width < W: what is written beyond a line
        for (int64_t p = 0; p < depth; p += W) { // is then overwritten by the next
            vf v[W];
            for (int64_t r = 0; r < W; r++)
                v[r] = i + r < lines ? load_some(at(t, line + i + r, from), p, dtype, depth - p)
                                     : (vf){0};
            transpose(v);
            int64_t some = smaller(W, depth - p);
            for (int64_t r = 0; r < some; r++)
                store(to + (p + r) * width + i, 0, AX_F32, v[r]);
        }
}

// The same where neighbours in memory are of different lines.
INLINE void pack_across(ax_tensor t, int64_t line, int64_t lines, int64_t from, int64_t depth,
                        float *to, int64_t width, ax_dtype dtype)
{
    // Lanes beyond the lines of a full strip are overwritten by the next store: they may be any,
    // and are read where the row goes on, which is faster than leaving them out.
    bool whole = lines == width && line + round_up(width, W) <= t.cols;
    for (int64_t p = 0; p < depth; p++) {
        const void *row = at(t, from + p, line);
        for (int64_t i = 0; i < width; i += W)
            store(to + p * width + i, 0, AX_F32,
                  i < lines ? load_some(row, i, dtype, whole ? W : lines - i) : (vf){0});
    }
}

// Rows first.. of op(a), in strips of MR.
static void pack_rows(const ax_gemm_args *g, int64_t first, int64_t rows, int64_t from,
                      int64_t depth, float *to)
{
    for (int64_t i = 0; i < rows; i += MR, to += MR * depth) {
        int64_t some = smaller(MR, rows - i);
        if (g->ta == AX_N)
            BY_DTYPE(g->a.dtype, T, pack_along(g->a, first + i, some, from, depth, to, MR, T));
        else
            BY_DTYPE(g->a.dtype, T, pack_across(g->a, first + i, some, from, depth, to, MR, T));
    }
}

// One strip of NR columns of op(b).
static void pack_columns(const ax_gemm_args *g, int64_t first, int64_t columns, int64_t from,
                         int64_t depth, float *to)
{
    if (g->tb == AX_T)
        BY_DTYPE(g->b.dtype, T, pack_along(g->b, first, columns, from, depth, to, NR, T));
    else
        BY_DTYPE(g->b.dtype, T, pack_across(g->b, first, columns, from, depth, to, NR, T));
}

// ---- products ----

// c (MR, NR) = (+=) a strip of a times a strip of b.
INLINE void micro(const float *a, const float *b, int64_t depth, float *c, int64_t c_row, bool add)
{
    vf sum[MR][2];
    for (int r = 0; r < MR; r++)
        for (int v = 0; v < 2; v++)
            sum[r][v] = add ? load(c + r * c_row, v * W, AX_F32) : (vf){0};
    for (int64_t k = 0; k < depth; k++, a += MR, b += NR) {
        vf b0 = load(b, 0, AX_F32), b1 = load(b, W, AX_F32);
        for (int r = 0; r < MR; r++) {
            sum[r][0] += a[r] * b0;
            sum[r][1] += a[r] * b1;
        }
    }
    for (int r = 0; r < MR; r++)
        for (int v = 0; v < 2; v++)
            store(c + r * c_row, v * W, AX_F32, sum[r][v]);
}

// One chunk of b and what it is added to.
typedef struct chunk {
    const ax_gemm_args *g;
    cut by;
    int64_t row, rows;       // of c
    int64_t column, columns; // of c
    int64_t from, depth;     // of the sums
    const float *b;          // packed
    float *sums;             // (rows, columns) between chunks; NULL: c holds them
    bool first, last;        // of the depth
} chunk;

INLINE void store_rows(const chunk *h, int64_t row, int64_t rows, int64_t col, int64_t cols,
                       const float *tile, ax_dtype dtype)
{
    ax_tensor c = h->g->c;
    bool add = h->first ? h->g->beta != 0 : !h->sums;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < cols; i += W) {
            void *to = at(c, h->row + row + r, h->column + col);
            vf v = load(tile + r * h->by.tile, i, AX_F32);
            if (add)
                v += load_some(to, i, dtype, cols - i);
            store_some(to, i, dtype, v, cols - i);
        }
}

// A tile that more chunks will be added to; beta is honoured by the first.
static void keep_rows(const chunk *h, int64_t row, int64_t rows, int64_t col, int64_t cols,
                      const float *tile)
{
    for (int64_t r = 0; r < rows; r++)
        memcpy(h->sums + (row + r) * h->by.columns + col, tile + r * h->by.tile,
               (size_t)cols * sizeof *tile);
}

// What the tile starts from, where the sums of earlier chunks or c itself are kept apart from c.
static bool begin_tile(const chunk *h, int64_t row, int64_t rows, int64_t col, int64_t cols,
                       float *tile)
{
    if (!h->sums)
        return false;
    if (h->first && h->g->beta == 0)
        return false;
    for (int64_t r = 0; r < rows; r++) {
        float *to = tile + r * h->by.tile;
        if (h->first)
            for (int64_t i = 0; i < cols; i += W)
                store(to, i, AX_F32,
                      load_some(at(h->g->c, h->row + row + r, h->column + col), i, AX_BF16,
                                cols - i));
        else
            memcpy(to, h->sums + (row + r) * h->by.columns + col, (size_t)cols * sizeof *to);
    }
    return true;
}

static void end_tile(const chunk *h, int64_t row, int64_t rows, int64_t col, int64_t cols,
                     const float *tile)
{
    if (h->sums && !h->last)
        keep_rows(h, row, rows, col, cols, tile);
    else
        BY_DTYPE(h->g->c.dtype, T, store_rows(h, row, rows, col, cols, tile, T));
}

// Asks for a part of the next strip of b: as much as falls to MR of the rows that this one meets.
// It lies too far off for the processor to see it coming, and comes from L3 or beyond.
INLINE void ask_for(const float *b, int64_t floats, int64_t row, int64_t rows)
{
    enum { LINE = 64 / sizeof(float) };
    for (int64_t at = row * floats / rows, end = (row + MR) * floats / rows; at < end; at += LINE)
        __builtin_prefetch(b + at, 0, 2);
}

static void multiply(const ax_device *dev, const chunk *h, int64_t row, int64_t col, float *mine)
{
    float *a = mine, *tile = mine + round_up(MC * KC + W, W);
    int64_t rows = smaller(h->by.block, h->rows - row);
    int64_t cols = smaller(h->by.tile, h->columns - col);
    bool add = begin_tile(h, row, rows, col, cols, tile);
    for (int64_t k = 0; k < h->depth; k += KC, add = true) {
        int64_t deep = smaller(KC, h->depth - k);
        pack_rows(h->g, h->row + row, rows, h->from + k, deep, a);
        for (int64_t j = 0; j < cols; j += NR) {
            const float *b = h->b + (col + j) * h->depth + k * NR;
            for (int64_t i = 0; i < rows; i += MR) {
                ask_for(b + NR * h->depth, deep * NR, i, rows);
                micro(a + i * deep, b, deep, tile + i * h->by.tile + j, h->by.tile, add);
            }
        }
        if (dev->poll && team_index() == 0)
            dev->poll(dev->poll_ctx);
    }
    end_tile(h, row, rows, col, cols, tile);
}

static void multiply_chunk(const ax_device *dev, chunk *h, float *b, float *rest)
{
    int64_t strips = (h->columns + NR - 1) / NR;
    BY_TEAM(dev, strips * h->depth * NR >= SMALL, s, strips)
    pack_columns(h->g, h->column + s * NR, smaller(NR, h->columns - s * NR), h->from, h->depth,
                 b + s * NR * h->depth);
    h->b = b;
    int64_t blocks = (h->rows + h->by.block - 1) / h->by.block;
    int64_t tiles = (h->columns + h->by.tile - 1) / h->by.tile;
#pragma omp parallel for num_threads(dev->threads) schedule(dynamic)
    for (int64_t task = 0; task < blocks * tiles; task++)
        multiply(dev, h, task / tiles * h->by.block, task % tiles * h->by.tile,
                 rest + team_index() * floats_of_thread(&h->by));
}

ax_status V(panel_gemm)(ax_device *dev, const ax_gemm_args *g)
{
    cut by = cut_of(dev, g);
    int64_t m = g->c.rows, n = g->c.cols, k = depth_of(g);
    float *b = dev->workspace, *rest = b + by.depth * by.columns;
    float *sums = rest + dev->threads * floats_of_thread(&by);
    for (int64_t row = 0; row < m; row += by.rows)
        for (int64_t col = 0; col < n; col += by.columns)
            for (int64_t from = 0; from < k; from += by.depth) {
                chunk h = {.g = g,
                           .by = by,
                           .row = row,
                           .rows = smaller(by.rows, m - row),
                           .column = col,
                           .columns = smaller(by.columns, n - col),
                           .from = from,
                           .depth = smaller(by.depth, k - from),
                           .sums = by.sums ? sums : NULL,
                           .first = from == 0,
                           .last = from + by.depth >= k};
                multiply_chunk(dev, &h, b, rest);
            }
    return AX_OK;
}
