// One training step of a model shape on one rank with all cores, as flop/s and as a share of the
// best matmul rate that the same run measures.
//
//     bench_step [preset=gpt2-124m] [batch=4] [seq=1024] [precision=fp32|bf16] [steps=5]
//                [kernels=1] [recompute=none|selective|full] [tune=1]
//
// The ceiling is the best rate of the matmuls that the step itself is made of (and of one large
// square), each timed alone, three times in every round: a round stands before, between and after
// the steps. Where other work comes and goes on the machine, the share of the best of the whole
// run is too small by what it took from the steps; the share of the two rounds beside each step is
// printed with it. Flops are counted as issued (causal attention counts half); the published
// formula stands beside them. kernels=1 adds where the time of the steps went; tune=1
// takes the fastest way of each product (train.tune=on).
#include "bench_case.h"
#include "train/ranks.h"
#include "train/tuning.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STEPS = 100 };

typedef struct bench {
    bench_case c;
    int64_t kernels, tune;
    ax_tuner tuner;
    ax_recompute recompute;
    ax_trainer t;
    double ceiling;                              // best matmul rate so far, flop/s
    double round;                                // of the last round
    double rate[MOST_STEPS], beside[MOST_STEPS]; // of each step: flop/s; share of the rounds beside
} bench;

typedef struct product { // c (m, n) = a (m, k) b (k, n)
    int64_t m, n, k;
} product;

static ax_status time_product(bench *b, product p, void *mem)
{
    ax_device *dev = &b->t.dev;
    size_t size = ax_dtype_size(b->c.act);
    char *at = mem;
    ax_tensor x = ax_tensor_over(at, b->c.act, p.m, p.k);
    ax_tensor w = ax_tensor_over(at + (size_t)(p.m * p.k) * size, b->c.act, p.n, p.k);
    ax_tensor y = ax_tensor_over(at + (size_t)(p.m * p.k + p.n * p.k) * size, b->c.act, p.m, p.n);
    ax_gemm_args g = {.tb = AX_T, .a = x, .b = w, .c = y};
    size_t need = dev->kern->gemm_workspace(dev, &g);
    if (need > dev->workspace_size) // larger than what the step itself multiplies
        AX_TRY(ax_device_grow(dev, need));
    for (int i = 0; i < 3; i++) {
        double begun = ax_clock_s();
        AX_TRY(ax_gemm(dev, &g));
        double rate = 2.0 * (double)p.m * (double)p.n * (double)p.k / (ax_clock_s() - begun);
        b->round = rate > b->round ? rate : b->round;
    }
    return AX_OK;
}

static ax_status measure_ceiling(bench *b)
{
    const ax_arch *a = &b->c.arch;
    b->round = 0;
    int64_t m = b->t.layout.rows, h = a->hidden, f = a->ffn;
    const product list[] = {{m, 3 * h, h}, {m, h, h}, {m, f, h}, {m, h, f}, {2048, 2048, 2048}};
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        const product *p = &list[i];
        size_t bytes = (size_t)(p->m * p->k + p->n * p->k + p->m * p->n) * ax_dtype_size(b->c.act);
        void *mem;
        AX_TRY(ax_device_alloc(&b->t.dev, bytes, &mem));
        ax_status st = ax_fill(
            &b->t.dev, ax_tensor_over(mem, b->c.act, 1, (int64_t)(bytes / ax_dtype_size(b->c.act))),
            0.5);
        if (st == AX_OK)
            st = time_product(b, *p, mem);
        ax_device_free(&b->t.dev, mem, bytes);
        AX_TRY(st);
    }
    b->ceiling = b->round > b->ceiling ? b->round : b->ceiling;
    return AX_OK;
}

static ax_status run_steps(bench *b)
{
    ax_step_result r;
    double flops = b->t.size.matmul_flops;
    AX_TRY(ax_params_init(&b->t.model.params, &b->t.grid, &b->t.dev, 1));
    AX_TRY(measure_ceiling(b));
    for (int64_t i = -1; i < b->c.steps; i++) { // one step to warm up
        double before = b->round, begun = ax_clock_s();
        bench_case_load(&b->c, &b->t, i + 1);
        b->t.timeline.paused = i < 0;
        b->tuner.timing = i < 0;
        AX_TRY(ax_step(&b->t, 1e-4, &r));
        b->t.timeline.paused = true;
        double rate = flops / (ax_clock_s() - begun);
        b->tuner.timing = false;
        if (i < 0)
            AX_TRY(ax_tuning_agree(&b->tuner, b->t.world));
        AX_TRY(measure_ceiling(b));
        if (i < 0)
            continue;
        b->rate[i] = rate;
        b->beside[i] = rate / (before > b->round ? before : b->round);
    }
    return AX_OK;
}

static void print(bench *b)
{
    const bench_case *c = &b->c;
    double flops = b->t.size.matmul_flops;
    double published = (double)c->batch * ax_arch_flops_published(&c->arch, c->seq, false);
    bench_spread rate = bench_spread_of(b->rate, c->steps);
    bench_spread beside = bench_spread_of(b->beside, c->steps);
    char device[256];
    ax_device_describe(&b->t.dev, device, sizeof device);
    printf("%s  B=%lld T=%lld  %s  %s\n", c->preset, (long long)c->batch, (long long)c->seq,
           ax_dtype_name(c->act), device);
    printf("step      %8.3f s median (min %.3f, max %.3f, %lld steps)\n", flops / rate.median,
           flops / rate.most, flops / rate.least, (long long)c->steps);
    printf("memory    %8.1f MiB of activations (run %.1f, scratch %.1f)\n",
           (double)b->t.size.arena[1] / 1048576, (double)b->t.size.arena[0] / 1048576,
           (double)b->t.size.arena[2] / 1048576);
    printf("tokens    %8.0f /s\n", (double)(c->batch * c->seq) * rate.median / flops);
    printf("issued    %8.1f Gflop a step (published formula, full attention: %.1f)\n", flops / 1e9,
           published / 1e9);
    printf("rate      %8.1f Gflop/s median (min %.1f, max %.1f)\n", rate.median / 1e9,
           rate.least / 1e9, rate.most / 1e9);
    printf("ceiling   %8.1f Gflop/s, best matmul of this run\n", b->ceiling / 1e9);
    printf("share     %8.1f %% median (min %.1f, max %.1f)\n", 100 * rate.median / b->ceiling,
           100 * rate.least / b->ceiling, 100 * rate.most / b->ceiling);
    printf(
        "beside    %8.1f %% median (min %.1f, max %.1f) of the best matmul just before and after\n",
        100 * beside.median, 100 * beside.least, 100 * beside.most);
}

typedef struct total { // of the kernels of one name and, for products, one shape
    const char *name;
    int64_t size[3], calls;
    double seconds;
} total;

static int longest(const void *a, const void *b)
{
    double x = ((const total *)a)->seconds, y = ((const total *)b)->seconds;
    return x > y ? -1 : x < y;
}

// Where the time of the steps went.
static void print_kernels(const bench *b)
{
    enum { MOST = 128 };
    static total list[MOST];
    int count = 0;
    double steps = (double)b->c.steps, all = 0;
    for (int64_t i = 0; i < b->t.timeline.count; i++) {
        const ax_timeline_span *s = &b->t.timeline.span[i];
        int k = 0;
        bool gemm = strcmp(s->name, "gemm") == 0;
        while (k < count && (strcmp(list[k].name, s->name) != 0 ||
                             (gemm && memcmp(list[k].size, s->size, sizeof s->size) != 0)))
            k++;
        if (k == MOST)
            continue;
        if (k == count)
            list[count++] = (total){s->name, {s->size[0], s->size[1], s->size[2]}, 0, 0};
        list[k].calls++;
        list[k].seconds += s->end_s - s->begin_s;
        all += s->end_s - s->begin_s;
    }
    qsort(list, (size_t)count, sizeof *list, longest);
    printf("kernel                                  calls   ms a step  share\n");
    for (int k = 0; k < count; k++) {
        const total *t = &list[k];
        bool gemm = strcmp(t->name, "gemm") == 0;
        double flops = 2.0 * (double)t->size[0] * (double)t->size[1] * (double)t->size[2];
        printf("%-14s %6lld %6lld %6lld %8.0f %11.2f %5.1f %%", t->name, (long long)t->size[0],
               (long long)t->size[1], (long long)t->size[2], (double)t->calls / steps,
               1e3 * t->seconds / steps, 100 * t->seconds / all);
        if (gemm)
            printf("  %5.1f %% of the ceiling",
                   100 * flops * (double)t->calls / t->seconds / b->ceiling);
        printf("\n");
    }
}

static ax_status bench_rank(void *ctx, ax_comm *world)
{
    bench *b = ctx;
    ax_trainer_config c = bench_case_trainer(&b->c);
    c.trace = b->kernels ? b->c.steps : 0;
    c.recompute = b->recompute;
    c.tuner = b->tune ? &b->tuner : NULL;
    AX_TRY(ax_trainer_open(&c, world, &b->t));
    ax_status st = run_steps(b);
    if (st == AX_OK && b->kernels)
        print_kernels(b);
    if (st == AX_OK)
        print(b);
    ax_trainer_close(&b->t);
    return st;
}

static bool set_recompute(bench *b, const char *argument)
{
    static const char *const recompute[] = {"recompute=none", "recompute=selective",
                                            "recompute=full"};
    for (int i = 0; i < 3; i++)
        if (strcmp(argument, recompute[i]) == 0) {
            b->recompute = (ax_recompute)i;
            return true;
        }
    return false;
}

static ax_status prepare(bench *b, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        bool ok = true, known = bench_case_set(&b->c, argv[i], &ok) ||
                                bench_number(argv[i], "kernels=", &b->kernels, &ok) ||
                                bench_number(argv[i], "tune=", &b->tune, &ok) ||
                                set_recompute(b, argv[i]);
        AX_CHECK(known && ok, AX_EUSAGE,
                 "%s: known are preset=, batch=, seq=, steps=, kernels=, tune=, "
                 "recompute=none|selective|full, precision=fp32|bf16",
                 argv[i]);
    }
    AX_CHECK(b->c.steps <= MOST_STEPS, AX_EUSAGE, "at most %d steps", MOST_STEPS);
    return bench_case_open(&b->c);
}

int main(int argc, char **argv)
{
    static bench b; // a trainer is large, and holds pointers into itself
    b = (bench){.c = {.preset = "gpt2-124m", .batch = 4, .seq = 1024, .steps = 5, .act = AX_F32}};
    if (prepare(&b, argc, argv) != AX_OK)
        return 2;
    return ax_ranks_run(1, bench_rank, &b) == AX_OK ? 0 : 1;
}
