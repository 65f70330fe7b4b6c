// Tensors: matrices of rows in someone else's memory. A tensor describes, it never owns.
//
//     ax_tensor x;                                              // (m, H)
//     AX_TRY(ax_tensor_alloc(arena, AX_F32, m, h, &x));
//     ax_tensor left = ax_tensor_cols(x, 0, h / 2);             // (m, H/2), same memory
//
// Every tensor in this project is a matrix: token rows times features, or output features times
// input features. A vector is a matrix of one row.
#pragma once
#include "base/arena.h"

#include <stdint.h>

typedef enum ax_dtype {
    AX_F32,
    AX_F64,
    AX_BF16,
    AX_I32,
} ax_dtype;

typedef uint16_t ax_bf16; // the upper half of a float; conversions round to nearest even

typedef struct ax_tensor {
    void *data;
    ax_dtype dtype;
    int64_t rows, cols;
    int64_t stride; // elements from one row to the next, >= cols
} ax_tensor;

size_t ax_dtype_size(ax_dtype dtype);
const char *ax_dtype_name(ax_dtype dtype); // "f32", "f64", "bf16", "i32"

ax_tensor ax_tensor_over(void *data, ax_dtype dtype, int64_t rows, int64_t cols);
ax_status ax_tensor_alloc(ax_arena *a, ax_dtype dtype, int64_t rows, int64_t cols, ax_tensor *out);

// Views; the range must lie inside. An empty view is legal.
ax_tensor ax_tensor_rows(ax_tensor t, int64_t first, int64_t count);
ax_tensor ax_tensor_cols(ax_tensor t, int64_t first, int64_t count);

static inline int64_t ax_tensor_count(ax_tensor t)
{
    return t.rows * t.cols;
}
static inline int ax_tensor_is_packed(ax_tensor t)
{
    return t.stride == t.cols || t.rows <= 1;
}
static inline size_t ax_tensor_bytes(ax_tensor t)
{
    return (size_t)ax_tensor_count(t) * ax_dtype_size(t.dtype);
}

static inline float ax_bf16_to_f32(ax_bf16 v)
{
    union {
        uint32_t u;
        float f;
    } c = {.u = (uint32_t)v << 16};
    return c.f;
}
// Round to nearest even; a NaN stays a NaN.
static inline ax_bf16 ax_f32_to_bf16(float v)
{
    union {
        float f;
        uint32_t u;
    } c = {.f = v};
    if ((c.u & 0x7fffffffu) > 0x7f800000u)
        return (ax_bf16)(c.u >> 16 | 0x40u);
    return (ax_bf16)((c.u + 0x7fffu + (c.u >> 16 & 1u)) >> 16);
}
