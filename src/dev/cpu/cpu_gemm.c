// Matrix products. By default f32 goes to oneDNN's sgemm, bf16 to its matmul primitive where the
// processor multiplies bf16 itself and oneDNN has code for the shape, else to panels that become
// f32 while they are packed (vec_gemm.c). A device with a tuner may take another way.
#include "dev/cpu/cpu_gemm.h"
#include "dev/cpu/cpu_tune.h"
#include "dev/cpu/onednn.h"

enum {
    LEAST = 512,          // rows of c in one call, at least
    POLL_FLOPS = 1 << 28, // of one thread between two polls: a few milliseconds
};

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

// ---- how a product is cut ----

ax_gemm_args ax_cpu_gemm_rows(const ax_gemm_args *g, int64_t first, int64_t count)
{
    ax_gemm_args part = *g;
    part.a =
        g->ta == AX_N ? ax_tensor_rows(g->a, first, count) : ax_tensor_cols(g->a, first, count);
    part.c = ax_tensor_rows(g->c, first, count);
    return part;
}

ax_gemm_args ax_cpu_gemm_columns(const ax_gemm_args *g, int64_t first, int64_t count)
{
    ax_gemm_args part = *g;
    part.b =
        g->tb == AX_N ? ax_tensor_cols(g->b, first, count) : ax_tensor_rows(g->b, first, count);
    part.c = ax_tensor_cols(g->c, first, count);
    return part;
}

// Fewer than LEAST rows would halve the speed of some products.
int64_t ax_cpu_gemm_step(const ax_device *dev, const ax_gemm_args *g)
{
    int64_t flops_of_row = 2 * g->c.cols * ax_cpu_gemm_depth(g);
    int64_t rows = (int64_t)POLL_FLOPS * dev->threads / flops_of_row / LEAST * LEAST;
    return rows < LEAST ? LEAST : rows;
}

int ax_cpu_gemm_pieces(const ax_device *dev, const ax_gemm_args *g, int64_t rows[3])
{
    int64_t m = g->c.rows, step = ax_cpu_gemm_step(dev, g);
    rows[0] = m;
    rows[1] = step;
    rows[2] = m % step;
    return m <= step ? 1 : rows[2] ? 3 : 2;
}

// ---- the default ----

static ax_status gemm_direct(ax_device *dev, const ax_gemm_args *g, void *scratch)
{
    ax_onednn *onednn = ax_cpu_of(dev)->onednn;
    int64_t step = dev->poll ? ax_cpu_gemm_step(dev, g) : g->c.rows;
    for (int64_t i = 0; i < g->c.rows; i += step) {
        ax_gemm_args part = ax_cpu_gemm_rows(g, i, smaller(step, g->c.rows - i));
        if (g->a.dtype == AX_F32)
            AX_TRY(ax_onednn_sgemm(onednn, &part));
        else
            AX_TRY(ax_onednn_matmul(onednn, &part, scratch));
        if (dev->poll)
            dev->poll(dev->poll_ctx);
    }
    return AX_OK;
}

bool ax_cpu_gemm_is_direct(const ax_device *dev, const ax_gemm_args *g, size_t *scratch)
{
    int64_t rows[3];
    *scratch = 0;
    if (g->a.dtype == AX_F32)
        return true;
    if (!ax_cpu_of(dev)->native_bf16)
        return false;
    for (int i = 0, count = ax_cpu_gemm_pieces(dev, g, rows); i < count; i++) {
        size_t bytes = 0;
        ax_gemm_args part = ax_cpu_gemm_rows(g, 0, rows[i]);
        if (!ax_onednn_has_matmul(ax_cpu_of(dev)->onednn, &part, &bytes))
            return false;
        *scratch = bytes > *scratch ? bytes : *scratch;
    }
    return true;
}

size_t ax_cpu_gemm_default_workspace(const ax_device *dev, const ax_gemm_args *g)
{
    size_t scratch;
    return ax_cpu_gemm_is_direct(dev, g, &scratch)
               ? scratch
               : ax_cpu_of(dev)->build->panel_gemm_workspace(dev, g);
}

ax_status ax_cpu_gemm_default(ax_device *dev, const ax_gemm_args *g, void *scratch)
{
    size_t bytes;
    return ax_cpu_gemm_is_direct(dev, g, &bytes) ? gemm_direct(dev, g, scratch)
                                                 : ax_cpu_of(dev)->build->panel_gemm(dev, g);
}

// ---- the slots ----

static bool is_empty(const ax_gemm_args *g)
{
    return g->c.rows == 0 || g->c.cols == 0;
}

static bool left_to_ref(const ax_gemm_args *g)
{
    return g->a.dtype == AX_F64 || ax_cpu_gemm_depth(g) == 0;
}

size_t ax_cpu_gemm_workspace(const ax_device *dev, const ax_gemm_args *g)
{
    if (is_empty(g) || left_to_ref(g))
        return 0;
    return dev->tuner ? ax_cpu_tuned_workspace(dev, g) : ax_cpu_gemm_default_workspace(dev, g);
}

ax_status ax_cpu_gemm(ax_device *dev, const ax_gemm_args *g)
{
    if (is_empty(g))
        return AX_OK;
    if (left_to_ref(g))
        return ax_kern_ref.gemm(dev, g);
    return dev->tuner ? ax_cpu_tuned_gemm(dev, g) : ax_cpu_gemm_default(dev, g, dev->workspace);
}
