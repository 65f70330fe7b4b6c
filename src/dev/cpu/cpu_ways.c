// Ways to make a product, beside the default. Each may be asked for any product that is not empty
// and not f64, and says which it can make. None allocates: copies and scratch stand in the
// workspace of the device.
#include "dev/cpu/cpu_gemm.h"
#include "dev/cpu/cpu_tune.h"
#include "dev/cpu/onednn.h"

#include <stdatomic.h>
#include <string.h>

enum {
    LINE = 64,
    MOST = 256 << 20, // bytes of copies: beyond, no gain is worth the memory
    REUSE = 32,       // times that a copied element must be used, for a copy to be worth a trial
    SHARE = 16,       // rows or columns of a share are a multiple of this
};

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static size_t lines(size_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

// A measuring device has no workspace.
static void *inside(const ax_device *dev, size_t offset)
{
    return dev->workspace ? (char *)dev->workspace + offset : NULL;
}

static void poll(const ax_device *dev)
{
    if (dev->poll)
        dev->poll(dev->poll_ctx);
}

// f32, or bf16 with instructions for it: what oneDNN multiplies itself.
static bool is_direct(const ax_device *dev, const ax_gemm_args *g)
{
    size_t scratch;
    return ax_cpu_gemm_is_direct(dev, g, &scratch);
}

// ---- default ----

static bool always(const ax_device *dev, const ax_gemm_args *g, size_t *bytes)
{
    *bytes = ax_cpu_gemm_default_workspace(dev, g);
    return true;
}

static ax_status run_default(ax_device *dev, const ax_gemm_args *g)
{
    return ax_cpu_gemm_default(dev, g, dev->workspace);
}

// ---- matmul primitives, with weights as they are, or in another layout ----

static bool primitives_apply(const ax_device *dev, const ax_gemm_args *g, ax_onednn_layout layout,
                             ax_onednn_need *need)
{
    const ax_onednn_use use = {.layout = layout};
    ax_onednn *onednn = ax_cpu_of(dev)->onednn;
    ax_gemm_args first = {0};
    int64_t rows[3];
    *need = (ax_onednn_need){0};
    if (!is_direct(dev, g))
        return false;
    for (int i = 0, count = ax_cpu_gemm_pieces(dev, g, rows); i < count; i++) {
        ax_onednn_need of;
        ax_gemm_args part = ax_cpu_gemm_rows(g, 0, rows[i]);
        if (!ax_onednn_has(onednn, &part, &use, &of) || of.packed > MOST)
            return false;
        if (i == 0)
            first = part;
        else if (layout != AX_ONEDNN_PLAIN && !ax_onednn_same_layout(onednn, &first, &part, &use))
            return false;
        need->scratch = of.scratch > need->scratch ? of.scratch : need->scratch;
        need->packed = of.packed > need->packed ? of.packed : need->packed;
    }
    return true;
}

static ax_status run_primitives(ax_device *dev, const ax_gemm_args *g, ax_onednn_layout layout)
{
    const ax_onednn_use use = {.layout = layout};
    ax_onednn *onednn = ax_cpu_of(dev)->onednn;
    ax_onednn_need need;
    int64_t m = g->c.rows, step = dev->poll ? smaller(m, ax_cpu_gemm_step(dev, g)) : m;
    AX_CHECK(primitives_apply(dev, g, layout, &need), AX_EINTERNAL,
             "oneDNN has no primitive for this product: ask first");
    ax_onednn_room room = {.packed = inside(dev, 0), .scratch = inside(dev, lines(need.packed))};
    for (int64_t i = 0; i < m; i += step) {
        ax_gemm_args part = ax_cpu_gemm_rows(g, i, smaller(step, m - i));
        if (i == 0 && layout != AX_ONEDNN_PLAIN)
            AX_TRY(ax_onednn_pack(onednn, &part, &use, room));
        AX_TRY(ax_onednn_run(onednn, &part, &use, room));
        poll(dev);
    }
    return AX_OK;
}

// bf16 does not take sgemm: this is its default.
static bool matmul_applies(const ax_device *dev, const ax_gemm_args *g, size_t *bytes)
{
    ax_onednn_need need;
    bool applies = g->a.dtype == AX_F32 && primitives_apply(dev, g, AX_ONEDNN_PLAIN, &need);
    *bytes = applies ? need.scratch : 0;
    return applies;
}

static ax_status run_matmul(ax_device *dev, const ax_gemm_args *g)
{
    return run_primitives(dev, g, AX_ONEDNN_PLAIN);
}

static bool layout_applies(const ax_device *dev, const ax_gemm_args *g, ax_onednn_layout layout,
                           size_t *bytes)
{
    ax_onednn_need need;
    bool applies = g->c.rows >= REUSE && primitives_apply(dev, g, layout, &need);
    *bytes = applies ? lines(need.packed) + need.scratch : 0;
    return applies;
}

static bool packed_applies(const ax_device *dev, const ax_gemm_args *g, size_t *bytes)
{
    return layout_applies(dev, g, AX_ONEDNN_BEST, bytes);
}

static ax_status run_packed(ax_device *dev, const ax_gemm_args *g)
{
    return run_primitives(dev, g, AX_ONEDNN_BEST);
}

static bool matmul_turned_applies(const ax_device *dev, const ax_gemm_args *g, size_t *bytes)
{
    return layout_applies(dev, g, AX_ONEDNN_TURNED, bytes);
}

static ax_status run_matmul_turned(ax_device *dev, const ax_gemm_args *g)
{
    return run_primitives(dev, g, AX_ONEDNN_TURNED);
}

// ---- another mode: operands are transposed into the workspace, then multiplied by default ----

enum { TILE = 32, PAD = 16 }; // rows of a copy do not start one power of two apart

static ax_tensor turned_like(ax_tensor t, void *at)
{
    ax_tensor turned = ax_tensor_over(at, t.dtype, t.cols, t.rows);
    turned.stride = t.rows + PAD;
    return turned;
}

static size_t bytes_with_gaps(ax_tensor t)
{
    return lines((size_t)(t.rows * t.stride) * ax_dtype_size(t.dtype));
}

#define TURN_TILE(type)                                                                            \
    for (int64_t r = row; r < smaller(row + TILE, to.rows); r++)                                   \
        for (int64_t c = col; c < smaller(col + TILE, to.cols); c++)                               \
    ((type *)to.data)[r * to.stride + c] = ((const type *)from.data)[c * from.stride + r]

static void turn(const ax_device *dev, ax_tensor from, ax_tensor to)
{
    (void)dev; // used by the pragma alone
#pragma omp parallel for num_threads(dev->threads) schedule(static)
    for (int64_t row = 0; row < to.rows; row += TILE)
        for (int64_t col = 0; col < to.cols; col += TILE) {
            if (to.dtype == AX_F32)
                TURN_TILE(float);
            else
                TURN_TILE(ax_bf16);
        }
}

typedef struct turned { // a product in another mode
    ax_gemm_args g;
    bool a, b;
    size_t copies; // bytes, from the start of the workspace
} turned;

static turned turned_of(const ax_device *dev, const ax_gemm_args *g, bool a, bool b)
{
    turned t = {.g = *g, .a = a, .b = b};
    if (a) {
        t.g.a = turned_like(g->a, inside(dev, t.copies));
        t.g.ta = g->ta == AX_N ? AX_T : AX_N;
        t.copies += bytes_with_gaps(t.g.a);
    }
    if (b) {
        t.g.b = turned_like(g->b, inside(dev, t.copies));
        t.g.tb = g->tb == AX_N ? AX_T : AX_N;
        t.copies += bytes_with_gaps(t.g.b);
    }
    return t;
}

static bool turned_applies(const ax_device *dev, const ax_gemm_args *g, bool a, bool b,
                           size_t *bytes)
{
    *bytes = 0;
    if ((a && g->c.cols < REUSE) || (b && g->c.rows < REUSE) || !is_direct(dev, g))
        return false;
    turned t = turned_of(dev, g, a, b);
    size_t scratch;
    if (t.copies > MOST || !ax_cpu_gemm_is_direct(dev, &t.g, &scratch))
        return false;
    *bytes = t.copies + scratch;
    return true;
}

static ax_status run_turned(ax_device *dev, const ax_gemm_args *g, bool a, bool b)
{
    turned t = turned_of(dev, g, a, b);
    if (a)
        turn(dev, g->a, t.g.a);
    if (b)
        turn(dev, g->b, t.g.b);
    poll(dev);
    return ax_cpu_gemm_default(dev, &t.g, inside(dev, t.copies));
}

static bool turned_a_applies(const ax_device *dev, const ax_gemm_args *g, size_t *bytes)
{
    return turned_applies(dev, g, true, false, bytes);
}

static ax_status run_turned_a(ax_device *dev, const ax_gemm_args *g)
{
    return run_turned(dev, g, true, false);
}

static bool turned_b_applies(const ax_device *dev, const ax_gemm_args *g, size_t *bytes)
{
    return turned_applies(dev, g, false, true, bytes);
}

static ax_status run_turned_b(ax_device *dev, const ax_gemm_args *g)
{
    return run_turned(dev, g, false, true);
}

static bool turned_both_applies(const ax_device *dev, const ax_gemm_args *g, size_t *bytes)
{
    return turned_applies(dev, g, true, true, bytes);
}

static ax_status run_turned_both(ax_device *dev, const ax_gemm_args *g)
{
    return run_turned(dev, g, true, true);
}

// ---- panels of our own, for what oneDNN takes by default ----

static bool panels_apply(const ax_device *dev, const ax_gemm_args *g, size_t *bytes)
{
    *bytes = ax_cpu_of(dev)->build->panel_gemm_workspace(dev, g);
    return is_direct(dev, g);
}

static ax_status run_panels(ax_device *dev, const ax_gemm_args *g)
{
    return ax_cpu_of(dev)->build->panel_gemm(dev, g);
}

// ---- the threads split by us: each makes the product of its rows, or of its columns, alone ----

typedef enum cut { ROWS, COLUMNS } cut;

static int64_t lines_of(const ax_gemm_args *g, cut by)
{
    return by == ROWS ? g->c.rows : g->c.cols;
}

// The product of one member; empty beyond the end.
static ax_gemm_args share_of(const ax_device *dev, const ax_gemm_args *g, cut by, int member)
{
    int64_t all = lines_of(g, by), size = (all + dev->threads - 1) / dev->threads;
    size = (size + SHARE - 1) / SHARE * SHARE;
    int64_t first = smaller(member * size, all), count = smaller(size, all - first);
    return by == ROWS ? ax_cpu_gemm_rows(g, first, count) : ax_cpu_gemm_columns(g, first, count);
}

// Rows of a share between two polls.
static int64_t step_of_share(const ax_device *dev, const ax_gemm_args *g, cut by)
{
    int64_t step = ax_cpu_gemm_step(dev, g);
    step = by == ROWS ? step / dev->threads / SHARE * SHARE : step;
    return step < SHARE ? SHARE : step;
}

// The calls of a member, with and without polls: three sizes at most.
static int calls_of_share(const ax_device *dev, const ax_gemm_args *g, cut by, int member,
                          ax_gemm_args call[3])
{
    ax_gemm_args share = share_of(dev, g, by, member);
    int64_t rows = share.c.rows, step = step_of_share(dev, g, by);
    int count = 0;
    if (rows == 0 || share.c.cols == 0)
        return 0;
    call[count++] = share;
    if (rows <= step)
        return count;
    call[count++] = ax_cpu_gemm_rows(&share, 0, step);
    if (rows % step)
        call[count++] = ax_cpu_gemm_rows(&share, 0, rows % step);
    return count;
}

// Scratch of one member. f32 goes to sgemm, which brings its own.
static bool split_applies(const ax_device *dev, const ax_gemm_args *g, cut by, size_t *scratch)
{
    *scratch = 0;
    if (dev->threads < 2 || lines_of(g, by) < SHARE * dev->threads || !is_direct(dev, g))
        return false;
    for (int i = 0; i < dev->threads && g->a.dtype != AX_F32; i++) {
        ax_gemm_args call[3];
        for (int c = 0, count = calls_of_share(dev, g, by, i, call); c < count; c++) {
            ax_onednn_need need;
            if (!ax_onednn_has(ax_cpu_of(dev)->onednn, &call[c], &(ax_onednn_use){.member = i + 1},
                               &need))
                return false;
            *scratch = need.scratch > *scratch ? need.scratch : *scratch;
        }
    }
    *scratch = lines(*scratch);
    return true;
}

static ax_status make_ready(const ax_device *dev, const ax_gemm_args *g, cut by)
{
    for (int i = 0; i < dev->threads; i++) {
        ax_gemm_args call[3];
        for (int c = 0, count = calls_of_share(dev, g, by, i, call); c < count; c++)
            AX_TRY(ax_onednn_ready(ax_cpu_of(dev)->onednn, &call[c],
                                   &(ax_onednn_use){.member = i + 1}));
    }
    return AX_OK;
}

static ax_status run_share(const ax_device *dev, const ax_gemm_args *g, cut by, int member,
                           void *scratch)
{
    ax_gemm_args share = share_of(dev, g, by, member);
    int64_t rows = share.c.cols ? share.c.rows : 0;
    int64_t step = dev->poll ? step_of_share(dev, g, by) : rows;
    for (int64_t i = 0; i < rows; i += step) {
        ax_gemm_args part = ax_cpu_gemm_rows(&share, i, smaller(step, rows - i));
        if (g->a.dtype == AX_F32)
            AX_TRY(ax_onednn_sgemm_alone(&part));
        else
            AX_TRY(ax_onednn_run(ax_cpu_of(dev)->onednn, &part,
                                 &(ax_onednn_use){.member = member + 1},
                                 (ax_onednn_room){.scratch = scratch}));
        if (member == 0)
            poll(dev);
    }
    return AX_OK;
}

// Member 0 is the calling thread, which alone may poll.
static ax_status run_split(ax_device *dev, const ax_gemm_args *g, cut by)
{
    size_t scratch;
    atomic_int failed = AX_OK;
    AX_CHECK(split_applies(dev, g, by, &scratch), AX_EINTERNAL,
             "this product cannot be split over the threads: ask first");
    if (g->a.dtype != AX_F32)
        AX_TRY(make_ready(dev, g, by));
#pragma omp parallel for num_threads(dev->threads) schedule(static, 1)
    for (int i = 0; i < dev->threads; i++) {
        ax_status st = run_share(dev, g, by, i, inside(dev, (size_t)i * scratch));
        if (st != AX_OK)
            atomic_store(&failed, (int)st);
    }
    return (ax_status)atomic_load(&failed);
}

static bool rows_apply(const ax_device *dev, const ax_gemm_args *g, size_t *bytes)
{
    size_t scratch;
    bool applies = split_applies(dev, g, ROWS, &scratch);
    *bytes = scratch * (size_t)dev->threads;
    return applies;
}

static ax_status run_rows(ax_device *dev, const ax_gemm_args *g)
{
    return run_split(dev, g, ROWS);
}

static bool columns_apply(const ax_device *dev, const ax_gemm_args *g, size_t *bytes)
{
    size_t scratch;
    bool applies = split_applies(dev, g, COLUMNS, &scratch);
    *bytes = scratch * (size_t)dev->threads;
    return applies;
}

static ax_status run_columns(ax_device *dev, const ax_gemm_args *g)
{
    return run_split(dev, g, COLUMNS);
}

// ---- bf16 without instructions for it: f32 copies, then oneDNN's sgemm ----

typedef struct widened {
    ax_gemm_args g; // in f32
    size_t bytes;
} widened;

static ax_tensor widened_like(const ax_device *dev, ax_tensor t, size_t *offset)
{
    ax_tensor wide = ax_tensor_over(inside(dev, *offset), AX_F32, t.rows, t.cols);
    *offset += lines(ax_tensor_bytes(wide));
    return wide;
}

static widened widened_of(const ax_device *dev, const ax_gemm_args *g)
{
    widened w = {.g = *g};
    w.g.a = widened_like(dev, g->a, &w.bytes);
    w.g.b = widened_like(dev, g->b, &w.bytes);
    if (g->c.dtype != AX_F32)
        w.g.c = widened_like(dev, g->c, &w.bytes);
    return w;
}

static bool widened_applies(const ax_device *dev, const ax_gemm_args *g, size_t *bytes)
{
    bool small = g->c.rows < REUSE || g->c.cols < REUSE;
    *bytes = widened_of(dev, g).bytes;
    return g->a.dtype == AX_BF16 && !small && *bytes <= MOST && !is_direct(dev, g);
}

static ax_status run_widened(ax_device *dev, const ax_gemm_args *g)
{
    const ax_kern *kern = dev->kern;
    widened w = widened_of(dev, g);
    bool narrow = g->c.dtype != AX_F32;
    AX_TRY(kern->copy(dev, g->a, w.g.a));
    AX_TRY(kern->copy(dev, g->b, w.g.b));
    if (narrow && g->beta != 0)
        AX_TRY(kern->copy(dev, g->c, w.g.c));
    poll(dev);
    AX_TRY(ax_cpu_gemm_default(dev, &w.g, NULL)); // f32 by default wants no scratch
    return narrow ? kern->copy(dev, w.g.c, g->c) : AX_OK;
}

const ax_cpu_way ax_cpu_ways[] = {
    {"default", always, run_default},
    {"matmul", matmul_applies, run_matmul},
    {"packed", packed_applies, run_packed},
    {"matmul-turned-b", matmul_turned_applies, run_matmul_turned},
    {"turned-a", turned_a_applies, run_turned_a},
    {"turned-b", turned_b_applies, run_turned_b},
    {"turned-both", turned_both_applies, run_turned_both},
    {"panels", panels_apply, run_panels},
    {"rows", rows_apply, run_rows},
    {"columns", columns_apply, run_columns},
    {"widened", widened_applies, run_widened},
    {0},
};
_Static_assert(sizeof ax_cpu_ways / sizeof ax_cpu_ways[0] <= AX_TUNER_WAYS + 1,
               "room for all ways");
