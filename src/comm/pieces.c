#include "comm/pieces.h"

#include <string.h>

// Sums are made in chunks that stay in the first-level cache together with one source.
enum { CHUNK_BYTES = 16384, LINE_ELEMENTS = 32 };

typedef void combine_fn(void *restrict acc, const void *restrict x, int64_t n);

typedef struct arithmetic {
    size_t wide; // bytes of one element while adding
    combine_fn *load, *store;
    combine_fn *combine[2]; // by ax_redop
} arithmetic;

ax_cut ax_cut_of(ax_coll coll, const ax_xfer *x, int ranks)
{
    if (coll == AX_ALLGATHER || coll == AX_REDUCE_SCATTER)
        return (ax_cut){.piece = x->count, .total = x->limit ? x->limit : ranks * x->count};
    int64_t piece = (x->count + ranks - 1) / ranks;
    piece = (piece + LINE_ELEMENTS - 1) / LINE_ELEMENTS * LINE_ELEMENTS;
    return (ax_cut){.piece = piece, .total = x->count};
}

// The loops: `type` in memory, `wide` while adding. Each is compiled for the baseline and, on x86,
// for AVX2; only adds and roundings, so both give the same bits.
#ifdef __x86_64__
#define AVX2 __attribute__((target("avx2")))
#else
#define AVX2
#endif
#define COMBINE_FOR(target, name, wide, type, to_wide, result)                                     \
    target static void name(void *restrict acc, const void *restrict x, int64_t n)                 \
    {                                                                                              \
        wide *a = acc;                                                                             \
        const type *from = x;                                                                      \
        for (int64_t i = 0; i < n; i++) {                                                          \
            wide v = to_wide(from[i]);                                                             \
            a[i] = result;                                                                         \
        }                                                                                          \
    }
#define COMBINE(name, wide, type, to_wide, result)                                                 \
    COMBINE_FOR(, name, wide, type, to_wide, result)                                               \
    COMBINE_FOR(AVX2, name##_avx2, wide, type, to_wide, result)
#define SAME(v) (v)
// Not "v > a ? v : a": a NaN must survive wherever it stands.
#define GREATER (v > a[i] || v != v ? v : a[i])

COMBINE(sum_f32, float, float, SAME, a[i] + v)
COMBINE(max_f32, float, float, SAME, GREATER)
COMBINE(sum_f64, double, double, SAME, a[i] + v)
COMBINE(max_f64, double, double, SAME, GREATER)
COMBINE(load_bf16, float, ax_bf16, ax_bf16_to_f32, v)
COMBINE(sum_bf16, float, ax_bf16, ax_bf16_to_f32, a[i] + v)
COMBINE(max_bf16, float, ax_bf16, ax_bf16_to_f32, GREATER)
COMBINE(store_bf16, ax_bf16, float, ax_f32_to_bf16, v)
COMBINE(sum_i32, uint32_t, uint32_t, SAME, a[i] + v) // unsigned: wraps instead of being undefined
COMBINE(max_i32, int32_t, int32_t, SAME, v > a[i] ? v : a[i])

static void copy_4(void *restrict acc, const void *restrict x, int64_t n)
{
    memcpy(acc, x, (size_t)n * 4);
}

static void copy_8(void *restrict acc, const void *restrict x, int64_t n)
{
    memcpy(acc, x, (size_t)n * 8);
}

#define ARITHMETICS(suffix)                                                                        \
    {                                                                                              \
        [AX_F32] = {4, copy_4, copy_4, {sum_f32##suffix, max_f32##suffix}},                        \
        [AX_F64] = {8, copy_8, copy_8, {sum_f64##suffix, max_f64##suffix}},                        \
        [AX_BF16] = {4,                                                                            \
                     load_bf16##suffix,                                                            \
                     store_bf16##suffix,                                                           \
                     {sum_bf16##suffix, max_bf16##suffix}},                                        \
        [AX_I32] = {4, copy_4, copy_4, {sum_i32##suffix, max_i32##suffix}},                        \
    }
static const arithmetic arithmetics[2][4] = {ARITHMETICS(), ARITHMETICS(_avx2)};

static bool has_avx2(void)
{
#ifdef __x86_64__
    return __builtin_cpu_supports("avx2");
#else
    return false;
#endif
}

// Whether the accumulator may be `out` itself: no rounding at the end, and nobody reads there.
static bool out_is_free(const ax_fold_args *g)
{
    for (int p = 0; p < g->ranks; p++)
        if (ax_at(g->from[p], g->dtype, g->at) == g->out)
            return false;
    return g->dtype != AX_BF16;
}

void ax_fold(const ax_fold_args *g)
{
    _Alignas(64) unsigned char own[CHUNK_BYTES];
    const arithmetic *how = &arithmetics[has_avx2()][g->dtype];
    combine_fn *combine = how->combine[g->op];
    bool direct = out_is_free(g);
    int64_t step = CHUNK_BYTES / (int64_t)how->wide;
    for (int64_t i = 0; i < g->count; i += step) {
        int64_t n = g->count - i < step ? g->count - i : step;
        void *acc = direct ? ax_at(g->out, g->dtype, i) : own;
        how->load(acc, ax_at(g->from[0], g->dtype, g->at + i), n);
        for (int p = 1; p < g->ranks; p++)
            combine(acc, ax_at(g->from[p], g->dtype, g->at + i), n);
        if (!direct)
            how->store(ax_at(g->out, g->dtype, i), acc, n);
    }
}
