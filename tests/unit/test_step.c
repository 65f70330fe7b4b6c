// A training step when gradients go wrong on one rank of several, and when a batch is cut into many
// micro-batches.
#include "base/log.h"
#include "base/rng.h"
#include "train/ranks.h"
#include "train/step.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ax_arch small(ax_arch_kind kind)
{
    ax_arch a = {.kind = kind,
                 .layers = 2,
                 .hidden = 32,
                 .heads = 4,
                 .vocab = 61,
                 .seq = 8,
                 .tied = kind == AX_GPT,
                 .norm_eps = 1e-5,
                 .rope_theta = 1e4,
                 .init_std = 0.1};
    assert_int_equal(ax_arch_check(&a), AX_OK);
    return a;
}

static void load_tokens(ax_trainer *t, int64_t step)
{
    int64_t seq = t->layout.seq;
    uint64_t vocab = (uint64_t)t->config.arch->vocab;
    for (int64_t i = 0; i < ax_trainer_rows(t) * seq; i++) {
        int64_t row = step * t->layout.batch + ax_trainer_row(t, i / seq);
        uint64_t at = (uint64_t)(row * seq + i % seq);
        t->ids[i] = (int32_t)(ax_rng_bits(3, 1, at) % vocab);
        t->targets[i] = (int32_t)(ax_rng_bits(3, 2, at) % vocab);
    }
}

// ---- one bad gradient element on one rank
// --------------------------------------------------------

enum { RANKS = 4, POISONER = 3 };

typedef struct poisoned {
    ax_arch arch;
    const char *grid;
    ax_dtype act;
    bool skip;
    const char *victim; // parameter whose gradient is spoilt
    double poison;

    struct outcome {
        ax_status bad, next; // of the poisoned step and the one after
        ax_step_result result;
        bool untouched; // weights and state after the poisoned step, bit for bit
        bool learned;   // the step after it changed them
        int64_t updates;
    } rank[RANKS];
} poisoned;

typedef struct spoiler { // stands between a rank's model and its optimizer
    ax_trainer *trainer;
    const poisoned *job;
    bool armed;
} spoiler;

// The token table is the last matrix of the backward pass: by then every norm's gradient is there.
static ax_status spoil(void *ctx, ax_param *p)
{
    spoiler *s = ctx;
    ax_params *ps = &s->trainer->model.params;
    ax_param *victim = &ps->list[ax_params_find(ps, s->job->victim)];
    bool now = victim->matrix ? p == victim : strcmp(p->name, "embed.weight") == 0;
    if (s->armed && now) {
        if (victim->grad.dtype == AX_F64)
            ((double *)victim->grad.data)[1] = s->job->poison;
        else
            ((float *)victim->grad.data)[1] = (float)s->job->poison;
    }
    return ax_optim_grad_ready(&s->trainer->optim, p);
}

// Everything that a step may change, in one piece. The reference device keeps it on the host.
static size_t snapshot(ax_trainer *t, char *to)
{
    size_t used = 0;
    for (int i = 0; i < t->model.params.count; i++) {
        const ax_param *p = &t->model.params.list[i];
        ax_tensor all[] = {p->weight, p->master, p->m, p->v};
        for (int k = 0; k < 4; k++) {
            size_t bytes = ax_tensor_bytes(all[k]);
            if (to)
                memcpy(to + used, all[k].data, bytes);
            used += bytes;
        }
    }
    return used;
}

static bool same_as(ax_trainer *t, const char *before)
{
    size_t size = snapshot(t, NULL);
    char *now = malloc(size);
    snapshot(t, now);
    bool same = memcmp(now, before, size) == 0;
    free(now);
    return same;
}

static ax_status poisoned_steps(ax_trainer *t, spoiler *s, struct outcome *out, bool poisoner)
{
    ax_step_result r;
    load_tokens(t, 1);
    AX_TRY(ax_step(t, 1e-3, &r));
    AX_TRY(ax_optim_settle(&t->optim));
    char *before = malloc(snapshot(t, NULL));
    snapshot(t, before);

    load_tokens(t, 2);
    s->armed = poisoner;
    out->bad = ax_step(t, 1e-3, &out->result);
    out->untouched = same_as(t, before);
    s->armed = false;
    out->next = ax_step(t, 1e-3, &r);
    out->updates = t->optim.updates;
    AX_TRY(ax_optim_settle(&t->optim));
    out->learned = !same_as(t, before);
    free(before);
    return AX_OK;
}

static ax_status poisoned_rank(void *ctx, ax_comm *world)
{
    poisoned *j = ctx;
    ax_trainer t;
    ax_trainer_config c = {.arch = &j->arch,
                           .batch = 4,
                           .micro_batch = 1,
                           .device = "ref",
                           .act = j->act,
                           .threads = 1,
                           .overlap = AX_OVERLAP_ALL,
                           .skip_nonfinite = j->skip,
                           .optim = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .clip = 1}};
    AX_TRY(ax_grid_parse(j->grid, &c.grid));
    AX_TRY(ax_trainer_open(&c, world, &t));
    spoiler s = {.trainer = &t, .job = j};
    t.model.nn.grad_ready = spoil;
    t.model.nn.grad_ctx = &s;
    ax_status st = ax_params_init(&t.model.params, &t.grid, &t.dev, 1);
    if (st == AX_OK)
        st = poisoned_steps(&t, &s, &j->rank[world->rank], world->rank == POISONER);
    ax_trainer_close(&t);
    return st;
}

static void assert_poison_is_caught(poisoned j)
{
    assert_int_equal(ax_ranks_run(RANKS, poisoned_rank, &j), AX_OK);
    for (int i = 0; i < RANKS; i++) {
        const struct outcome *o = &j.rank[i];
        assert_int_equal(o->bad, j.skip ? AX_OK : AX_ENUMERIC);
        assert_true(o->result.skipped == j.skip);
        assert_true(o->result.nonfinite > 0);
        assert_true(o->result.nonfinite == j.rank[0].result.nonfinite);
        assert_true(isfinite(o->result.loss));
        assert_true(o->untouched);
        assert_int_equal(o->next, AX_OK);
        assert_true(o->updates == 2); // the poisoned step did not count
        assert_true(o->learned);
    }
}

static void for_every_poison(bool skip)
{
    static const char *const grids[] = {"x=2,y=2", "x=2,z=2", "z=2,data=2", "x=2,data=2"};
    static const char *const victims[] = {"blk.1.mlp.up.weight", "blk.0.mlp_norm.weight",
                                          "embed.weight", "blk.0.attn.k.weight"};
    static const double poisons[] = {NAN, INFINITY, -INFINITY, NAN};
    for (int i = 0; i < 16; i++)
        assert_poison_is_caught((poisoned){.arch = small(i % 2 ? AX_LLAMA : AX_GPT),
                                           .grid = grids[i / 4],
                                           .victim = victims[i % 4],
                                           .poison = poisons[(i + i / 4) % 4],
                                           .act = i % 3 ? AX_F32 : AX_BF16,
                                           .skip = skip});
}

static void stop_leaves_weights_and_state_as_they_were(void **state)
{
    (void)state;
    for_every_poison(false);
}

static void skip_leaves_the_step_out(void **state)
{
    (void)state;
    for_every_poison(true);
}

// ---- accumulation
// --------------------------------------------------------------------------------

enum { BATCH = 64 };

typedef struct accumulation {
    ax_arch arch;
    ax_dtype act;
    int64_t micro_batch;
    double *gradient; // of all parameters, one behind the other
    int64_t count;
    double loss;
} accumulation;

static ax_status accumulate_rank(void *ctx, ax_comm *world)
{
    accumulation *a = ctx;
    ax_trainer t;
    ax_step_result r = {0};
    ax_trainer_config c = {.arch = &a->arch,
                           .grid = {1, 1, 1, 1, "xyzd"},
                           .batch = BATCH,
                           .micro_batch = a->micro_batch,
                           .device = "ref",
                           .act = a->act,
                           .threads = 1,
                           .overlap = AX_OVERLAP_ALL};
    AX_TRY(ax_trainer_open(&c, world, &t));
    AX_TRY(ax_params_init(&t.model.params, &t.grid, &t.dev, 1));
    load_tokens(&t, 0);
    AX_TRY(ax_step_gradients(&t, &r));
    a->loss = r.loss;
    a->count = 0;
    a->gradient = malloc((size_t)ax_arch_parameters(&a->arch) * sizeof *a->gradient);
    for (int i = 0; i < t.model.params.count; i++) {
        const ax_param *p = &t.model.params.list[i];
        for (int64_t k = 0; k < p->rows * p->cols; k++)
            a->gradient[a->count++] =
                a->act == AX_F64 ? ((double *)p->grad.data)[k] : ((float *)p->grad.data)[k];
    }
    ax_trainer_close(&t);
    return AX_OK;
}

// Largest difference over the largest element.
static double gradient_error(const accumulation *a, const accumulation *b)
{
    double difference = 0, largest = 0;
    assert_true(a->count == b->count && a->count == ax_arch_parameters(&a->arch));
    for (int64_t i = 0; i < a->count; i++) {
        difference = fmax(difference, fabs(a->gradient[i] - b->gradient[i]));
        largest = fmax(largest, fabs(b->gradient[i]));
    }
    return difference / largest;
}

static void assert_accumulates(ax_arch_kind kind, ax_dtype act, double band)
{
    accumulation one = {.arch = small(kind), .act = act, .micro_batch = BATCH}, many = one;
    many.micro_batch = 1;
    assert_int_equal(ax_ranks_run(1, accumulate_rank, &one), AX_OK);
    assert_int_equal(ax_ranks_run(1, accumulate_rank, &many), AX_OK);
    double error = gradient_error(&many, &one);
    printf("64 micro-batches, %s %s: gradients %.1e, loss %.1e\n", kind == AX_GPT ? "gpt" : "llama",
           ax_dtype_name(act), error, fabs(many.loss / one.loss - 1));
    assert_true(error <= band);
    assert_true(fabs(many.loss / one.loss - 1) <= band);
    free(one.gradient);
    free(many.gradient);
}

static void sixty_four_micro_batches_are_one_batch(void **state)
{
    (void)state;
    for (int kind = AX_GPT; kind <= AX_LLAMA; kind++) {
        assert_accumulates((ax_arch_kind)kind, AX_F64, 1e-14);
        assert_accumulates((ax_arch_kind)kind, AX_F32, 2e-6);
    }
}

// ---- copies of kv heads
// --------------------------------------------------------------------------

typedef struct copies {
    accumulation serial;
    double error[RANKS]; // over the largest gradient
} copies;

static double part_error(const ax_trainer *t, const double *want, double largest, int i)
{
    const ax_param *p = &t->model.params.list[i];
    double error = 0;
    ax_run r = {0};
    while (ax_param_next_run(p, &r))
        for (int64_t k = 0; k < r.count; k++) {
            double got = ((double *)p->part_grad.data)[r.at + k];
            error = fmax(error, fabs(got - want[r.row * p->cols + r.col + k]) / largest);
        }
    return error;
}

static ax_status copies_rank(void *ctx, ax_comm *world)
{
    copies *c = ctx;
    ax_trainer t;
    ax_step_result r = {0};
    double largest = 0;
    ax_trainer_config config = {.arch = &c->serial.arch,
                                .grid = {RANKS, 1, 1, 1, "xyzd"},
                                .batch = BATCH,
                                .device = "ref",
                                .act = AX_F64,
                                .threads = 1};
    AX_TRY(ax_trainer_open(&config, world, &t));
    AX_TRY(ax_params_init(&t.model.params, &t.grid, &t.dev, 1));
    load_tokens(&t, 0);
    AX_TRY(ax_step_gradients(&t, &r));
    for (int64_t i = 0; i < c->serial.count; i++)
        largest = fmax(largest, fabs(c->serial.gradient[i]));
    const double *want = c->serial.gradient;
    for (int i = 0; i < t.model.params.count; i++) {
        double error = part_error(&t, want, largest, i);
        c->error[world->rank] = fmax(c->error[world->rank], error);
        want += t.model.params.list[i].rows * t.model.params.list[i].cols;
    }
    ax_trainer_close(&t);
    return AX_OK;
}

// Biases of kv heads that several ranks hold: each saw only its own query heads.
static void biases_of_copied_kv_heads_are_summed_over_the_copies(void **state)
{
    (void)state;
    copies c = {.serial = {.arch = small(AX_GPT), .act = AX_F64, .micro_batch = BATCH}};
    c.serial.arch.kv_heads = 2;
    assert_int_equal(ax_ranks_run(1, accumulate_rank, &c.serial), AX_OK);
    assert_int_equal(ax_ranks_run(RANKS, copies_rank, &c), AX_OK);
    for (int i = 0; i < RANKS; i++)
        assert_true(c.error[i] <= 1e-14);
    free(c.serial.gradient);
}

// ---- nothing to learn from
// -----------------------------------------------------------------------

static ax_status idle_rank(void *ctx, ax_comm *world)
{
    ax_trainer t;
    ax_step_result r = {0};
    ax_arch arch = *(const ax_arch *)ctx;
    ax_trainer_config c = {.arch = &arch,
                           .grid = {2, 1, 2, 1, "xyzd"},
                           .batch = BATCH,
                           .device = "ref",
                           .act = AX_F64,
                           .threads = 1,
                           .overlap = AX_OVERLAP_ALL,
                           .optim = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8}};
    AX_TRY(ax_trainer_open(&c, world, &t));
    AX_TRY(ax_params_init(&t.model.params, &t.grid, &t.dev, 1));
    load_tokens(&t, 0);
    for (int64_t i = 0; i < t.layout.accumulation * t.layout.rows; i++)
        t.targets[i] = -1;
    const ax_tensor w = t.model.params.list[0].master;
    double before = ((double *)w.data)[0];
    AX_TRY(ax_step(&t, 0.1, &r));
    bool idle = r.skipped && r.kept == 0 && t.optim.updates == 0 && ((double *)w.data)[0] == before;
    load_tokens(&t, 0);
    AX_TRY(ax_step(&t, 0.1, &r)); // and training goes on
    bool goes_on = !r.skipped && r.kept > 0 && t.optim.updates == 1;
    ax_status st = idle && goes_on ? AX_OK : AX_EINTERNAL;
    ax_trainer_close(&t);
    return st;
}

static void a_batch_without_targets_is_a_skipped_step(void **state)
{
    (void)state;
    ax_arch arch = small(AX_LLAMA);
    assert_int_equal(ax_ranks_run(RANKS, idle_rank, &arch), AX_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stop_leaves_weights_and_state_as_they_were),
        cmocka_unit_test(skip_leaves_the_step_out),
        cmocka_unit_test(a_batch_without_targets_is_a_skipped_step),
        cmocka_unit_test(sixty_four_micro_batches_are_one_batch),
        cmocka_unit_test(biases_of_copied_kv_heads_are_summed_over_the_copies),
    };
    ax_log_setup((ax_log_config){.ranks = 1, .muted = true}); // refusals are what is tested
    return cmocka_run_group_tests(tests, NULL, NULL);
}
