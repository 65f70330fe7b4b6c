#include "ckpt/hf_floats.h"

#include <string.h>

bool ax_floats_known(ax_st_dtype stored)
{
    return stored == AX_ST_F16 || stored == AX_ST_BF16 || stored == AX_ST_F32 ||
           stored == AX_ST_F64;
}

int64_t ax_floats_size(ax_st_dtype stored)
{
    return stored == AX_ST_F64 ? 8 : stored == AX_ST_F32 ? 4 : 2;
}

static float float_of(uint32_t bits)
{
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static uint32_t bits_of(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

float ax_f16_to_f32(uint16_t v)
{
    uint32_t sign = (uint32_t)(v & 0x8000u) << 16, exponent = v >> 10 & 31u, rest = v & 0x3ffu;
    if (exponent == 31)
        return float_of(sign | 0x7f800000u | rest << 13);
    if (exponent == 0) // zero or subnormal: rest * 2^-24, a normal float
        return sign ? -(float)rest * 0x1p-24f : (float)rest * 0x1p-24f;
    return float_of(sign | (exponent + 112) << 23 | rest << 13);
}

// Drops the low `cut` bits to nearest even. A carry into the exponent is the right result.
static uint32_t round_bits(uint32_t bits, uint32_t cut)
{
    uint32_t half = (1u << (cut - 1)) - 1;
    return (bits + half + (bits >> cut & 1u)) >> cut;
}

uint16_t ax_f32_to_f16(float v)
{
    uint32_t bits = bits_of(v), sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) // a NaN: quiet, with what fits of its payload
        return (uint16_t)(sign | 0x7e00u | (size >> 13 & 0x3ffu));
    if (size >= 0x477ff000u) // 65520 and above
        return (uint16_t)(sign | 0x7c00u);
    if (size >= 0x38800000u) // normal: 2^-14 and above
        return (uint16_t)(sign | round_bits(size - 0x38000000u, 13));
    if (size < 0x33000000u) // below half of the smallest subnormal
        return (uint16_t)sign;
    uint32_t cut = 126 - (size >> 23); // 14 .. 24
    return (uint16_t)(sign | round_bits((size & 0x7fffffu) | 0x800000u, cut));
}

// ---- rows of elements

static float narrow_at(ax_st_dtype stored, const void *raw, int64_t i)
{
    if (stored == AX_ST_F16)
        return ax_f16_to_f32(((const uint16_t *)raw)[i]);
    return ax_bf16_to_f32(((const ax_bf16 *)raw)[i]);
}

static double load_at(ax_st_dtype stored, const void *raw, int64_t i)
{
    if (stored == AX_ST_F64)
        return ((const double *)raw)[i];
    return stored == AX_ST_F32 ? ((const float *)raw)[i] : narrow_at(stored, raw, i);
}

// Elements that change nothing but their place: the payload of a NaN stays what it was.
static void move(const char *from, int64_t from_step, char *to, int64_t to_step, int64_t count,
                 size_t size)
{
    if (from_step == 1 && to_step == 1) {
        memcpy(to, from, (size_t)count * size);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        memcpy(to + i * to_step * (int64_t)size, from + i * from_step * (int64_t)size, size);
}

static bool alike(ax_st_dtype stored, ax_dtype dtype)
{
    return (stored == AX_ST_F32 && dtype == AX_F32) || (stored == AX_ST_F64 && dtype == AX_F64) ||
           (stored == AX_ST_BF16 && dtype == AX_BF16);
}

void ax_floats_load(ax_st_dtype stored, const void *raw, int64_t count, ax_dtype dtype, void *to,
                    int64_t stride)
{
    if (alike(stored, dtype)) {
        move(raw, 1, to, stride, count, ax_dtype_size(dtype));
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        double v = load_at(stored, raw, i);
        if (dtype == AX_F64)
            ((double *)to)[i * stride] = v;
        else if (dtype == AX_F32)
            ((float *)to)[i * stride] = (float)v;
        else // by way of float, as a master of a float run would
            ((ax_bf16 *)to)[i * stride] = ax_f32_to_bf16((float)v);
    }
}

void ax_floats_store(ax_dtype dtype, const void *from, int64_t stride, int64_t count,
                     ax_st_dtype stored, void *raw)
{
    if (alike(stored, dtype)) {
        move(from, stride, raw, 1, count, ax_dtype_size(dtype));
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t at = i * stride;
        float v = dtype == AX_F64   ? (float)((const double *)from)[at]
                  : dtype == AX_F32 ? ((const float *)from)[at]
                                    : ax_bf16_to_f32(((const ax_bf16 *)from)[at]);
        if (stored == AX_ST_F32)
            ((float *)raw)[i] = v;
        else if (stored == AX_ST_BF16)
            ((ax_bf16 *)raw)[i] = ax_f32_to_bf16(v);
        else
            ((uint16_t *)raw)[i] = ax_f32_to_f16(v);
    }
}
