// Every grid against one rank, in double.
#include "test_grids.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool same_start(const outcome *a, const outcome *b)
{
    return a->count == b->count &&
           memcmp(a->init, b->init, (size_t)a->count * sizeof *a->init) == 0;
}

// Everything but the size of differences.
static void check_exact(verdict *v, const outcome *o, const outcome *serial, const char *name)
{
    bool same_ids = memcmp(o->sample, serial->sample, sizeof o->sample) == 0;
    verdict_check(v,
                  same_start(o, serial) && same_ids && o->kept == serial->kept && !o->replicas &&
                      !o->uncovered && !o->bytes && !o->unmeasured && !o->disagreed,
                  "%s: initial weights %s, sample ids %s, %lld elements differ between replicas, "
                  "%lld are not owned once, %lld rows of traffic and %lld measurements are wrong, "
                  "%lld ranks disagree",
                  name, same_start(o, serial) ? "same" : "DIFFER", same_ids ? "same" : "DIFFER",
                  (long long)o->replicas, (long long)o->uncovered, (long long)o->bytes,
                  (long long)o->unmeasured, (long long)o->disagreed);
}

void grids_compare(verdict *v, const grid_case *c, int steps, bands allowed, worst *w)
{
    char name[200], at[300];
    const char *tensor = "";
    outcome o;
    case_print(c, name, sizeof name);
    const outcome *serial = serial_of(c, steps);
    trial t = case_trial(c, steps);
    t.dry_runs = true;
    if (!serial || trial_run_local(&t, &o) != AX_OK) {
        verdict_check(v, false, "%s: did not run", name);
        return;
    }
    double grad = outcome_grad_difference(&o, serial, &tensor);
    double loss = outcome_loss_difference(&o, serial), norm = outcome_norm_difference(&o, serial);
    snprintf(at, sizeof at, "%s of %s", tensor, name);
    if (grad > w->seen.grad)
        snprintf(w->grad_at, sizeof w->grad_at, "%s", at);
    w->seen = (bands){fmax(grad, w->seen.grad), fmax(loss, w->seen.loss), fmax(norm, w->seen.norm)};
    check_exact(v, &o, serial, name);
    verdict_check(v, grad <= allowed.grad, "%s: the gradient of %s differs by %.2g (allowed %.2g)",
                  name, tensor, grad, allowed.grad);
    verdict_check(v, loss <= allowed.loss && norm <= allowed.norm,
                  "%s: losses of %d steps differ by %.2g (allowed %.2g), norms by %.2g (%.2g)",
                  name, steps, loss, allowed.loss, norm, allowed.norm);
    outcome_fini(&o);
}

static const bands in_double = {.grad = 1e-13, .loss = 1e-12, .norm = 1e-12};

// All 55 grids in both modes, 20 steps; the kinds of model take turns, or all have theirs.
void part_serial(verdict *v, bool all)
{
    double t0 = verdict_now();
    worst w = {0};
    ax_grid_shape grid[GRIDS];
    grid_list(grid);
    for (int i = 0; i < (all ? 4 : 2) * GRIDS; i++) {
        int g = i % GRIDS, turn = i / GRIDS;
        grid_case c = {.grid = grid[g],
                       .kind = (g + turn + turn / 2) % 2,
                       .tied = (g / 2 + turn) % 2,
                       .kv = (g + turn) % 4,
                       .split = (g / 2 + turn) % SPLITS,
                       .replicated = turn % 2,
                       .overlap = AX_OVERLAP_ALL,
                       .act = AX_F64,
                       .device = "ref"};
        grids_compare(v, &c, 20, in_double, &w);
    }
    verdict_part(v, t0,
                 "%d grids, both modes, 20 steps in double: gradients within %.1e (%s), "
                 "losses within %.1e, norms within %.1e",
                 GRIDS, w.seen.grad, w.grad_at, w.seen.loss, w.seen.norm);
}

static bool next_case(const grid_case *list, int count, bool all, int64_t i, grid_case *out)
{
    if (all)
        return cases_all(i, out);
    if (i >= count)
        return false;
    *out = list[i];
    return true;
}

// All factors in pairs, or in full.
void part_pairs(verdict *v, bool all)
{
    enum { ROOM = 1000 };
    double t0 = verdict_now();
    worst w = {0};
    grid_case *list = calloc(ROOM, sizeof *list), c;
    int forms[3] = {0}, count = list ? cases_pairwise(list, ROOM) : 0;
    int64_t n = 0;
    for (; list && next_case(list, count, all, n, &c); n++) {
        trial t = case_trial(&c, 1);
        ax_layout l;
        if (ax_layout_choose(&t.arch, &c.grid, t.config.batch, t.config.micro_batch,
                             t.config.activations, &l) == AX_OK &&
            !c.replicated && c.grid.y > 1)
            forms[l.attention]++;
        grids_compare(v, &c, 3, in_double, &w);
    }
    free(list);
    verdict_check(
        v, count < ROOM && forms[AX_SIDE_COPY] && forms[AX_SIDE_ROWS] && forms[AX_SIDE_HEADS],
        "all three ways to cut attention over y are reached");
    verdict_part(
        v, t0,
        "%lld combinations of all factors, 3 steps in double: gradients within "
        "%.1e (%s), losses within %.1e, norms within %.1e; attention over y as whole sequences %d "
        "times, heads %d, copies %d",
        (long long)n, w.seen.grad, w.grad_at, w.seen.loss, w.seen.norm, forms[AX_SIDE_ROWS],
        forms[AX_SIDE_HEADS], forms[AX_SIDE_COPY]);
}

// A few of the pairs, for builds that run slowly.
void part_sample(verdict *v, bool all)
{
    enum { ROOM = 1000, EACH = 16 };
    (void)all;
    double t0 = verdict_now();
    worst w = {0};
    grid_case *list = calloc(ROOM, sizeof *list);
    int count = list ? cases_pairwise(list, ROOM) : 0;
    for (int i = EACH / 2; i < count; i += EACH)
        grids_compare(v, &list[i], 2, in_double, &w);
    free(list);
    verdict_part(v, t0, "a sample of all factors, 2 steps in double: gradients within %.1e",
                 w.seen.grad);
}

static const bands in_floats[] = {
    [AX_F32] = {.grad = 1e-6, .loss = 1e-5, .norm = 1e-5},
    [AX_BF16] = {.grad = 3e-2, .loss = 1e-3, .norm = 0.2},
};

// Rows packed with documents, in every form of cutting rows: over x, over y, by heads and not.
void part_documents(verdict *v, bool all)
{
    (void)all;
    double t0 = verdict_now();
    worst w = {0}, narrow = {0};
    ax_grid_shape grid[GRIDS];
    int forms[3] = {0}, count = 0;
    grid_list(grid);
    for (int i = 0; i < GRIDS; i += 2) {
        grid_case c = {.grid = grid[i],
                       .kind = i / 2 % 2,
                       .tied = i / 4 % 2,
                       .kv = i / 2 % 4,
                       .split = (i / 2 + i / 8) % SPLITS,
                       .replicated = i / 2 % 5 == 4,
                       .recompute = (ax_recompute)(i / 6 % 3),
                       .overlap = AX_OVERLAP_ALL,
                       .act = AX_F64,
                       .device = "ref",
                       .documents = 1};
        trial t = case_trial(&c, 1);
        ax_layout l;
        if (ax_layout_choose(&t.arch, &c.grid, t.config.batch, t.config.micro_batch,
                             t.config.activations, &l) == AX_OK &&
            c.grid.y > 1)
            forms[l.attention]++;
        grids_compare(v, &c, 3, in_double, &w);
        c.device = ax_device_missing("cpu") ? "ref" : "cpu";
        c.act = i % 4 ? AX_F32 : AX_BF16;
        grids_compare(v, &c, 3, in_floats[c.act], &narrow);
        count++;
    }
    verdict_check(v, forms[AX_SIDE_COPY] && forms[AX_SIDE_ROWS] && forms[AX_SIDE_HEADS],
                  "documents meet all three ways to cut attention over y");
    verdict_part(v, t0,
                 "documents in rows on %d grids, 3 steps: in double gradients within %.1e (%s), "
                 "losses within %.1e; in fp32 and bf16 losses within %.1e; attention over y as "
                 "whole sequences %d times, heads %d, copies %d",
                 count, w.seen.grad, w.grad_at, w.seen.loss, narrow.seen.loss, forms[AX_SIDE_ROWS],
                 forms[AX_SIDE_HEADS], forms[AX_SIDE_COPY]);
}

static bool same_bits(const outcome *a, const outcome *b)
{
    size_t model = (size_t)a->count * sizeof(double);
    return memcmp(a->loss, b->loss, sizeof a->loss) == 0 &&
           memcmp(a->norm, b->norm, sizeof a->norm) == 0 &&
           memcmp(a->final, b->final, model) == 0 && memcmp(a->grad, b->grad, model) == 0;
}

// Begun early or not, and even if nothing moves before it is waited for: the same bits.
void part_overlap(verdict *v, bool all)
{
    (void)all;
    double t0 = verdict_now();
    ax_grid_shape grid[GRIDS];
    grid_list(grid);
    for (int i = 0; i < GRIDS; i++) {
        grid_case c = {.grid = grid[i],
                       .kind = i % 2,
                       .tied = i / 2 % 2,
                       .split = (i / 3 + 1) % SPLITS,
                       .recompute = (ax_recompute)(i / 5 % 3),
                       .wide = i % 4 == 1,
                       .narrow = i % 4 >= 2,
                       .act = i % 4 == 1 || i % 4 == 2 ? AX_BF16 : AX_F64,
                       .device = "ref"};
        outcome off, on, lazy;
        char name[200];
        trial t = case_trial(&c, 3);
        bool ran = trial_run_local(&t, &off) == AX_OK;
        t.config.overlap = AX_OVERLAP_ALL;
        ran = ran && trial_run_local(&t, &on) == AX_OK;
        t.config.lazy = true;
        ran = ran && trial_run_local(&t, &lazy) == AX_OK;
        case_print(&c, name, sizeof name);
        verdict_check(v, ran && same_bits(&off, &on), "%s: overlap on and off give the same bits",
                      name);
        verdict_check(v, ran && same_bits(&off, &lazy), "%s: so does the lazy mode", name);
        outcome_fini(&off);
        outcome_fini(&on);
        outcome_fini(&lazy);
    }
    verdict_part(v, t0, "%d grids: overlap on, off and lazy are bit-equal", GRIDS);
}
