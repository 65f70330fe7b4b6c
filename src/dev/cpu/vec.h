// Vectors of W floats for the kernels that are built once for each instruction set: W is 16 with
// AVX-512, 8 with AVX2, else 4. Files that include this are compiled several times, each time
// with another AX_ISA; V(name) is the name of a function in this build (ax_avx2_name).
//
// Kernels here serve f32 and bf16; f64 is left to the reference. Sums over a row have an order
// that depends on W alone, sums over rows one that depends on nothing, so results do not depend
// on the number of threads.
#pragma once
#include "dev/cpu/cpu.h"

#include <string.h>

#define V_JOIN2(isa, name) ax_##isa##_##name
#define V_JOIN(isa, name) V_JOIN2(isa, name)
#define V(name) V_JOIN(AX_ISA, name)

#define INLINE static inline __attribute__((always_inline))

INLINE int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

#if defined(__AVX512F__)
enum { W = 16 };
#define W_BYTES 64
#elif defined(__AVX2__)
enum { W = 8 };
#define W_BYTES 32
#else
enum { W = 4 };
#define W_BYTES 16
#endif

typedef float vf __attribute__((vector_size(W_BYTES)));
typedef int32_t vi __attribute__((vector_size(W_BYTES)));
typedef uint32_t vu __attribute__((vector_size(W_BYTES)));
typedef double vd __attribute__((vector_size(2 * W_BYTES)));
typedef uint16_t vh __attribute__((vector_size(W_BYTES / 2)));
typedef uint16_t vh2 __attribute__((vector_size(W_BYTES)));
typedef double vd_half __attribute__((vector_size(W_BYTES)));
typedef float vf_mem __attribute__((vector_size(W_BYTES), aligned(4), may_alias));
typedef uint16_t vh_mem __attribute__((vector_size(W_BYTES / 2), aligned(2), may_alias));

INLINE vf splat(float x)
{
    return x - (vf){0};
}

INLINE vf select(vi mask, vf yes, vf no)
{
    return (vf)((mask & (vi)yes) | (~mask & (vi)no));
}

INLINE vf vmax(vf a, vf b)
{
    return select(a > b, a, b);
}

INLINE vi lane_numbers(void)
{
    vi n;
    for (int i = 0; i < W; i++)
        n[i] = i;
    return n;
}

INLINE float lanes_sum(vf v)
{
    float sum = 0;
    for (int i = 0; i < W; i++)
        sum += v[i];
    return sum;
}

INLINE float lanes_max(vf v)
{
    float max = v[0];
    for (int i = 1; i < W; i++)
        max = v[i] > max ? v[i] : max;
    return max;
}

// The upper 16 bits of each lane, and the lower and upper half of the lanes as doubles. Spelled
// out lane by lane: compilers turn the same conversions into scalar code.
#if defined(__AVX512F__)
#define ODD 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define LOWER 0, 1, 2, 3, 4, 5, 6, 7
#define UPPER 8, 9, 10, 11, 12, 13, 14, 15
#elif defined(__AVX2__)
#define ODD 1, 3, 5, 7, 9, 11, 13, 15
#define LOWER 0, 1, 2, 3
#define UPPER 4, 5, 6, 7
#else
#define ODD 1, 3, 5, 7
#define LOWER 0, 1
#define UPPER 2, 3
#endif

INLINE vh upper_bits(vu v)
{
    return __builtin_shufflevector((vh2)v, (vh2)v, ODD);
}

INLINE vd_half lower_lanes(vf v)
{
    return __builtin_convertvector(__builtin_shufflevector(v, v, LOWER), vd_half);
}

INLINE vd_half upper_lanes(vf v)
{
    return __builtin_convertvector(__builtin_shufflevector(v, v, UPPER), vd_half);
}

INLINE double halves_sum(vd_half v)
{
    double sum = 0;
    for (int i = 0; i < W / 2; i++)
        sum += v[i];
    return sum;
}

// Elements i .. i+W of a row of f32 or bf16; `t` is a constant wherever these are called.
INLINE vf load(const void *row, int64_t i, ax_dtype t)
{
    if (t == AX_F32)
        return *(const vf_mem *)((const float *)row + i);
    vh narrow = *(const vh_mem *)((const ax_bf16 *)row + i);
    return (vf)(__builtin_convertvector(narrow, vu) << 16);
}

INLINE void store(void *row, int64_t i, ax_dtype t, vf v)
{
    if (t == AX_F32) {
        *(vf_mem *)((float *)row + i) = v;
        return;
    }
    vu bits = (vu)v, nan = (vu)(v != v);
    vu even = bits + 0x7fff + ((bits >> 16) & 1), quiet = bits | 0x400000;
    *(vh_mem *)((ax_bf16 *)row + i) = upper_bits((nan & quiet) | (~nan & even));
}

// The same for the first n <= W elements; the others read as 0 and are not written.
INLINE vf load_some(const void *row, int64_t i, ax_dtype t, int64_t n)
{
    if (n >= W)
        return load(row, i, t);
    size_t size = t == AX_F32 ? 4 : 2;
    float spare[W] = {0};
    memcpy(spare, (const char *)row + (size_t)i * size, (size_t)n * size);
    return load(spare, 0, t);
}

INLINE void store_some(void *row, int64_t i, ax_dtype t, vf v, int64_t n)
{
    if (n >= W) {
        store(row, i, t, v);
        return;
    }
    size_t size = t == AX_F32 ? 4 : 2;
    float spare[W];
    store(spare, 0, t, v);
    memcpy((char *)row + (size_t)i * size, spare, (size_t)n * size);
}

// Runs `call` with T a constant: the dtype of an f32 or bf16 tensor.
#define BY_DTYPE(dtype, T, call)                                                                   \
    do {                                                                                           \
        if ((dtype) == AX_F32) {                                                                   \
            const ax_dtype T = AX_F32;                                                             \
            call;                                                                                  \
        } else {                                                                                   \
            const ax_dtype T = AX_BF16;                                                            \
            call;                                                                                  \
        }                                                                                          \
    } while (0)

// exp to 1e-7 of its value: x = n ln 2 + r, a polynomial in r (Cephes, expf), n added to the
// exponent. Below -87 it stays at the smallest normal number; a NaN stays a NaN.
INLINE vf vexp(vf x)
{
    const float magic = 12582912.0f; // 1.5 * 2^23: adding it rounds to an integer
    x = select(x > 88.376f, splat(88.376f), x);
    x = select(x < -87.33f, splat(-87.33f), x);
    vf shifted = x * 1.44269504088896341f + magic;
    vf n = shifted - magic;
    vf r = x - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    vf p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    return p * (vf)(((vi)shifted << 23) + 0x3f800000);
}

INLINE vf vsigmoid(vf x)
{
    return 1.0f / (1.0f + vexp(-x));
}

// ---- how work is cut for the team ----

// Below this many elements a second thread costs more than it saves.
enum { SMALL = 16384 };
// Elements of a row in one piece: rows may be very long (a run of parameters is one row).
enum { PIECE = 8192 };
// Columns of one piece where sums run over the rows, and rows added before the sum is carried.
enum { STRIPE = 128, CARRY = 128 };

INLINE bool is_big(ax_tensor t)
{
    return t.rows * t.cols >= SMALL;
}

INLINE void *at(ax_tensor t, int64_t row, int64_t col)
{
    return (char *)t.data + (size_t)(row * t.stride + col) * (t.dtype == AX_BF16 ? 2 : 4);
}

typedef struct piece {
    int64_t row, col, n;
} piece;

INLINE int64_t pieces_of_row(ax_tensor t)
{
    return (t.cols + PIECE - 1) / PIECE;
}

INLINE int64_t pieces_of(ax_tensor t)
{
    return t.rows * pieces_of_row(t);
}

INLINE piece piece_at(ax_tensor t, int64_t index)
{
    int64_t a_row = pieces_of_row(t), row = index / a_row, col = (index - row * a_row) * PIECE;
    return (piece){row, col, t.cols - col < PIECE ? t.cols - col : PIECE};
}

INLINE int64_t stripes_of(ax_tensor t)
{
    return (t.cols + STRIPE - 1) / STRIPE;
}

// One piece per index, by the whole team. A macro, as the pragma needs the loop itself.
#define TEXT_OF(x) #x
#define PRAGMA(x) _Pragma(TEXT_OF(x))
#define BY_TEAM(dev, big, i, count)                                                                \
    PRAGMA(omp parallel for num_threads((dev)->threads) if (big) schedule(static))                 \
    for (int64_t i = 0; i < (count); i++)

ax_status V(panel_gemm)(ax_device *dev, const ax_gemm_args *g);
size_t V(panel_gemm_workspace)(const ax_device *dev, const ax_gemm_args *g);
ax_status V(attention_fwd)(ax_device *dev, const ax_attention_args *g);
ax_status V(attention_bwd)(ax_device *dev, const ax_attention_args *g);
size_t V(attention_workspace)(const ax_device *dev, const ax_attention_args *g);
ax_status V(attention_cached)(ax_device *dev, const ax_attention_cached_args *g);
size_t V(attention_cached_workspace)(const ax_device *dev, const ax_attention_cached_args *g);
ax_status V(norm_sums)(ax_device *dev, const ax_norm_args *g);
ax_status V(norm_fwd)(ax_device *dev, const ax_norm_args *g);
ax_status V(norm_bwd_sums)(ax_device *dev, const ax_norm_args *g);
ax_status V(norm_bwd)(ax_device *dev, const ax_norm_args *g);
ax_status V(rope)(ax_device *dev, ax_tensor x, ax_tensor positions, ax_tensor inv_freq,
                  int64_t head_dim, int direction);
ax_status V(gelu_fwd)(ax_device *dev, ax_tensor x, ax_tensor y);
ax_status V(gelu_bwd)(ax_device *dev, ax_tensor x, ax_tensor dy, ax_tensor dx);
ax_status V(swiglu_fwd)(ax_device *dev, ax_tensor gate, ax_tensor up, ax_tensor y);
ax_status V(swiglu_bwd)(ax_device *dev, ax_tensor gate, ax_tensor up, ax_tensor dy, ax_tensor dgate,
                        ax_tensor dup);
ax_status V(bias_fwd)(ax_device *dev, ax_tensor y, ax_tensor b);
ax_status V(bias_bwd)(ax_device *dev, ax_tensor dy, ax_tensor db);
ax_status V(embed_fwd)(ax_device *dev, ax_tensor ids, int64_t first, ax_tensor table, ax_tensor x);
ax_status V(embed_bwd)(ax_device *dev, ax_tensor ids, int64_t first, ax_tensor dx,
                       ax_tensor dtable);
ax_status V(xent_max)(ax_device *dev, const ax_xent_args *g);
ax_status V(xent_sums)(ax_device *dev, const ax_xent_args *g);
ax_status V(xent_bwd)(ax_device *dev, const ax_xent_args *g);
ax_status V(adamw)(ax_device *dev, const ax_adamw_args *g);
ax_status V(copy)(ax_device *dev, ax_tensor x, ax_tensor y);
ax_status V(add)(ax_device *dev, ax_tensor x, ax_tensor y);
ax_status V(fill)(ax_device *dev, ax_tensor x, double value);
ax_status V(square_sum)(ax_device *dev, ax_tensor x, double out[2]);
