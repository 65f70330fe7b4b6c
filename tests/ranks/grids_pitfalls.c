// Faults that other trainers had, as named cases. Each compares a grid with one rank, in double.
#include "test_grids.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A case's trial, and the same on one rank.
typedef struct pair {
    trial trial;
    outcome grid, one;
    bool ran;
} pair;

static pair run_pair(const char *grid, int tied, void (*change)(trial *))
{
    grid_case c = {.kind = AX_LLAMA,
                   .tied = tied,
                   .kv = 2,
                   .overlap = AX_OVERLAP_ALL,
                   .act = AX_F64,
                   .device = "ref"};
    pair p = {0};
    p.ran = ax_grid_parse(grid, &c.grid) == AX_OK;
    p.trial = case_trial(&c, 1);
    if (change)
        change(&p.trial);
    trial one = p.trial;
    one.config.grid = (ax_grid_shape){1, 1, 1, 1, "xyzd"};
    one.config.micro_batch = 0;
    p.ran = p.ran && trial_run_local(&p.trial, &p.grid) == AX_OK &&
            trial_run_local(&one, &p.one) == AX_OK;
    return p;
}

static void end_pair(pair *p)
{
    outcome_fini(&p->grid);
    outcome_fini(&p->one);
}

static bool agrees(const pair *p)
{
    const char *tensor;
    return p->ran && outcome_grad_difference(&p->grid, &p->one, &tensor) <= 1e-13 &&
           outcome_loss_difference(&p->grid, &p->one) <= 1e-12 &&
           outcome_norm_difference(&p->grid, &p->one) <= 1e-12 &&
           outcome_weight_difference(&p->grid, &p->one) <= 1e-12;
}

static double norm_of_all(const outcome *o)
{
    double sum = 0;
    for (int64_t i = 0; i < o->count; i++)
        sum += o->grad[i] * o->grad[i];
    return sqrt(sum);
}

// ---- a mean of means ----

// One sequence has one target that counts, another has nine, the others none.
static bool one_and_nine(int64_t row, int64_t k)
{
    return row == 0 ? k == 3 : row == 1 ? k < 9 : false;
}

static void two_rows(trial *t)
{
    t->arch.seq = 12;
    t->config.batch = 2;
    t->config.micro_batch = 1;
    t->config.activations = AX_ACT_AUTO;
    t->counts = one_and_nine;
}

static void four_rows(trial *t)
{
    two_rows(t);
    t->config.batch = 4;
}

static void four_rows_at_once(trial *t)
{
    four_rows(t);
    t->config.micro_batch = 0;
}

static void uneven_targets(verdict *v)
{
    static const char *const grids[] = {"data=2", "z=2", "x=2,z=2", "y=2,data=2", "x=2,y=2,data=2"};
    void (*const change[])(trial *) = {two_rows, four_rows, four_rows_at_once};
    for (size_t i = 0; i < sizeof grids / sizeof grids[0]; i++) {
        for (size_t k = 0; k < 3; k++) {
            pair p = run_pair(grids[i], 1, change[k]);
            verdict_check(v, agrees(&p) && p.grid.kept == 10,
                          "%s: a coordinate with 1 target that counts and one with 9, split %zu: "
                          "the loss is the sum over all ten by ten",
                          grids[i], k);
            end_pair(&p);
        }
    }
}

// ---- the loss at the start ----

static void zero_head(trial *t)
{
    t->zero_head = true;
}

static void loss_at_the_start(verdict *v)
{
    const double flat = log(101.0);
    ax_grid_shape grid[GRIDS];
    double far = 0;
    grid_list(grid);
    for (int i = 0; i < GRIDS; i++) {
        char name[64];
        ax_grid_print(&grid[i], name, sizeof name);
        pair zero = run_pair(name, 0, zero_head), random = run_pair(name, 0, NULL);
        verdict_check(v, zero.ran && fabs(zero.grid.loss[0] - flat) < 1e-13 && !zero.grid.disagreed,
                      "%s: with a zero head the loss is ln V on every rank, not %.15f", name,
                      zero.grid.loss[0]);
        // Logits have a variance of H * std^2 behind a norm.
        double excess = random.grid.loss[0] - flat - (double)random.trial.arch.hidden * 2e-4;
        far = fmax(far, fabs(excess));
        verdict_check(v, random.ran && fabs(excess) < 0.02 && !random.grid.disagreed,
                      "%s: a random head starts at ln V + sigma^2/2, %.3f off", name, excess);
        end_pair(&zero);
        end_pair(&random);
    }
    printf("       random heads start within %.3f of ln V + sigma^2/2\n", far);
}

// ---- norms and clipping ----

static void replicas_count_once(verdict *v)
{
    static const char *const grids[] = {"x=2", "x=4", "x=8", "y=4", "z=4", "x=2,y=2,z=2", "data=8"};
    for (size_t i = 0; i < sizeof grids / sizeof grids[0]; i++) {
        pair p = run_pair(grids[i], 0, NULL);
        double whole = p.ran ? norm_of_all(&p.grid) : 0;
        verdict_check(v, agrees(&p) && fabs(p.grid.norm[0] - whole) <= 1e-14 * whole,
                      "%s: the gradient norm counts replicas once", grids[i]);
        end_pair(&p);
    }
}

// Adam forgets the scale of a gradient unless eps is of its size.
static void clip_hard(trial *t)
{
    t->steps = 5;
    t->config.optim.clip = 1e-2;
    t->config.optim.eps = 1e-3;
}

static void clip_never(trial *t)
{
    clip_hard(t);
    t->config.optim.clip = 0;
}

static void clipping_acts_alike(verdict *v)
{
    static const char *const grids[] = {"data=4", "z=4", "z=2,data=2", "x=2,y=2,z=2"};
    for (size_t i = 0; i < sizeof grids / sizeof grids[0]; i++) {
        pair hard = run_pair(grids[i], 1, clip_hard), never = run_pair(grids[i], 1, clip_never);
        verdict_check(v,
                      agrees(&hard) && agrees(&never) &&
                          outcome_weight_difference(&hard.grid, &never.grid) > 1e-4,
                      "%s: a clip that acts gives the weights of one rank", grids[i]);
        end_pair(&hard);
        end_pair(&never);
    }
}

// ---- tied tables ----

static void ten_steps(trial *t)
{
    t->steps = 10;
}

static bool has(const outcome *o, const char *name)
{
    for (int i = 0; i < o->spans; i++)
        if (strcmp(o->span[i].name, name) == 0)
            return true;
    return false;
}

static void tied_tables_stay_one(verdict *v)
{
    static const char *const grids[] = {"x=2,y=2", "z=4", "data=4", "x=2,z=2,data=2", "y=4,z=2"};
    for (size_t i = 0; i < sizeof grids / sizeof grids[0]; i++) {
        pair p = run_pair(grids[i], 1, ten_steps);
        verdict_check(v, agrees(&p) && has(&p.grid, "embed.weight") && !has(&p.grid, "head.weight"),
                      "%s: a tied table is one parameter and one state, equal after ten steps",
                      grids[i]);
        end_pair(&p);
    }
}

// ---- scale of gradients ----

static void micro_batches_of_four(trial *t)
{
    t->config.micro_batch = 4;
}

static void one_batch_many_splits(verdict *v)
{
    static const char *const grids[] = {"data=4",     "z=4",     "z=2,data=2", "x=2,data=2",
                                        "y=2,data=2", "x=2,z=2", "x=4",        "y=4"};
    for (size_t i = 0; i < sizeof grids / sizeof grids[0]; i++) {
        pair whole = run_pair(grids[i], 0, NULL);
        pair parts = run_pair(grids[i], 0, micro_batches_of_four);
        verdict_check(v, agrees(&whole),
                      "%s: gradients have the scale of the batch, not of the ranks", grids[i]);
        verdict_check(v, agrees(&parts) && parts.grid.layout.accumulation > 1,
                      "%s: %d micro-batches give the gradients of one", grids[i],
                      (int)parts.grid.layout.accumulation);
        end_pair(&whole);
        end_pair(&parts);
    }
}

// ---- initial weights ----

static bool halves_differ(const outcome *o, const char *name)
{
    for (int i = 0; i < o->spans; i++) {
        const span *s = &o->span[i];
        size_t half = (size_t)s->count / 2;
        if (strcmp(s->name, name) == 0)
            return memcmp(o->init + s->first, o->init + s->first + half, half * sizeof(double));
    }
    return false;
}

static void same_weights_everywhere(verdict *v)
{
    static const char *const grids[] = {"x=2",     "y=2", "z=2",       "data=2",
                                        "x=2,y=2", "x=8", "z=2,data=4"};
    for (size_t i = 0; i < sizeof grids / sizeof grids[0]; i++) {
        pair p = run_pair(grids[i], 0, NULL);
        verdict_check(
            v,
            p.ran && !p.grid.uncovered &&
                memcmp(p.grid.init, p.one.init, (size_t)p.one.count * sizeof(double)) == 0 &&
                halves_differ(&p.grid, "blk.0.attn.q.weight") &&
                halves_differ(&p.grid, "embed.weight"),
            "%s: the initial weights are those of one rank, and no two slices are alike", grids[i]);
        end_pair(&p);
    }
}

void part_pitfalls(verdict *v, bool all)
{
    (void)all;
    double t0 = verdict_now();
    uneven_targets(v);
    loss_at_the_start(v);
    replicas_count_once(v);
    clipping_acts_alike(v);
    tied_tables_stay_one(v);
    one_batch_many_splits(v);
    same_weights_everywhere(v);
    verdict_part(v, t0,
                 "named cases: uneven targets, loss at the start, replicas in norms, "
                 "clipping, tied tables, scale of gradients, initial weights");
}
