// The memory of a rank, by formula and as measured, and what recompute changes: memory, and no bit.
#include "memory.h"
#include "test_grids.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- by formula ----

static const struct {
    const char *preset, *grid;
    int64_t batch, micro_batch;
} bigs[] = {
    {"gpt2-124m", "x=1,y=1,z=1,data=1", 8, 2},
    {"gpt2-124m", "data=8", 32, 2},
    {"gpt2-124m", "z=8", 32, 0},
    {"gpt2-124m", "x=3,y=4,z=2,data=3", 48, 0},
    {"gpt2-124m", "x=2,y=2,z=2,data=2", 32, 2},
    {"gpt-20b", "x=4,y=4,z=4,data=4", 256, 4},
    {"llama2-7b", "z=8,data=8", 256, 1},
    {"llama2-70b", "x=8,y=8,z=2,data=4", 64, 4},
    {"llama3.1-8b", "x=16,y=2,z=4,data=2", 64, 2},
    {"llama3.2-1b", "x=8,data=8", 64, 0},
};

static bool within(size_t measured, int64_t formula, int64_t tensors)
{
    int64_t gaps = (int64_t)measured - formula;
    return gaps >= 0 && gaps <= AX_MEMORY_GAP * tensors;
}

// Every rank of a grid holds the same.
static void one_formula(verdict *v, size_t model, int variant)
{
    static const ax_dtype acts[] = {AX_BF16, AX_F32, AX_F64};
    ax_arch a = {0};
    ax_layout l;
    ax_trainer_size size;
    memory_table t = {0};
    ax_trainer_config c = {.arch = &a,
                           .batch = bigs[model].batch,
                           .micro_batch = bigs[model].micro_batch,
                           .activations = variant % 2 ? AX_ACT_REPLICATED : AX_ACT_AUTO,
                           .device = "ref",
                           .act = acts[variant % 3],
                           .overlap = AX_OVERLAP_ALL,
                           .recompute = (ax_recompute)(variant / 3 % 3),
                           .narrow_grads = variant / 9};
    bool ok = ax_arch_preset(bigs[model].preset, &a) == AX_OK && ax_arch_check(&a) == AX_OK &&
              ax_grid_parse(bigs[model].grid, &c.grid) == AX_OK &&
              ax_layout_choose(&a, &c.grid, c.batch, c.micro_batch, c.activations, &l) == AX_OK;
    int last = ok ? ax_grid_ranks(&c.grid) - 1 : 0;
    bool run = ok, step = ok;
    if (ok)
        memory_expect(&a, &c, &l, &t);
    for (int rank = 0; ok && rank <= last; rank += last ? last : 1) {
        ok = ax_trainer_measure(&c, rank, &size) == AX_OK;
        run = run && ok && within(size.arena[0], memory_run(&t), t.run_tensors);
        step = step && ok && within(size.arena[1], t.step, t.step_tensors);
    }
    verdict_check(v, ok && run, "%s on %s, variant %d: run arena of %zu bytes, by formula %lld",
                  bigs[model].preset, bigs[model].grid, variant, size.arena[0],
                  (long long)memory_run(&t));
    verdict_check(v, ok && step, "%s on %s, variant %d: step arena of %zu bytes, by formula %lld",
                  bigs[model].preset, bigs[model].grid, variant, size.arena[1], (long long)t.step);
}

void part_memory(verdict *v, bool all)
{
    (void)all;
    double t0 = verdict_now();
    for (size_t i = 0; i < sizeof bigs / sizeof bigs[0]; i++)
        for (int variant = 0; variant < 18; variant++)
            one_formula(v, i, variant);
    verdict_part(v, t0,
                 "weights, gradients, masters, moments, buffers and kept activations of published "
                 "models on grids of 1 to 512 ranks, by formula and by measuring pass: the same");
}

// ---- to the bit ----

static bool same_bits(const outcome *a, const outcome *b)
{
    size_t model = (size_t)a->count * sizeof(double);
    return memcmp(a->loss, b->loss, sizeof a->loss) == 0 &&
           memcmp(a->norm, b->norm, sizeof a->norm) == 0 &&
           memcmp(a->final, b->final, model) == 0 && memcmp(a->grad, b->grad, model) == 0;
}

// Gradients, losses and weights after three steps, of what is kept and what is made again.
static void one_recompute(verdict *v, const grid_case *c)
{
    outcome o[3] = {0};
    char name[200];
    bool ran = true;
    for (int mode = AX_RECOMPUTE_NONE; mode <= AX_RECOMPUTE_FULL; mode++) {
        trial t = case_trial(c, 3);
        t.config.recompute = (ax_recompute)mode;
        ran =
            trial_run_local(&t, &o[mode]) == AX_OK && !o[mode].bytes && !o[mode].unmeasured && ran;
    }
    case_print(c, name, sizeof name);
    verdict_check(v, ran && same_bits(&o[0], &o[1]), "%s: selective recompute changes no bit",
                  name);
    verdict_check(v, ran && same_bits(&o[0], &o[2]), "%s: full recompute changes no bit", name);
    for (int mode = 0; mode < 3; mode++)
        outcome_fini(&o[mode]);
}

void part_recompute(verdict *v, bool all)
{
    (void)all;
    static const ax_dtype acts[] = {AX_F64, AX_F32, AX_BF16};
    double t0 = verdict_now();
    ax_grid_shape grid[GRIDS];
    grid_list(grid);
    bool cpu = !ax_device_missing("cpu");
    for (int i = 0; i < GRIDS; i++) {
        ax_dtype act = acts[i % 3];
        grid_case c = {.grid = grid[i],
                       .kind = i / 3 % 2,
                       .tied = i / 2 % 2,
                       .kv = i % 4,
                       .split = (i / 3 + 1) % SPLITS,
                       .replicated = i / 7 % 2,
                       .keep = i / 5 % 2,
                       .wide = i / 4 % 2,
                       .overlap = AX_OVERLAP_ALL,
                       .act = act,
                       .device = cpu && act != AX_F64 ? "cpu" : "ref"};
        one_recompute(v, &c);
    }
    verdict_part(v, t0, "%d grids: recompute none, selective and full are bit-equal", GRIDS);
}
