// Attention beside the matmul rate of the same moment: rounds of a matmul, the forward pass, a
// matmul, the backward pass and a matmul; each pass is divided by the mean of its two neighbours.
//
//     bench_attention [seq=8192] [sequences=1] [heads=12] [kv_heads=12] [head_dim=64]
//                     [precision=fp32|bf16] [threads=0] [rounds=5] [cpu=1]
//
// Flops are those of the causal half. The workspace is printed: it is linear in T. cpu=1 counts
// the processor's time instead of the clock's, for machines that others use; with threads=1.
#include "bench_case.h"

#include "dev/kern.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { MOST_ROUNDS = 100, M = 2048, N = 2048, K = 768 };

typedef struct bench {
    int64_t seq, sequences, heads, kv_heads, head_dim, threads, rounds, cpu;
    ax_dtype act;
    ax_device dev;
    ax_attention_args g;
    ax_gemm_args product;
    double matmul[MOST_ROUNDS], fwd[MOST_ROUNDS], bwd[MOST_ROUNDS]; // flop/s; shares
} bench;

static double clock_of(const bench *b)
{
    struct timespec t;
    if (!b->cpu)
        return ax_clock_s();
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static ax_status make(bench *b, ax_dtype dtype, int64_t rows, int64_t cols, ax_tensor *out)
{
    *out = ax_tensor_over(NULL, dtype, rows, cols);
    AX_TRY(ax_device_alloc(&b->dev, ax_tensor_bytes(*out) + 64, &out->data));
    return ax_fill(&b->dev, *out, 0.01);
}

static ax_status open_bench(bench *b)
{
    int64_t rows = b->sequences * b->seq, q = b->heads * b->head_dim,
            kv = b->kv_heads * b->head_dim;
    ax_device_config config = {.name = "measure", .as = "cpu", .threads = (int)b->threads};
    ax_tensor qkv, dqkv;
    config.threads = config.threads ? config.threads : ax_device_cores();
    AX_TRY(ax_device_open(&config, &b->dev));
    b->g = (ax_attention_args){.sequences = b->sequences,
                               .seq = b->seq,
                               .heads = b->heads,
                               .kv_heads = b->kv_heads,
                               .head_dim = b->head_dim,
                               .scale = 1 / sqrt((double)b->head_dim)};
    b->g.q.dtype = b->act;
    config.workspace = b->dev.kern->attention_workspace(&b->dev, &b->g);
    ax_gemm_args product = {.tb = AX_T};
    product.a = ax_tensor_over(NULL, b->act, M, K);
    product.b = ax_tensor_over(NULL, b->act, N, K);
    product.c = ax_tensor_over(NULL, b->act, M, N);
    size_t more = b->dev.kern->gemm_workspace(&b->dev, &product);
    printf("attention workspace %.1f MiB for %d threads\n", (double)config.workspace / 1048576,
           config.threads);
    config.workspace = config.workspace > more ? config.workspace : more;
    ax_device_close(&b->dev);
    config.name = "cpu";
    config.core = -1;
    AX_TRY(ax_device_open(&config, &b->dev));
    AX_TRY(make(b, b->act, M, K, &product.a));
    AX_TRY(make(b, b->act, N, K, &product.b));
    AX_TRY(make(b, b->act, M, N, &product.c));
    b->product = product;
    AX_TRY(make(b, b->act, rows, q + 2 * kv, &qkv));
    AX_TRY(make(b, b->act, rows, q + 2 * kv, &dqkv));
    AX_TRY(make(b, b->act, rows, q, &b->g.out));
    AX_TRY(make(b, b->act, rows, q, &b->g.dout));
    AX_TRY(make(b, AX_F32, rows, b->heads, &b->g.lse));
    b->g.q = ax_tensor_cols(qkv, 0, q);
    b->g.k = ax_tensor_cols(qkv, q, kv);
    b->g.v = ax_tensor_cols(qkv, q + kv, kv);
    b->g.dq = ax_tensor_cols(dqkv, 0, q);
    b->g.dk = ax_tensor_cols(dqkv, q, kv);
    b->g.dv = ax_tensor_cols(dqkv, q + kv, kv);
    return AX_OK;
}

// flop/s of some matmuls.
static ax_status matmul_rate(bench *b, double *rate)
{
    enum { TIMES = 8 };
    double begun = clock_of(b);
    for (int i = 0; i < TIMES; i++)
        AX_TRY(ax_gemm(&b->dev, &b->product));
    *rate = TIMES * 2.0 * M * N * K / (clock_of(b) - begun);
    return AX_OK;
}

static ax_status pass_rate(bench *b, ax_status (*pass)(ax_device *, const ax_attention_args *),
                           double *rate)
{
    double flops = b->dev.matmul_flops, begun = clock_of(b);
    AX_TRY(pass(&b->dev, &b->g));
    *rate = (b->dev.matmul_flops - flops) / (clock_of(b) - begun);
    return AX_OK;
}

static ax_status run(bench *b)
{
    double before, between, after, fwd, bwd;
    AX_TRY(ax_attention_fwd(&b->dev, &b->g)); // memory is touched, the team is there
    AX_TRY(matmul_rate(b, &before));
    for (int64_t i = 0; i < b->rounds; i++) {
        AX_TRY(matmul_rate(b, &before));
        AX_TRY(pass_rate(b, ax_attention_fwd, &fwd));
        AX_TRY(matmul_rate(b, &between));
        AX_TRY(pass_rate(b, ax_attention_bwd, &bwd));
        AX_TRY(matmul_rate(b, &after));
        b->matmul[i] = between;
        b->fwd[i] = fwd / (0.5 * (before + between));
        b->bwd[i] = bwd / (0.5 * (between + after));
    }
    return AX_OK;
}

static void print(bench *b)
{
    bench_spread matmul = bench_spread_of(b->matmul, b->rounds);
    bench_spread fwd = bench_spread_of(b->fwd, b->rounds), bwd = bench_spread_of(b->bwd, b->rounds);
    printf("T=%lld, %lld sequences, %lld heads of %lld, %lld kv heads, %s, %d threads\n",
           (long long)b->seq, (long long)b->sequences, (long long)b->heads, (long long)b->head_dim,
           (long long)b->kv_heads, ax_dtype_name(b->act), b->dev.threads);
    printf("matmul    %6.1f Gflop/s median (min %.1f, max %.1f)\n", matmul.median / 1e9,
           matmul.least / 1e9, matmul.most / 1e9);
    printf("forward   %6.1f %% of the matmul rate, median (min %.1f, max %.1f)\n", 100 * fwd.median,
           100 * fwd.least, 100 * fwd.most);
    printf("backward  %6.1f %% of the matmul rate, median (min %.1f, max %.1f)\n", 100 * bwd.median,
           100 * bwd.least, 100 * bwd.most);
}

static ax_status parse(bench *b, int argc, char **argv)
{
    const struct {
        const char *key;
        int64_t *to;
    } known[] = {{"seq=", &b->seq},           {"sequences=", &b->sequences},
                 {"heads=", &b->heads},       {"kv_heads=", &b->kv_heads},
                 {"head_dim=", &b->head_dim}, {"threads=", &b->threads},
                 {"rounds=", &b->rounds},     {"cpu=", &b->cpu}};
    for (int i = 1; i < argc; i++) {
        bool ok = true, found = strncmp(argv[i], "precision=", 10) == 0;
        if (found) {
            ok = strcmp(argv[i] + 10, "fp32") == 0 || strcmp(argv[i] + 10, "bf16") == 0;
            b->act = argv[i][10] == 'b' ? AX_BF16 : AX_F32;
        }
        for (size_t k = 0; k < sizeof known / sizeof known[0] && !found; k++)
            found = bench_number(argv[i], known[k].key, known[k].to, &ok);
        AX_CHECK(found && ok, AX_EUSAGE,
                 "%s: known are seq=, sequences=, heads=, kv_heads=, head_dim=, threads=, rounds=, "
                 "cpu=1, precision=fp32|bf16",
                 argv[i]);
    }
    AX_CHECK(b->rounds <= MOST_ROUNDS, AX_EUSAGE, "at most %d rounds", MOST_ROUNDS);
    return AX_OK;
}

int main(int argc, char **argv)
{
    bench b = {.seq = 8192,
               .sequences = 1,
               .heads = 12,
               .kv_heads = 12,
               .head_dim = 64,
               .rounds = 5,
               .act = AX_F32};
    if (parse(&b, argc, argv) != AX_OK)
        return 2;
    if (open_bench(&b) != AX_OK || run(&b) != AX_OK)
        return 1;
    print(&b);
    return 0;
}
