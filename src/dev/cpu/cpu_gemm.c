// Matrix products. f32 goes to oneDNN's sgemm, bf16 to its matmul primitive where the processor
// multiplies bf16 itself and oneDNN has code for the shape. Elsewhere bf16 operands are widened to f32 in the workspace and
// multiplied there: the smaller operand in blocks of at most BLOCK floats (mostly whole), the
// larger one in panels that stay in cache between conversion and use.
#include "dev/cpu/cpu.h"
#include "dev/cpu/onednn.h"

enum {
    BLOCK = 16 << 20,     // floats of the smaller operand widened at a time
    PANEL = 1 << 20,      // floats of a panel of the larger one with its part of c
    NARROWEST = 64,       // rows or columns of a panel, at least
    LEAST = 512,          // rows of c in one call, at least
    POLL_FLOPS = 1 << 28, // of one thread between two polls: a few milliseconds
};

static int64_t depth_of(const ax_gemm_args *g)
{
    return g->ta == AX_N ? g->a.cols : g->a.rows;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

// Rows first..first+count of op(a), or columns of op(b), as a view.
static ax_tensor rows_of_a(const ax_gemm_args *g, int64_t first, int64_t count)
{
    return g->ta == AX_N ? ax_tensor_rows(g->a, first, count) : ax_tensor_cols(g->a, first, count);
}

static ax_tensor cols_of_b(const ax_gemm_args *g, int64_t first, int64_t count)
{
    return g->tb == AX_N ? ax_tensor_cols(g->b, first, count) : ax_tensor_rows(g->b, first, count);
}

// ---- bf16 without bf16 instructions ----

// How the product is cut: `block` of the smaller operand's free dimension, `panel` of the larger's.
typedef struct cut {
    bool panels_of_a; // the larger operand is a
    int64_t block, panel;
    int64_t floats; // of workspace
} cut;

static cut cut_of(const ax_gemm_args *g)
{
    int64_t m = g->c.rows, n = g->c.cols, k = depth_of(g);
    cut c = {.panels_of_a = m >= n};
    int64_t less = c.panels_of_a ? n : m, more = c.panels_of_a ? m : n;
    int64_t held = g->c.dtype == AX_BF16 ? 1 : 0; // c is made in f32 first, beside the panel
    c.block = smaller(less, BLOCK / k > NARROWEST ? BLOCK / k : NARROWEST);
    c.panel = PANEL / (k + held * c.block) / NARROWEST * NARROWEST;
    c.panel = smaller(more, c.panel > NARROWEST ? c.panel : NARROWEST);
    c.floats = c.block * k + c.panel * k + held * c.block * c.panel;
    return c;
}

static ax_tensor widened(ax_device *dev, ax_tensor t, float *to)
{
    ax_tensor wide = ax_tensor_over(to, AX_F32, t.rows, t.cols);
    dev->kern->copy(dev, t, wide); // f32 from bf16 cannot fail
    return wide;
}

// One panel: `part` has one operand widened already, the other still narrow.
static ax_status widened_panel(ax_device *dev, ax_gemm_args part, float *panel, float *out)
{
    if (part.a.dtype == AX_BF16)
        part.a = widened(dev, part.a, panel);
    else
        part.b = widened(dev, part.b, panel);
    ax_tensor c = part.c;
    if (c.dtype == AX_BF16) {
        part.c = ax_tensor_over(out, AX_F32, c.rows, c.cols);
        if (part.beta != 0)
            AX_TRY(dev->kern->copy(dev, c, part.c));
    }
    AX_TRY(ax_onednn_sgemm(ax_cpu_of(dev)->onednn, &part));
    if (c.dtype == AX_BF16)
        AX_TRY(dev->kern->copy(dev, part.c, c));
    if (dev->poll)
        dev->poll(dev->poll_ctx);
    return AX_OK;
}

static ax_status gemm_widened(ax_device *dev, const ax_gemm_args *g)
{
    cut by = cut_of(g);
    int64_t k = depth_of(g), less = by.panels_of_a ? g->c.cols : g->c.rows;
    int64_t more = by.panels_of_a ? g->c.rows : g->c.cols;
    float *block = dev->workspace, *panel = block + by.block * k, *out = panel + by.panel * k;
    for (int64_t i = 0; i < less; i += by.block) {
        int64_t rows = smaller(by.block, less - i);
        ax_tensor held = by.panels_of_a ? cols_of_b(g, i, rows) : rows_of_a(g, i, rows);
        held = widened(dev, held, block);
        for (int64_t j = 0; j < more; j += by.panel) {
            int64_t cols = smaller(by.panel, more - j);
            ax_gemm_args part = *g;
            if (by.panels_of_a) {
                part.a = rows_of_a(g, j, cols);
                part.b = held;
                part.c = ax_tensor_cols(ax_tensor_rows(g->c, j, cols), i, rows);
            } else {
                part.a = held;
                part.b = cols_of_b(g, j, cols);
                part.c = ax_tensor_cols(ax_tensor_rows(g->c, i, rows), j, cols);
            }
            AX_TRY(widened_panel(dev, part, panel, out));
        }
    }
    return AX_OK;
}

// ---- the products that oneDNN takes as they are ----

// Rows of c between two polls. Fewer than LEAST rows would halve the speed of some products.
static int64_t rows_of_call(const ax_device *dev, const ax_gemm_args *g)
{
    int64_t flops_of_row = 2 * g->c.cols * depth_of(g);
    int64_t rows = (int64_t)POLL_FLOPS * dev->threads / flops_of_row / LEAST * LEAST;
    return rows < LEAST ? LEAST : rows;
}

static ax_gemm_args call_at(const ax_gemm_args *g, int64_t first, int64_t rows)
{
    ax_gemm_args part = *g;
    part.a = rows_of_a(g, first, rows);
    part.c = ax_tensor_rows(g->c, first, rows);
    return part;
}

static ax_status gemm_direct(ax_device *dev, const ax_gemm_args *g)
{
    ax_onednn *onednn = ax_cpu_of(dev)->onednn;
    int64_t step = dev->poll ? rows_of_call(dev, g) : g->c.rows;
    for (int64_t i = 0; i < g->c.rows; i += step) {
        ax_gemm_args part = call_at(g, i, smaller(step, g->c.rows - i));
        if (g->a.dtype == AX_F32)
            AX_TRY(ax_onednn_sgemm(onednn, &part));
        else
            AX_TRY(ax_onednn_matmul(onednn, &part, dev->workspace));
        if (dev->poll)
            dev->poll(dev->poll_ctx);
    }
    return AX_OK;
}

static bool left_to_ref(const ax_gemm_args *g)
{
    return g->a.dtype == AX_F64 || depth_of(g) == 0;
}

// Whether oneDNN multiplies this bf16 product by bf16 instructions; `*scratch`: bytes it wants. The
// answer is the same whether a communicator is polled or not, as only an open device can know:
// the whole, a piece and the last piece must all be there, and the most demanding one counts.
static bool is_native(const ax_device *dev, const ax_gemm_args *g, size_t *scratch)
{
    int64_t m = g->c.rows, step = rows_of_call(dev, g), rows[3] = {m, step, m % step};
    *scratch = 0;
    if (!ax_cpu_of(dev)->native_bf16)
        return false;
    for (int i = 0; i < (m > step ? 3 : 1); i++) {
        size_t bytes = 0;
        ax_gemm_args part = call_at(g, 0, rows[i]);
        if (rows[i] && !ax_onednn_has_matmul(ax_cpu_of(dev)->onednn, &part, &bytes))
            return false;
        *scratch = bytes > *scratch ? bytes : *scratch;
    }
    return true;
}

size_t ax_cpu_gemm_workspace(const ax_device *dev, const ax_gemm_args *g)
{
    size_t scratch;
    if (g->c.rows == 0 || g->c.cols == 0 || left_to_ref(g) || g->a.dtype == AX_F32)
        return 0;
    return is_native(dev, g, &scratch) ? scratch : (size_t)cut_of(g).floats * sizeof(float);
}

ax_status ax_cpu_gemm(ax_device *dev, const ax_gemm_args *g)
{
    size_t scratch;
    if (g->c.rows == 0 || g->c.cols == 0)
        return AX_OK;
    if (left_to_ref(g))
        return ax_kern_ref.gemm(dev, g);
    if (g->a.dtype == AX_F32 || is_native(dev, g, &scratch))
        return gemm_direct(dev, g);
    return gemm_widened(dev, g);
}
