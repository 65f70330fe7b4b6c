// Between the float formats of files and of memory, exactly: widening keeps every value, narrowing
// rounds to nearest even (too large becomes infinite, too small subnormal or zero). A NaN stays
// one.
#pragma once
#include "ckpt/safetensors.h"
#include "dev/tensor.h"

bool ax_floats_known(ax_st_dtype stored);   // F16, BF16, F32, F64
int64_t ax_floats_size(ax_st_dtype stored); // bytes

float ax_f16_to_f32(uint16_t v);
uint16_t ax_f32_to_f16(float v);

// `count` elements of a file, packed, and as many of memory, `stride` elements apart.
void ax_floats_load(ax_st_dtype stored, const void *raw, int64_t count, ax_dtype dtype, void *to,
                    int64_t stride);
void ax_floats_store(ax_dtype dtype, const void *from, int64_t stride, int64_t count,
                     ax_st_dtype stored, void *raw);
