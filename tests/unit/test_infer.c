// Inference with a cache: at every step of several sequences of different lengths the logits are
// those of a pass over whole rows, on one rank and on grids; sequences rest and begin anew
// meanwhile.
#include "base/rng.h"
#include "nn/infer.h"
#include "train/ranks.h"
#include "train/trainer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SEQ = 40, STEPS = 28, MOST = 4, VOCAB = 61, MAX_RANKS = 4 };

typedef struct job {
    ax_arch arch;
    const char *grid, *device;
    ax_dtype act;
    ax_activations activations;
    int64_t batch; // sequences, 1 to MOST
    int64_t room;  // of the cache

    int32_t text[MOST][STEPS + SEQ]; // what each sequence became, by its number in the batch
    int64_t length[MOST];
    double worst[MAX_RANKS];
} job;

typedef struct work {
    job *j;
    ax_trainer cached, whole;
    int64_t base[MOST]; // of sequences here: the first token that the cache has
    int64_t first;      // number of sequence 0 here
    double *logits;
    float *want;
} work;

// Inference in bf16 has no masters to initialise; on one rank the weights are whole.
static ax_status draw_weights(ax_trainer *t)
{
    for (int i = 0; i < t->model.params.count; i++) {
        const ax_param *p = &t->model.params.list[i];
        uint64_t stream = ax_rng_stream(p->name);
        bool norm = strstr(p->name, "norm.weight");
        for (int64_t k = 0; k < p->rows * p->cols; k++) {
            float v = (float)(norm + 0.3 * ax_rng_normal(7, stream, (uint64_t)k));
            ax_bf16 narrow = ax_f32_to_bf16(v);
            if (p->weight.dtype == AX_BF16)
                AX_TRY(ax_device_copy(&t->dev, (ax_bf16 *)p->weight.data + k, &narrow, 2));
            else
                AX_TRY(ax_device_copy(&t->dev, (float *)p->weight.data + k, &v, 4));
        }
    }
    return AX_OK;
}

static ax_status open_one(const job *j, ax_comm *world, int64_t room, ax_trainer *t)
{
    ax_trainer_config c = {.arch = &j->arch,
                           .batch = j->batch,
                           .activations = j->activations,
                           .device = j->device,
                           .act = j->act,
                           .threads = 1,
                           .overlap = AX_OVERLAP_ALL,
                           .inference = true,
                           .cache = room};
    AX_TRY(ax_grid_parse(j->grid, &c.grid));
    AX_TRY(ax_trainer_open(&c, world, t));
    return j->act == AX_BF16 ? draw_weights(t)
                             : ax_params_init(&t->model.params, &t->grid, &t->dev, 7);
}

static int32_t *text_of(work *w, int64_t s)
{
    return w->j->text[w->first + s];
}

static int64_t *length_of(work *w, int64_t s)
{
    return &w->j->length[w->first + s];
}

// The logits of sequence `s` against a pass over all rows, and its next token.
static ax_status check_and_extend(work *w, int64_t s, bool kept)
{
    ax_trainer *t = &w->whole;
    int64_t count = *length_of(w, s) - w->base[s], seq = t->layout.seq;
    for (int64_t i = 0; i < t->layout.rows; i++)
        t->ids[i] = (int32_t)(i % VOCAB); // others do not matter
    memcpy(t->ids + s * seq, text_of(w, s) + w->base[s], (size_t)count * sizeof *t->ids);
    AX_TRY(ax_model_logits(&t->model, t->ids, s * seq + count - 1, w->want));
    if (!kept)
        return AX_OK;
    const double *got = w->logits + s * t->layout.vocab_padded;
    double *worst = &w->j->worst[t->grid.rank], most = 0;
    int32_t best = 0;
    for (int64_t v = 0; v < VOCAB; v++) {
        most = fmax(most, fabs((double)w->want[v]));
        best = got[v] > got[best] ? (int32_t)v : best;
    }
    for (int64_t v = 0; v < t->layout.vocab_padded; v++) {
        double e = v < VOCAB ? fabs(got[v] - (double)w->want[v]) / most
                             : (isinf(got[v]) && got[v] < 0 ? 0 : INFINITY);
        *worst = e <= *worst ? *worst : e;
        if (v < VOCAB && w->want[v] > w->want[best] * (1 + 1e-3) + 1e-3 * most)
            *worst = INFINITY; // another token would follow
    }
    if (t->grid.xy->rank == 0) // the ranks of x*y share a sequence
        text_of(w, s)[(*length_of(w, s))] = best;
    return AX_OK;
}

// Which sequences do what in a turn: by their number in the batch, so that every grid does the
// same.
static bool rests(int64_t number, int64_t turn)
{
    return number == 1 && turn >= 6 && turn < 9;
}

static ax_status prefill_turn(work *w, const bool *keep, int64_t longest)
{
    int32_t ids[MOST * SEQ] = {0}, length[MOST] = {0};
    int64_t seq = ax_infer_seq(&w->cached.model, longest);
    for (int64_t s = 0; s < w->cached.layout.micro_batch; s++) {
        length[s] = (int32_t)(*length_of(w, s) - w->base[s]);
        if (keep[s])
            memcpy(ids + s * seq, text_of(w, s) + w->base[s], (size_t)length[s] * sizeof *ids);
    }
    return ax_infer_prefill(&w->cached.model, &(ax_prefill){ids, seq, length, keep}, w->logits);
}

static ax_status turn(work *w, int64_t number)
{
    bool fresh[MOST] = {false}, any = false;
    int32_t next[MOST];
    int64_t here = w->cached.layout.micro_batch;
    for (int64_t s = 0; s < here; s++) {
        int64_t held = *length_of(w, s) - w->base[s];
        bool full = held > w->j->room, active = !rests(w->first + s, number);
        if (full && active)
            w->base[s] = *length_of(w, s) - w->j->room / 2;
        fresh[s] = active && (number == 0 || full);
        next[s] = active && !fresh[s] ? text_of(w, s)[*length_of(w, s) - 1] : -1;
        any = any || fresh[s];
    }
    double flag = any; // all coordinates make the same calls
    AX_TRY(ax_comm_max(w->cached.grid.world, &flag, 1));
    if (flag > 0)
        AX_TRY(prefill_turn(w, fresh, number == 0 ? 9 : w->j->room / 2));
    if (number > 0)
        AX_TRY(ax_infer_step(&w->cached.model, next, w->logits));
    for (int64_t s = 0; s < here; s++)
        AX_TRY(check_and_extend(w, s, !rests(w->first + s, number)));
    AX_TRY(ax_comm_agree(w->cached.grid.world, AX_OK)); // all have read the texts, and written
    for (int64_t s = 0; s < here && w->cached.grid.xy->rank == 0; s++)
        *length_of(w, s) += !rests(w->first + s, number);
    return ax_comm_agree(w->cached.grid.world, AX_OK);
}

static ax_status check_memory(const ax_trainer *t)
{
    const ax_arena *const all[] = {&t->run, &t->step, &t->call}; // a generator copies nothing
    for (int i = 0; i < 3; i++)
        AX_CHECK(all[i]->peak <= t->size.arena[i] && (i == 0 || all[i]->used == 0), AX_EINTERNAL,
                 "arena %d is not as measured", i);
    return AX_OK;
}

static ax_status generate(work *w)
{
    const ax_grid *g = &w->cached.grid;
    int64_t here = w->cached.layout.micro_batch;
    size_t vocab = (size_t)w->cached.layout.vocab_padded;
    w->first = ((int64_t)g->cd * g->shape.z + g->cz) * here;
    w->logits = calloc((size_t)here * vocab, sizeof *w->logits);
    w->want = calloc(vocab, sizeof *w->want);
    AX_CHECK(w->logits && w->want, AX_ENOMEM, "no memory for logits");
    for (int64_t s = 0; s < here && g->xy->rank == 0; s++) {
        static const int64_t lengths[MOST] = {3, 7, 1, 9};
        int64_t number = w->first + s;
        *length_of(w, s) = lengths[number];
        for (int64_t i = 0; i < lengths[number]; i++)
            text_of(w, s)[i] = (int32_t)(ax_rng_bits(5, (uint64_t)number, (uint64_t)i) % VOCAB);
    }
    AX_TRY(ax_comm_agree(g->world, AX_OK));
    for (int64_t number = 0; number < STEPS; number++)
        AX_TRY(turn(w, number));
    return check_memory(&w->cached);
}

static ax_status run_rank(void *ctx, ax_comm *world)
{
    work w = {.j = ctx};
    AX_TRY(open_one(w.j, world, w.j->room, &w.cached));
    ax_status st = open_one(w.j, world, 0, &w.whole);
    if (st == AX_OK)
        st = generate(&w);
    ax_comm_end(world, st);
    free(w.logits);
    free(w.want);
    ax_trainer_close(&w.cached);
    ax_trainer_close(&w.whole);
    return st;
}

// ---- what is compared

static ax_arch arch_of(ax_arch_kind kind, int64_t kv_heads)
{
    ax_arch a = {.kind = kind,
                 .layers = 2,
                 .hidden = 32,
                 .heads = 4,
                 .kv_heads = kind == AX_LLAMA ? kv_heads : 4,
                 .vocab = VOCAB,
                 .seq = SEQ,
                 .tied = kind == AX_GPT,
                 .norm_eps = 1e-5,
                 .rope_theta = 1e4,
                 .init_std = 0.3};
    assert_int_equal(ax_arch_check(&a), AX_OK);
    return a;
}

static job job_of(ax_arch_kind kind, const char *grid, const char *device, ax_dtype act)
{
    return (job){.arch = arch_of(kind, 2),
                 .grid = grid,
                 .device = device,
                 .act = act,
                 .batch = MOST,
                 .room = 24};
}

static int ranks_of(const char *grid)
{
    ax_grid_shape s;
    assert_int_equal(ax_grid_parse(grid, &s), AX_OK);
    return ax_grid_ranks(&s);
}

static double run(job *j, double allowed)
{
    double worst = 0;
    assert_int_equal(ax_ranks_run(ranks_of(j->grid), run_rank, j), AX_OK);
    for (int i = 0; i < MAX_RANKS; i++)
        worst = j->worst[i] <= worst ? worst : j->worst[i];
    if (!(worst <= allowed))
        fail_msg("%s %s %s on %s: logits differ by %g (allowed %g)", j->grid,
                 j->arch.kind == AX_GPT ? "gpt" : "llama", ax_dtype_name(j->act), j->device, worst,
                 allowed);
    return worst;
}

static const char *const grids[] = {"x=1",        "x=2",     "y=2", "z=2",     "x=2,y=2",
                                    "z=2,data=2", "x=2,z=2", "y=4", "y=2,z=2", "x=4"};
enum { GRIDS = sizeof grids / sizeof grids[0] };

// Logits leave the passes that are compared with as floats.
static void in_double(void **state)
{
    (void)state;
    for (int kind = AX_GPT; kind <= AX_LLAMA; kind++) {
        job serial = job_of((ax_arch_kind)kind, "x=1", "ref", AX_F64);
        double worst = run(&serial, 1e-7);
        for (int i = 1; i < GRIDS; i++) {
            job j = job_of((ax_arch_kind)kind, grids[i], "ref", AX_F64);
            j.activations = i % 3 == 2 ? AX_ACT_REPLICATED : AX_ACT_AUTO;
            worst = fmax(worst, run(&j, 1e-7));
            assert_memory_equal(j.text, serial.text, sizeof serial.text);
            assert_memory_equal(j.length, serial.length, sizeof serial.length);
        }
        print_message("%s: logits of %d grids within %.1e, texts equal\n",
                      kind == AX_GPT ? "gpt" : "llama", GRIDS, worst);
    }
}

static void in_floats(void **state)
{
    (void)state;
    const char *fast = ax_device_missing("cpu") ? "ref" : "cpu";
    for (int i = 0; i < GRIDS; i++) {
        job j = job_of(i % 2 ? AX_GPT : AX_LLAMA, grids[i], fast, AX_F32);
        run(&j, 1e-5);
    }
    for (const char *const *name = ax_device_names(); *name; name++)
        for (int kind = AX_GPT; kind <= AX_LLAMA; kind++) {
            job j = job_of((ax_arch_kind)kind, "x=1", *name, AX_BF16);
            print_message("bf16 on %s: within %.1e\n", *name, run(&j, 3e-2));
        }
}

// Three sequences divide by nothing: rows are cut in the prompt and not in the step. One alone
// leaves most of a grid without rows of its own.
static void odd_batches(void **state)
{
    (void)state;
    for (int64_t batch = 1; batch <= 3; batch += 2) {
        job serial = job_of(batch == 1 ? AX_GPT : AX_LLAMA, "x=1", "ref", AX_F64);
        serial.batch = batch;
        run(&serial, 1e-7);
        for (int i = 1; i < GRIDS; i++) {
            job j = job_of((ax_arch_kind)serial.arch.kind, grids[i], "ref", AX_F64);
            j.batch = batch;
            if (strchr(grids[i], 'z')) // these need whole sequences
                continue;
            run(&j, 1e-7);
            assert_memory_equal(j.text, serial.text, sizeof serial.text);
        }
    }
}

// A sequence's text does not depend on its neighbours.
static void alone(void **state)
{
    (void)state;
    for (int kind = AX_GPT; kind <= AX_LLAMA; kind++) {
        job all = job_of((ax_arch_kind)kind, "x=1", "ref", AX_F64), one = all;
        one.batch = 1;
        run(&all, 1e-7);
        run(&one, 1e-7);
        assert_memory_equal(one.text[0], all.text[0], sizeof one.text[0]);
    }
}

static ax_status misuse_rank(void *ctx, ax_comm *world)
{
    job *j = ctx;
    ax_trainer t;
    AX_TRY(open_one(j, world, j->room, &t));
    double *logits = calloc((size_t)t.layout.vocab_padded, sizeof *logits);
    int32_t ids[SEQ] = {0}, length = 24;
    ax_status step = ax_infer_step(&t.model, ids, logits); // before any prompt
    ax_status fill =
        ax_infer_prefill(&t.model, &(ax_prefill){ids, 24, &length, &(bool){true}}, logits);
    ax_status full = ax_infer_step(&t.model, ids, logits);
    free(logits);
    ax_trainer_close(&t);
    return step == AX_EINTERNAL && fill == AX_OK && full == AX_EINTERNAL ? AX_OK : AX_EIO;
}

static void misuse(void **state)
{
    (void)state;
    job j = job_of(AX_LLAMA, "x=1", "ref", AX_F64);
    j.batch = 1;
    assert_int_equal(ax_ranks_run(1, misuse_rank, &j), AX_OK);
    j.room = SEQ + 1;
    assert_int_equal(ax_ranks_run(1, misuse_rank, &j), AX_EINTERNAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"with a cache every step gives the logits of a whole pass, on every grid, in double",
         in_double, NULL, NULL, NULL},
        {"and in fp32 and bf16, on every device", in_floats, NULL, NULL, NULL},
        {"batches that divide by nothing give the same texts", odd_batches, NULL, NULL, NULL},
        {"a sequence does not depend on its neighbours", alone, NULL, NULL, NULL},
        {"a step without a prompt, or beyond the cache, is refused", misuse, NULL, NULL, NULL},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
