// Opening devices, what the measuring mode promises, and misuse that must be refused.
#include "operand.h"

#include "base/log.h"
#ifdef AX_WITH_ONEDNN
#include "dev/cpu/cpu.h"
#include "dev/cpu/onednn.h"
#endif
#include <stdio.h>

static ax_device opened(const char *name, const char *as, size_t workspace)
{
    ax_device dev;
    ax_device_config config = {
        .name = name, .as = as, .threads = 2, .core = -1, .workspace = workspace};
    assert_int_equal(ax_device_open(&config, &dev), AX_OK);
    return dev;
}

// Expects `call` to fail with AX_EINTERNAL, without printing the message.
#define REFUSED(call)                                                                              \
    do {                                                                                           \
        ax_log_config refused_log = ax_log_current();                                              \
        ax_log_setup((ax_log_config){.ranks = 1, .muted = true});                                  \
        ax_status refused_status = (call);                                                         \
        ax_log_setup(refused_log);                                                                 \
        assert_int_equal(refused_status, AX_EINTERNAL);                                            \
    } while (0)

static ax_tensor zeros(ax_dtype dtype, int64_t rows, int64_t cols)
{
    void *data = calloc((size_t)(rows * cols) + 1, 8);
    assert_non_null(data);
    return ax_tensor_over(data, dtype, rows, cols);
}

static void wrong_shapes_are_refused(void **state)
{
    (void)state;
    ax_device dev = opened("ref", NULL, 0);
    ax_tensor a = zeros(AX_F32, 4, 6), b = zeros(AX_F32, 5, 3), c = zeros(AX_F32, 4, 3);
    ax_tensor wide = zeros(AX_F64, 4, 6), id = zeros(AX_I32, 1, 4);
    REFUSED(ax_gemm(&dev, &(ax_gemm_args){AX_N, AX_N, a, b, c, 0})); // k 6 against 5
    REFUSED(ax_gemm(&dev, &(ax_gemm_args){AX_N, AX_N, ax_tensor_cols(a, 0, 5), b, c, 0.5}));
    REFUSED(ax_gemm(&dev, &(ax_gemm_args){AX_N, AX_T, a, wide, ax_tensor_cols(a, 0, 4), 0}));
    REFUSED(ax_gelu_fwd(&dev, a, c));
    REFUSED(ax_gelu_fwd(&dev, a, wide));
    REFUSED(ax_bias_fwd(&dev, a, ax_tensor_rows(c, 0, 1)));
    REFUSED(ax_copy(&dev, a, id));
    REFUSED(ax_embed_fwd(&dev, a, 0, b, c));
    REFUSED(ax_rope(&dev, a, id, ax_tensor_rows(c, 0, 1), 4, 1)); // 6 columns are no heads of 4
    ax_tensor overlapping = a, nothing = a;
    overlapping.stride = 2;
    nothing.data = NULL;
    REFUSED(ax_fill(&dev, overlapping, 0));
    REFUSED(ax_fill(&dev, nothing, 0));
    ax_norm_args norm = {.width = 5, .x = a, .sums = ax_tensor_cols(a, 0, 2)};
    REFUSED(ax_norm_sums(&dev, &norm)); // 6 columns of a width of 5
    ax_attention_args attention = {
        .sequences = 1, .seq = 4, .heads = 3, .kv_heads = 2, .head_dim = 2};
    REFUSED(ax_attention_fwd(&dev, &attention)); // 3 heads do not share 2
    ax_tensor all[] = {a, b, c, wide, id};
    for (int i = 0; i < 5; i++)
        free(all[i].data);
    ax_device_close(&dev);
}

static void unknown_devices_are_refused(void **state)
{
    (void)state;
    ax_device dev;
    ax_log_config log = ax_log_current();
    ax_log_setup((ax_log_config){.ranks = 1, .muted = true});
    ax_status st = ax_device_open(&(ax_device_config){.name = "abacus"}, &dev);
    ax_log_setup(log);
    assert_int_equal(st, AX_EUNSUPPORTED);
    assert_non_null(ax_device_missing("abacus"));
    assert_null(ax_device_missing("ref"));
    assert_string_equal(ax_device_names()[0], "ref");
    assert_true(ax_device_cores() >= 1);
    ax_device none = {0};
    ax_device_close(&none);
}

static void memory_is_zeroed_and_aligned(void **state)
{
    (void)state;
    for (const char *const *name = ax_device_names(); *name; name++) {
        ax_device dev = opened(*name, NULL, 0);
        static const size_t sizes[] = {0, 1, 100, 5 << 20};
        for (int i = 0; i < 4; i++) {
            unsigned char *mem = NULL;
            assert_int_equal(ax_device_alloc(&dev, sizes[i], (void **)&mem), AX_OK);
            assert_true((uintptr_t)mem % 64 == 0);
            for (size_t b = 0; b < sizes[i]; b++)
                assert_int_equal(mem[b], 0);
            ax_device_free(&dev, mem, sizes[i]);
        }
        char text[200];
        ax_device_describe(&dev, text, sizeof text);
        assert_memory_equal(text, *name, strlen(*name));
        print_message("%s; gemm: %s, norm_fwd: %s\n", text, ax_kern_name(&dev, "gemm"),
                      ax_kern_name(&dev, "norm_fwd"));
        assert_null(ax_kern_name(&dev, "cube_root"));
        for (const char *const *slot = ax_kern_slots(); *slot; slot++)
            assert_non_null(ax_kern_name(&dev, *slot));
        ax_device_close(&dev);
    }
}

static void pinned_devices_open_and_compute(void **state)
{
    (void)state;
    for (const char *const *name = ax_device_names(); *name; name++)
        for (int core = 0; core < 3; core++) {
            ax_device dev;
            ax_device_config config = {.name = *name, .threads = 1 + core, .core = core};
            int before = ax_device_cores();
            assert_int_equal(ax_device_open(&config, &dev), AX_OK);
            char text[200];
            ax_device_describe(&dev, text, sizeof text);
            bool pinned = strstr(text, ", pinned") != NULL;
            assert_true(ax_device_cores() == (pinned && before > 1 + core ? 1 + core : before));
            ax_tensor x = zeros(AX_F32, 100, 300);
            assert_int_equal(ax_fill(&dev, x, 2), AX_OK);
            double sum[2] = {0, 0};
            assert_int_equal(ax_square_sum(&dev, x, sum), AX_OK);
            assert_true(sum[0] == 4.0 * 100 * 300 && sum[1] == 0);
            free(x.data);
            ax_device_close(&dev);
            assert_int_equal(ax_device_cores(), before); // the thread is free again
        }
}

// ---- threads ----

enum { M = 300, H = 160, HEADS = 4, SEQ = 150 };

// One of each kind of sum; every result goes into one block of memory, which is returned.
static float *results_of(const char *name, int threads, size_t *count)
{
    ax_device dev;
    ax_device_config config = {.name = name, .threads = threads, .core = -1, .workspace = 32 << 20};
    assert_int_equal(ax_device_open(&config, &dev), AX_OK);
    *count = (size_t)M * (7 * H + 2 + HEADS) + 2 * H + 4;
    float *all = calloc(*count, sizeof *all), *next = all;
    assert_non_null(all);
    ax_tensor in = zeros(AX_F32, M, H), t[7];
    randomise(in, 5, 1);
    for (int i = 0; i < 7; i++, next += M * H)
        t[i] = ax_tensor_over(next, AX_F32, M, H);
    ax_tensor sums = ax_tensor_over(next, AX_F32, M, 2);
    ax_tensor lse = ax_tensor_over(next += 2 * M, AX_F32, M, HEADS);
    ax_tensor dw = ax_tensor_over(next += M * HEADS, AX_F32, 1, H);
    ax_tensor db = ax_tensor_over(next += H, AX_F32, 1, H);
    double square[2] = {0, 0};
    ax_attention_args a = {.sequences = M / SEQ,
                           .seq = SEQ,
                           .heads = HEADS,
                           .kv_heads = HEADS,
                           .head_dim = H / HEADS,
                           .scale = 0.2,
                           .q = in,
                           .k = in,
                           .v = in,
                           .out = t[0],
                           .lse = lse,
                           .dout = in,
                           .dq = t[1],
                           .dk = t[2],
                           .dv = t[3]};
    assert_int_equal(ax_attention_fwd(&dev, &a), AX_OK);
    assert_int_equal(ax_attention_bwd(&dev, &a), AX_OK);
    ax_norm_args n = {.kind = AX_LAYERNORM,
                      .width = H,
                      .eps = 1e-5,
                      .x = in,
                      .w = ax_tensor_rows(in, 0, 1),
                      .sums = sums,
                      .y = t[4],
                      .dy = in,
                      .dsums = sums,
                      .dx = t[5],
                      .dw = dw,
                      .db = db};
    assert_int_equal(ax_norm_sums(&dev, &n), AX_OK);
    assert_int_equal(ax_norm_fwd(&dev, &n), AX_OK);
    assert_int_equal(ax_norm_bwd(&dev, &n), AX_OK);
    assert_int_equal(ax_bias_bwd(&dev, in, db), AX_OK);
    assert_int_equal(ax_gelu_fwd(&dev, in, t[6]), AX_OK);
    assert_int_equal(ax_square_sum(&dev, in, square), AX_OK);
    memcpy(next + H, square, sizeof square);
    free(in.data);
    ax_device_close(&dev);
    return all;
}

static void results_do_not_depend_on_threads(void **state)
{
    (void)state;
    for (const char *const *name = ax_device_names(); *name; name++) {
        size_t count;
        float *one = results_of(*name, 1, &count), *three = results_of(*name, 3, &count);
        assert_memory_equal(one, three, count * sizeof *one);
        free(one);
        free(three);
    }
}

// ---- measuring ----

typedef struct calls {
    int polls;
} calls;

static void count_poll(void *ctx)
{
    ((calls *)ctx)->polls++;
}

static ax_gemm_args gemm_of(ax_dtype act, ax_dtype c, ax_trans ta, ax_trans tb, void *mem)
{
    enum { ROWS = 1300, N = 40, K = 900 };
    return (ax_gemm_args){ta,
                          tb,
                          ax_tensor_over(mem, act, ta ? K : ROWS, ta ? ROWS : K),
                          ax_tensor_over(mem, act, tb ? N : K, tb ? K : N),
                          ax_tensor_over(mem, c, ROWS, N),
                          0};
}

static ax_attention_args attention_of(ax_dtype act, int64_t seq, void *mem)
{
    enum { A = 4, K = 2, D = 40, S = 2 };
    ax_tensor q = ax_tensor_over(mem, act, S * seq, A * D),
              k = ax_tensor_over(mem, act, S * seq, K * D);
    ax_tensor lse = ax_tensor_over(mem, act == AX_F64 ? AX_F64 : AX_F32, S * seq, A);
    return (ax_attention_args){.sequences = S,
                               .seq = seq,
                               .heads = A,
                               .kv_heads = K,
                               .head_dim = D,
                               .scale = 0.1,
                               .q = q,
                               .k = k,
                               .v = k,
                               .out = q,
                               .lse = lse,
                               .dout = q,
                               .dq = q,
                               .dk = k,
                               .dv = k};
}

// Each call is measured, then made for real with exactly the workspace that was named, its guard
// bytes watched.
static void watched(const char *name, ax_status (*call)(ax_device *, const void *),
                    const void *args)
{
    ax_device measure = opened("measure", name, 0), dev = opened(name, NULL, 0);
    assert_int_equal(call(&measure, args), AX_OK);
    assert_true(measure.matmul_flops > 0);
    size_t need = measure.workspace_need;
    unsigned char *mem = aligned_alloc(64, (need + GUARD + 63) / 64 * 64);
    assert_non_null(mem);
    memset(mem, PATTERN, need + GUARD);
    calls seen = {0};
    dev.workspace = mem;
    dev.workspace_size = need;
    dev.poll = count_poll;
    dev.poll_ctx = &seen;
    assert_int_equal(call(&dev, args), AX_OK);
    assert_true(seen.polls > 0);
    assert_int_equal(dev.workspace_need, need);
    assert_true(dev.matmul_flops == measure.matmul_flops);
    for (int i = 0; i < GUARD; i++)
        assert_int_equal(mem[need + (size_t)i], PATTERN);
    if (need) {
        dev.workspace_size = need - 1;
        REFUSED(call(&dev, args));
    }
    dev.workspace = NULL;
    dev.workspace_size = 0;
    free(mem);
    ax_device_close(&dev);
    ax_device_close(&measure);
}

static ax_status call_gemm(ax_device *dev, const void *args)
{
    return ax_gemm(dev, args);
}

static ax_status call_attention_fwd(ax_device *dev, const void *args)
{
    return ax_attention_fwd(dev, args);
}

static ax_status call_attention_bwd(ax_device *dev, const void *args)
{
    return ax_attention_bwd(dev, args);
}

static void measured_workspace_is_what_calls_use(void **state)
{
    (void)state;
    void *mem = calloc(1300 * 900, 8);
    assert_non_null(mem);
    for (const char *const *name = ax_device_names(); *name; name++)
        for (int act = AX_F32; act <= AX_BF16; act++) {
            ax_dtype acc = act == AX_F64 ? AX_F64 : AX_F32;
            for (int form = 0; form < 4; form++) {
                ax_trans ta = (ax_trans)(form & 1), tb = (ax_trans)(form >> 1);
                ax_gemm_args g = gemm_of((ax_dtype)act, form ? acc : (ax_dtype)act, ta, tb, mem);
                watched(*name, call_gemm, &g);
            }
            for (int64_t seq = 1; seq <= 197; seq += 98) {
                ax_attention_args g = attention_of((ax_dtype)act, seq, mem);
                watched(*name, call_attention_fwd, &g);
                watched(*name, call_attention_bwd, &g);
            }
        }
    free(mem);
}

static void measuring_touches_no_memory(void **state)
{
    (void)state;
    ax_device dev = opened("measure", "ref", 100);
    void *mem = NULL;
    assert_int_equal(ax_device_alloc(&dev, (size_t)1 << 60, &mem), AX_OK);
    assert_non_null(mem);
    ax_tensor x = ax_tensor_over(mem, AX_F32, 1 << 20, 1 << 20), small = x;
    small.rows = 3;
    assert_int_equal(ax_copy(&dev, x, x), AX_OK);
    REFUSED(ax_copy(&dev, x, small));
    assert_int_equal(ax_gemm(&dev, &(ax_gemm_args){AX_N, AX_T, x, x, x, 1}), AX_OK);
    assert_true(dev.matmul_flops == ldexp(2, 60));
    ax_device_free(&dev, mem, (size_t)1 << 60);
    ax_device_close(&dev);
}

// Rows of mean 100 and spread 1: sums made in f32 lose a hundredth of the variance.
static void layernorm_keeps_the_variance_beside_a_large_mean(void **state)
{
    (void)state;
    enum { ROWS = 8, COLS = 4096 };
    for (const char *const *name = ax_device_names(); *name; name++) {
        ax_device dev = opened(*name, NULL, 0), ref = opened("ref", NULL, 0);
        operand x = make(AX_F32, ROWS, COLS, 0, 1), w = make(AX_F32, 1, COLS, 0, 1);
        operand sums = make(AX_F32, ROWS, 2, 0, 1), y = make(AX_F32, ROWS, COLS, 0, 1);
        for (int64_t i = 0; i < ROWS * COLS; i++)
            set(x.t, i / COLS, i % COLS, 100 + get(x.t, i / COLS, i % COLS));
        twin_from_tensor(&x);
        ax_norm_args g = {.kind = AX_LAYERNORM, .width = COLS, .eps = 1e-5};
        g.x = x.gold, g.w = w.gold, g.sums = sums.gold, g.y = y.gold;
        assert_int_equal(ax_norm_sums(&ref, &g), AX_OK);
        assert_int_equal(ax_norm_fwd(&ref, &g), AX_OK);
        g.x = x.t, g.w = w.t, g.sums = sums.t, g.y = y.t;
        assert_int_equal(ax_norm_sums(&dev, &g), AX_OK);
        assert_int_equal(ax_norm_fwd(&dev, &g), AX_OK);
        print_message("%s: error %.1e\n", *name, error_of(&y));
        assert_true(error_of(&sums) < ldexp(1, -24) && error_of(&y) < 1e-3);
        operand *all[] = {&x, &w, &sums, &y};
        for (int i = 0; i < 4; i++)
            release(all[i]);
        ax_device_close(&dev);
        ax_device_close(&ref);
    }
}

// 4 D T (T + 1) / 2 a head and sequence forward, 2.5 times that backward.
static void attention_flops_leave_the_mask_out(void **state)
{
    (void)state;
    ax_device dev = opened("measure", "ref", 0);
    ax_attention_args g = attention_of(AX_F32, 5, (void *)(uintptr_t)64);
    assert_int_equal(ax_attention_fwd(&dev, &g), AX_OK);
    assert_true(dev.matmul_flops == 2 * 4 * 4 * 40 * 15);
    dev.matmul_flops = 0;
    assert_int_equal(ax_attention_bwd(&dev, &g), AX_OK);
    assert_true(dev.matmul_flops == 2 * 4 * 10 * 40 * 15);
    ax_device_close(&dev);
}

#ifdef AX_WITH_ONEDNN
// One row has any stride: that of a view of it is not what oneDNN may see.
static operand make_at_any_stride(ax_dtype dtype, int64_t rows, int64_t cols, int64_t gap)
{
    operand o = make(dtype, rows, cols, gap, 1);
    if (rows == 1)
        o.t.stride = 0;
    return o;
}

// Whether oneDNN has fast code for the product; if so, it must be right.
static bool primitive_agrees(ax_device *ref, ax_onednn *onednn, ax_dtype in, ax_dtype out, int form,
                             int64_t m)
{
    int64_t n = 37, k = 65;
    size_t bytes;
    ax_trans ta = (ax_trans)(form & 1), tb = (ax_trans)(form >> 1 & 1);
    operand a = make_at_any_stride(in, ta ? k : m, ta ? m : k, 3);
    operand b = make_at_any_stride(in, tb ? n : k, tb ? k : n, 1);
    operand c = make_at_any_stride(out, m, n, 5);
    ax_gemm_args g = {ta, tb, a.gold, b.gold, c.gold, form >> 2};
    assert_int_equal(ax_gemm(ref, &g), AX_OK);
    g = (ax_gemm_args){ta, tb, a.t, b.t, c.t, form >> 2};
    bool fast = ax_onednn_has_matmul(onednn, &g, &bytes);
    if (fast) {
        void *scratch = aligned_alloc(64, bytes / 64 * 64 + 64);
        assert_int_equal(ax_onednn_matmul(onednn, &g, scratch), AX_OK);
        assert_true(error_of(&c) < (out == AX_BF16 ? 1.2e-2 : 1e-5));
        free(scratch);
    }
    operand *all[] = {&a, &b, &c};
    for (int i = 0; i < 3; i++) {
        all[i]->t.stride = all[i]->t.rows == 1 ? all[i]->t.cols : all[i]->t.stride;
        release(all[i]);
    }
    return fast;
}

static void primitives_agree(ax_dtype in)
{
    ax_device ref = opened("ref", NULL, 0);
    ax_onednn *onednn;
    int fast = 0, count = 0;
    assert_int_equal(ax_onednn_open(2, &onednn), AX_OK);
    for (int form = 0; form < 8; form++)
        for (int64_t m = 1; m <= 100; m += 33)
            for (int narrow = 0; narrow < (in == AX_BF16 ? 2 : 1); narrow++, count++)
                fast += primitive_agrees(&ref, onednn, in, narrow ? in : AX_F32, form, m);
    print_message("oneDNN has fast code for %d of %d products in %s\n", fast, count,
                  ax_dtype_name(in));
    assert_true(fast > 0);
    ax_onednn_close(onednn);
    ax_device_close(&ref);
}

static void onednn_primitives_in_f32_agree(void **state)
{
    (void)state;
    primitives_agree(AX_F32);
}

static void onednn_primitives_in_bf16_agree(void **state)
{
    (void)state;
    if (!ax_onednn_has_bf16()) {
        print_message("this processor has no bf16 instructions: bf16 primitives are not tested\n");
        skip();
    }
    primitives_agree(AX_BF16);
}

static ax_device opened_for_native_bf16(const char *name, const char *as)
{
    ax_device dev = opened(name, as, 0);
    ax_cpu_of(&dev)->native_bf16 = true;
    return dev;
}

// The device believes in bf16 instructions. Where oneDNN has no fast product, as on every
// processor without them, it is widened after all: the measured need is that of the widened
// product, with and without a communicator to poll, and nothing is logged as an error.
static void slow_primitives_are_widened(void **state)
{
    (void)state;
    ax_device plain = opened("measure", "cpu", 0);
    ax_device measure = opened_for_native_bf16("measure", "cpu");
    ax_device dev = opened_for_native_bf16("cpu", NULL), ref = opened("ref", NULL, 0);
    operand a = make(AX_BF16, 1100, 70, 3, 1), b = make(AX_BF16, 70, 30, 0, 1);
    operand c = make(AX_BF16, 1100, 30, 1, 1);
    ax_gemm_args g = {AX_N, AX_N, a.gold, b.gold, c.gold, 0};
    assert_int_equal(ax_gemm(&ref, &g), AX_OK);
    g = (ax_gemm_args){AX_N, AX_N, a.t, b.t, c.t, 0};
    char before[256];
    snprintf(before, sizeof before, "%s", ax_error_text());
    assert_int_equal(ax_gemm(&plain, &g), AX_OK);
    assert_int_equal(ax_gemm(&measure, &g), AX_OK);
    if (!ax_onednn_has_bf16())
        assert_int_equal(measure.workspace_need, plain.workspace_need);
    assert_int_equal(ax_device_grow(&dev, measure.workspace_need), AX_OK);
    calls seen = {0};
    dev.poll_ctx = &seen;
    for (int polled = 0; polled < 2; polled++) {
        dev.poll = polled ? count_poll : NULL;
        assert_int_equal(ax_gemm(&dev, &g), AX_OK);
        assert_int_equal(dev.workspace_need, measure.workspace_need);
        assert_true(error_of(&c) < 1.2e-2);
    }
    assert_true(seen.polls > 0);
    assert_string_equal(ax_error_text(), before);
    operand *all[] = {&a, &b, &c};
    for (int i = 0; i < 3; i++)
        release(all[i]);
    ax_device *devices[] = {&plain, &measure, &dev, &ref};
    for (int i = 0; i < 4; i++)
        ax_device_close(devices[i]);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"wrong shapes and dtypes are refused", wrong_shapes_are_refused, 0, 0, 0},
        {"a device that does not exist is refused with a reason", unknown_devices_are_refused, 0, 0,
         0},
        {"device memory is zeroed and aligned", memory_is_zeroed_and_aligned, 0, 0, 0},
        {"pinned devices compute and let their thread go", pinned_devices_open_and_compute, 0, 0,
         0},
        {"results do not depend on the number of threads", results_do_not_depend_on_threads, 0, 0,
         0},
        {"the measured workspace is what the calls use", measured_workspace_is_what_calls_use, 0, 0,
         0},
        {"measuring checks shapes and touches no memory", measuring_touches_no_memory, 0, 0, 0},
        {"a LayerNorm keeps the variance beside a large mean",
         layernorm_keeps_the_variance_beside_a_large_mean, 0, 0, 0},
        {"attention's flops leave the masked half out", attention_flops_leave_the_mask_out, 0, 0,
         0},
#ifdef AX_WITH_ONEDNN
        {"oneDNN primitives in f32 agree with the reference", onednn_primitives_in_f32_agree, 0, 0,
         0},
        {"oneDNN primitives in bf16 agree with the reference", onednn_primitives_in_bf16_agree, 0,
         0, 0},
        {"bf16 products that oneDNN has no fast code for are widened", slow_primitives_are_widened,
         0, 0, 0},
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
