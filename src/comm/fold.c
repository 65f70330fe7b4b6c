// Sums and copies at the speed of memory. Sums are made in chunks that stay in the first-level
// cache: the sources are read once, two at a time, and the result is written once to every place.
#include "comm/pieces.h"

#include <string.h>
#ifdef __x86_64__
#include <emmintrin.h>
#endif

enum { CHUNK_BYTES = 8192 };

typedef void first_fn(void *restrict acc, const void *restrict x, const void *restrict y,
                      int64_t n);
typedef void next_fn(void *restrict acc, const void *restrict x, int64_t n);
typedef void next_two_fn(void *restrict acc, const void *restrict x, const void *restrict y,
                         int64_t n);

typedef struct combination { // of one redop
    first_fn *first;         // acc = x op y
    next_fn *next;           // acc = acc op x
    next_two_fn *next_two;   // acc = (acc op x) op y
} combination;

typedef struct arithmetic {
    size_t wide; // bytes of one element while adding
    next_fn *load, *store;
    combination combine[2]; // by ax_redop
} arithmetic;

// The loops: `type` in memory, `wide` while adding. Each is compiled for the baseline and, on x86,
// for AVX2 and AVX-512; only adds and roundings, so all give the same bits.
#ifdef __x86_64__
#define AVX2 __attribute__((target("avx2")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl")))
#else
#define AVX2
#define AVX512
#endif
#define LOOP(body)                                                                                 \
    for (int64_t i = 0; i < n; i++) {                                                              \
        body                                                                                       \
    }
#define CONVERT_FOR(target, name, to, type, convert)                                               \
    target static void name(void *restrict acc, const void *restrict x, int64_t n)                 \
    {                                                                                              \
        to *a = acc;                                                                               \
        const type *from = x;                                                                      \
        LOOP(a[i] = convert(from[i]);)                                                             \
    }
#define COMBINE_FOR(target, name, wide, type, load, op)                                            \
    target static void name##_first(void *restrict acc, const void *restrict x,                    \
                                    const void *restrict y, int64_t n)                             \
    {                                                                                              \
        wide *a = acc;                                                                             \
        const type *one = x, *two = y;                                                             \
        LOOP(wide u = load(one[i]); wide v = load(two[i]); a[i] = op(u, v);)                       \
    }                                                                                              \
    target static void name##_next(void *restrict acc, const void *restrict x, int64_t n)          \
    {                                                                                              \
        wide *a = acc;                                                                             \
        const type *one = x;                                                                       \
        LOOP(wide u = load(one[i]); a[i] = op(a[i], u);)                                           \
    }                                                                                              \
    target static void name##_next_two(void *restrict acc, const void *restrict x,                 \
                                       const void *restrict y, int64_t n)                          \
    {                                                                                              \
        wide *a = acc;                                                                             \
        const type *one = x, *two = y;                                                             \
        LOOP(wide u = load(one[i]); wide v = load(two[i]); wide w = op(a[i], u); a[i] = op(w, v);) \
    }
#define FOR_EACH(macro, name, ...)                                                                 \
    macro(, name, __VA_ARGS__) macro(AVX2, name##_avx2, __VA_ARGS__)                               \
        macro(AVX512, name##_avx512, __VA_ARGS__)
#define SAME(v) (v)
#define PLUS(a, v) ((a) + (v))
// Not "v > a ? v : a": a NaN must survive wherever it stands.
#define GREATER(a, v) ((v) > (a) || (v) != (v) ? (v) : (a))
#define GREATER_INT(a, v) ((v) > (a) ? (v) : (a))

FOR_EACH(COMBINE_FOR, sum_f32, float, float, SAME, PLUS)
FOR_EACH(COMBINE_FOR, max_f32, float, float, SAME, GREATER)
FOR_EACH(COMBINE_FOR, sum_f64, double, double, SAME, PLUS)
FOR_EACH(COMBINE_FOR, max_f64, double, double, SAME, GREATER)
FOR_EACH(COMBINE_FOR, sum_bf16, float, ax_bf16, ax_bf16_to_f32, PLUS)
FOR_EACH(COMBINE_FOR, max_bf16, float, ax_bf16, ax_bf16_to_f32, GREATER)
// Unsigned: a sum wraps instead of being undefined.
FOR_EACH(COMBINE_FOR, sum_i32, uint32_t, uint32_t, SAME, PLUS)
FOR_EACH(COMBINE_FOR, max_i32, int32_t, int32_t, SAME, GREATER_INT)
FOR_EACH(CONVERT_FOR, load_bf16, float, ax_bf16, ax_bf16_to_f32)
FOR_EACH(CONVERT_FOR, store_bf16, ax_bf16, float, ax_f32_to_bf16)

static void copy_4(void *restrict acc, const void *restrict x, int64_t n)
{
    memcpy(acc, x, (size_t)n * 4);
}

static void copy_8(void *restrict acc, const void *restrict x, int64_t n)
{
    memcpy(acc, x, (size_t)n * 8);
}

#define TRIPLE(name, suffix)                                                                       \
    {                                                                                              \
        name##suffix##_first, name##suffix##_next, name##suffix##_next_two                         \
    }
#define ARITHMETIC(dtype, wide, load, store, suffix)                                               \
    {                                                                                              \
        wide, load, store,                                                                         \
        {                                                                                          \
            TRIPLE(sum_##dtype, suffix), TRIPLE(max_##dtype, suffix)                               \
        }                                                                                          \
    }
#define ARITHMETICS(suffix)                                                                        \
    {                                                                                              \
        [AX_F32] = ARITHMETIC(f32, 4, copy_4, copy_4, suffix),                                     \
        [AX_F64] = ARITHMETIC(f64, 8, copy_8, copy_8, suffix),                                     \
        [AX_BF16] = ARITHMETIC(bf16, 4, load_bf16##suffix, store_bf16##suffix, suffix),            \
        [AX_I32] = ARITHMETIC(i32, 4, copy_4, copy_4, suffix),                                     \
    }
static const arithmetic arithmetics[3][4] = {ARITHMETICS(), ARITHMETICS(_avx2),
                                             ARITHMETICS(_avx512)};

static int instruction_set(void)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl"))
        return 2;
    return __builtin_cpu_supports("avx2") ? 1 : 0;
#else
    return 0;
#endif
}

// ---- copies ----

#ifdef __x86_64__
void ax_put(void *to, const void *from, size_t bytes, bool stream)
{
    char *t = to;
    const char *f = from;
    if (to == from || bytes == 0)
        return;
    if (!stream) {
        memcpy(to, from, bytes);
        return;
    }
    size_t head = -(uintptr_t)to & 63;
    head = head < bytes ? head : bytes;
    memcpy(t, f, head);
    size_t lines = (bytes - head) / 64;
    __m128i *line = (__m128i *)(void *)(t + head);
    const __m128i *source = (const __m128i *)(const void *)(f + head);
    for (size_t i = 0; i < 4 * lines; i += 4) {
        __m128i a = _mm_loadu_si128(source + i), b = _mm_loadu_si128(source + i + 1);
        __m128i c = _mm_loadu_si128(source + i + 2), d = _mm_loadu_si128(source + i + 3);
        _mm_stream_si128(line + i, a);
        _mm_stream_si128(line + i + 1, b);
        _mm_stream_si128(line + i + 2, c);
        _mm_stream_si128(line + i + 3, d);
    }
    size_t done = head + lines * 64;
    memcpy(t + done, f + done, bytes - done);
    _mm_sfence(); // peers are told by an ordinary store, which would overtake these
}
#else
void ax_put(void *to, const void *from, size_t bytes, bool stream)
{
    (void)stream;
    if (to != from && bytes > 0)
        memcpy(to, from, bytes);
}
#endif

// ---- sums ----

// Whether the accumulator may be the one place written itself: no rounding at the end, and nobody
// reads there.
static bool out_is_free(const ax_fold_args *g)
{
    if (g->outs != 1 || g->stream || g->dtype == AX_BF16)
        return false;
    for (int p = 0; p < g->ranks; p++)
        if (ax_at(g->from[p], g->dtype, g->at) == ax_at(g->out[0], g->dtype, g->out_at))
            return false;
    return true;
}

// Sources in rank order into acc: the first two, then two by two, then what is left.
static void accumulate(const ax_fold_args *g, const arithmetic *how, int64_t at, int64_t n,
                       void *acc)
{
    const combination *op = &how->combine[g->op];
    if (g->ranks == 1) {
        how->load(acc, ax_at(g->from[0], g->dtype, at), n);
        return;
    }
    op->first(acc, ax_at(g->from[0], g->dtype, at), ax_at(g->from[1], g->dtype, at), n);
    int p = 2;
    for (; p + 1 < g->ranks; p += 2)
        op->next_two(acc, ax_at(g->from[p], g->dtype, at), ax_at(g->from[p + 1], g->dtype, at), n);
    if (p < g->ranks)
        op->next(acc, ax_at(g->from[p], g->dtype, at), n);
}

void ax_fold(const ax_fold_args *g)
{
    _Alignas(64) unsigned char own[CHUNK_BYTES];
    _Alignas(64) unsigned char rounded[CHUNK_BYTES];
    const arithmetic *how = &arithmetics[instruction_set()][g->dtype];
    const size_t size = ax_dtype_size(g->dtype);
    bool direct = out_is_free(g);
    int64_t step = CHUNK_BYTES / (int64_t)how->wide;
    for (int64_t i = 0; i < g->count; i += step) {
        int64_t n = g->count - i < step ? g->count - i : step;
        void *acc = direct ? ax_at(g->out[0], g->dtype, g->out_at + i) : own;
        const void *sums = own;
        accumulate(g, how, g->at + i, n, acc);
        if (g->dtype == AX_BF16) {
            how->store(rounded, own, n);
            sums = rounded;
        }
        for (int p = 0; p < g->outs && !direct; p++)
            ax_put(ax_at(g->out[p], g->dtype, g->out_at + i), sums, (size_t)n * size, g->stream);
    }
}
