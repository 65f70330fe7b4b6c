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

// f32, any strides. The second is for a member of a team that is at work: that thread makes the
// product alone.
ax_status ax_onednn_sgemm(ax_onednn *h, const ax_gemm_args *g);
ax_status ax_onednn_sgemm_alone(const ax_gemm_args *g);

// The same product by a matmul primitive (f32 or bf16, c f32 or bf16), made at the first call with
// a shape and kept. ax_onednn_has_matmul says whether oneDNN has a fast one for the shape and how
// many bytes of `scratch` it wants, and writes no error line: false where there is none or where
// oneDNN would run its reference, which is orders of magnitude slower. The answer depends on the
// shape, the strides and the threads of the handle alone, not on addresses.
bool ax_onednn_has_matmul(ax_onednn *h, const ax_gemm_args *g, size_t *scratch);
ax_status ax_onednn_matmul(ax_onednn *h, const ax_gemm_args *g, void *scratch);

// ---- other ways to make it ----

typedef enum ax_onednn_layout { // of the weights, op(b), as the product reads them
    AX_ONEDNN_PLAIN,            // as they are
    AX_ONEDNN_BEST,             // as the library likes them best, where that is another
    AX_ONEDNN_TURNED,           // transposed in memory, packed rows
} ax_onednn_layout;

typedef struct ax_onednn_use {
    ax_onednn_layout layout;
    int member; // 0: the team makes it; i: member i - 1 of a team that is at work, alone
} ax_onednn_use;

typedef struct ax_onednn_need {
    size_t scratch, packed; // bytes; packed: of the weights, 0 with AX_ONEDNN_PLAIN
} ax_onednn_need;
typedef struct ax_onednn_room {
    void *scratch, *packed; // aligned to 64 bytes
} ax_onednn_room;

// As ax_onednn_has_matmul.
bool ax_onednn_has(ax_onednn *h, const ax_gemm_args *g, const ax_onednn_use *use,
                   ax_onednn_need *need);
// Whether two products of equal weights read them in one layout: what is packed for one serves
// both.
bool ax_onednn_same_layout(ax_onednn *h, const ax_gemm_args *x, const ax_gemm_args *y,
                           const ax_onednn_use *use);
// Brings the weights of g into the layout: into room.packed.
ax_status ax_onednn_pack(ax_onednn *h, const ax_gemm_args *g, const ax_onednn_use *use,
                         ax_onednn_room room);
// The product; g->b.data is not read where room.packed is. A product of a member must have been
// made ready by the thread of the handle, which may not be in any call meanwhile.
ax_status ax_onednn_run(ax_onednn *h, const ax_gemm_args *g, const ax_onednn_use *use,
                        ax_onednn_room room);
ax_status ax_onednn_ready(ax_onednn *h, const ax_gemm_args *g, const ax_onednn_use *use);
// Drops every primitive; they are made again when they are needed.
void ax_onednn_forget(ax_onednn *h);
