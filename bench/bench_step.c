// One training step of a model shape on one rank with all cores, as flop/s and as a share of the
// best matmul rate that the same run measures.
//
//     bench_step [preset=gpt2-124m] [batch=4] [seq=1024] [precision=fp32|bf16] [steps=5]
//                [kernels=1] [tune=1]
//
// The ceiling is measured before, between and after the steps: the best rate of the matmuls that
// the step itself is made of (and of one large square), each timed alone. Flops are counted as
// issued (causal attention counts half); the published formula stands beside them. kernels=1 adds
// where the time of the steps went; tune=1 takes the fastest way of each product (train.tune=on).
#include "train/metrics.h"
#include "train/ranks.h"
#include "train/step.h"
#include "train/tuning.h"

#include "base/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STEPS = 100 };

typedef struct bench {
    const char *preset;
    int64_t batch, seq, steps, kernels, tune;
    ax_tuner tuner;
    ax_dtype act;
    ax_arch arch;
    ax_trainer t;
    double ceiling; // best matmul rate so far, flop/s
    double seconds[MOST_STEPS];
} bench;

typedef struct product { // c (m, n) = a (m, k) b (k, n)
    int64_t m, n, k;
} product;

static ax_status time_product(bench *b, product p, void *mem)
{
    ax_device *dev = &b->t.dev;
    size_t size = ax_dtype_size(b->act);
    char *at = mem;
    ax_tensor x = ax_tensor_over(at, b->act, p.m, p.k);
    ax_tensor w = ax_tensor_over(at + (size_t)(p.m * p.k) * size, b->act, p.n, p.k);
    ax_tensor y = ax_tensor_over(at + (size_t)(p.m * p.k + p.n * p.k) * size, b->act, p.m, p.n);
    for (int i = 0; i < 3; i++) {
        double begun = ax_metrics_clock();
        AX_TRY(ax_gemm(dev, &(ax_gemm_args){.tb = AX_T, .a = x, .b = w, .c = y}));
        double rate = 2.0 * (double)p.m * (double)p.n * (double)p.k / (ax_metrics_clock() - begun);
        b->ceiling = rate > b->ceiling ? rate : b->ceiling;
    }
    return AX_OK;
}

static ax_status measure_ceiling(bench *b)
{
    const ax_arch *a = &b->arch;
    int64_t m = b->t.layout.rows, h = a->hidden, f = a->ffn;
    const product list[] = {{m, 3 * h, h}, {m, h, h}, {m, f, h}, {m, h, f}, {2048, 2048, 2048}};
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        const product *p = &list[i];
        size_t bytes = (size_t)(p->m * p->k + p->n * p->k + p->m * p->n) * ax_dtype_size(b->act);
        void *mem;
        AX_TRY(ax_device_alloc(&b->t.dev, bytes, &mem));
        ax_status st =
            ax_fill(&b->t.dev,
                    ax_tensor_over(mem, b->act, 1, (int64_t)(bytes / ax_dtype_size(b->act))), 0.5);
        if (st == AX_OK)
            st = time_product(b, *p, mem);
        ax_device_free(&b->t.dev, mem, bytes);
        AX_TRY(st);
    }
    return AX_OK;
}

static void load(bench *b, int64_t step)
{
    int64_t tokens = ax_trainer_rows(&b->t) * b->seq;
    for (int64_t i = 0; i < tokens; i++) {
        uint64_t bits = ax_rng_bits(1, 2, (uint64_t)(step * tokens + i));
        b->t.ids[i] = (int32_t)(bits % (uint64_t)b->arch.vocab);
        b->t.targets[i] = (int32_t)((bits >> 32) % (uint64_t)b->arch.vocab);
    }
}

static ax_status run_steps(bench *b)
{
    ax_step_result r;
    AX_TRY(ax_params_init(&b->t.model.params, &b->t.grid, &b->t.dev, 1));
    AX_TRY(measure_ceiling(b));
    for (int64_t i = -1; i < b->steps; i++) { // one step to warm up
        load(b, i + 1);
        double begun = ax_metrics_clock();
        b->t.timeline.paused = i < 0;
        b->tuner.timing = i < 0;
        AX_TRY(ax_step(&b->t, 1e-4, &r));
        b->t.timeline.paused = true;
        b->tuner.timing = false;
        if (i < 0)
            AX_TRY(ax_tuning_agree(&b->tuner, b->t.world));
        if (i >= 0)
            b->seconds[i] = ax_metrics_clock() - begun;
        AX_TRY(measure_ceiling(b));
    }
    return AX_OK;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void print(bench *b)
{
    double flops = (double)b->t.size.matmul_flops;
    double published = (double)b->batch * ax_arch_flops_published(&b->arch, b->seq, false);
    qsort(b->seconds, (size_t)b->steps, sizeof *b->seconds, ascending);
    double best = b->seconds[0], worst = b->seconds[b->steps - 1],
           median = b->seconds[b->steps / 2];
    char device[256];
    ax_device_describe(&b->t.dev, device, sizeof device);
    printf("%s  B=%lld T=%lld  %s  %s\n", b->preset, (long long)b->batch, (long long)b->seq,
           ax_dtype_name(b->act), device);
    printf("step      %8.3f s median (min %.3f, max %.3f, %lld steps)\n", median, best, worst,
           (long long)b->steps);
    printf("tokens    %8.0f /s\n", (double)(b->batch * b->seq) / median);
    printf("issued    %8.1f Gflop a step (published formula, full attention: %.1f)\n", flops / 1e9,
           published / 1e9);
    printf("rate      %8.1f Gflop/s median (min %.1f, max %.1f)\n", flops / median / 1e9,
           flops / worst / 1e9, flops / best / 1e9);
    printf("ceiling   %8.1f Gflop/s, best matmul of this run\n", b->ceiling / 1e9);
    printf("share     %8.1f %% median (min %.1f, max %.1f)\n", 100 * flops / median / b->ceiling,
           100 * flops / worst / b->ceiling, 100 * flops / best / b->ceiling);
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
    double steps = (double)b->steps, all = 0;
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
    ax_trainer_config c = {
        .arch = &b->arch,
        .grid = {1, 1, 1, 1, "xyzd"},
        .batch = b->batch,
        .device = "cpu",
        .act = b->act,
        .overlap = AX_OVERLAP_ALL,
        .trace = b->kernels ? b->steps : 0,
        .tuner = b->tune ? &b->tuner : NULL,
        .optim = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .clip = 1}};
    AX_TRY(ax_trainer_open(&c, world, &b->t));
    size_t room = (size_t)64 << 20; // the square of the ceiling may want more than the step does
    ax_status st = room > b->t.size.workspace ? ax_device_grow(&b->t.dev, room) : AX_OK;
    if (st == AX_OK)
        st = run_steps(b);
    if (st == AX_OK)
        print(b);
    if (st == AX_OK && b->kernels)
        print_kernels(b);
    ax_trainer_close(&b->t);
    return st;
}

static ax_status parse(bench *b, const char *argument)
{
    static const struct {
        const char *key;
        size_t offset;
    } number[] = {{"batch=", offsetof(bench, batch)},
                  {"seq=", offsetof(bench, seq)},
                  {"steps=", offsetof(bench, steps)},
                  {"kernels=", offsetof(bench, kernels)},
                  {"tune=", offsetof(bench, tune)}};
    for (size_t i = 0; i < sizeof number / sizeof number[0]; i++) {
        size_t n = strlen(number[i].key);
        if (strncmp(argument, number[i].key, n) != 0)
            continue;
        int64_t *to = (int64_t *)((char *)b + number[i].offset);
        AX_CHECK(ax_parse_int(argument + n, to) && *to > 0 && *to <= 1 << 20, AX_EUSAGE,
                 "%s is not a number from 1", argument);
        return AX_OK;
    }
    if (strncmp(argument, "preset=", 7) == 0) {
        b->preset = argument + 7;
        return AX_OK;
    }
    AX_CHECK(strcmp(argument, "precision=fp32") == 0 || strcmp(argument, "precision=bf16") == 0,
             AX_EUSAGE,
             "%s: known are preset=, batch=, seq=, steps=, kernels=, tune=, "
             "precision=fp32|bf16",
             argument);
    b->act = argument[10] == 'b' ? AX_BF16 : AX_F32;
    return AX_OK;
}

static ax_status prepare(bench *b, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        AX_TRY(parse(b, argv[i]));
    AX_CHECK(b->steps <= MOST_STEPS, AX_EUSAGE, "at most %d steps", MOST_STEPS);
    AX_TRY(ax_arch_preset(b->preset, &b->arch));
    b->arch.seq = b->seq;
    return ax_arch_check(&b->arch);
}

int main(int argc, char **argv)
{
    static bench b; // a trainer is large, and holds pointers into itself
    b = (bench){.preset = "gpt2-124m", .batch = 4, .seq = 1024, .steps = 5, .act = AX_F32};
    if (prepare(&b, argc, argv) != AX_OK)
        return 2;
    return ax_ranks_run(1, bench_rank, &b) == AX_OK ? 0 : 1;
}
