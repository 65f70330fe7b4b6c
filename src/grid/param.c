#include "grid/param.h"

#include "base/rng.h"
#include "dev/kern.h"

#include <stdlib.h>
#include <string.h>

typedef struct slice {
    int64_t first, count;
    bool owner;
} slice;

static slice even(int64_t size, int parts, int i)
{
    return (slice){size / parts * i, size / parts, true};
}

static slice cut(const ax_grid *g, ax_span span, int64_t size)
{
    const ax_grid_shape *s = &g->shape;
    slice out;
    switch (span) {
    case AX_OVER_X:
        out = even(size, s->x, g->cx);
        out.owner = g->cy == 0;
        return out;
    case AX_OVER_Y:
        out = even(size, s->y, g->cy);
        out.owner = g->cx == 0;
        return out;
    case AX_OVER_XY:
        return even(size, s->x * s->y, g->cy * s->x + g->cx);
    case AX_OVER_KV:
        out = even(size, s->x / g->kv_copies, g->cx / g->kv_copies);
        out.owner = g->cx % g->kv_copies == 0;
        return out;
    case AX_WHOLE:
        break;
    }
    return (slice){0, size, true};
}

static bool cuts(ax_span span, bool x)
{
    if (span == AX_OVER_X || span == AX_OVER_KV)
        return x;
    return span == AX_OVER_XY || (span == AX_OVER_Y && !x);
}

// A replica is the owner when it stands first on every axis that does not cut it. A matrix is cut
// over z and data too.
static bool owns(const ax_param *p, const ax_grid *g, slice rows, slice cols)
{
    bool first = p->matrix || (g->cz == 0 && g->cd == 0);
    first = first && (cuts(p->row_span, true) || cuts(p->col_span, true) || g->cx == 0);
    first = first && (cuts(p->row_span, false) || cuts(p->col_span, false) || g->cy == 0);
    first = first && (p->row_span != AX_OVER_KV || rows.owner);
    return first && (p->col_span != AX_OVER_KV || cols.owner);
}

ax_status ax_param_place(ax_param *p, const ax_grid *g)
{
    const ax_grid_shape *s = &g->shape;
    slice rows = cut(g, p->row_span, p->padded_rows ? p->padded_rows : p->rows);
    slice cols = cut(g, p->col_span, p->cols);
    p->first_row = rows.first;
    p->first_col = cols.first;
    p->block_rows = rows.count;
    p->block_cols = cols.count;
    AX_CHECK(rows.count == 0 || cols.count <= INT64_MAX / 64 / rows.count, AX_EUSAGE,
             "parameter %s: %lld x %lld elements are too many", p->name, (long long)p->rows,
             (long long)p->cols);
    p->block = rows.count * cols.count;
    p->owner = owns(p, g, rows, cols);
    if (!p->matrix) {
        p->piece = p->part = p->block;
        p->first = 0;
        return AX_OK;
    }
    int64_t unit = 64ll * s->z * s->data;
    int64_t padded = (p->block + unit - 1) / unit * unit;
    p->piece = padded / s->z;
    p->part = p->piece / s->data;
    p->first = g->cz * p->piece + g->cd * p->part;
    return AX_OK;
}

bool ax_param_next_run(const ax_param *p, ax_run *r)
{
    int64_t at = r->next, flat = p->first + at;
    if (at >= p->part || flat >= p->block)
        return false;
    int64_t row = flat / p->block_cols, col = flat % p->block_cols;
    if (p->first_row + row >= p->rows)
        return false; // padding rows come last
    int64_t count = p->block_cols - col;
    if (count > p->part - at)
        count = p->part - at;
    *r = (ax_run){.row = p->first_row + row,
                  .col = p->first_col + col,
                  .count = count,
                  .at = at,
                  .next = at + count};
    return true;
}

static ax_tensor part_of(ax_tensor piece, const ax_param *p, const ax_grid *g)
{
    return p->matrix ? ax_tensor_cols(piece, g->cd * p->part, p->part) : piece;
}

// Whether list[i+1] can lie right behind list[i]: then no padding may come between them.
static bool joins(const ax_params *ps, const ax_grid *g, int i)
{
    return i + 1 < ps->count && ps->list[i + 1].joined && g->shape.z == 1 &&
           ps->list[i].piece == ps->list[i].block;
}

static ax_tensor take(ax_tensor *from, int64_t count)
{
    ax_tensor front = ax_tensor_cols(*from, 0, count);
    *from = ax_tensor_cols(*from, count, from->cols - count);
    return front;
}

// Weights and gradients of parameters that join are one allocation each. Binds list[i] and all
// that join behind it; returns how many through `bound`.
static ax_status bind_group(ax_params *ps, const ax_grid *g, ax_arena *a, int what, int i,
                            int *bound)
{
    int n = 1;
    int64_t total = ps->list[i].piece;
    for (; joins(ps, g, i + n - 1); n++)
        total += ps->list[i + n].piece;
    bool matrix = ps->list[i].matrix, grads = matrix && what & AX_BIND_GRAD;
    ax_tensor weights, sums = {0};
    AX_TRY(ax_tensor_alloc(a, matrix ? ps->act : ps->acc, 1, total, &weights));
    if (grads)
        AX_TRY(ax_tensor_alloc(a, ps->acc, 1, total, &sums));
    for (int k = i; k < i + n; k++) {
        ax_param *p = &ps->list[k];
        p->weight = take(&weights, p->piece);
        if (grads)
            p->grad = take(&sums, p->piece);
    }
    *bound = n;
    return AX_OK;
}

static ax_status bind_state(ax_params *ps, ax_param *p, const ax_grid *g, ax_arena *a, int what)
{
    p->master = (ax_tensor){.dtype = ps->acc};
    if (p->weight.dtype == ps->acc)
        p->master = part_of(p->weight, p, g);
    else if (what & AX_BIND_STATE)
        AX_TRY(ax_tensor_alloc(a, ps->acc, 1, p->part, &p->master));
    if (what & AX_BIND_STATE) {
        AX_TRY(ax_tensor_alloc(a, ps->acc, 1, p->part, &p->m));
        AX_TRY(ax_tensor_alloc(a, ps->acc, 1, p->part, &p->v));
    }
    if (!p->matrix || !(what & AX_BIND_GRAD))
        return AX_OK;
    p->part_grad = p->grad;
    return g->shape.data > 1 ? ax_tensor_alloc(a, ps->acc, 1, p->part, &p->part_grad) : AX_OK;
}

static bool on_copies(const ax_param *p, const ax_grid *g)
{
    return p->col_span == AX_OVER_KV && g->kv_copies > 1;
}

// The gradients of all vectors that are summed over the same ranks lie side by side, so that one
// call sums them.
static ax_status bind_vector_grads(ax_params *ps, const ax_grid *g, ax_arena *a)
{
    for (int sum = 0; sum < AX_SUMS; sum++) {
        for (int copies = 0; copies < 2; copies++) {
            int64_t total = 0;
            for (int i = 0; i < ps->count; i++) {
                const ax_param *p = &ps->list[i];
                if (!p->matrix && (int)p->sum == sum && on_copies(p, g) == copies)
                    total += p->block;
            }
            ax_tensor all;
            AX_TRY(ax_tensor_alloc(a, ps->acc, 1, total, &all));
            ps->vector_grad[sum][copies] = all;
            int64_t at = 0;
            for (int i = 0; i < ps->count; i++) {
                ax_param *p = &ps->list[i];
                if (p->matrix || (int)p->sum != sum || on_copies(p, g) != copies)
                    continue;
                p->grad = p->part_grad = ax_tensor_cols(all, at, p->block);
                at += p->block;
            }
        }
    }
    return AX_OK;
}

ax_status ax_params_bind(ax_params *ps, const ax_grid *g, ax_arena *arena, int what)
{
    for (int i = 0, bound; i < ps->count; i += bound)
        AX_TRY(bind_group(ps, g, arena, what, i, &bound));
    for (int i = 0; i < ps->count; i++)
        AX_TRY(bind_state(ps, &ps->list[i], g, arena, what));
    return what & AX_BIND_GRAD ? bind_vector_grads(ps, g, arena) : AX_OK;
}

enum { HOST_RUN = 4096 };

// Initial values are made on the host run by run and copied, so no rank builds a full matrix.
static ax_status init_part(ax_param *p, ax_dtype acc, ax_device *dev, uint64_t seed,
                           ax_tensor target)
{
    uint64_t stream = ax_rng_stream(p->name);
    AX_TRY(ax_fill(dev, target, 0.0));
    ax_run r = {0};
    while (ax_param_next_run(p, &r)) {
        for (int64_t i = 0; i < r.count; i += HOST_RUN) {
            double values[HOST_RUN];
            float narrow[HOST_RUN];
            int64_t n = r.count - i < HOST_RUN ? r.count - i : HOST_RUN;
            for (int64_t k = 0; k < n; k++) {
                uint64_t index = (uint64_t)(r.row * p->cols + r.col + i + k);
                values[k] = p->init_std > 0 ? p->init_std * ax_rng_normal(seed, stream, index)
                                            : p->init_value;
                narrow[k] = (float)values[k];
            }
            ax_tensor to = ax_tensor_cols(target, r.at + i, n);
            bool wide = acc == AX_F64;
            AX_TRY(ax_device_copy(dev, to.data, wide ? (void *)values : (void *)narrow,
                                  (size_t)n * ax_dtype_size(acc)));
        }
    }
    return AX_OK;
}

ax_status ax_params_init(ax_params *ps, const ax_grid *g, ax_device *dev, int64_t seed)
{
    for (int i = 0; i < ps->count; i++) {
        ax_param *p = &ps->list[i];
        AX_CHECK(p->master.data, AX_EINTERNAL, "parameter %s has no master to initialise", p->name);
        AX_TRY(init_part(p, ps->acc, dev, (uint64_t)seed, p->master));
        if (p->m.data) {
            AX_TRY(ax_fill(dev, p->m, 0.0));
            AX_TRY(ax_fill(dev, p->v, 0.0));
        }
    }
    return ax_params_spread(ps, g, dev);
}

ax_status ax_params_spread(ax_params *ps, const ax_grid *g, ax_device *dev)
{
    for (int i = 0; i < ps->count; i++) {
        ax_param *p = &ps->list[i];
        if (!p->matrix)
            continue;
        ax_tensor mine = part_of(p->weight, p, g);
        if (p->master.data && p->master.data != mine.data)
            AX_TRY(ax_copy(dev, p->master, mine));
        AX_TRY(ax_comm_allgather(g->data, &(ax_xfer){.send = mine.data,
                                                     .recv = p->weight.data,
                                                     .count = p->part,
                                                     .dtype = p->weight.dtype,
                                                     .tag = "spread"}));
    }
    return AX_OK;
}

int ax_params_find(const ax_params *ps, const char *name)
{
    for (int i = 0; i < ps->count; i++)
        if (strcmp(ps->list[i].name, name) == 0)
            return i;
    return -1;
}

void ax_params_fini(ax_params *ps)
{
    free(ps->list);
    *ps = (ax_params){0};
}
