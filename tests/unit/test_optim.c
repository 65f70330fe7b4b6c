// The optimizer on a few parameters of one rank: no model, and gradients that the test makes up.
#include "base/rng.h"
#include "optim/optim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>

enum { BENCH_PARAMS = 3, MOST = 64 };

typedef struct bench {
    ax_device dev;
    ax_comm *world;
    ax_grid grid;
    ax_param list[BENCH_PARAMS];
    ax_params params;
    void *memory;
    ax_arena arena;
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
    ax_arena need = ax_arena_measure("bench");
    assert_int_equal(ax_params_bind(&b->params, &b->grid, &need, what), AX_OK);
    assert_int_equal(ax_device_alloc(&b->dev, need.peak, &b->memory), AX_OK);
    b->arena = ax_arena_over("bench", b->memory, need.peak);
    assert_int_equal(ax_params_bind(&b->params, &b->grid, &b->arena, what), AX_OK);
    b->optim = (ax_optim){.params = &b->params, .grid = &b->grid, .dev = &b->dev};
}

static void bench_close(bench *b)
{
    size_t bytes = b->arena.size;
    ax_arena_fini(&b->arena);
    ax_device_free(&b->dev, b->memory, bytes);
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

// ---- AdamW
// ---------------------------------------------------------------------------------------

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
    b.optim.config =
        (ax_optim_config){.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .clip = 3};
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
    } cases[] = {{"ref", AX_F64, 5e-15},
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adamw_is_the_textbook_loop),
        cmocka_unit_test(the_clip_factor_only_shrinks),
        cmocka_unit_test(clipping_scales_what_the_moments_see),
        cmocka_unit_test(elements_that_are_not_finite_are_counted_and_left_out_of_the_norm),
        cmocka_unit_test(weights_in_bf16_move_through_their_masters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
