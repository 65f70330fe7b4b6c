#include "dev/tensor.h"

size_t ax_dtype_size(ax_dtype dtype)
{
    static const size_t sizes[] = {[AX_F32] = 4, [AX_F64] = 8, [AX_BF16] = 2, [AX_I32] = 4};
    return sizes[dtype];
}

const char *ax_dtype_name(ax_dtype dtype)
{
    static const char *const names[] = {
        [AX_F32] = "f32", [AX_F64] = "f64", [AX_BF16] = "bf16", [AX_I32] = "i32"};
    return names[dtype];
}

ax_tensor ax_tensor_over(void *data, ax_dtype dtype, int64_t rows, int64_t cols)
{
    return (ax_tensor){.data = data, .dtype = dtype, .rows = rows, .cols = cols, .stride = cols};
}

ax_status ax_tensor_alloc(ax_arena *a, ax_dtype dtype, int64_t rows, int64_t cols, ax_tensor *out)
{
    AX_CHECK(rows >= 0 && cols >= 0 && (cols == 0 || rows <= INT64_MAX / 16 / cols), AX_EINTERNAL,
             "arena %s: no tensor of %lld x %lld", a->name, (long long)rows, (long long)cols);
    ax_tensor t = ax_tensor_over(NULL, dtype, rows, cols);
    AX_TRY(ax_arena_alloc(a, ax_tensor_bytes(t), &t.data));
    *out = t;
    return AX_OK;
}

static ax_tensor moved(ax_tensor t, int64_t elements)
{
    t.data = (char *)t.data + elements * (int64_t)ax_dtype_size(t.dtype);
    return t;
}

ax_tensor ax_tensor_rows(ax_tensor t, int64_t first, int64_t count)
{
    AX_ASSERT(first >= 0 && count >= 0 && first + count <= t.rows);
    t = moved(t, first * t.stride);
    t.rows = count;
    return t;
}

ax_tensor ax_tensor_cols(ax_tensor t, int64_t first, int64_t count)
{
    AX_ASSERT(first >= 0 && count >= 0 && first + count <= t.cols);
    t = moved(t, first);
    t.cols = count;
    return t;
}
