// Texts from a tiny random model: in batches and alone, on grids, beyond the context, to the end of
// a text; and the draw of one token against sorting everything.
#include "base/log.h"
#include "base/rng.h"
#include "train/generate.h"
#include "train/pick.h"
#include "train/ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- one draw

typedef struct ranked {
    double logit;
    int32_t id;
} ranked;

static int by_logit(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->logit != y->logit)
        return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

// The definition, with all ids sorted.
static int32_t sorted_pick(const double *logits, int64_t vocab, const ax_generate_options *o,
                           double u)
{
    ranked all[200];
    double weight[200], total = 0, kept = 0;
    for (int64_t i = 0; i < vocab; i++)
        all[i] = (ranked){logits[i], (int32_t)i};
    qsort(all, (size_t)vocab, sizeof *all, by_logit);
    if (o->temperature == 0)
        return all[0].id;
    int64_t n = o->top_k > 0 && o->top_k < vocab ? o->top_k : vocab, nucleus = 0;
    for (int64_t i = 0; i < n; i++)
        total += weight[i] = exp((all[i].logit - all[0].logit) / o->temperature);
    while (nucleus < n && (nucleus == 0 || kept < o->top_p * total))
        kept += weight[nucleus++];
    double left = u * kept;
    int64_t i = 0;
    while (i + 1 < nucleus && weight[i + 1] > 0 && left >= weight[i])
        left -= weight[i++];
    return all[i].id;
}

static void picks_as_sorting_does(void **state)
{
    (void)state;
    static const double temperatures[] = {0, 0.2, 1, 7}, tops[] = {0, 0.3, 0.9, 0.999, 1};
    static const int64_t ks[] = {0, 1, 2, 17, 199, 200, 1000};
    double logits[200];
    int32_t order[200];
    uint64_t n = 0;
    for (int64_t vocab = 1; vocab <= 200; vocab += 199)
        for (size_t a = 0; a < 4; a++)
            for (size_t b = 0; b < 5; b++)
                for (size_t k = 0; k < 7; k++)
                    for (int turn = 0; turn < 20; turn++, n++) {
                        ax_generate_options o = {
                            .temperature = temperatures[a], .top_p = tops[b], .top_k = ks[k]};
                        for (int64_t i = 0; i < vocab; i++) { // with ties, and ids that are barred
                            double v = floor(20 * ax_rng_normal(n, 1, (uint64_t)i)) / 10;
                            logits[i] = i > 0 && turn % 3 == 0 && i % 2 ? -INFINITY : v;
                        }
                        double u = turn == 0 ? 0 : ax_rng_uniform(n, 2, 0);
                        u = turn == 1 ? 1 - 1e-9 : u;
                        int32_t got = ax_pick(logits, vocab, &o, u, order);
                        assert_true(isfinite(logits[got]));
                        assert_int_equal(got, sorted_pick(logits, vocab, &o, u));
                    }
}

static void picks_by_weight(void **state)
{
    (void)state;
    enum { N = 20000 };
    const double logits[] = {log(1), log(2), log(4), -INFINITY, log(3)};
    const double share[] = {0.1, 0.2, 0.4, 0, 0.3};
    ax_generate_options o = {.temperature = 1, .top_p = 1};
    int count[5] = {0};
    int32_t order[5];
    for (uint64_t i = 0; i < N; i++)
        count[ax_pick(logits, 5, &o, ax_rng_uniform(1, 9, i), order)]++;
    for (int i = 0; i < 5; i++)
        assert_true(fabs(count[i] - share[i] * N) <= 4 * sqrt(share[i] * N));
}

// ---- texts

enum { MOST = 5, SEQ = 24 };

static const char *const prompts[MOST] = {"a", "The grid", "", "xyz of nine", "a"};

typedef struct job {
    ax_arch arch;
    const char *grid;
    ax_generate_options options;
    int first, count;  // of the prompts
    int64_t sequences; // at one time
    bool broken;       // the model is not finite
    ax_tokenizer *tokenizer;

    int texts;
    char text[MOST][4096];
    size_t length[MOST];
    int64_t tokens[MOST];
    bool ended[MOST];
    ax_text pieces;
} job;

static void keep_text(void *ctx, const ax_generated *g)
{
    job *j = ctx;
    int i = j->texts++;
    assert_true(i < MOST && g->length < sizeof j->text[i]);
    assert_string_equal(g->prompt, prompts[j->first + i]);
    memcpy(j->text[i], g->text, g->length + 1);
    j->length[i] = g->length;
    j->tokens[i] = g->tokens;
    j->ended[i] = g->ended;
}

static void keep_piece(void *ctx, const char *bytes, size_t length)
{
    ax_text_add_bytes(&((job *)ctx)->pieces, bytes, length);
}

static ax_status write_texts(job *j, ax_trainer *t)
{
    ax_prompts p = {0};
    ax_generate_task task = {
        .tokenizer = j->tokenizer, .options = &j->options, .prompts = &p, .number = j->first};
    ax_generate_sink sink = {.piece = keep_piece, .done = keep_text, .ctx = j};
    ax_status st = AX_OK;
    for (int i = 0; i < j->count && st == AX_OK; i++)
        st = ax_prompts_add(&p, prompts[j->first + i], strlen(prompts[j->first + i]));
    if (st == AX_OK)
        st = ax_prompts_encode(&p, j->tokenizer);
    if (st == AX_OK)
        st = ax_generate(t, &task, &sink);
    ax_prompts_fini(&p);
    return st;
}

static ax_status open_trainer(const job *j, ax_comm *world, int64_t cache, ax_trainer *t)
{
    ax_trainer_config c = {.arch = &j->arch,
                           .device = "ref",
                           .act = AX_F64,
                           .threads = 1,
                           .overlap = AX_OVERLAP_ALL,
                           .inference = true,
                           .cache = cache};
    AX_TRY(ax_grid_parse(j->grid, &c.grid));
    int64_t columns = (int64_t)c.grid.z * c.grid.data;
    c.batch = (j->sequences + columns - 1) / columns * columns;
    AX_TRY(ax_trainer_open(&c, world, t));
    AX_TRY(ax_params_init(&t->model.params, &t->grid, &t->dev, 7));
    int norm = ax_params_find(&t->model.params, "final_norm.weight");
    return j->broken ? ax_fill(&t->dev, t->model.params.list[norm].weight, NAN) : AX_OK;
}

static ax_status run_rank(void *ctx, ax_comm *world)
{
    job *j = ctx;
    ax_trainer t;
    AX_TRY(open_trainer(j, world, j->arch.seq, &t));
    ax_status st = write_texts(j, &t);
    ax_comm_end(world, st);
    ax_trainer_close(&t);
    return st;
}

static job job_of(ax_arch_kind kind, int64_t vocab, double temperature, int64_t tokens)
{
    ax_arch a = {.kind = kind,
                 .layers = 2,
                 .hidden = 32,
                 .heads = 4,
                 .kv_heads = kind == AX_LLAMA ? 2 : 4,
                 .vocab = vocab,
                 .seq = SEQ,
                 .tied = false,
                 .norm_eps = 1e-5,
                 .rope_theta = 1e4,
                 .init_std = 0.3};
    job j = {.arch = a,
             .grid = "x=1",
             .options = {.tokens = tokens,
                         .temperature = temperature,
                         .top_p = 1,
                         .seed = 3,
                         .stop = true},
             .count = MOST,
             .sequences = MOST};
    assert_int_equal(ax_arch_check(&j.arch), AX_OK);
    return j;
}

static ax_status run(job *j)
{
    ax_grid_shape s;
    assert_int_equal(ax_grid_parse(j->grid, &s), AX_OK);
    assert_int_equal(ax_tokenizer_open("byte", &j->tokenizer), AX_OK);
    j->texts = 0;
    ax_status st = ax_ranks_run(ax_grid_ranks(&s), run_rank, j);
    ax_tokenizer_close(j->tokenizer);
    return st;
}

static void assert_same(const job *a, int i, const job *b, int k)
{
    assert_int_equal(a->length[i], b->length[k]);
    assert_memory_equal(a->text[i], b->text[k], a->length[i]);
    assert_int_equal(a->tokens[i], b->tokens[k]);
    assert_int_equal(a->ended[i], b->ended[k]);
}

// Past the context, so that windows move at different times.
static void batch_is_singles(void **state)
{
    (void)state;
    for (int kind = AX_GPT; kind <= AX_LLAMA; kind++)
        for (int drawn = 0; drawn < 2; drawn++) {
            job all = job_of((ax_arch_kind)kind, 257, drawn ? 0.9 : 0, 50);
            assert_int_equal(run(&all), AX_OK);
            assert_int_equal(all.texts, MOST);
            for (int i = 0; i < MOST; i++) {
                job one = job_of((ax_arch_kind)kind, 257, drawn ? 0.9 : 0, 50);
                one.first = i;
                one.count = one.sequences = 1;
                assert_int_equal(run(&one), AX_OK);
                assert_same(&one, 0, &all, i);
                size_t prompt = strlen(prompts[i]); // it came first, then the text in pieces
                assert_int_equal(one.pieces.length, prompt + one.length[0]);
                assert_memory_equal(one.pieces.text, prompts[i], prompt);
                assert_memory_equal(one.pieces.text + prompt, one.text[0], one.length[0]);
                ax_text_fini(&one.pieces);
            }
            bool same = all.length[0] == all.length[4] &&
                        memcmp(all.text[0], all.text[4], all.length[0]) == 0;
            assert_int_equal(same, !drawn); // equal prompts: draws of their own
            assert_null(all.pieces.text);
        }
}

static void rounds_and_grids(void **state)
{
    (void)state;
    static const char *const grids[] = {"x=2", "y=2", "z=2", "x=2,y=2", "z=2,data=2", "x=2,data=2"};
    for (int kind = AX_GPT; kind <= AX_LLAMA; kind++) {
        job all = job_of((ax_arch_kind)kind, 257, 0.9, 40);
        assert_int_equal(run(&all), AX_OK);
        for (int g = 0; g < 6; g++) {
            job other = job_of((ax_arch_kind)kind, 257, 0.9, 40);
            other.grid = grids[g];
            other.sequences = 1 + g; // from one at a time to more than there are
            assert_int_equal(run(&other), AX_OK);
            assert_int_equal(other.texts, MOST);
            for (int i = 0; i < MOST; i++)
                assert_same(&other, i, &all, i);
        }
    }
}

// ---- against passes over the whole window

typedef struct oracle {
    job *j;
    const char *prompt;
    char text[256];
} oracle;

static ax_status oracle_rank(void *ctx, ax_comm *world)
{
    oracle *o = ctx;
    ax_trainer t;
    float logits[512];
    int32_t ids[256];
    int64_t count = (int64_t)strlen(o->prompt), base = 0;
    AX_TRY(open_trainer(o->j, world, 0, &t));
    for (int64_t i = 0; i < count; i++)
        ids[i] = (unsigned char)o->prompt[i];
    for (int64_t made = 0; made < o->j->options.tokens; made++) {
        if (count - base > SEQ) // the older half goes
            base = count - SEQ / 2;
        memset(t.ids, 0, SEQ * sizeof *t.ids);
        memcpy(t.ids, ids + base, (size_t)(count - base) * sizeof *ids);
        AX_TRY(ax_model_logits(&t.model, t.ids, count - base - 1, logits));
        int32_t best = 0;
        for (int32_t v = 1; v < 257; v++)
            best = logits[v] > logits[best] ? v : best;
        ids[count++] = best;
        o->text[made] = (char)best;
    }
    ax_trainer_close(&t);
    return AX_OK;
}

static void as_whole_passes(void **state)
{
    (void)state;
    for (int kind = AX_GPT; kind <= AX_LLAMA; kind++) {
        job j = job_of((ax_arch_kind)kind, 257, 0, 60);
        j.options.stop = false;
        j.first = 1;
        j.count = j.sequences = 1;
        oracle o = {.j = &j, .prompt = prompts[1]};
        assert_int_equal(run(&j), AX_OK);
        assert_int_equal(ax_ranks_run(1, oracle_rank, &o), AX_OK);
        assert_int_equal(j.tokens[0], 60);
        assert_int_equal(j.length[0], 60);
        assert_memory_equal(j.text[0], o.text, 60);
        ax_text_fini(&j.pieces);
    }
}

// ---- ends

static void known_ids_only(void **state)
{
    (void)state;
    job j = job_of(AX_LLAMA, 400, 50, 120); // 143 ids that no byte tokenizer has, as likely as any
    j.options.stop = false;
    assert_int_equal(run(&j), AX_OK);
    for (int i = 0; i < MOST; i++)
        assert_int_equal(j.tokens[i], 120);
}

static void ends_of_texts(void **state)
{
    (void)state;
    job on = job_of(AX_GPT, 257, 50, 600), off = on;
    off.options.stop = false;
    assert_int_equal(run(&on), AX_OK);
    assert_int_equal(run(&off), AX_OK);
    int ended = 0;
    for (int i = 0; i < MOST; i++) {
        ended += on.ended[i];
        assert_int_equal(on.ended[i], on.tokens[i] < 600);
        assert_int_equal(on.length[i], on.tokens[i]); // the end itself is no part of it
        assert_true(!off.ended[i] && off.tokens[i] == 600);
        assert_memory_equal(on.text[i], off.text[i], on.length[i]);
    }
    assert_true(ended > 0 && ended < MOST); // both happen with this seed
    on.arch.eos = "101,32";                 // 'e' and a blank end a text, too
    assert_int_equal(run(&on), AX_OK);
    for (int i = 0; i < MOST; i++)
        assert_null(strpbrk(on.text[i], "e "));
}

static void no_tokens(void **state)
{
    (void)state;
    job j = job_of(AX_GPT, 257, 0, 0);
    assert_int_equal(run(&j), AX_OK);
    assert_int_equal(j.texts, MOST);
    for (int i = 0; i < MOST; i++)
        assert_true(j.tokens[i] == 0 && j.length[i] == 0 && !j.ended[i]);
}

static void broken_models(void **state)
{
    (void)state;
    job j = job_of(AX_LLAMA, 257, 0.8, 5);
    j.broken = true;
    assert_int_equal(run(&j), AX_ENUMERIC);
    j.grid = "x=2,data=2";
    assert_int_equal(run(&j), AX_ENUMERIC);
    assert_int_equal(j.texts, 0);
}

int main(void)
{
    ax_log_setup((ax_log_config){.ranks = 1, .level = AX_LOG_ERROR});
    const struct CMUnitTest tests[] = {
        {"a draw is the one that sorting all ids would give", picks_as_sorting_does, NULL, NULL,
         NULL},
        {"ids are drawn by their weight", picks_by_weight, NULL, NULL, NULL},
        {"texts of a batch are those of each prompt alone, greedy and drawn", batch_is_singles,
         NULL, NULL, NULL},
        {"rounds of any size and grids give the same texts", rounds_and_grids, NULL, NULL, NULL},
        {"a text is that of passes over the whole window, of which the older half goes when full",
         as_whole_passes, NULL, NULL, NULL},
        {"ids that the tokenizer lacks are never drawn", known_ids_only, NULL, NULL, NULL},
        {"a text ends at the end-of-document id and at those of model.eos, unless told otherwise",
         ends_of_texts, NULL, NULL, NULL},
        {"no tokens are asked for: the texts are empty", no_tokens, NULL, NULL, NULL},
        {"logits that are not finite end the job on every rank", broken_models, NULL, NULL, NULL},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
