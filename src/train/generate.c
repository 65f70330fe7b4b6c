#include "train/generate.h"

#include "base/log.h"
#include "base/rng.h"
#include "nn/infer.h"
#include "train/loop.h"
#include "train/metrics.h"
#include "train/pick.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NOT_FINITE = -2, NOTHING = -1 }; // in the place of an id

// ---- texts

typedef struct story { // a text under way; the same on every rank, but for its bytes (rank 0)
    const ax_prompt *prompt;
    ax_ids ids;
    int64_t base; // the first id that the cache has
    int64_t made;
    bool fresh; // to be read from `base` on
    bool done, ended;
    ax_decoder decoder;
    ax_text text;
} story;

typedef struct writer {
    ax_trainer *t;
    const ax_generate_task *task;
    const ax_generate_sink *sink;
    int64_t here, all; // sequences of this (data, z) coordinate, and of all of them
    int64_t limit;     // ids below it may be drawn
    int32_t *barred;   // but for these, which the tokenizer lacks
    int64_t barred_count;
    story *story; // all

    // A pass: `here` each but where said.
    int32_t *ids; // (here, room)
    int32_t *length, *next, *mine;
    bool *keep;
    int32_t *drawn; // all
    double *logits; // (here, V padded)
    int32_t *order; // limit: scratch of a draw
    int64_t tokens, prompt_tokens;
} writer;

static bool speaks(const writer *w)
{
    return w->t->grid.rank == 0;
}

static void show(const writer *w, const char *bytes, size_t length)
{
    if (speaks(w) && w->task->prompts->count == 1 && w->sink->piece)
        w->sink->piece(w->sink->ctx, bytes, length);
}

// The decoder has seen the prompt when it meets the first token: blanks at a seam are right.
static ax_status begin(writer *w, story *s, const ax_prompt *prompt)
{
    ax_text unused = {0};
    int64_t room = w->t->config.cache, count = prompt->ids.count;
    *s = (story){.prompt = prompt, .fresh = true, .done = w->task->options->tokens == 0};
    s->base = count > room ? count - room : 0;
    s->decoder = (ax_decoder){.tokenizer = w->task->tokenizer, .exact = true};
    w->prompt_tokens += count;
    AX_TRY(ax_ids_append(&s->ids, prompt->ids.id, count));
    if (!speaks(w))
        return AX_OK;
    show(w, prompt->text, prompt->length);
    ax_status st = AX_OK;
    for (int64_t i = 0; i < count && st == AX_OK; i++)
        st = ax_decoder_push(&s->decoder, prompt->ids.id[i], &unused);
    ax_text_fini(&unused);
    return st;
}

static ax_status write_token(writer *w, story *s, int32_t id)
{
    size_t before = s->text.length;
    if (!speaks(w))
        return AX_OK;
    AX_TRY(ax_decoder_push(&s->decoder, id, &s->text));
    if (s->text.length > before)
        show(w, s->text.text + before, s->text.length - before);
    return AX_OK;
}

static bool ends_text(const writer *w, int32_t id)
{
    return w->task->options->stop &&
           (id == ax_tokenizer_eod(w->task->tokenizer) || ax_arch_ends(w->t->config.arch, id));
}

static ax_status take(writer *w, story *s, int32_t id)
{
    int64_t room = w->t->config.cache;
    s->ended = s->done = ends_text(w, id);
    if (s->done)
        return AX_OK;
    AX_TRY(ax_ids_push(&s->ids, id));
    s->made++;
    w->tokens++;
    s->done = s->made == w->task->options->tokens;
    s->fresh = s->ids.count - s->base > room;
    if (s->fresh)
        s->base = s->ids.count - (room - room / 2);
    return write_token(w, s, id);
}

// ---- passes

static int64_t longest_fresh(const writer *w)
{
    int64_t most = 0;
    for (int64_t i = 0; i < w->all; i++) {
        const story *s = &w->story[i];
        int64_t count = s->ids.count - s->base;
        if (!s->done && s->fresh && count > most)
            most = count;
    }
    return most;
}

static bool any_steps(const writer *w)
{
    for (int64_t i = 0; i < w->all; i++)
        if (!w->story[i].done && !w->story[i].fresh)
            return true;
    return false;
}

static story *here(const writer *w)
{
    const ax_grid *g = &w->t->grid;
    return w->story + ((int64_t)g->cd * g->shape.z + g->cz) * w->here;
}

static ax_status prefill(writer *w, int64_t longest)
{
    int64_t seq = ax_infer_seq(&w->t->model, longest);
    memset(w->ids, 0, (size_t)(w->here * seq) * sizeof *w->ids);
    for (int64_t i = 0; i < w->here; i++) {
        const story *s = &here(w)[i];
        int64_t count = s->ids.count - s->base;
        w->keep[i] = !s->done && s->fresh;
        w->length[i] = (int32_t)count;
        if (w->keep[i])
            memcpy(w->ids + i * seq, s->ids.id + s->base, (size_t)count * sizeof *w->ids);
    }
    return ax_infer_prefill(&w->t->model, &(ax_prefill){w->ids, seq, w->length, w->keep},
                            w->logits);
}

static ax_status step(writer *w)
{
    for (int64_t i = 0; i < w->here; i++) {
        const story *s = &here(w)[i];
        w->next[i] = s->done || s->fresh ? NOTHING : s->ids.id[s->ids.count - 1];
    }
    return ax_infer_step(&w->t->model, w->next, w->logits);
}

// ---- draws

static int32_t draw(const writer *w, int64_t i)
{
    const ax_generate_options *o = w->task->options;
    const story *s = &here(w)[i];
    double *logits = w->logits + i * w->t->layout.vocab_padded;
    for (int64_t k = 0; k < w->limit; k++)
        if (!isfinite(logits[k]))
            return NOT_FINITE;
    for (int64_t k = 0; k < w->barred_count; k++)
        logits[w->barred[k]] = -INFINITY;
    uint64_t number = (uint64_t)(w->task->number + (s->prompt - w->task->prompts->list));
    double u = ax_rng_uniform((uint64_t)o->seed, ax_rng_stream("generate"),
                              number << 32 | (uint64_t)s->made);
    return ax_pick(logits, w->limit, o, u, w->order);
}

// One rank of each x*y draws, so that rounding can never lead ranks apart; then all know all.
static ax_status draw_all(writer *w)
{
    const ax_grid *g = &w->t->grid;
    for (int64_t i = 0; i < w->here && g->xy->rank == 0; i++)
        w->mine[i] = here(w)[i].done ? NOTHING : draw(w, i);
    AX_TRY(ax_comm_bcast(
        g->xy,
        &(ax_xfer){
            .send = w->mine, .recv = w->mine, .count = w->here, .dtype = AX_I32, .tag = "token"},
        0));
    return ax_comm_allgather(
        g->zdata,
        &(ax_xfer){
            .send = w->mine, .recv = w->drawn, .count = w->here, .dtype = AX_I32, .tag = "tokens"});
}

static ax_status stop(const writer *w, const story *s)
{
    if (speaks(w))
        ax_fail(AX_ENUMERIC, __FILE__, __LINE__,
                "prompt %lld: the logits after %lld tokens are not finite: the model is broken, or "
                "train.precision too narrow for it",
                (long long)(s->prompt - w->task->prompts->list + 1), (long long)s->ids.count);
    return ax_comm_agree(w->t->grid.world, AX_ENUMERIC);
}

static ax_status turn(writer *w)
{
    int64_t longest = longest_fresh(w);
    bool steps = any_steps(w);
    if (longest > 0)
        AX_TRY(prefill(w, longest));
    if (steps)
        AX_TRY(step(w));
    AX_TRY(draw_all(w));
    for (int64_t i = 0; i < w->all; i++) {
        story *s = &w->story[i];
        if (s->done)
            continue;
        if (w->drawn[i] == NOT_FINITE)
            return stop(w, s);
        AX_TRY(take(w, s, w->drawn[i]));
    }
    return AX_OK;
}

// ---- rounds

static bool is_done(const writer *w)
{
    for (int64_t i = 0; i < w->all; i++)
        if (!w->story[i].done)
            return false;
    return true;
}

static ax_status report(writer *w)
{
    for (int64_t i = 0; i < w->all; i++) {
        story *s = &w->story[i];
        if (!s->prompt || !speaks(w) || !w->sink->done)
            continue;
        AX_CHECK(!s->text.failed, AX_ENOMEM, "no memory for a generated text");
        w->sink->done(w->sink->ctx, &(ax_generated){.prompt = s->prompt->text,
                                                    .prompt_length = s->prompt->length,
                                                    .text = s->text.text ? s->text.text : "",
                                                    .length = s->text.length,
                                                    .tokens = s->made,
                                                    .ended = s->ended});
    }
    return AX_OK;
}

static void end_stories(writer *w)
{
    for (int64_t i = 0; i < w->all && w->story; i++) {
        ax_ids_fini(&w->story[i].ids);
        ax_text_fini(&w->story[i].text);
        w->story[i] = (story){.done = true};
    }
}

static ax_status round_of(writer *w, int64_t first)
{
    ax_status st = AX_OK;
    end_stories(w);
    for (int64_t i = 0; i < w->all && first + i < w->task->prompts->count && st == AX_OK; i++)
        st = begin(w, &w->story[i], &w->task->prompts->list[first + i]);
    AX_TRY(ax_comm_agree(w->t->grid.world, st));
    while (!is_done(w))
        AX_TRY(turn(w));
    return report(w);
}

// A tokenizer may have ids without a token below its highest.
static void bar_unknown(writer *w)
{
    size_t unused;
    for (int64_t i = 0; i < w->limit; i++)
        if (!ax_tokenizer_spelling(w->task->tokenizer, (int32_t)i, &unused))
            w->barred[w->barred_count++] = (int32_t)i;
}

static ax_status open_writer(writer *w)
{
    const ax_layout *l = &w->t->layout;
    int64_t vocab = ax_tokenizer_vocab(w->task->tokenizer);
    w->limit = w->t->config.arch->vocab < vocab ? w->t->config.arch->vocab : vocab;
    w->here = l->micro_batch;
    w->all = w->here * w->t->grid.zdata->size;
    size_t count = (size_t)w->here;
    w->story = calloc((size_t)w->all, sizeof *w->story);
    w->ids = calloc(count * (size_t)w->t->config.cache, sizeof *w->ids);
    w->length = calloc(count, sizeof *w->length);
    w->next = calloc(count, sizeof *w->next);
    w->mine = calloc(count, sizeof *w->mine);
    w->keep = calloc(count, sizeof *w->keep);
    w->drawn = calloc((size_t)w->all, sizeof *w->drawn);
    w->logits = calloc(count * (size_t)l->vocab_padded, sizeof *w->logits);
    w->order = calloc((size_t)w->limit, sizeof *w->order);
    w->barred = calloc((size_t)w->limit, sizeof *w->barred);
    AX_CHECK(w->barred && w->story && w->ids && w->length && w->next && w->mine && w->keep &&
                 w->drawn && w->logits && w->order,
             AX_ENOMEM, "no memory to generate %lld texts at one time", (long long)w->all);
    bar_unknown(w);
    return AX_OK;
}

static void close_writer(writer *w)
{
    end_stories(w);
    free(w->story);
    free(w->ids);
    free(w->length);
    free(w->next);
    free(w->mine);
    free(w->keep);
    free(w->drawn);
    free(w->logits);
    free(w->order);
    free(w->barred);
}

ax_status ax_generate(ax_trainer *t, const ax_generate_task *task, const ax_generate_sink *sink)
{
    writer w = {.t = t, .task = task, .sink = sink};
    double started = ax_metrics_clock();
    ax_status st = ax_comm_agree(t->grid.world, open_writer(&w));
    for (int64_t first = 0; first < task->prompts->count && st == AX_OK; first += w.all)
        st = round_of(&w, first);
    double seconds = ax_metrics_clock() - started;
    if (st == AX_OK && speaks(&w) && w.tokens > 0)
        ax_log(AX_LOG_INFO, "generate",
               "%lld tokens generated after %lld of the prompts, in %.2f s: %.1f tokens/s",
               (long long)w.tokens, (long long)w.prompt_tokens, seconds,
               (double)w.tokens / seconds);
    close_writer(&w);
    return st;
}

// ---- the job

typedef struct generation { // `job` first, so that one finds the other
    ax_job job;
    ax_prompts prompts;
    const ax_generate_sink *sink;
} generation;

static ax_status collect(const ax_run_config *c, ax_prompts *p)
{
    const char *file = c->generate.prompts, *prompt = c->generate.prompt;
    AX_CHECK(!*file || !c->words, AX_EUSAGE,
             "prompts on the command line and generate.prompts=%s: give one of the two", file);
    if (*file)
        return ax_prompts_read(p, file);
    for (int i = 0; i < c->words; i++)
        AX_TRY(ax_prompts_add(p, c->word[i], strlen(c->word[i])));
    return c->words ? AX_OK : ax_prompts_add(p, prompt, strlen(prompt));
}

// Once the tokenizer is open: how many sequences there are, and how long they can become.
static ax_status prepare(ax_job *job)
{
    generation *g = (generation *)job;
    const ax_generate_options *o = &job->config->generate;
    int64_t seq = job->config->arch.seq;
    AX_TRY(collect(job->config, &g->prompts));
    AX_TRY(ax_prompts_encode(&g->prompts, job->tokenizer));
    int64_t longest = ax_prompts_longest(&g->prompts);
    job->sequences = g->prompts.count < o->batch ? g->prompts.count : o->batch;
    job->cache = longest < seq && o->tokens < seq - longest ? longest + o->tokens : seq;
    return AX_OK;
}

// Each process has read the file for itself: the passes of all must be the same.
static ax_status compare_prompts(const ax_prompts *p, ax_comm *world)
{
    uint64_t sum = (uint64_t)p->count;
    for (int64_t i = 0; i < p->count; i++)
        for (int64_t k = 0; k <= p->list[i].ids.count; k++) {
            uint64_t id = k < p->list[i].ids.count ? (uint64_t)p->list[i].ids.id[k] : UINT32_MAX;
            sum = (sum ^ id) * 0x100000001b3u; // FNV-1a
        }
    return ax_comm_check_equal(world, (int64_t)sum, "the prompts");
}

static ax_status generate_rank(ax_job *job, ax_comm *world)
{
    ax_trainer t;
    const generation *g = (const generation *)job;
    AX_TRY(compare_prompts(&g->prompts, world));
    AX_TRY(ax_train_open(job, world, &t));
    ax_status st = ax_generate(&t,
                               &(ax_generate_task){.tokenizer = job->tokenizer,
                                                   .options = &job->config->generate,
                                                   .prompts = &g->prompts},
                               g->sink);
    ax_comm_end(world, st);
    ax_trainer_close(&t);
    return st;
}

ax_status ax_generate_run(ax_run_config *c, const ax_generate_sink *sink)
{
    generation g = {.job = {.config = c, .inference = true, .prepare = prepare}, .sink = sink};
    AX_CHECK(strcmp(c->init, "random") != 0, AX_EUSAGE,
             "generate needs a model: model.init=DIR, a run directory or a checkpoint");
    ax_status st = ax_job_run(&g.job, generate_rank);
    ax_prompts_fini(&g.prompts);
    return st;
}
