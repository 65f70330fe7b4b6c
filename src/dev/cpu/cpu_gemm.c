// Matrix products. f32 goes to oneDNN's sgemm, bf16 to its matmul primitive where the processor
// multiplies bf16 itself and oneDNN has code for the shape, else to panels that become f32 while
// they are packed (vec_gemm.c).
#include "dev/cpu/cpu.h"
#include "dev/cpu/onednn.h"

enum {
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

// Rows first..first+count of op(a), as a view.
static ax_tensor rows_of_a(const ax_gemm_args *g, int64_t first, int64_t count)
{
    return g->ta == AX_N ? ax_tensor_rows(g->a, first, count) : ax_tensor_cols(g->a, first, count);
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

// ---- which ----

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
    return is_native(dev, g, &scratch) ? scratch
                                       : ax_cpu_of(dev)->build->panel_gemm_workspace(dev, g);
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
    return ax_cpu_of(dev)->build->panel_gemm(dev, g);
}
