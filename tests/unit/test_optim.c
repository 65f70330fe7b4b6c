// The optimizer, alone on a few parameters of one rank, and inside the step of a small model where
// gradients go wrong on one rank of several.
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

static int mute(void **state)
{
    (void)state;
    ax_log_setup((ax_log_config){.ranks = 1, .muted = true});
    return 0;
}

// ---- a few parameters of one rank ----------------------------------------------------------------

enum { BENCH_PARAMS = 3, MOST = 64 };

typedef struct bench {
    ax_device dev;
    ax_comm *world;
    ax_grid grid;
    ax_param list[BENCH_PARAMS];
    ax_params params;
    void *memory;
    ax_optim optim;
} bench;

// A matrix with decay, a vector without, and positions: no matrix to the grid, but decayed.
static void bench_open(bench *b, const char *device, ax_dtype act)
{
    *b = (bench){.list = {{.name = "w", .rows = 5, .cols = 7, .matrix = true, .decay = true},
                          {.name = "norm", .rows = 1, .cols = 9},
                          {.name = "positions", .rows = 4, .cols = 3, .decay = true}}};
    b->params = (ax_params){
        .list = b->list, .count = BENCH_PARAMS, .act = act, .acc = act == AX_F64 ? AX_F64 : AX_F32};
    ax_device_config config = {.name = device, .threads = 1, .core = -1};
    assert_int_equal(ax_device_open(&config, &b->dev), AX_OK);
    assert_int_equal(ax_comm_local_open(1, &b->world), AX_OK);
    ax_grid_shape shape = {1, 1, 1, 1, "xyzd"};
    assert_int_equal(ax_grid_open(b->world, shape, 1, &b->grid), AX_OK);
    for (int i = 0; i < BENCH_PARAMS; i++)
        assert_int_equal(ax_param_place(&b->list[i], &b->grid), AX_OK);
    int what = AX_BIND_STATE | AX_BIND_GRAD;
    ax_arena a = ax_arena_measure("bench");
    assert_int_equal(ax_params_bind(&b->params, &b->grid, &a, what), AX_OK);
    assert_int_equal(ax_device_alloc(&b->dev, a.peak, &b->memory), AX_OK);
    a = ax_arena_over("bench", b->memory, a.peak);
    assert_int_equal(ax_params_bind(&b->params, &b->grid, &a, what), AX_OK);
    b->optim = (ax_optim){.params = &b->params, .grid = &b->grid, .dev = &b->dev};
}

static void bench_close(bench *b)
{
    free(b->memory == NULL ? NULL : NULL);
    ax_device_free(&b->dev, b->memory, 0);
    ax_grid_close(&b->grid);
    ax_comm_close(b->world);
    ax_device_close(&b->dev);
}

// Both devices keep their memory on the host.
static double get(ax_tensor t, int64_t i)
{
    if (t.dtype == AX_F64)
        return ((double *)t.data)[i];
    return t.dtype == AX_F32 ? ((float *)t.data)[i] : ax_bf16_to_f32(((ax_bf16 *)t.data)[i]);
}

static void set(ax_tensor t, int64_t i, double value)
{
    if (t.dtype == AX_F64)
        ((double *)t.data)[i] = value;
    else if (t.dtype == AX_F32)
        ((float *)t.data)[i] = (float)value;
    else
        ((ax_bf16 *)t.data)[i] = ax_f32_to_bf16((float)value);
}

static void update(bench *b, double lr, double *norm)
{
    int64_t nonfinite;
    assert_int_equal(ax_optim_reduce(&b->optim), AX_OK);
    assert_int_equal(ax_optim_norm(&b->optim, norm, &nonfinite), AX_OK);
    assert_int_equal(nonfinite, 0);
    assert_int_equal(ax_optim_update(&b->optim, lr, *norm), AX_OK);
    assert_int_equal(ax_optim_settle(&b->optim), AX_OK);
}

// ---- AdamW ---------------------------------------------------------------------------------------

typedef struct plain { // the textbook, one element at a time
    double w[BENCH_PARAMS][MOST], m[BENCH_PARAMS][MOST], v[BENCH_PARAMS][MOST];
    double g[BENCH_PARAMS][MOST];
} plain;

static double plain_norm(const bench *b, const plain *p)
{
    double sum = 0;
    for (int i = 0; i < BENCH_PARAMS; i++)
        for (int64_t k = 0; k < b->list[i].block; k++)
            sum += p->g[i][k] * p->g[i][k];
    return sqrt(sum);
}

static void plain_step(const bench *b, plain *p, int t, double lr)
{
    const ax_optim_config *c = &b->optim.config;
    double norm = plain_norm(b, p), shrink = norm > c->clip ? c->clip / (norm + 1e-6) : 1;
    for (int i = 0; i < BENCH_PARAMS; i++)
        for (int64_t k = 0; k < b->list[i].block; k++) {
            double g = p->g[i][k] * shrink, *m = &p->m[i][k], *v = &p->v[i][k], *w = &p->w[i][k];
            if (i != 1)
                *w -= lr * c->weight_decay * *w;
            *m = c->beta1 * *m + (1 - c->beta1) * g;
            *v = c->beta2 * *v + (1 - c->beta2) * g * g;
            double mean = *m / (1 - pow(c->beta1, t)), square = *v / (1 - pow(c->beta2, t));
            *w -= lr * mean / (sqrt(square) + c->eps);
        }
}

static double farthest(const bench *b, const plain *p)
{
    double worst = 0;
    for (int i = 0; i < BENCH_PARAMS; i++)
        for (int64_t k = 0; k < b->list[i].block; k++) {
            worst = fmax(worst, fabs(get(b->list[i].master, k) - p->w[i][k]));
            worst = fmax(worst, fabs(get(b->list[i].m, k) - p->m[i][k]));
            worst = fmax(worst, fabs(get(b->list[i].v, k) - p->v[i][k]));
        }
    return worst;
}

// Gradients of growing size: the first steps are below the clip, the last above.
static double adamw_error(const char *device, ax_dtype act)
{
    bench b;
    plain p = {0};
    bench_open(&b, device, act);
    b.optim.config = (ax_optim_config){
        .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .clip = 3};
    for (int i = 0; i < BENCH_PARAMS; i++)
        for (int64_t k = 0; k < b.list[i].block; k++) {
            p.w[i][k] = (float)ax_rng_normal(1, (uint64_t)i, (uint64_t)k);
            set(b.list[i].master, k, p.w[i][k]);
        }
    for (int t = 1; t <= 10; t++) {
        for (int i = 0; i < BENCH_PARAMS; i++)
            for (int64_t k = 0; k < b.list[i].block; k++) {
                uint64_t at = (uint64_t)(t * MOST + k);
                p.g[i][k] = (float)(0.1 * t * ax_rng_normal(2, (uint64_t)i, at));
                set(b.list[i].part_grad, k, p.g[i][k]);
            }
        double lr = 1e-2 / t, norm;
        update(&b, lr, &norm);
        assert_true(fabs(norm - plain_norm(&b, &p)) < 1e-12);
        assert_true(t > 2 || norm < 3);
        assert_true(t < 8 || norm > 3);
        plain_step(&b, &p, t, lr);
    }
    double error = farthest(&b, &p);
    for (int i = 0; i < BENCH_PARAMS; i++) // what the model reads is the rounded master
        for (int64_t k = 0; k < b.list[i].block; k++) {
            ax_tensor w = b.list[i].weight;
            double master = get(b.list[i].master, k);
            double want =
                w.dtype == AX_BF16 ? ax_bf16_to_f32(ax_f32_to_bf16((float)master)) : master;
            assert_true(get(w, k) == want);
        }
    bench_close(&b);
    return error;
}

static void adamw_is_the_textbook_loop(void **state)
{
    (void)state;
    static const struct {
        const char *device;
        ax_dtype act;
        double band;
    } cases[] = {{"ref", AX_F64, 1e-15},
                 {"ref", AX_F32, 1e-6},
                 {"ref", AX_BF16, 1e-6},
                 {"cpu", AX_F32, 1e-6},
                 {"cpu", AX_BF16, 1e-6}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (ax_device_missing(cases[i].device))
            continue;
        double error = adamw_error(cases[i].device, cases[i].act);
        printf("adamw, %s %s: %.1e\n", cases[i].device, ax_dtype_name(cases[i].act), error);
        assert_true(error <= cases[i].band);
    }
}

static void the_clip_factor_only_shrinks(void **state)
{
    (void)state;
    assert_true(ax_clip_factor(0, 100) == 1);
    assert_true(ax_clip_factor(1, 0) == 1);
    assert_true(ax_clip_factor(1, 0.999) == 1);
    assert_true(ax_clip_factor(1, 1) == 1);
    assert_true(fabs(ax_clip_factor(1, 5) - 0.2) < 1e-7);
    assert_true(fabs(ax_clip_factor(0.5, 50) * 50 - 0.5) < 1e-7);
}

// A gradient (3, 4) has norm 5; clipped to 1 it is (0.6, 0.8), and that is what the moments see.
static void clipping_scales_what_the_moments_see(void **state)
{
    (void)state;
    bench b;
    double norm;
    bench_open(&b, "ref", AX_F64);
    b.optim.config = (ax_optim_config){.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .clip = 1};
    set(b.list[0].part_grad, 0, 3);
    set(b.list[1].part_grad, 0, 4);
    update(&b, 1e-3, &norm);
    assert_true(norm == 5);
    assert_true(fabs(get(b.list[0].m, 0) - 0.1 * 0.6) < 1e-7);
    assert_true(fabs(get(b.list[1].m, 0) - 0.1 * 0.8) < 1e-7);
    bench_close(&b);
}

static void elements_that_are_not_finite_are_counted_and_left_out_of_the_norm(void **state)
{
    (void)state;
    bench b;
    double norm;
    int64_t nonfinite;
    bench_open(&b, "ref", AX_F32);
    set(b.list[0].part_grad, 0, 3);
    set(b.list[0].part_grad, 1, NAN);
    set(b.list[1].part_grad, 0, INFINITY);
    set(b.list[2].part_grad, 0, -4);
    set(b.list[2].part_grad, 1, -INFINITY);
    assert_int_equal(ax_optim_norm(&b.optim, &norm, &nonfinite), AX_OK);
    assert_true(norm == 5);
    assert_int_equal(nonfinite, 3);
    bench_close(&b);
}

// Next to 1, bf16 steps by 2^-8 = 0.004: one update of 1e-4 rounds away, a hundred must not.
static void weights_in_bf16_move_through_their_masters(void **state)
{
    (void)state;
    static const char *const devices[] = {"ref", "cpu"};
    for (int d = 0; d < 2; d++) {
        bench b;
        double norm;
        if (ax_device_missing(devices[d]))
            continue;
        bench_open(&b, devices[d], AX_BF16);
        b.optim.config = (ax_optim_config){.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8};
        ax_param *w = &b.list[0];
        set(w->master, 0, 1);
        for (int step = 1; step <= 100; step++) {
            set(w->part_grad, 0, 0.5);
            update(&b, 1e-4, &norm);
            if (step == 1)
                assert_true(get(w->weight, 0) == 1);
        }
        assert_true(fabs(get(w->master, 0) - 0.99) < 1e-5);
        assert_true(fabs(get(w->weight, 0) - 0.99) < 0.002);
        bench_close(&b);
    }
}

// ---- in the step of a small model ----------------------------------------------------------------

enum { MAX_RANKS = 4, RUN_STEPS = 3 };

typedef struct job {
    ax_arch arch;
    const char *grid;
    int64_t batch, micro_batch;
    ax_dtype act;
    bool skip;

    const char *victim; // parameter whose gradient is spoilt in step 2
    double poison;
    int poisoner; // on this rank alone
    ax_trainer *trainer[MAX_RANKS];
    bool armed[MAX_RANKS];

    ax_status status[MAX_RANKS];
    ax_step_result result[MAX_RANKS][RUN_STEPS];
    bool touched[MAX_RANKS], moved[MAX_RANKS];
    int64_t updates[MAX_RANKS];
    double *gradient[2]; // of compare_accumulation
    int run;
    int64_t gradients;
} job;

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

static ax_status open_trainer(job *j, ax_comm *world, ax_trainer *t)
{
    ax_trainer_config c = {.arch = &j->arch,
                           .batch = j->batch,
                           .micro_batch = j->micro_batch,
                           .device = "ref",
                           .act = j->act,
                           .threads = 1,
                           .overlap = AX_OVERLAP_ALL,
                           .skip_nonfinite = j->skip,
                           .optim = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .clip = 1}};
    AX_TRY(ax_grid_parse(j->grid, &c.grid));
    AX_TRY(ax_trainer_open(&c, world, t));
    return ax_params_init(&t->model.params, &t->grid, &t->dev, 1);
}

// Stands between the model and the optimizer: the embedding is the last layer of backward.
static ax_status spoil(void *ctx, ax_param *p)
{
    job *j = ctx;
    int rank = 0;
    while (&j->trainer[rank]->model.params.list[0] > p ||
           p >= &j->trainer[rank]->model.params.list[j->trainer[rank]->model.params.count])
        rank++;
    ax_trainer *t = j->trainer[rank];
    bool mine = strcmp(p->name, j->victim) == 0;
    int i = ax_params_find(&t->model.params, j->victim);
    if (j->armed[rank] && (mine || (strcmp(p->name, "embed.weight") == 0 &&
                                    !t->model.params.list[i].matrix)))
        set(t->model.params.list[i].grad, 1, j->poison);
    return ax_optim_grad_ready(&t->optim, p);
}
