// Operands of kernel tests: a tensor in the dtype under test, its twin in double with exactly the
// same values, and guard bytes around the tensor and between its rows.
#pragma once
#include "base/rng.h"
#include "dev/kern.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 64, PATTERN = 0xa5 };
enum { PERIOD = 8191 }; // values repeat after so many: a prime, so never in step with rows or tiles

typedef struct operand {
    ax_tensor t;    // in the dtype under test, rows strided by a gap
    ax_tensor gold; // f64, packed
    unsigned char *mem;
    size_t bytes;
} operand;

static inline double get(ax_tensor t, int64_t i, int64_t j)
{
    int64_t at = i * t.stride + j;
    if (t.dtype == AX_F64)
        return ((const double *)t.data)[at];
    if (t.dtype == AX_F32)
        return (double)((const float *)t.data)[at];
    return (double)ax_bf16_to_f32(((const ax_bf16 *)t.data)[at]);
}

static inline void set(ax_tensor t, int64_t i, int64_t j, double v)
{
    int64_t at = i * t.stride + j;
    if (t.dtype == AX_F64)
        ((double *)t.data)[at] = v;
    else if (t.dtype == AX_F32)
        ((float *)t.data)[at] = (float)v;
    else
        ((ax_bf16 *)t.data)[at] = ax_f32_to_bf16((float)v);
}

static inline void randomise(ax_tensor t, uint64_t seed, double scale)
{
    double value[PERIOD];
    for (int64_t i = 0; i < PERIOD && i < t.rows * t.cols; i++)
        value[i] = scale * ax_rng_normal(seed, 7, (uint64_t)i);
    for (int64_t i = 0; i < t.rows; i++)
        for (int64_t j = 0, at = i * t.cols % PERIOD; j < t.cols; j++) {
            set(t, i, j, value[at]);
            at = at + 1 < PERIOD ? at + 1 : 0;
        }
}

// The twin takes the values of the tensor, or (after a golden run) the tensor those of the twin,
// rounded, and the twin follows the rounding.
static inline void twin_from_tensor(operand *o)
{
    for (int64_t i = 0; i < o->t.rows; i++)
        for (int64_t j = 0; j < o->t.cols; j++)
            set(o->gold, i, j, get(o->t, i, j));
}

static inline void tensor_from_twin(operand *o)
{
    for (int64_t i = 0; i < o->t.rows; i++)
        for (int64_t j = 0; j < o->t.cols; j++)
            set(o->t, i, j, get(o->gold, i, j));
    twin_from_tensor(o);
}

static inline operand make(ax_dtype dtype, int64_t rows, int64_t cols, int64_t gap, double scale)
{
    operand o;
    size_t size = ax_dtype_size(dtype), count = (size_t)(rows * (cols + gap));
    o.bytes = count * size + 2 * GUARD;
    o.mem = malloc(o.bytes);
    assert_non_null(o.mem);
    memset(o.mem, PATTERN, o.bytes);
    o.t = ax_tensor_over(o.mem + GUARD, dtype, rows, cols);
    o.t.stride = cols + gap;
    o.gold = ax_tensor_over(malloc(count * sizeof(double) + 1), AX_F64, rows, cols);
    assert_non_null(o.gold.data);
    randomise(o.t, (uint64_t)(rows * 131 + cols + (int)dtype), scale);
    twin_from_tensor(&o);
    return o;
}

static inline void assert_pattern(const operand *o, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        if (o->mem[i] != PATTERN)
            fail_msg("byte %zu of %zu outside the tensor was written", i, o->bytes);
}

static inline void assert_guards(const operand *o)
{
    size_t size = ax_dtype_size(o->t.dtype), row = (size_t)o->t.stride * size, end = GUARD;
    for (int64_t i = 0; i < o->t.rows; i++) {
        assert_pattern(o, end, GUARD + (size_t)i * row); // the gap behind the row before
        end = GUARD + (size_t)i * row + (size_t)o->t.cols * size;
    }
    assert_pattern(o, 0, GUARD);
    assert_pattern(o, end, o->bytes);
}

static inline void release(operand *o)
{
    assert_guards(o);
    free(o->mem);
    free(o->gold.data);
}

// Largest difference from the twin, as a share of the twin's largest element.
static inline double error_of(const operand *o)
{
    double worst = 0, top = 1e-300;
    for (int64_t i = 0; i < o->t.rows; i++)
        for (int64_t j = 0; j < o->t.cols; j++) {
            double gold = get(o->gold, i, j), diff = fabs(get(o->t, i, j) - gold);
            if (!isfinite(gold) && (get(o->t, i, j) == gold))
                continue;
            worst = diff <= worst ? worst : diff; // a NaN stays
            top = fabs(gold) > top ? fabs(gold) : top;
        }
    return worst == 0 ? 0 : worst / top;
}
