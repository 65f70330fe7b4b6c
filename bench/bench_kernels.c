// Speed of the kernels on the cpu device: matmuls of a GPT-2-small block, attention, and the row
// kernels. Prints the median, fastest and slowest of several runs, and for attention the share
// of the best f32 matmul rate of the same run. Never decides a test.
//
//     bench_kernels [threads] [rows]
#include "dev/kern.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { RUNS = 7 };

typedef struct bench {
    ax_device dev;
    double best; // Gflop/s of the best f32 matmul so far
} bench;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void must(ax_status st)
{
    if (st != AX_OK)
        exit(1);
}

static ax_tensor tensor(bench *b, ax_dtype dtype, int64_t rows, int64_t cols)
{
    ax_tensor t = ax_tensor_over(NULL, dtype, rows, cols);
    must(ax_device_alloc(&b->dev, ax_tensor_bytes(t) + 64, &t.data));
    must(ax_fill(&b->dev, t, 0.01));
    return t;
}

static void drop(bench *b, ax_tensor t)
{
    ax_device_free(&b->dev, t.data, ax_tensor_bytes(t) + 64);
}

// Runs the call RUNS times after one warm-up; the unit is work / 1e9.
static double report(const char *what, const char *unit, double work,
                     ax_status (*call)(bench *, void *), bench *b, void *arg)
{
    double rate[RUNS];
    must(call(b, arg));
    for (int i = 0; i < RUNS; i++) {
        double from = now_s();
        must(call(b, arg));
        rate[i] = work / (now_s() - from) * 1e-9;
    }
    qsort(rate, RUNS, sizeof *rate, by_value);
    printf("%-34s %8.1f %s (%.1f to %.1f)", what, rate[RUNS / 2], unit, rate[0], rate[RUNS - 1]);
    return rate[RUNS / 2];
}

static ax_status call_gemm(bench *b, void *arg)
{
    return ax_gemm(&b->dev, arg);
}

static void bench_gemm(bench *b, ax_dtype act, ax_dtype c_dtype, int64_t m, int64_t n, int64_t k,
                       ax_trans ta, ax_trans tb)
{
    char what[80];
    ax_gemm_args g = {ta,
                      tb,
                      tensor(b, act, ta ? k : m, ta ? m : k),
                      tensor(b, act, tb ? n : k, tb ? k : n),
                      tensor(b, c_dtype, m, n),
                      0};
    snprintf(what, sizeof what, "gemm %s>%s %s%s %lldx%lldx%lld", ax_dtype_name(act),
             ax_dtype_name(c_dtype), ta ? "T" : "N", tb ? "T" : "N", (long long)m, (long long)n,
             (long long)k);
    double rate =
        report(what, "Gflop/s", 2.0 * (double)m * (double)n * (double)k, call_gemm, b, &g);
    if (act == AX_F32 && rate > b->best)
        b->best = rate;
    printf("\n");
    drop(b, g.a);
    drop(b, g.b);
    drop(b, g.c);
}

static ax_status call_attention_fwd(bench *b, void *arg)
{
    return ax_attention_fwd(&b->dev, arg);
}

static ax_status call_attention_bwd(bench *b, void *arg)
{
    return ax_attention_bwd(&b->dev, arg);
}

static void bench_attention(bench *b, ax_dtype act, int64_t sequences, int64_t seq, int64_t heads,
                            int64_t d)
{
    int64_t rows = sequences * seq, h = heads * d;
    char what[80];
    ax_tensor qkv = tensor(b, act, rows, 3 * h), dqkv = tensor(b, act, rows, 3 * h);
    ax_attention_args g = {.sequences = sequences,
                           .seq = seq,
                           .heads = heads,
                           .kv_heads = heads,
                           .head_dim = d,
                           .scale = 1 / sqrt((double)d),
                           .q = ax_tensor_cols(qkv, 0, h),
                           .k = ax_tensor_cols(qkv, h, h),
                           .v = ax_tensor_cols(qkv, 2 * h, h),
                           .out = tensor(b, act, rows, h),
                           .lse = tensor(b, AX_F32, rows, heads),
                           .dout = tensor(b, act, rows, h),
                           .dq = ax_tensor_cols(dqkv, 0, h),
                           .dk = ax_tensor_cols(dqkv, h, h),
                           .dv = ax_tensor_cols(dqkv, 2 * h, h)};
    double work = 4.0 * (double)(sequences * heads * d * (seq * (seq + 1) / 2));
    snprintf(what, sizeof what, "attention fwd %s T=%lld D=%lld", ax_dtype_name(act),
             (long long)seq, (long long)d);
    double rate = report(what, "Gflop/s", work, call_attention_fwd, b, &g);
    printf(" %.0f %% of sgemm\n", 100 * rate / b->best);
    snprintf(what, sizeof what, "attention bwd %s T=%lld D=%lld", ax_dtype_name(act),
             (long long)seq, (long long)d);
    rate = report(what, "Gflop/s", 2.5 * work, call_attention_bwd, b, &g);
    printf(" %.0f %% of sgemm\n", 100 * rate / b->best);
    ax_tensor all[] = {qkv, dqkv, g.out, g.lse, g.dout};
    for (int i = 0; i < 5; i++)
        drop(b, all[i]);
}

static ax_status call_attention_cached(bench *b, void *arg)
{
    return ax_attention_cached(&b->dev, arg);
}

// What a step reads of a cache is what it must read: the unit is bytes of keys and values.
static void bench_cached(bench *b, ax_dtype act, int64_t room, int64_t heads, int64_t kv_heads)
{
    enum { S = 4, D = 64 };
    char what[80];
    int32_t length[S];
    ax_attention_cached_args g = {.sequences = S,
                                  .queries = 1,
                                  .heads = heads,
                                  .kv_heads = kv_heads,
                                  .head_dim = D,
                                  .room = room,
                                  .scale = 0.125,
                                  .q = tensor(b, act, S, heads * D),
                                  .k = tensor(b, act, S * kv_heads * room, D),
                                  .v = tensor(b, act, S * kv_heads * room, D),
                                  .lengths = ax_tensor_over(length, AX_I32, 1, S),
                                  .out = tensor(b, act, S, heads * D)};
    for (int s = 0; s < S; s++)
        length[s] = (int32_t)room;
    snprintf(what, sizeof what, "attention_cached %s %lld/%lld heads", ax_dtype_name(act),
             (long long)heads, (long long)kv_heads);
    report(what, "GB/s", 2.0 * (double)ax_tensor_bytes(g.k), call_attention_cached, b, &g);
    printf("\n");
    ax_tensor all[] = {g.q, g.k, g.v, g.out};
    for (int i = 0; i < 4; i++)
        drop(b, all[i]);
}

// ---- row kernels ----

typedef struct rows {
    ax_tensor x, y, z;                // (m, n) act
    ax_tensor acc, dacc, sums, dsums; // (m, n) x2, (m, 2) x2: acc
    ax_tensor w, b, dw, db;           // (1, n) acc
    ax_tensor run[5];                 // (1, m * n): master, m, v, grad, weight
    ax_tensor ids, table, freq;       // (1, m) i32, (1000, n) act, (1, 32) acc
    ax_step_scalars step;
} rows;

static ax_norm_args norm_of(rows *r)
{
    return (ax_norm_args){.kind = AX_LAYERNORM,
                          .width = r->x.cols,
                          .eps = 1e-5,
                          .x = r->acc,
                          .w = r->w,
                          .b = r->b,
                          .sums = r->sums,
                          .y = r->y,
                          .dy = r->z,
                          .dsums = r->dsums,
                          .dx = r->dacc,
                          .dw = r->dw,
                          .db = r->db};
}

static ax_status call_norm_fwd(bench *b, void *arg)
{
    ax_norm_args g = norm_of(arg);
    AX_TRY(ax_norm_sums(&b->dev, &g));
    return ax_norm_fwd(&b->dev, &g);
}

static ax_status call_norm_bwd(bench *b, void *arg)
{
    ax_norm_args g = norm_of(arg);
    AX_TRY(ax_norm_bwd_sums(&b->dev, &g));
    return ax_norm_bwd(&b->dev, &g);
}

static ax_status call_gelu_fwd(bench *b, void *arg)
{
    rows *r = arg;
    return ax_gelu_fwd(&b->dev, r->x, r->y);
}

static ax_status call_gelu_bwd(bench *b, void *arg)
{
    rows *r = arg;
    return ax_gelu_bwd(&b->dev, r->x, r->y, r->z);
}

static ax_status call_rope(bench *b, void *arg)
{
    rows *r = arg;
    return ax_rope(&b->dev, r->x, r->ids, r->freq, 64, 1);
}

static ax_status call_bias(bench *b, void *arg)
{
    rows *r = arg;
    AX_TRY(ax_bias_fwd(&b->dev, r->x, r->b));
    return ax_bias_bwd(&b->dev, r->x, r->db);
}

static ax_status call_embed(bench *b, void *arg)
{
    rows *r = arg;
    AX_TRY(ax_embed_fwd(&b->dev, r->ids, 0, r->table, r->acc));
    return ax_embed_bwd(&b->dev, r->ids, 0, r->x, r->dacc);
}

static ax_status call_xent(bench *b, void *arg)
{
    rows *r = arg;
    ax_tensor max = ax_tensor_over(r->dsums.data, AX_F32, 1, r->x.rows);
    ax_xent_args g = {0, r->x.cols, r->acc, r->ids, max, r->sums, 1, r->x};
    AX_TRY(ax_xent_max(&b->dev, &g));
    AX_TRY(ax_xent_sums(&b->dev, &g));
    return ax_xent_bwd(&b->dev, &g);
}

static ax_status call_adamw(bench *b, void *arg)
{
    rows *r = arg;
    ax_adamw_args g = {&r->step, 0.1, r->run[0], r->run[1], r->run[2], r->run[3], r->run[4]};
    return ax_adamw(&b->dev, &g);
}

static ax_status call_widen(bench *b, void *arg)
{
    rows *r = arg;
    return ax_copy(&b->dev, r->x, r->acc);
}

static ax_status call_add(bench *b, void *arg)
{
    rows *r = arg;
    return ax_add(&b->dev, r->x, r->acc);
}

static ax_status call_square_sum(bench *b, void *arg)
{
    rows *r = arg;
    double out[2] = {0, 0};
    return ax_square_sum(&b->dev, r->acc, out);
}

static rows make_rows(bench *b, ax_dtype act, int64_t m, int64_t n)
{
    rows r = {.x = tensor(b, act, m, n),
              .y = tensor(b, act, m, n),
              .z = tensor(b, act, m, n),
              .acc = tensor(b, AX_F32, m, n),
              .dacc = tensor(b, AX_F32, m, n),
              .sums = tensor(b, AX_F32, m, 2),
              .dsums = tensor(b, AX_F32, m, 2),
              .w = tensor(b, AX_F32, 1, n),
              .b = tensor(b, AX_F32, 1, n),
              .dw = tensor(b, AX_F32, 1, n),
              .db = tensor(b, AX_F32, 1, n),
              .table = tensor(b, act, 1000, n),
              .freq = tensor(b, AX_F32, 1, 32),
              .step = {1e-3, 0.9, 0.95, 1e-8, 0.1, 0.05, 1}};
    for (int i = 0; i < 5; i++)
        r.run[i] = tensor(b, i < 4 ? AX_F32 : act, 1, m * n);
    r.ids = ax_tensor_over(NULL, AX_I32, 1, m);
    must(ax_device_alloc(&b->dev, ax_tensor_bytes(r.ids) + 64, &r.ids.data));
    for (int64_t i = 0; i < m; i++)
        ((int32_t *)r.ids.data)[i] = (int32_t)(i * 7919 % 1000);
    return r;
}

static void drop_rows(bench *b, rows *r)
{
    ax_tensor all[] = {r->x,      r->y,      r->z,      r->acc,    r->dacc,  r->sums, r->dsums,
                       r->w,      r->b,      r->dw,     r->db,     r->table, r->freq, r->ids,
                       r->run[0], r->run[1], r->run[2], r->run[3], r->run[4]};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        drop(b, all[i]);
}

static void bench_rows(bench *b, ax_dtype act, int64_t m, int64_t n)
{
    rows r = make_rows(b, act, m, n);
    double a = (double)ax_tensor_bytes(r.x), f = (double)ax_tensor_bytes(r.acc);
    const struct {
        const char *name;
        double bytes;
        ax_status (*call)(bench *, void *);
    } list[] = {
        {"norm_sums+fwd", 2 * f + a, call_norm_fwd},
        {"norm_bwd_sums+bwd", 4 * f + 3 * a, call_norm_bwd},
        {"gelu_fwd", 2 * a, call_gelu_fwd},
        {"gelu_bwd", 3 * a, call_gelu_bwd},
        {"rope", 2 * a, call_rope},
        {"bias_fwd+bwd", 3 * a, call_bias},
        {"embed_fwd+bwd", 2 * a + 3 * f, call_embed},
        {"xent_max+sums+bwd", 3 * f + a, call_xent},
        {"adamw", 7 * f + a, call_adamw},
        {"copy to f32", a + f, call_widen},
        {"add to f32", a + 2 * f, call_add},
        {"square_sum f32", f, call_square_sum},
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        char what[80];
        snprintf(what, sizeof what, "%s %s %lldx%lld", list[i].name, ax_dtype_name(act),
                 (long long)m, (long long)n);
        report(what, "GB/s", list[i].bytes, list[i].call, b, &r);
        printf("\n");
    }
    drop_rows(b, &r);
}

int main(int argc, char **argv)
{
    bench b = {.best = 0};
    int64_t m = argc > 2 ? atoll(argv[2]) : 4096;
    char text[200];
    must(ax_device_open(&(ax_device_config){.name = "cpu",
                                            .threads = argc > 1 ? atoi(argv[1]) : 0,
                                            .core = 0,
                                            .workspace = 256 << 20},
                        &b.dev));
    ax_device_describe(&b.dev, text, sizeof text);
    printf("%s\n", text);
    const int64_t shapes[2][2] = {{768, 768}, {3072, 768}}; // out, in
    for (int i = 0; i < 2; i++)
        for (int act = AX_F32; act <= AX_BF16; act += AX_BF16 - AX_F32) {
            int64_t n = shapes[i][0], k = shapes[i][1];
            bench_gemm(&b, (ax_dtype)act, (ax_dtype)act, m, n, k, AX_N, AX_T);
            bench_gemm(&b, (ax_dtype)act, (ax_dtype)act, m, k, n, AX_N, AX_N);
            bench_gemm(&b, (ax_dtype)act, AX_F32, n, k, m, AX_T, AX_N);
        }
    for (int act = AX_F32; act <= AX_BF16; act += AX_BF16 - AX_F32)
        bench_attention(&b, (ax_dtype)act, m > 1024 ? m / 1024 : 1, 1024, 12, 64);
    for (int act = AX_F32; act <= AX_BF16; act += AX_BF16 - AX_F32)
        for (int64_t kv_heads = 3; kv_heads <= 12; kv_heads *= 4)
            bench_cached(&b, (ax_dtype)act, 4096, 12, kv_heads);
    for (int act = AX_F32; act <= AX_BF16; act += AX_BF16 - AX_F32)
        bench_rows(&b, (ax_dtype)act, m, 768);
    ax_device_close(&b.dev);
    return 0;
}
