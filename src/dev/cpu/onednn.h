// Matrix products by oneDNN. The only file that knows its interface is onednn.c, which compiles
// against versions 2 and 3. A handle belongs to one rank and is used from the thread that
// opened it.
#pragma once
#include "dev/kern.h"

typedef struct ax_onednn ax_onednn;

ax_status ax_onednn_open(int threads, ax_onednn **out);
void ax_onednn_close(ax_onednn *h); // NULL is legal

// Whether bf16 products run on bf16 instructions. Without them oneDNN refuses (AVX2) or emulates
// at a third of the speed of f32 (AVX-512).
bool ax_onednn_has_bf16(void);
void ax_onednn_version(char *text, size_t size);

// f32, any strides.
ax_status ax_onednn_sgemm(ax_onednn *h, const ax_gemm_args *g);

// The same product by a matmul primitive (f32 or bf16, c f32 or bf16), made at the first call with
// a shape and kept. ax_onednn_has_matmul says whether oneDNN has a fast one for the shape and how
// many bytes of `scratch` it wants, and writes no error line: false where there is none or where
// oneDNN would run its reference, which is orders of magnitude slower. The answer depends on the
// shape, the strides and the threads of the handle alone, not on addresses.
bool ax_onednn_has_matmul(ax_onednn *h, const ax_gemm_args *g, size_t *scratch);
ax_status ax_onednn_matmul(ax_onednn *h, const ax_gemm_args *g, void *scratch);
