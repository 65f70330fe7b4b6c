// Tokens a second with a cache of keys and values, against passes over the whole row for every
// token, in one run; and how fast a step reads the weights. Prints the median, slowest and fastest
// of several runs. Never decides a test.
//
//     bench_generate [threads] [preset] [seq]
#include "base/log.h"
#include "nn/infer.h"
#include "train/metrics.h"
#include "train/ranks.h"
#include "train/trainer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS = 5, STEPS = 16, MOST = 16 };

typedef struct bench {
    ax_arch arch;
    int threads;
    double whole; // tokens/s of whole passes
} bench;

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double report(const char *what, double rate[RUNS])
{
    qsort(rate, RUNS, sizeof *rate, by_value);
    printf("%-36s %10.1f tokens/s (%.1f to %.1f)", what, rate[RUNS / 2], rate[0], rate[RUNS - 1]);
    return rate[RUNS / 2];
}

static ax_status open_trainer(const bench *b, ax_comm *world, int64_t batch, bool cached,
                              ax_trainer *t)
{
    ax_trainer_config c = {.arch = &b->arch,
                           .grid = {1, 1, 1, 1, "xyzd"},
                           .batch = batch,
                           .device = "cpu",
                           .act = AX_F32,
                           .threads = b->threads,
                           .inference = true,
                           .cache = cached ? b->arch.seq : 0};
    AX_TRY(ax_trainer_open(&c, world, t));
    return ax_params_init(&t->model.params, &t->grid, &t->dev, 1);
}

static ax_status bench_whole(bench *b, ax_comm *world)
{
    ax_trainer t;
    double rate[RUNS];
    AX_TRY(open_trainer(b, world, 1, false, &t));
    float *logits = malloc((size_t)t.layout.vocab_padded * sizeof *logits);
    AX_CHECK(logits, AX_ENOMEM, "no memory for logits");
    for (int i = -1; i < RUNS; i++) {
        double from = ax_metrics_clock();
        AX_TRY(ax_model_logits(&t.model, t.ids, b->arch.seq / 2, logits));
        if (i >= 0)
            rate[i] = 1 / (ax_metrics_clock() - from);
    }
    b->whole = report("a whole pass a token", rate);
    printf("\n");
    free(logits);
    ax_trainer_close(&t);
    return AX_OK;
}

// Half of the context is read, then tokens follow.
static ax_status bench_cached(bench *b, ax_comm *world, int64_t batch)
{
    ax_trainer t;
    char what[64];
    double read[RUNS], rate[RUNS];
    int32_t length[MOST], next[MOST] = {0};
    bool keep[MOST];
    AX_TRY(open_trainer(b, world, batch, true, &t));
    int64_t half = b->arch.seq / 2, seq = ax_infer_seq(&t.model, half);
    double *logits = malloc((size_t)(batch * t.layout.vocab_padded) * sizeof *logits);
    AX_CHECK(logits, AX_ENOMEM, "no memory for logits");
    for (int64_t s = 0; s < batch; s++) {
        length[s] = (int32_t)half;
        keep[s] = true;
    }
    for (int i = -1; i < RUNS; i++) {
        double from = ax_metrics_clock(), then;
        AX_TRY(ax_infer_prefill(&t.model, &(ax_prefill){t.ids, seq, length, keep}, logits));
        then = ax_metrics_clock();
        for (int k = 0; k < STEPS; k++)
            AX_TRY(ax_infer_step(&t.model, next, logits));
        if (i < 0)
            continue;
        read[i] = (double)(batch * half) / (then - from);
        rate[i] = (double)(batch * STEPS) / (ax_metrics_clock() - then);
    }
    snprintf(what, sizeof what, "cached, %lld at one time: prompts", (long long)batch);
    report(what, read);
    snprintf(what, sizeof what, "cached, %lld at one time: steps", (long long)batch);
    printf("\n");
    double r = report(what, rate), weights = (double)ax_arch_parameters(&b->arch) * sizeof(float);
    printf(", %.1f times a whole pass; weights at %.1f GB/s\n", r / b->whole,
           weights * r / (double)batch * 1e-9);
    free(logits);
    ax_trainer_close(&t);
    return AX_OK;
}

static ax_status bench_rank(void *ctx, ax_comm *world)
{
    bench *b = ctx;
    AX_TRY(bench_whole(b, world));
    for (int64_t batch = 1; batch <= MOST; batch *= 4)
        AX_TRY(bench_cached(b, world, batch));
    return AX_OK;
}

int main(int argc, char **argv)
{
    bench b = {.threads = argc > 1 ? atoi(argv[1]) : 0};
    ax_log_setup((ax_log_config){.ranks = 1, .level = AX_LOG_WARN});
    if (ax_arch_preset(argc > 2 ? argv[2] : "gpt2-124m", &b.arch) != AX_OK)
        return 2;
    b.arch.seq = argc > 3 ? atoll(argv[3]) : b.arch.seq;
    b.arch.vocab = b.arch.vocab ? b.arch.vocab : 257;
    if (ax_arch_check(&b.arch) != AX_OK)
        return 2;
    printf("%.1f million parameters, context %lld, f32\n",
           (double)ax_arch_parameters(&b.arch) * 1e-6, (long long)b.arch.seq);
    return ax_ranks_run(1, bench_rank, &b) == AX_OK ? 0 : 1;
}
