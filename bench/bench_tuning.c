// Every way to make each matrix product of a training step, timed in turns: the gain over the
// default that train.tune=on can find.
//
//     bench_tuning [preset=gpt2-124m] [batch=4] [seq=1024] [precision=fp32|bf16] [rounds=5]
//                  [polled=1]
//
// The products are those that a measuring pass of the step notes. polled=1 cuts them as if a
// communicator were polled, which is how they run on a grid.
#include "train/metrics.h"
#include "train/trainer.h"

#include "base/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROUNDS = 50 };

typedef struct bench {
    const char *preset;
    int64_t batch, seq, rounds, polled;
    ax_dtype act;
    ax_arch arch;
    ax_tuner noted; // the products of a step
    ax_tuner one;   // the way at hand, for one product
    ax_device dev;
    double seconds[AX_TUNER_WAYS][MOST_ROUNDS];
    double of_step[2]; // seconds of one of each product: by default, at best
} bench;

static void no_poll(void *ctx)
{
    (void)ctx;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static ax_status take_operand(ax_device *dev, ax_dtype dtype, int64_t rows, int64_t cols,
                              ax_tensor *out)
{
    void *mem;
    *out = ax_tensor_over(NULL, dtype, rows, cols);
    AX_TRY(ax_device_alloc(dev, ax_tensor_bytes(*out), &mem));
    out->data = mem;
    return ax_fill(dev, *out, 0.5);
}

static ax_status time_ways(bench *b, const ax_gemm_args *g)
{
    ax_tuner_entry *e = &b->one.entry[0];
    for (int64_t round = -1; round < b->rounds; round++)
        for (int way = 0; way < AX_TUNER_WAYS; way++) {
            if (!ax_gemm_way_applies(&b->dev, g, way))
                continue;
            e->way = way;
            double begun = ax_metrics_clock();
            AX_TRY(ax_gemm(&b->dev, g));
            if (round >= 0)
                b->seconds[way][round] = ax_metrics_clock() - begun;
        }
    return AX_OK;
}

static void print_ways(bench *b, const ax_gemm_args *g)
{
    size_t rounds = (size_t)b->rounds;
    int best = 0;
    for (int way = 0; way < AX_TUNER_WAYS; way++)
        qsort(b->seconds[way], rounds, sizeof(double), ascending);
    for (int way = 1; way < AX_TUNER_WAYS; way++)
        if (ax_gemm_way_applies(&b->dev, g, way) &&
            b->seconds[way][rounds / 2] < b->seconds[best][rounds / 2])
            best = way;
    b->of_step[0] += b->seconds[0][rounds / 2];
    b->of_step[1] += b->seconds[best][rounds / 2];
    for (int way = 0; way < AX_TUNER_WAYS; way++) {
        const double *s = b->seconds[way];
        if (!ax_gemm_way_applies(&b->dev, g, way))
            continue;
        printf("    %-16s %9.2f %9.2f %9.2f   %+6.1f %%%s\n", ax_gemm_way_name("cpu", way),
               1e3 * s[rounds / 2], 1e3 * s[0], 1e3 * s[rounds - 1],
               100 * (b->seconds[0][rounds / 2] / s[rounds / 2] - 1), way == best ? "  best" : "");
    }
}

static ax_status bench_product(bench *b, const ax_gemm_key *key)
{
    ax_tensor t[3] = {{0}};
    int64_t m = key->m, n = key->n, k = key->k;
    AX_TRY(take_operand(&b->dev, (ax_dtype)key->in, key->ta ? k : m, key->ta ? m : k, &t[0]));
    AX_TRY(take_operand(&b->dev, (ax_dtype)key->in, key->tb ? n : k, key->tb ? k : n, &t[1]));
    AX_TRY(take_operand(&b->dev, (ax_dtype)key->out, m, n, &t[2]));
    ax_gemm_args g = {(ax_trans)key->ta, (ax_trans)key->tb, t[0], t[1], t[2], 0};
    b->one = (ax_tuner){.count = 1, .entry = {{.key = *key, .way = AX_WAY_OPEN}}};
    printf("%s  %lld x %lld x %lld  %c%c  %s to %s\n", b->preset, (long long)m, (long long)n,
           (long long)k, key->ta ? 't' : 'n', key->tb ? 't' : 'n', ax_dtype_name(t[0].dtype),
           ax_dtype_name(t[2].dtype));
    ax_status st = time_ways(b, &g);
    if (st == AX_OK)
        print_ways(b, &g);
    for (int i = 0; i < 3; i++)
        ax_device_free(&b->dev, t[i].data, ax_tensor_bytes(t[i]));
    return st;
}

static ax_status note_products(bench *b, size_t *workspace)
{
    ax_trainer_size size;
    ax_trainer_config c = {
        .arch = &b->arch,
        .grid = {1, 1, 1, 1, "xyzd"},
        .batch = b->batch,
        .device = "cpu",
        .act = b->act,
        .threads = ax_device_cores(),
        .overlap = AX_OVERLAP_ALL,
        .tuner = &b->noted,
        .optim = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .clip = 1}};
    AX_TRY(ax_trainer_measure(&c, 0, &size));
    *workspace = size.workspace;
    return AX_OK;
}

static ax_status run(bench *b)
{
    size_t workspace;
    char device[256];
    AX_TRY(note_products(b, &workspace));
    AX_TRY(ax_device_open(&(ax_device_config){.name = "cpu", .core = -1, .workspace = workspace},
                          &b->dev));
    ax_device_describe(&b->dev, device, sizeof device);
    printf("%s  B=%lld T=%lld  %s  %s%s\n", b->preset, (long long)b->batch, (long long)b->seq,
           ax_dtype_name(b->act), device, b->polled ? ", polled" : "");
    printf("    ms a product        median       min       max     gain\n");
    b->dev.tuner = &b->one;
    b->dev.poll = b->polled ? no_poll : NULL;
    ax_status st = AX_OK;
    for (int i = 0; i < b->noted.count && st == AX_OK; i++)
        st = bench_product(b, &b->noted.entry[i].key);
    if (st == AX_OK)
        printf("one of each: %.2f ms by default, %.2f ms at best: %+.1f %%\n", 1e3 * b->of_step[0],
               1e3 * b->of_step[1], 100 * (b->of_step[0] / b->of_step[1] - 1));
    ax_device_close(&b->dev);
    return st;
}

static ax_status parse(bench *b, const char *argument)
{
    static const struct {
        const char *key;
        size_t offset;
    } number[] = {{"batch=", offsetof(bench, batch)},
                  {"seq=", offsetof(bench, seq)},
                  {"rounds=", offsetof(bench, rounds)},
                  {"polled=", offsetof(bench, polled)}};
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
             "%s: known are preset=, batch=, seq=, rounds=, polled=, precision=fp32|bf16",
             argument);
    b->act = argument[10] == 'b' ? AX_BF16 : AX_F32;
    return AX_OK;
}

int main(int argc, char **argv)
{
    static bench b;
    ax_status st = AX_OK;
    b = (bench){.preset = "gpt2-124m", .batch = 4, .seq = 1024, .rounds = 5, .act = AX_F32};
    for (int i = 1; i < argc && st == AX_OK; i++)
        st = parse(&b, argv[i]);
    if (st == AX_OK && b.rounds > MOST_ROUNDS)
        st = ax_fail(AX_EUSAGE, __FILE__, __LINE__, "at most %d rounds", MOST_ROUNDS);
    if (st == AX_OK)
        st = ax_arch_preset(b.preset, &b.arch);
    b.arch.seq = b.seq;
    if (st == AX_OK)
        st = ax_arch_check(&b.arch);
    if (st != AX_OK)
        return 2;
    return run(&b) == AX_OK ? 0 : 1;
}
