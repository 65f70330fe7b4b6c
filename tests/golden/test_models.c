// Tiny GPT-2 and Llama models against PyTorch: logits, loss, every gradient and twenty steps of
// AdamW, on one rank and on grids, in double, fp32 and bf16.
//
// Errors are relative. Of a tensor: the largest difference over the largest value of the reference;
// where the reference itself is zero but for rounding (the bias of a GPT's keys has no effect, thus
// no gradient), over the largest gradient of the model.
#include "golden.h"
#include "optim/schedule.h"
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

enum { MAX_RANKS = 8 };

typedef struct errors { // largest relative errors
    double logits, log_prob, loss, grad, curve_loss, curve_norm;
    char worst_grad[64];
} errors;

typedef struct job {
    const golden *golden;
    const char *grid;
    int64_t micro_batch;
    ax_activations activations;
    const char *device;
    ax_dtype act;
    unsigned overlap;
    ax_recompute recompute;
    bool keep_gathered, lazy;
    bool log_probs; // every token's log-probability in double: slow, for a few runs

    ax_arch arch;
    errors rank[MAX_RANKS];
} job;

static void widen(double *largest, double error)
{
    if (isnan(error) || error > *largest) // a NaN is the worst of all, and stays
        *largest = error;
}

static ax_status copy_out(ax_trainer *t, ax_tensor x, double *out)
{
    ax_tensor packed = ax_tensor_over(malloc(ax_tensor_bytes(x)), x.dtype, 1, x.cols);
    AX_CHECK(packed.data, AX_ENOMEM, "no memory for a copy");
    ax_status st = ax_device_copy(&t->dev, packed.data, x.data, ax_tensor_bytes(x));
    for (int64_t i = 0; i < x.cols; i++)
        out[i] = x.dtype == AX_F64 ? ((double *)packed.data)[i] : ((float *)packed.data)[i];
    free(packed.data);
    return st;
}

// ---- logits
// --------------------------------------------------------------------------------------

// Row `row` of this coordinate's micro-batch `micro`, as a row of the golden batch.
static int64_t golden_row(const ax_trainer *t, int64_t micro, int64_t row)
{
    int64_t seq = t->layout.seq;
    return ax_trainer_row(t, micro * t->layout.micro_batch + row / seq) * seq + row % seq;
}

static double largest_of(const double *x, int64_t n)
{
    double largest = 0;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(x[i]));
    return largest;
}

static ax_status compare_logits(const job *j, ax_trainer *t, errors *e)
{
    const ax_layout *l = &t->layout;
    int64_t vocab = j->arch.vocab;
    float *got = malloc((size_t)l->vocab_padded * sizeof *got);
    for (int64_t k = 0; k < l->accumulation * l->rows; k++) {
        int64_t micro = k / l->rows, row = k % l->rows;
        const double *want =
            golden_doubles(j->golden, "logits") + golden_row(t, micro, row) * vocab;
        AX_TRY(ax_model_logits(&t->model, t->ids + micro * l->rows, row, got));
        double scale = largest_of(want, vocab);
        for (int64_t v = 0; v < vocab; v++)
            widen(&e->logits, fabs(got[v] - want[v]) / scale);
        for (int64_t v = vocab; v < l->vocab_padded; v++)
            widen(&e->logits, isinf(got[v]) && got[v] < 0 ? 0 : INFINITY);
    }
    free(got);
    return AX_OK;
}

static double log_sum(const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += exp(x[i]);
    return log(sum);
}

// Logits leave the model as floats; token losses in double. Asking for each token in turn shows
// the whole distribution to double precision.
static ax_status compare_log_probs(const job *j, ax_trainer *t, errors *e)
{
    const ax_layout *l = &t->layout;
    int64_t vocab = j->arch.vocab;
    double *got = malloc((size_t)l->rows * sizeof *got), sum;
    int32_t *all = malloc((size_t)l->rows * sizeof *all);
    for (int64_t k = 0; k < l->accumulation * vocab; k++) {
        int64_t micro = k / vocab, v = k % vocab;
        for (int64_t i = 0; i < l->rows; i++)
            all[i] = (int32_t)v;
        AX_TRY(ax_model_loss(
            &t->model, &(ax_batch){t->ids + micro * l->rows, all, t->positions + micro * l->rows},
            &sum, got));
        for (int64_t i = 0; i < l->rows; i++) {
            const double *want =
                golden_doubles(j->golden, "logits") + golden_row(t, micro, i) * vocab;
            double loss = log_sum(want, vocab) - want[v];
            widen(&e->log_prob, fabs(got[i] - loss) / loss);
        }
    }
    free(got);
    free(all);
    return AX_OK;
}

// ---- loss, gradients, training
// -------------------------------------------------------------------

static double largest_gradient(const golden *g)
{
    double largest = 0;
    for (int i = 0; i < g->tensor_count; i++) {
        const golden_tensor *t = &g->tensors[i];
        if (strncmp(t->name, "grad.", 5) == 0)
            largest = fmax(largest, largest_of(t->data, t->rows * t->cols));
    }
    return largest;
}

static ax_status compare_gradient(const job *j, ax_trainer *t, const ax_param *p, errors *e)
{
    const golden_tensor *g = golden_find(j->golden, "grad.", p->name);
    const double *want = g->data;
    double scale = largest_of(want, g->rows * g->cols), before = e->grad;
    if (scale < 1e-12 * largest_gradient(j->golden))
        scale = largest_gradient(j->golden);
    double *got = malloc((size_t)p->part * sizeof *got);
    AX_TRY(copy_out(t, p->part_grad, got));
    ax_run r = {0};
    while (ax_param_next_run(p, &r))
        for (int64_t i = 0; i < r.count; i++)
            widen(&e->grad, fabs(got[r.at + i] - want[r.row * p->cols + r.col + i]) / scale);
    if (!(e->grad <= before))
        snprintf(e->worst_grad, sizeof e->worst_grad, "%s", p->name);
    free(got);
    return AX_OK;
}

static ax_status compare_gradients(const job *j, ax_trainer *t, errors *e)
{
    ax_step_result r = {0};
    double want = golden_value(j->golden, "loss");
    AX_TRY(ax_step_gradients(t, &r));
    widen(&e->loss, fabs(r.loss - want) / want);
    for (int i = 0; i < t->model.params.count; i++)
        AX_TRY(compare_gradient(j, t, &t->model.params.list[i], e));
    return AX_OK;
}

static ax_status compare_training(const job *j, ax_trainer *t, errors *e)
{
    const double *lr = golden_doubles(j->golden, "lr");
    const double *loss = golden_doubles(j->golden, "curve.loss");
    const double *norm = golden_doubles(j->golden, "curve.norm");
    int64_t steps = (int64_t)golden_value(j->golden, "steps");
    for (int64_t s = 0; s < steps; s++) {
        ax_step_result r;
        golden_set_batch(j->golden, t, s + 1);
        AX_TRY(ax_step(t, lr[s], &r));
        widen(&e->curve_loss, fabs(r.loss - loss[s]) / loss[s]);
        widen(&e->curve_norm, fabs(r.grad_norm - norm[s]) / norm[s]);
    }
    return AX_OK;
}

// ---- the battery
// ---------------------------------------------------------------------------------

static ax_status run_rank(void *ctx, ax_comm *world)
{
    job *j = ctx;
    errors *e = &j->rank[world->rank];
    ax_trainer t;
    ax_trainer_config c = {.arch = &j->arch,
                           .batch = (int64_t)golden_value(j->golden, "batch"),
                           .micro_batch = j->micro_batch,
                           .activations = j->activations,
                           .device = j->device,
                           .act = j->act,
                           .threads = 1,
                           .overlap = j->overlap,
                           .recompute = j->recompute,
                           .keep_gathered = j->keep_gathered,
                           .lazy = j->lazy,
                           .document_mask = golden_has_documents(j->golden),
                           .optim = golden_optim(j->golden)};
    AX_TRY(ax_grid_parse(j->grid, &c.grid));
    AX_TRY(ax_trainer_open(&c, world, &t));
    AX_TRY(ax_params_init(&t.model.params, &t.grid, &t.dev, 1));
    AX_TRY(golden_set_weights(j->golden, &t));
    golden_set_batch(j->golden, &t, 0);
    if (!golden_has_documents(j->golden)) // logits are of a row that is one document
        AX_TRY(compare_logits(j, &t, e));
    if (j->log_probs)
        AX_TRY(compare_log_probs(j, &t, e));
    AX_TRY(compare_gradients(j, &t, e));
    AX_TRY(compare_training(j, &t, e));
    ax_trainer_close(&t);
    return AX_OK;
}

static errors worst_rank(const job *j, int ranks)
{
    errors w = {0};
    for (int i = 0; i < ranks; i++) {
        const errors *e = &j->rank[i];
        widen(&w.logits, e->logits);
        widen(&w.log_prob, e->log_prob);
        widen(&w.loss, e->loss);
        if (!(e->grad <= w.grad))
            memcpy(w.worst_grad, e->worst_grad, sizeof w.worst_grad);
        widen(&w.grad, e->grad);
        widen(&w.curve_loss, e->curve_loss);
        widen(&w.curve_norm, e->curve_norm);
    }
    return w;
}

static errors run(const char *model, job j)
{
    char path[512];
    golden g;
    ax_grid_shape shape;
    snprintf(path, sizeof path, "%s/%s.golden", AX_GOLDEN_DIR, model);
    assert_int_equal(golden_open(path, &g), AX_OK);
    assert_int_equal(ax_grid_parse(j.grid, &shape), AX_OK);
    j.golden = &g;
    j.arch = golden_arch(&g);
    j.device = j.device ? j.device : "ref";
    assert_int_equal(ax_ranks_run(ax_grid_ranks(&shape), run_rank, &j), AX_OK);
    errors e = worst_rank(&j, ax_grid_ranks(&shape));
    printf("%-15s %-4s %-4s %-24s m%lld %-10s logits %.1e (log p %.1e) loss %.1e grad %.1e (%s) "
           "curve %.1e norm %.1e\n",
           model, j.device, ax_dtype_name(j.act), j.grid, (long long)j.micro_batch,
           j.activations == AX_ACT_REPLICATED ? "replicated" : "sharded", e.logits, e.log_prob,
           e.loss, e.grad, e.worst_grad, e.curve_loss, e.curve_norm);
    golden_close(&g);
    return e;
}

static void assert_within(errors e, errors band)
{
    assert_true(e.logits <= band.logits);
    assert_true(e.log_prob <= band.log_prob);
    assert_true(e.loss <= band.loss);
    assert_true(e.grad <= band.grad);
    assert_true(e.curve_loss <= band.curve_loss);
    assert_true(e.curve_norm <= band.curve_norm);
}

static const char *const models[] = {"gpt", "llama", "llama_tied", "llama_documents"};
enum { MODELS = sizeof models / sizeof models[0] };

// Double: what is left is the order of sums (measured: 4e-15 in gradients, 2e-15 elsewhere). Logits
// pass through a float on their way out, which is 2^-24.
static const errors f64_band = {.logits = 1e-7,
                                .log_prob = 5e-14,
                                .loss = 1e-14,
                                .grad = 1e-13,
                                .curve_loss = 2e-14,
                                .curve_norm = 2e-14};

static void one_rank_in_double_gives_the_reference(void **state)
{
    (void)state;
    for (int i = 0; i < MODELS; i++)
        assert_within(run(models[i], (job){.grid = "x=1", .act = AX_F64, .log_probs = true}),
                      f64_band);
}

static void every_grid_in_double_gives_the_reference(void **state)
{
    (void)state;
    static const struct {
        const char *grid;
        int64_t micro_batch;
    } cases[] = {
        {"x=2,y=2", 0},     // attention: whole sequences over y
        {"x=2,y=2", 1},     // whole heads over y where they divide, four micro-batches
        {"y=2,z=2", 1},     // gathers of weights, whole heads
        {"x=4", 0},         // Llama: two copies of every kv head
        {"x=2,data=2", 1},  // state cut over data
        {"z=2,data=2", 0},  // no tensor parallelism at all
        {"x=2,y=2,z=2", 1}, // all three axes
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++)
        for (int i = 0; i < 2 * MODELS; i++)
            assert_within(run(models[i / 2],
                              (job){.grid = cases[k].grid,
                                    .micro_batch = cases[k].micro_batch,
                                    .act = AX_F64,
                                    .overlap = AX_OVERLAP_ALL,
                                    .log_probs = k == 0,
                                    .activations = i % 2 ? AX_ACT_REPLICATED : AX_ACT_SHARDED}),
                          f64_band);
}

static void recompute_kept_inputs_and_lazy_communication_change_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < MODELS; i++) {
        job j = {.grid = "x=2,z=2", .act = AX_F64, .overlap = AX_OVERLAP_ALL, .lazy = true};
        j.activations = i % 2 ? AX_ACT_REPLICATED : AX_ACT_SHARDED;
        j.recompute = AX_RECOMPUTE_SELECTIVE;
        assert_within(run(models[i], j), f64_band);
        j.recompute = AX_RECOMPUTE_FULL;
        assert_within(run(models[i], j), f64_band);
        j.grid = "x=2,y=2";
        j.recompute = AX_RECOMPUTE_NONE;
        j.keep_gathered = true;
        assert_within(run(models[i], j), f64_band);
    }
}

// fp32 has 2^-24 = 6e-8 a rounding, and a value here adds up some hundred terms. Measured, at most:
// logits 1e-6, loss 2e-8, gradients 2e-6, curve 6e-8 and 7e-7.
static const errors f32_band = {
    .logits = 5e-6, .loss = 2e-7, .grad = 1e-5, .curve_loss = 5e-7, .curve_norm = 5e-6};
// bf16 has 2^-9 = 2e-3 a rounding of every activation and weight. Measured, at most: logits 4e-2,
// loss 1e-3, gradients 4e-2, curve 1e-3 and 9e-3.
static const errors bf16_band = {
    .logits = 1e-1, .loss = 5e-3, .grad = 1e-1, .curve_loss = 5e-3, .curve_norm = 3e-2};

static void check_device(const char *device, ax_dtype act, errors band)
{
    if (ax_device_missing(device)) {
        printf("%s: %s\n", device, ax_device_missing(device));
        return;
    }
    for (int i = 0; i < MODELS; i++) {
        job j = {.grid = "x=1", .device = device, .act = act, .overlap = AX_OVERLAP_ALL};
        assert_within(run(models[i], j), band);
        j.grid = "x=2,y=2";
        j.activations = i % 2 ? AX_ACT_REPLICATED : AX_ACT_SHARDED;
        assert_within(run(models[i], j), band);
    }
}

static void the_reference_device_in_fp32_stays_within_rounding(void **state)
{
    (void)state;
    check_device("ref", AX_F32, f32_band);
}

static void the_cpu_device_in_fp32_stays_within_rounding(void **state)
{
    (void)state;
    check_device("cpu", AX_F32, f32_band);
}

static void the_reference_device_in_bf16_stays_within_its_band(void **state)
{
    (void)state;
    check_device("ref", AX_BF16, bf16_band);
}

static void the_cpu_device_in_bf16_stays_within_its_band(void **state)
{
    (void)state;
    check_device("cpu", AX_BF16, bf16_band);
}

// ---- initial values
// ------------------------------------------------------------------------------

typedef struct initial {
    const golden *golden;
    const ax_arch *arch;
    double error;
} initial;

// Matrices against the file's weights, which fp32 rounds; the ends of every parameter in double.
static void compare_initial(initial *in, const ax_param *p)
{
    const double *got = p->master.data, *ends = golden_find(in->golden, "init.", p->name)->data;
    int64_t count = p->rows * p->cols;
    for (int64_t k = 0; k < 8; k++) {
        int64_t at = k < 4 ? k : count - 8 + k;
        widen(&in->error, fabs(got[at] - ends[k]));
    }
    const float *all = golden_find(in->golden, "weight.", p->name)->data;
    for (int64_t k = 0; k < count && p->init_std > 0; k++)
        widen(&in->error, fmax(0, fabs(got[k] - all[k]) - fabs(got[k]) * 0x1p-24));
}

static ax_status init_rank(void *ctx, ax_comm *world)
{
    initial *in = ctx;
    ax_trainer t;
    ax_trainer_config c = {
        .arch = in->arch, .grid = {1, 1, 1, 1, "xyzd"}, .batch = 1, .device = "ref", .act = AX_F64};
    AX_TRY(ax_trainer_open(&c, world, &t));
    AX_TRY(ax_params_init(&t.model.params, &t.grid, &t.dev,
                          (int64_t)golden_value(in->golden, "seed")));
    for (int i = 0; i < t.model.params.count; i++)
        compare_initial(in, &t.model.params.list[i]);
    ax_trainer_close(&t);
    return AX_OK;
}

static void initial_values_are_those_of_a_second_implementation(void **state)
{
    (void)state;
    for (int i = 0; i < MODELS; i++) {
        char path[512];
        golden g;
        snprintf(path, sizeof path, "%s/%s.golden", AX_GOLDEN_DIR, models[i]);
        assert_int_equal(golden_open(path, &g), AX_OK);
        ax_arch a = golden_arch(&g);
        initial in = {.golden = &g, .arch = &a};
        assert_int_equal(ax_ranks_run(1, init_rank, &in), AX_OK);
        printf("%-10s initial values %.1e\n", models[i], in.error);
        assert_true(in.error < 1e-14);
        golden_close(&g);
    }
}

static void the_schedule_gives_the_rates_of_the_reference(void **state)
{
    (void)state;
    golden g;
    assert_int_equal(golden_open(AX_GOLDEN_DIR "/gpt.golden", &g), AX_OK);
    ax_schedule s = {.kind = AX_COSINE,
                     .lr = golden_value(&g, "peak_lr"),
                     .min_lr = golden_value(&g, "min_lr"),
                     .warmup = (int64_t)golden_value(&g, "warmup"),
                     .steps = (int64_t)golden_value(&g, "steps")};
    for (int64_t step = 1; step <= s.steps; step++) {
        double want = golden_doubles(&g, "lr")[step - 1];
        assert_true(fabs(ax_schedule_lr(&s, step) - want) < 1e-14 * want);
    }
    golden_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(initial_values_are_those_of_a_second_implementation),
        cmocka_unit_test(the_schedule_gives_the_rates_of_the_reference),
        cmocka_unit_test(one_rank_in_double_gives_the_reference),
        cmocka_unit_test(every_grid_in_double_gives_the_reference),
        cmocka_unit_test(recompute_kept_inputs_and_lazy_communication_change_nothing),
        cmocka_unit_test(the_reference_device_in_fp32_stays_within_rounding),
        cmocka_unit_test(the_cpu_device_in_fp32_stays_within_rounding),
        cmocka_unit_test(the_reference_device_in_bf16_stays_within_its_band),
        cmocka_unit_test(the_cpu_device_in_bf16_stays_within_its_band),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
