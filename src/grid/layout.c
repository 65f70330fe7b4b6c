#include "grid/layout.h"

#include "dev/kern.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { REASON = 256 };

static bool cut(char *why, const char *what, int64_t size, const char *axis, int by)
{
    if (size % by == 0)
        return true;
    snprintf(why, REASON, "%s %lld cannot be cut %d ways over %s", what, (long long)size, by, axis);
    return false;
}

static bool cut_model(const ax_arch *a, const ax_grid_shape *s, char *why)
{
    if (a->head_dim > AX_HEAD_DIM_MAX) {
        snprintf(why, REASON, "model.head_dim %lld is above %d, the widest head the kernels take",
                 (long long)a->head_dim, AX_HEAD_DIM_MAX);
        return false;
    }
    if (!cut(why, "model.heads", a->heads, "x", s->x) ||
        !cut(why, "model.ffn", a->ffn, "x", s->x) ||
        !cut(why, "model.hidden", a->hidden, "y", s->y))
        return false;
    if (a->kv_heads % s->x == 0 || s->x % a->kv_heads == 0)
        return true;
    snprintf(why, REASON,
             "model.kv_heads %lld neither divides nor is divided by x=%d, so they can be neither "
             "cut nor copied",
             (long long)a->kv_heads, s->x);
    return false;
}

static bool cut_batch(const ax_grid_shape *s, int64_t batch, int64_t micro, ax_layout *l, char *why)
{
    int64_t columns = (int64_t)s->z * s->data;
    if (batch % columns) {
        snprintf(why, REASON,
                 "train.batch %lld cannot be cut over z*data=%lld (each needs whole sequences)",
                 (long long)batch, (long long)columns);
        return false;
    }
    int64_t here = batch / columns;
    l->micro_batch = micro ? micro : here;
    if (here % l->micro_batch) {
        snprintf(why, REASON,
                 "train.micro_batch %lld does not divide the %lld sequences that train.batch %lld "
                 "leaves each of z*data=%lld",
                 (long long)micro, (long long)here, (long long)batch, (long long)columns);
        return false;
    }
    l->batch = batch;
    l->accumulation = here / l->micro_batch;
    return true;
}

static bool choose_sides(const ax_arch *a, const ax_grid_shape *s, ax_activations wish,
                         ax_layout *l, char *why)
{
    bool rows = l->rows % s->x == 0 && l->rows % s->y == 0;
    if (wish == AX_ACT_SHARDED && !rows) {
        snprintf(why, REASON,
                 "train.activations=sharded: the %lld token rows of a micro-batch cannot be cut "
                 "over x=%d and y=%d",
                 (long long)l->rows, s->x, s->y);
        return false;
    }
    bool sharded = rows && wish != AX_ACT_REPLICATED;
    l->activations = sharded ? AX_ACT_SHARDED : AX_ACT_REPLICATED;
    l->outer = sharded ? AX_SIDE_ROWS : AX_SIDE_COPY;
    l->mlp = sharded ? AX_SIDE_ROWS : AX_SIDE_COPY;
    l->attention = AX_SIDE_COPY;
    if (sharded && l->micro_batch % s->y == 0)
        l->attention = AX_SIDE_ROWS; // whole sequences
    else if (sharded && a->heads % (s->x * s->y) == 0 && a->kv_heads % (s->x * s->y) == 0)
        l->attention = AX_SIDE_HEADS; // whole heads
    l->rows_outer = sharded ? l->rows / s->x : l->rows;
    l->rows_mlp = sharded ? l->rows / s->y : l->rows;
    l->rows_attention = l->attention == AX_SIDE_ROWS ? l->rows / s->y : l->rows;
    l->sequences_attention = l->rows_attention / l->seq;
    return true;
}

static bool fits(const ax_arch *a, const ax_grid_shape *s, int64_t batch, int64_t micro,
                 ax_activations wish, ax_layout *out, char *why)
{
    ax_layout l = {.seq = a->seq};
    if (!cut_model(a, s, why) || !cut_batch(s, batch, micro, &l, why))
        return false;
    if (l.micro_batch > INT32_MAX / a->seq) {
        snprintf(why, REASON, "a micro-batch of %lld sequences of %lld tokens is too large",
                 (long long)l.micro_batch, (long long)a->seq);
        return false;
    }
    l.rows = l.micro_batch * a->seq;
    if (!choose_sides(a, s, wish, &l, why))
        return false;
    l.kv_copies = a->kv_heads < s->x ? s->x / (int)a->kv_heads : 1;
    int64_t unit = 64ll * s->x * s->y;
    l.vocab_padded = (a->vocab + unit - 1) / unit * unit;
    *out = l;
    return true;
}

static ax_side keep_side(ax_side side, int64_t rows, int ranks)
{
    return side == AX_SIDE_ROWS && rows % ranks == 0 ? AX_SIDE_ROWS : AX_SIDE_COPY;
}

ax_layout ax_layout_resize(const ax_layout *l, const ax_grid_shape *shape, int64_t seq)
{
    ax_layout r = *l;
    r.seq = seq;
    r.rows = l->micro_batch * seq;
    r.outer = keep_side(l->outer, r.rows, shape->x);
    r.mlp = keep_side(l->mlp, r.rows, shape->y);
    r.rows_outer = r.outer == AX_SIDE_ROWS ? r.rows / shape->x : r.rows;
    r.rows_mlp = r.mlp == AX_SIDE_ROWS ? r.rows / shape->y : r.rows;
    r.rows_attention = l->sequences_attention * seq; // whole sequences: they divide as before
    return r;
}

// Walks all grids of `ranks` ranks in the documented order; zeros start it.
typedef struct walk {
    int plane, y, z;
} walk;

static bool next_grid(int ranks, walk *w, ax_grid_shape *out)
{
    if (w->plane == 0)
        *w = (walk){1, 1, 0};
    for (; w->plane <= ranks; w->plane++, w->y = 1, w->z = 0) {
        if (ranks % w->plane)
            continue;
        int rest = ranks / w->plane;
        for (; w->y <= w->plane; w->y++, w->z = 0) {
            if (w->plane % w->y)
                continue;
            while (++w->z <= rest) {
                if (rest % w->z)
                    continue;
                *out = (ax_grid_shape){w->plane / w->y, w->y, w->z, rest / w->z, "xyzd"};
                return true;
            }
        }
    }
    return false;
}

bool ax_layout_grid(int ranks, int i, ax_grid_shape *out)
{
    walk w = {0};
    bool there = true;
    for (int k = 0; k <= i && there; k++)
        there = next_grid(ranks, &w, out);
    return there;
}

static double distance(const ax_grid_shape *a, const ax_grid_shape *b)
{
    return fabs(log2((double)a->x / b->x)) + fabs(log2((double)a->y / b->y)) +
           fabs(log2((double)a->z / b->z)) + fabs(log2((double)a->data / b->data));
}

// Up to three grids nearest to `s` that fit, as text; empty when none does.
static void nearest(const ax_arch *a, const ax_grid_shape *s, int64_t batch, int64_t micro,
                    ax_activations wish, char *text, size_t size)
{
    enum { MOST = 3 };
    ax_grid_shape best[MOST], g;
    double far[MOST];
    int n = 0;
    ax_layout l;
    char why[REASON];
    walk w = {0};
    while (next_grid(ax_grid_ranks(s), &w, &g)) {
        if (!fits(a, &g, batch, micro, wish, &l, why))
            continue;
        double d = distance(&g, s);
        int at = n < MOST ? n : MOST;
        for (; at > 0 && d < far[at - 1]; at--) {
            if (at < MOST) {
                best[at] = best[at - 1];
                far[at] = far[at - 1];
            }
        }
        if (at < MOST) {
            best[at] = g;
            far[at] = d;
            n = n < MOST ? n + 1 : MOST;
        }
    }
    text[0] = 0;
    for (int i = 0; i < n; i++) {
        char one[64];
        ax_grid_print(&best[i], one, sizeof one);
        size_t used = strlen(text);
        snprintf(text + used, size - used, "%s%s", i ? "; " : "", one);
    }
}

ax_status ax_layout_choose(const ax_arch *arch, const ax_grid_shape *shape, int64_t batch,
                           int64_t micro_batch, ax_activations activations, ax_layout *out)
{
    char why[REASON], grid[64], others[256];
    if (fits(arch, shape, batch, micro_batch, activations, out, why))
        return AX_OK;
    ax_grid_print(shape, grid, sizeof grid);
    nearest(arch, shape, batch, micro_batch, activations, others, sizeof others);
    if (others[0])
        AX_FAIL(AX_EUSAGE, "grid %s: %s. Nearest grids of %d ranks that fit: %s", grid, why,
                ax_grid_ranks(shape), others);
    AX_FAIL(AX_EUSAGE, "grid %s: %s. No grid of %d ranks fits this model and batch", grid, why,
            ax_grid_ranks(shape));
}

ax_status ax_layout_first_grid(const ax_arch *arch, int ranks, int64_t batch, int64_t micro_batch,
                               ax_activations activations, ax_grid_shape *out)
{
    ax_layout l;
    ax_grid_shape g;
    char why[REASON] = "";
    walk w = {0};
    while (next_grid(ranks, &w, &g)) {
        if (fits(arch, &g, batch, micro_batch, activations, &l, why)) {
            *out = g;
            return AX_OK;
        }
    }
    AX_FAIL(AX_EUSAGE,
            "no grid of %d ranks fits heads %lld, kv_heads %lld, hidden %lld, ffn %lld, batch "
            "%lld: change the ranks, or a size that they divide (last refusal: %s)",
            ranks, (long long)arch->heads, (long long)arch->kv_heads, (long long)arch->hidden,
            (long long)arch->ffn, (long long)batch, why);
}
