// Gradients of every layer, of a block and of whole models by finite differences, in double on one
// rank of the reference device.
//
// A layer's output is multiplied by fixed random numbers and added up, so that every output
// matters; then entries of the input and of each parameter are moved and the sum is compared with
// what backward says. Differences are central and of fourth order, so h = 4e-4 leaves an error near
// 1e-10. Errors are relative to the entry's gradient, but at least to a hundredth of the largest of
// its tensor and a thousandth of the layer's largest (the bias of a GPT's keys has gradient zero).
#include "base/rng.h"
#include "train/ranks.h"
#include "train/trainer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BAND 5e-8

enum { SEED = 5, SAMPLES = 24, PARAMS = 16, MICRO_BATCH = 2 };

typedef struct rig rig;
typedef ax_status pass(rig *r, bool backward, double *sum);

struct rig {
    ax_trainer t;
    ax_nn *nn;
    ax_block *block;
    ax_linear *linear;
    ax_tensor in, din, out, dout; // of the layer under test; malloc'ed
    pass *pass;
    double layer_scale; // largest gradient of the layer
    double worst;       // error of all layers
};

// ---- a layer's forward sum and its backward pass
// -------------------------------------------------

static double dot(ax_tensor a, ax_tensor b)
{
    const double *x = a.data, *y = b.data;
    double sum = 0;
    for (int64_t i = 0; i < ax_tensor_count(a); i++)
        sum += x[i] * y[i];
    return sum;
}

static ax_status pass_norm(rig *r, bool backward, double *sum)
{
    const ax_norm *n = &r->block->norm1;
    size_t mark = ax_arena_mark(r->nn->step);
    ax_tensor sums;
    AX_TRY(ax_tensor_alloc(r->nn->step, AX_F64, r->in.rows, ax_norm_sums_width(n), &sums));
    AX_TRY(ax_norm_layer_fwd(r->nn, n, r->in, sums, r->out));
    *sum = dot(r->out, r->dout);
    if (backward)
        AX_TRY(ax_norm_layer_bwd(r->nn, n, r->in, sums, r->dout, r->din));
    ax_arena_release(r->nn->step, mark);
    return AX_OK;
}

static ax_status pass_linear(rig *r, bool backward, double *sum)
{
    ax_tensor kept;
    AX_TRY(ax_linear_fwd(r->nn, r->linear, r->in, r->out, &kept));
    *sum = dot(r->out, r->dout);
    return backward ? ax_linear_bwd(r->nn, r->linear, r->in, kept, r->dout, r->din) : AX_OK;
}

// Forward turns q and k in place, so it works on a copy.
static ax_status pass_attention(rig *r, bool backward, double *sum)
{
    const ax_attention *a = &r->block->attention;
    size_t mark = ax_arena_mark(r->nn->step);
    ax_tensor qkv, lse;
    AX_TRY(ax_nn_saved(r->nn, r->in.rows, r->in.cols, &qkv));
    AX_TRY(ax_tensor_alloc(r->nn->step, AX_F64, r->in.rows, a->heads, &lse));
    AX_TRY(ax_copy(r->nn->dev, r->in, qkv));
    AX_TRY(ax_attention_layer_fwd(r->nn, a, qkv, r->out, lse));
    *sum = dot(r->out, r->dout);
    if (backward)
        AX_TRY(ax_attention_layer_bwd(r->nn, a, qkv, r->out, lse, r->dout, r->din));
    ax_arena_release(r->nn->step, mark);
    return AX_OK;
}

static ax_status pass_mlp(rig *r, bool backward, double *sum)
{
    AX_TRY(ax_mlp_act_fwd(r->nn, r->in, r->out));
    *sum = dot(r->out, r->dout);
    return backward ? ax_mlp_act_bwd(r->nn, r->in, r->dout, r->din) : AX_OK;
}

static ax_status pass_embed(rig *r, bool backward, double *sum)
{
    ax_embed alone = r->t.model.embed;
    alone.tied = false; // no head came before
    AX_TRY(ax_embed_layer_fwd(r->nn, &alone, r->t.model.ids, r->out));
    *sum = dot(r->out, r->dout);
    return backward ? ax_embed_layer_bwd(r->nn, &alone, r->t.model.ids, r->dout) : AX_OK;
}

// Chunks of five rows: the last one is shorter.
static ax_status pass_head(rig *r, bool backward, double *sum)
{
    ax_head small = r->t.model.head;
    ax_tensor targets = r->t.model.targets;
    small.chunk_rows = 5;
    AX_TRY(backward ? ax_head_loss_bwd(r->nn, &small, r->in, targets, sum, r->din)
                    : ax_head_loss(r->nn, &small, r->in, targets, sum, NULL));
    *sum *= r->nn->loss_scale;
    return AX_OK;
}

static ax_status pass_block(rig *r, bool backward, double *sum)
{
    size_t mark = ax_arena_mark(r->nn->step);
    ax_block_saved saved;
    AX_TRY(ax_block_fwd(r->nn, r->block, r->in, &saved, r->out));
    *sum = dot(r->out, r->dout);
    if (backward) {
        AX_TRY(ax_copy(r->nn->dev, r->dout, r->din));
        AX_TRY(ax_block_bwd(r->nn, r->block, r->in, &saved, r->din));
    }
    ax_arena_release(r->nn->step, mark);
    return AX_OK;
}

static ax_status pass_model(rig *r, bool backward, double *sum)
{
    ax_trainer *t = &r->t;
    ax_batch batch = {t->ids, t->targets, NULL};
    AX_TRY(backward ? ax_model_micro_batch(&t->model, &batch, sum)
                    : ax_model_loss(&t->model, &batch, sum, NULL));
    *sum *= r->nn->loss_scale;
    return AX_OK;
}

// ---- comparison
// ----------------------------------------------------------------------------------

static ax_status difference(rig *r, double *x, double *slope)
{
    const double h = 4e-4, at = *x;
    double f[4];
    for (int i = 0; i < 4; i++) {
        static const double step[4] = {-2, -1, 1, 2};
        *x = at + step[i] * h;
        ax_weights_forget(r->nn); // a slot may hold what the weight was before
        AX_TRY(r->pass(r, false, &f[i]));
    }
    *x = at;
    ax_weights_forget(r->nn);
    *slope = (8 * (f[2] - f[1]) - (f[3] - f[0])) / (12 * h);
    return AX_OK;
}

typedef struct entries { // what is moved, and its gradient as backward left it
    const char *name;
    double *x, *grad;
    int64_t count;
} entries;

static double largest_of(const entries *e)
{
    double largest = 0;
    for (int64_t i = 0; i < e->count; i++)
        largest = fmax(largest, fabs(e->grad[i]));
    return largest;
}

// A fixed random sample, and the entry with the largest gradient.
static ax_status compare(rig *r, const entries *e, double *worst)
{
    double scale = fmax(1e-2 * largest_of(e), 1e-3 * r->layer_scale);
    int64_t samples = e->count < SAMPLES ? e->count : SAMPLES, top = 0;
    for (int64_t i = 0; i < e->count; i++)
        top = fabs(e->grad[i]) > fabs(e->grad[top]) ? i : top;
    for (int64_t k = 0; k <= samples; k++) {
        int64_t i = ax_rng_permute(SEED, ax_rng_stream(e->name), e->count, k % e->count);
        i = k == samples ? top : i;
        double slope;
        AX_TRY(difference(r, &e->x[i], &slope));
        double error = fabs(slope - e->grad[i]) / fmax(fabs(e->grad[i]), scale);
        *worst = isnan(error) ? INFINITY : fmax(*worst, error);
    }
    return AX_OK;
}

// Backward once, its gradients put aside (later passes must not disturb them), then compared.
static ax_status check(rig *r, const char *layer, ax_param *const *params)
{
    entries all[PARAMS + 1];
    int count = 0;
    double sum, worst = 0;
    AX_TRY(r->pass(r, true, &sum));
    AX_TRY(ax_grads_drain(r->nn));
    if (r->in.cols > 0)
        all[count++] = (entries){"input", r->in.data, r->din.data, ax_tensor_count(r->in)};
    for (int i = 0; params[i]; i++)
        all[count++] = (entries){params[i]->name, params[i]->master.data, params[i]->grad.data,
                                 params[i]->block};
    r->layer_scale = 0;
    for (int i = 0; i < count; i++)
        r->layer_scale = fmax(r->layer_scale, largest_of(&all[i]));
    for (int i = 0; i < count; i++)
        AX_TRY(compare(r, &all[i], &worst));
    printf("  %-16s %2d tensors, error %.1e\n", layer, count, worst);
    r->worst = fmax(r->worst, worst);
    return AX_OK;
}

static ax_tensor random_tensor(const char *name, int64_t rows, int64_t cols)
{
    double *x = malloc((size_t)(rows * cols + 1) * sizeof *x);
    for (int64_t i = 0; i < rows * cols; i++)
        x[i] = ax_rng_normal(SEED, ax_rng_stream(name), (uint64_t)i);
    return ax_tensor_over(x, AX_F64, rows, cols);
}

typedef struct layer {
    const char *name;
    pass *pass;
    int64_t in, out;   // widths; 0: there is none
    ax_linear *linear; // of pass_linear
    ax_param *params[PARAMS + 1];
} layer;

static ax_status check_layer(rig *r, const layer *l)
{
    int64_t rows = r->t.layout.rows;
    r->pass = l->pass;
    r->linear = l->linear;
    r->in = random_tensor("in", rows, l->in);
    r->din = random_tensor("din", rows, l->in);
    r->out = random_tensor("out", rows, l->out);
    r->dout = random_tensor("dout", rows, l->out);
    if (l->pass == pass_norm) // the only gradient that is added to
        memset(r->din.data, 0, ax_tensor_bytes(r->din));
    for (int i = 0; i < AX_SUMS; i++)
        AX_TRY(ax_fill(r->nn->dev, r->t.model.params.vector_grad[i][0], 0));
    ax_status st = check(r, l->name, l->params);
    free(r->in.data);
    free(r->din.data);
    free(r->out.data);
    free(r->dout.data);
    return st;
}

// ---- layers and models
// ---------------------------------------------------------------------------

static ax_status check_linear(rig *r, const char *name, ax_linear *l)
{
    layer y = {name, pass_linear, l->slab.cols, l->slab.rows, .linear = l};
    int n = 0;
    for (int i = 0; i < l->slab.parts; i++)
        y.params[n++] = l->slab.param[i];
    for (int i = 0; i < l->slab.parts && l->bias[0]; i++)
        y.params[n++] = l->bias[i];
    return check_layer(r, &y);
}

static ax_status check_block(rig *r)
{
    layer y = {"block", pass_block, r->nn->arch->hidden, r->nn->arch->hidden, NULL, {0}};
    int n = 0;
    for (int i = 0; i < r->t.model.params.count; i++)
        if (strncmp(r->t.model.params.list[i].name, "blk.0.", 6) == 0)
            y.params[n++] = &r->t.model.params.list[i];
    return check_layer(r, &y);
}

static ax_status check_layers(rig *r)
{
    ax_model *m = &r->t.model;
    ax_block *b = &m->blocks[0];
    const ax_arch *a = r->nn->arch;
    int64_t h = a->hidden, inner = ax_mlp_inner_width(r->nn);
    int64_t qkv = ax_attention_qkv_width(&b->attention);
    r->block = b;
    AX_TRY(check_layer(
        r, &(layer){"norm", pass_norm, h, h, .params = {b->norm1.weight, b->norm1.bias}}));
    AX_TRY(check_linear(r, "linear qkv", &b->qkv));
    AX_TRY(check_linear(r, "linear o", &b->o));
    AX_TRY(check_linear(r, "linear up", &b->up));
    AX_TRY(check_linear(r, "linear down", &b->down));
    AX_TRY(check_layer(
        r, &(layer){"attention", pass_attention, qkv, a->heads * a->head_dim, NULL, {0}}));
    AX_TRY(check_layer(r, &(layer){"mlp activation", pass_mlp, inner, a->ffn, NULL, {0}}));
    AX_TRY(check_layer(r, &(layer){"embedding", pass_embed, 0, h,
                                   .params = {m->embed.slab.param[0], m->embed.positions}}));
    AX_TRY(check_layer(
        r, &(layer){"head and loss", pass_head, h, 0, .params = {m->head.slab->param[0]}}));
    return check_block(r);
}

// All parameters, a few at a time.
static ax_status check_model(rig *r)
{
    ax_params *ps = &r->t.model.params;
    for (int first = 0; first < ps->count; first += PARAMS) {
        layer y = {"model", pass_model, 0, 0, NULL, {0}};
        for (int i = first; i < ps->count && i < first + PARAMS; i++)
            y.params[i - first] = &ps->list[i];
        AX_TRY(check_layer(r, &y));
    }
    return AX_OK;
}

typedef struct job {
    ax_arch arch;
    ax_recompute recompute;
    bool keep_gathered, whole;
    double worst;
} job;

// Norms and biases start as ones and zeros; here they get values of their own.
static void stir_vectors(ax_params *ps)
{
    for (int i = 0; i < ps->count; i++) {
        ax_param *p = &ps->list[i];
        double *w = p->master.data;
        for (int64_t k = 0; k < p->block && p->init_std <= 0; k++)
            w[k] += 0.3 * ax_rng_normal(SEED, ax_rng_stream(p->name), (uint64_t)k);
    }
}

// Every fifth target does not count.
static ax_status load_tokens(rig *r)
{
    ax_trainer *t = &r->t;
    int64_t rows = t->layout.rows, kept = 0;
    for (int64_t i = 0; i < rows; i++) {
        uint64_t vocab = (uint64_t)t->config.arch->vocab;
        t->ids[i] = (int32_t)(ax_rng_bits(SEED, 1, (uint64_t)i) % vocab);
        t->targets[i] = i % 5 == 2 ? -1 : (int32_t)(ax_rng_bits(SEED, 2, (uint64_t)i) % vocab);
        kept += t->targets[i] >= 0;
    }
    r->nn->loss_scale = 1.0 / (double)kept;
    double sum; // puts ids and targets where the layers read them
    return ax_model_loss(&t->model, &(ax_batch){t->ids, t->targets, NULL}, &sum, NULL);
}

static ax_status run_rank(void *ctx, ax_comm *world)
{
    job *j = ctx;
    rig r = {0};
    ax_trainer_config c = {.arch = &j->arch,
                           .grid = {1, 1, 1, 1, "xyzd"},
                           .batch = MICRO_BATCH,
                           .device = "ref",
                           .act = AX_F64,
                           .threads = 1,
                           .overlap = AX_OVERLAP_ALL,
                           .recompute = j->recompute,
                           .keep_gathered = j->keep_gathered};
    AX_TRY(ax_trainer_open(&c, world, &r.t));
    AX_TRY(ax_params_init(&r.t.model.params, &r.t.grid, &r.t.dev, SEED));
    stir_vectors(&r.t.model.params);
    r.nn = &r.t.model.nn;
    ax_status st = load_tokens(&r);
    if (st == AX_OK)
        st = j->whole ? check_model(&r) : check_layers(&r);
    j->worst = r.worst;
    ax_trainer_close(&r.t);
    return st;
}

static void assert_gradients(const char *title, job j)
{
    printf("%s\n", title);
    assert_int_equal(ax_arch_check(&j.arch), AX_OK);
    assert_int_equal(ax_ranks_run(1, run_rank, &j), AX_OK);
    assert_true(j.worst <= BAND);
}

static ax_arch tiny(ax_arch_kind kind, int64_t kv_heads, bool tied)
{
    return (ax_arch){.kind = kind,
                     .layers = 2,
                     .hidden = 24,
                     .heads = 4,
                     .kv_heads = kv_heads,
                     .head_dim = 6,
                     .ffn = 40,
                     .vocab = 37,
                     .seq = 9,
                     .tied = tied,
                     .norm_eps = 1e-5,
                     .rope_theta = 100, // so that all pairs turn visibly within nine tokens
                     .init_std = 0.3};
}

static void every_layer_of_gpt(void **state)
{
    (void)state;
    assert_gradients("gpt layers", (job){.arch = tiny(AX_GPT, 4, false)});
    assert_gradients("gpt layers, kv heads shared", (job){.arch = tiny(AX_GPT, 2, true)});
}

static void every_layer_of_llama(void **state)
{
    (void)state;
    assert_gradients("llama layers", (job){.arch = tiny(AX_LLAMA, 2, false)});
    assert_gradients("llama layers, one kv head", (job){.arch = tiny(AX_LLAMA, 1, true)});
    ax_arch a = tiny(AX_LLAMA, 2, false);
    a.attention_bias = a.mlp_bias = AX_BIAS_ON;
    a.rope_scaling = AX_ROPE_LINEAR;
    a.rope_factor = 2;
    assert_gradients("llama layers with biases", (job){.arch = a});
}

// Blocks of a multiple of 64 elements lie side by side, so that one matmul writes all three
// gradients; others go through a slot. tiny() has blocks of the other kind.
static void layers_whose_weights_lie_side_by_side(void **state)
{
    (void)state;
    ax_arch a = tiny(AX_LLAMA, 2, false);
    a.hidden = 32;
    a.head_dim = 8;
    assert_gradients("llama layers, joined weights", (job){.arch = a});
}

static void whole_models(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        ax_arch_kind kind = i < 2 ? AX_GPT : AX_LLAMA;
        job j = {.arch = tiny(kind, i < 2 ? 4 : 2, i % 2), .whole = true};
        j.recompute = (ax_recompute)(i % 3);
        j.keep_gathered = i == 0 || i == 3;
        assert_gradients(i < 2 ? "gpt model" : "llama model", j);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layer_of_gpt),
        cmocka_unit_test(every_layer_of_llama),
        cmocka_unit_test(layers_whose_weights_lie_side_by_side),
        cmocka_unit_test(whole_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
