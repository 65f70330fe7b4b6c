// The default way to make a product, and how products are cut; the other ways build on both.
#pragma once
#include "dev/cpu/cpu.h"

static inline int64_t ax_cpu_gemm_depth(const ax_gemm_args *g)
{
    return g->ta == AX_N ? g->a.cols : g->a.rows;
}

// The product of rows first..first+count of op(a), or of columns of op(b), as a view.
ax_gemm_args ax_cpu_gemm_rows(const ax_gemm_args *g, int64_t first, int64_t count);
ax_gemm_args ax_cpu_gemm_columns(const ax_gemm_args *g, int64_t first, int64_t count);

// Rows of c between two polls of a communicator.
int64_t ax_cpu_gemm_step(const ax_device *dev, const ax_gemm_args *g);
// The row counts that a product is made of, with and without a communicator to poll: all, a piece,
// and the last piece. What a way needs must be the same in both cases, as only an open device can
// know which it is. Returns how many there are.
int ax_cpu_gemm_pieces(const ax_device *dev, const ax_gemm_args *g, int64_t rows[3]);

// Whether bf16 is multiplied by bf16 instructions: always the case of f32 for what follows.
bool ax_cpu_gemm_is_direct(const ax_device *dev, const ax_gemm_args *g, size_t *scratch);

// Not empty, not f64. Scratch of ax_cpu_gemm_default_workspace bytes; it must be dev->workspace
// itself where the product is not direct.
size_t ax_cpu_gemm_default_workspace(const ax_device *dev, const ax_gemm_args *g);
ax_status ax_cpu_gemm_default(ax_device *dev, const ax_gemm_args *g, void *scratch);
