// What needs no ranks: bytes of large grids by formula and by measuring pass, and refusals.
#include "bytes.h"
#include "test_grids.h"

#include "base/log.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- bytes ----

typedef struct big {
    const char *preset, *grid;
    int64_t batch, micro_batch;
} big;

static const big bigs[] = {
    {"gpt2-124m", "x=2,y=2,z=2,data=2", 32, 2},    {"gpt2-124m", "x=3,y=4,z=2,data=3", 48, 0},
    {"gpt-20b", "x=4,y=4,z=4,data=4", 256, 4},     {"gpt-80b", "x=8,y=2,z=8,data=16", 512, 1},
    {"llama2-7b", "z=8,data=8", 256, 1},           {"llama2-70b", "x=8,y=8,z=2,data=4", 64, 4},
    {"llama3.1-8b", "x=16,y=2,z=4,data=2", 64, 2}, // 8 kv heads, 2 copies each
    {"llama3.2-1b", "x=8,y=1,z=1,data=8", 64, 0},
};

static void one_big(verdict *v, const big *b, int variant)
{
    ax_arch a = {0};
    ax_trainer_size size;
    bytes_table expected;
    ax_trainer_config c = {.arch = &a,
                           .batch = b->batch,
                           .micro_batch = b->micro_batch,
                           .activations = variant & 1 ? AX_ACT_REPLICATED : AX_ACT_AUTO,
                           .device = "ref",
                           .act = variant & 8 ? AX_F32 : AX_BF16,
                           .overlap = variant & 8 ? 0 : AX_OVERLAP_ALL,
                           .recompute = variant & 2 ? AX_RECOMPUTE_FULL : AX_RECOMPUTE_NONE,
                           .wide_sums = variant & 4,
                           .narrow_grads = variant & 2,
                           .keep_gathered = variant & 4};
    ax_comm_trace *seen = calloc(1, sizeof *seen);
    bool ok = seen && ax_arch_preset(b->preset, &a) == AX_OK;
    ok = ok && ax_arch_check(&a) == AX_OK && ax_grid_parse(b->grid, &c.grid) == AX_OK;
    int last = ok ? ax_grid_ranks(&c.grid) - 1 : 0;
    for (int rank = 0; ok && rank <= last; rank += last) {
        ok = ax_trainer_measure_traffic(&c, rank, &size, seen) == AX_OK;
        bytes_expect(&a, &c, &expected);
        ok = ok && bytes_compare(&expected, seen, true) == 0;
    }
    free(seen);
    verdict_check(v, ok, "bytes of %s on %s, variant %d", b->preset, b->grid, variant);
}

void part_bytes(verdict *v, bool all)
{
    (void)all;
    double t0 = verdict_now();
    for (size_t i = 0; i < sizeof bigs / sizeof bigs[0]; i++)
        for (int variant = 0; variant < 16; variant++)
            one_big(v, &bigs[i], variant);
    verdict_part(v, t0,
                 "bytes of every axis and tag on grids of 16 to 2048 ranks, by formula and "
                 "by measuring pass: the same");
}

// ---- refusals ----

typedef struct wish {
    ax_arch arch;
    int64_t batch, micro_batch;
    ax_activations activations;
} wish;

// A reason not to run: what does not divide, and what the message must say then.
typedef struct reason {
    bool holds;
    char says[2][64];
} reason;

enum { REASONS = 7 };

static void set_reason(reason *r, bool holds, const char *key, int64_t size, const char *axis,
                       int64_t by)
{
    r->holds = holds;
    snprintf(r->says[0], sizeof r->says[0], "%s %lld ", key, (long long)size);
    snprintf(r->says[1], sizeof r->says[1], "%s%lld", axis, (long long)by);
}

static void list_reasons(const wish *w, const ax_grid_shape *g, reason out[REASONS])
{
    const ax_arch *a = &w->arch;
    int64_t columns = g->z * g->data, here = w->batch / columns;
    int64_t micro = w->micro_batch ? w->micro_batch : here;
    int64_t rows = micro * a->seq;
    bool whole = w->batch % columns == 0, cut = whole && here % micro == 0;
    set_reason(&out[0], a->heads % g->x, "model.heads", a->heads, "cut ", g->x);
    set_reason(&out[1], a->ffn % g->x, "model.ffn", a->ffn, "cut ", g->x);
    set_reason(&out[2], a->hidden % g->y, "model.hidden", a->hidden, "cut ", g->y);
    set_reason(&out[3], a->kv_heads % g->x && g->x % a->kv_heads, "model.kv_heads", a->kv_heads,
               "x=", g->x);
    set_reason(&out[4], !whole, "train.batch", w->batch, "z*data=", columns);
    set_reason(&out[5], whole && !cut, "train.micro_batch", w->micro_batch, "z*data=", columns);
    set_reason(&out[6], cut && w->activations == AX_ACT_SHARDED && (rows % g->x || rows % g->y),
               "sharded: the", rows, "x=", g->x);
}

// The message gives a reason that holds, with its numbers.
static bool names_reason(const char *text, const reason r[REASONS])
{
    bool named = false;
    for (int i = 0; i < REASONS; i++) {
        bool here = strstr(text, r[i].says[0]) && strstr(text, r[i].says[1]);
        named = named || (r[i].holds && here);
    }
    return named;
}

static bool runs(const wish *w, const ax_grid_shape *g)
{
    reason r[REASONS];
    list_reasons(w, g, r);
    for (int i = 0; i < REASONS; i++)
        if (r[i].holds)
            return false;
    return true;
}

static double steps_apart(const ax_grid_shape *a, const ax_grid_shape *b)
{
    return fabs(log2((double)a->x / b->x)) + fabs(log2((double)a->y / b->y)) +
           fabs(log2((double)a->z / b->z)) + fabs(log2((double)a->data / b->data));
}

// The grids that are offered run, and none that runs is nearer than the first of them. When none
// is offered, there is none.
static bool offers_nearest(const char *text, const wish *w, const ax_grid_shape *g)
{
    char copy[512];
    double best = INFINITY;
    ax_grid_shape s;
    for (int i = 0; ax_layout_grid(ax_grid_ranks(g), i, &s); i++)
        if (runs(w, &s))
            best = fmin(best, steps_apart(g, &s));
    const char *offer = strstr(text, "that fit: ");
    if (!offer)
        return isinf(best) && strstr(text, "No grid of");
    snprintf(copy, sizeof copy, "%s", offer + strlen("that fit: "));
    bool first = true;
    char *rest = copy;
    for (char *one = strsep(&rest, ";"); one; one = strsep(&rest, ";"), first = false) {
        one += *one == ' ';
        if (ax_grid_parse(one, &s) != AX_OK || !runs(w, &s) ||
            ax_grid_ranks(&s) != ax_grid_ranks(g) || (first && steps_apart(g, &s) > best + 1e-9))
            return false;
    }
    return true;
}

static void ask(verdict *v, const wish *w, const ax_grid_shape *g, int *refused)
{
    char name[64], text[600];
    reason r[REASONS];
    ax_trainer_size size;
    const ax_trainer_config c = {.arch = &w->arch,
                                 .grid = *g,
                                 .batch = w->batch,
                                 .micro_batch = w->micro_batch,
                                 .activations = w->activations,
                                 .device = "ref",
                                 .act = AX_F32};
    ax_grid_print(g, name, sizeof name);
    list_reasons(w, g, r);
    ax_status st = ax_trainer_measure(&c, 0, &size);
    snprintf(text, sizeof text, "%s", st == AX_OK ? "" : ax_error_text());
    if (runs(w, g)) {
        verdict_check(v, st == AX_OK, "%s runs: %s", name, text);
        return;
    }
    ++*refused;
    verdict_check(v,
                  st == AX_EUSAGE && strstr(text, name) && names_reason(text, r) &&
                      offers_nearest(text, w, g),
                  "%s is refused with the numbers and the nearest grids: %s", name, text);
}

// Every grid of 1 to 12 ranks, for models, batches and micro-batches that only some can cut.
void part_refusals(verdict *v, bool all)
{
    (void)all;
    double t0 = verdict_now();
    const ax_arch base = {.kind = AX_LLAMA,
                          .layers = 2,
                          .hidden = 32,
                          .heads = 8,
                          .kv_heads = 2,
                          .head_dim = 4,
                          .ffn = 64,
                          .vocab = 101,
                          .seq = 8,
                          .norm_eps = 1e-5,
                          .rope_theta = 1e4,
                          .init_std = 0.02};
    wish w[4] = {{base, 16, 0, AX_ACT_AUTO},
                 {base, 12, 2, AX_ACT_AUTO},
                 {base, 12, 1, AX_ACT_SHARDED},
                 {base, 30, 3, AX_ACT_REPLICATED}};
    w[2].arch.heads = 6;
    w[2].arch.kv_heads = 3;
    w[2].arch.hidden = 48;
    w[2].arch.ffn = 44;
    w[3].arch.heads = w[3].arch.kv_heads = 10;
    w[3].arch.hidden = 40;
    w[3].arch.ffn = 70;
    int refused = 0, asked = 0;
    ax_log_setup((ax_log_config){.ranks = 1, .muted = true});
    for (int k = 0; k < 4; k++) {
        for (int ranks = 1; ranks <= 12; ranks++) {
            ax_grid_shape g;
            for (int i = 0; ax_layout_grid(ranks, i, &g); i++, asked++)
                ask(v, &w[k], &g, &refused);
        }
    }
    ax_log_setup((ax_log_config){.ranks = 1, .level = AX_LOG_WARN});
    verdict_part(v, t0,
                 "every grid of 1 to 12 ranks, four models and batches: %d of %d refused, "
                 "with the numbers and the nearest grids",
                 refused, asked);
}
