// The reference kernels: plain C, one thread, one way for every dtype. Elements are read into
// doubles in short spans, computed on, and rounded when stored; only gemm works in float where
// its operands are not f64.
#pragma once
#include "dev/kern.h"

enum { SPAN = 256 }; // elements of a row that are at hand at one time

static inline void *element(ax_tensor t, int64_t row, int64_t col)
{
    return (char *)t.data + (row * t.stride + col) * (int64_t)ax_dtype_size(t.dtype);
}

static inline void load(ax_tensor t, int64_t row, int64_t col, int64_t n, double *out)
{
    const void *p = element(t, row, col);
    if (t.dtype == AX_F64)
        for (int64_t i = 0; i < n; i++)
            out[i] = ((const double *)p)[i];
    else if (t.dtype == AX_F32)
        for (int64_t i = 0; i < n; i++)
            out[i] = (double)((const float *)p)[i];
    else
        for (int64_t i = 0; i < n; i++)
            out[i] = (double)ax_bf16_to_f32(((const ax_bf16 *)p)[i]);
}

static inline void store(ax_tensor t, int64_t row, int64_t col, int64_t n, const double *v)
{
    void *p = element(t, row, col);
    if (t.dtype == AX_F64)
        for (int64_t i = 0; i < n; i++)
            ((double *)p)[i] = v[i];
    else if (t.dtype == AX_F32)
        for (int64_t i = 0; i < n; i++)
            ((float *)p)[i] = (float)v[i];
    else
        for (int64_t i = 0; i < n; i++)
            ((ax_bf16 *)p)[i] = ax_f32_to_bf16((float)v[i]);
}

static inline double load1(ax_tensor t, int64_t row, int64_t col)
{
    double v;
    load(t, row, col, 1, &v);
    return v;
}

static inline void store1(ax_tensor t, int64_t row, int64_t col, double v)
{
    store(t, row, col, 1, &v);
}

static inline int32_t load_id(ax_tensor ids, int64_t i)
{
    return ((const int32_t *)ids.data)[i];
}

static inline int64_t span_of(int64_t cols, int64_t first)
{
    return cols - first < SPAN ? cols - first : SPAN;
}

ax_status ax_ref_gemm(ax_device *dev, const ax_gemm_args *g);
ax_status ax_ref_attention_fwd(ax_device *dev, const ax_attention_args *g);
ax_status ax_ref_attention_bwd(ax_device *dev, const ax_attention_args *g);
ax_status ax_ref_attention_cached(ax_device *dev, const ax_attention_cached_args *g);
ax_status ax_ref_norm_sums(ax_device *dev, const ax_norm_args *g);
ax_status ax_ref_norm_fwd(ax_device *dev, const ax_norm_args *g);
ax_status ax_ref_norm_bwd_sums(ax_device *dev, const ax_norm_args *g);
ax_status ax_ref_norm_bwd(ax_device *dev, const ax_norm_args *g);
ax_status ax_ref_rope(ax_device *dev, ax_tensor x, ax_tensor positions, ax_tensor inv_freq,
                      int64_t head_dim, int direction);
ax_status ax_ref_gelu_fwd(ax_device *dev, ax_tensor x, ax_tensor y);
ax_status ax_ref_gelu_bwd(ax_device *dev, ax_tensor x, ax_tensor dy, ax_tensor dx);
ax_status ax_ref_swiglu_fwd(ax_device *dev, ax_tensor gate, ax_tensor up, ax_tensor y);
ax_status ax_ref_swiglu_bwd(ax_device *dev, ax_tensor gate, ax_tensor up, ax_tensor dy,
                            ax_tensor dgate, ax_tensor dup);
ax_status ax_ref_bias_fwd(ax_device *dev, ax_tensor y, ax_tensor b);
ax_status ax_ref_bias_bwd(ax_device *dev, ax_tensor dy, ax_tensor db);
ax_status ax_ref_embed_fwd(ax_device *dev, ax_tensor ids, int64_t first, ax_tensor table,
                           ax_tensor x);
ax_status ax_ref_embed_bwd(ax_device *dev, ax_tensor ids, int64_t first, ax_tensor dx,
                           ax_tensor dtable);
ax_status ax_ref_xent_max(ax_device *dev, const ax_xent_args *g);
ax_status ax_ref_xent_sums(ax_device *dev, const ax_xent_args *g);
ax_status ax_ref_xent_bwd(ax_device *dev, const ax_xent_args *g);
ax_status ax_ref_adamw(ax_device *dev, const ax_adamw_args *g);
ax_status ax_ref_copy(ax_device *dev, ax_tensor x, ax_tensor y);
ax_status ax_ref_add(ax_device *dev, ax_tensor x, ax_tensor y);
ax_status ax_ref_fill(ax_device *dev, ax_tensor x, double value);
ax_status ax_ref_square_sum(ax_device *dev, ax_tensor x, double out[2]);
