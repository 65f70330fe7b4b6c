#include "trial.h"

#include "bytes.h"
#include "data/loader.h"
#include "base/rng.h"
#include "train/ranks.h"
#include "train/step.h"
#include "train/tuning.h"
#include "whole.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- data ----

static struct {
    ax_tokenizer *tokenizer;
    ax_corpus *corpus[5]; // rows of 8 to 12
} data;

enum { LEAST_SEQ = 8, SEQS = sizeof data.corpus / sizeof data.corpus[0] };

// Bytes below 101, so that the byte tokenizer's ids fit a vocabulary that nothing divides. The
// length leaves the end-of-document id outside of every sample.
static ax_status write_text(const char *path)
{
    enum { LENGTH = 40007 };
    FILE *f = fopen(path, "wb");
    AX_CHECK(f, AX_EIO, "%s: cannot be written", path);
    for (int i = 0; i < LENGTH; i++) {
        uint64_t bits = ax_rng_bits(11, 3, (uint64_t)i);
        fputc(i % 7 == 3 ? ' ' : 32 + (int)(bits % 69), f);
    }
    AX_CHECK(fclose(f) == 0, AX_EIO, "%s: cannot be written", path);
    return AX_OK;
}

ax_status trial_open_data(void)
{
    char path[] = "/tmp/axonn-grids-XXXXXX";
    int fd = mkstemp(path);
    AX_CHECK(fd >= 0, AX_EIO, "no temporary file to be had in /tmp");
    close(fd);
    const ax_data_options options = {.train = path,
                                     .valid = "",
                                     .tokenizer = "byte",
                                     .text_key = "text",
                                     .prompt_key = "prompt",
                                     .completion_key = "completion",
                                     .eod = true,
                                     .seed = 1};
    ax_status st = write_text(path);
    if (st == AX_OK)
        st = ax_tokenizer_open("byte", &data.tokenizer);
    for (int i = 0; i < SEQS && st == AX_OK; i++) {
        const ax_corpus_use use = {.seq = LEAST_SEQ + i, .vocab = 257};
        st = ax_corpus_open(&options, data.tokenizer, &use, &data.corpus[i]);
    }
    unlink(path);
    return st;
}

void trial_close_data(void)
{
    for (int i = 0; i < SEQS; i++)
        ax_corpus_close(data.corpus[i]);
    ax_tokenizer_close(data.tokenizer);
}

// ---- one rank ----

typedef struct work {
    const trial *trial;
    ax_trainer t;
    ax_loader loader;
    outcome *o;    // of this rank
    double *whole; // room for a gathered model
} work;

// Borders that depend on the row of the global batch alone, so that every grid sees the same; every
// fifth row is one document.
static void cut_documents(int32_t *position, int64_t seq, int step, int64_t row)
{
    for (int64_t k = 1; k < seq; k++) {
        uint64_t bits = ax_rng_bits(17, (uint64_t)step, (uint64_t)(row * seq + k));
        position[k] = row % 5 != 4 && bits % 4 == 0 ? 0 : position[k - 1] + 1;
    }
}

static ax_status load_rows(work *w, int step)
{
    const int64_t seq = w->t.layout.seq;
    for (int64_t i = 0; i < ax_trainer_rows(&w->t); i++) {
        int64_t row = ax_trainer_row(&w->t, i);
        int32_t *targets = w->t.targets + i * seq;
        ax_row into = {w->t.ids + i * seq, targets, w->t.positions + i * seq};
        AX_TRY(ax_loader_row(&w->loader, step, row, &into));
        if (w->trial->documents)
            cut_documents(into.positions, seq, step, row);
        for (int64_t k = 0; k < seq && w->trial->counts; k++)
            if (!w->trial->counts(row, k))
                targets[k] = -1;
        w->o->sample[(step - 1) * TRIAL_BATCH + row] = ax_loader_sample_id(&w->loader, step, row);
    }
    return AX_OK;
}

static ax_status describe(work *w)
{
    const ax_params *ps = &w->t.model.params;
    outcome *o = w->o;
    size_t size = (size_t)whole_count(ps) * sizeof(double);
    o->count = whole_count(ps);
    o->layout = w->t.layout;
    o->steps = w->trial->steps;
    o->spans = ps->count;
    o->span = calloc((size_t)ps->count, sizeof *o->span);
    o->init = malloc(size);
    o->grad = malloc(size);
    o->final = malloc(size);
    w->whole = malloc(size);
    AX_CHECK(o->span && o->init && o->grad && o->final && w->whole, AX_ENOMEM,
             "no memory for a model of %lld elements", (long long)o->count);
    int64_t first = 0;
    for (int i = 0; i < ps->count; i++) {
        const ax_param *p = &ps->list[i];
        o->span[i] = (span){.first = first, .count = p->rows * p->cols};
        memcpy(o->span[i].name, p->name, sizeof p->name);
        first += p->rows * p->cols;
    }
    return AX_OK;
}

static ax_status start_weights(work *w)
{
    ax_trainer *t = &w->t;
    AX_TRY(ax_params_init(&t->model.params, &t->grid, &t->dev, 1));
    int head = ax_params_find(&t->model.params, "head.weight");
    if (w->trial->zero_head && head >= 0) {
        AX_TRY(ax_fill(&t->dev, t->model.params.list[head].master, 0.0));
        AX_TRY(ax_params_spread(&t->model.params, &t->grid, &t->dev));
    }
    AX_TRY(whole_gather(t, WHOLE_COVER, w->whole, &w->o->replicas));
    for (int64_t i = 0; i < w->o->count; i++)
        w->o->uncovered += w->whole[i] != 1;
    return whole_gather(t, WHOLE_MASTER, w->o->init, &w->o->replicas);
}

// What went through the communicators in the first step, against formulas and measuring pass.
static ax_status check_traffic(work *w)
{
    bytes_table table;
    ax_trainer_size size;
    ax_comm_trace before;
    w->o->trace = w->t.trace;
    bytes_expect(&w->trial->arch, &w->t.config, &table);
    w->o->bytes = bytes_compare(&table, &w->t.trace, w->t.grid.rank == 0);
    AX_TRY(ax_trainer_measure_traffic(&w->t.config, w->t.grid.rank, &size, &before));
    w->o->unmeasured += bytes_compare(&table, &before, w->t.grid.rank == 0);
    return AX_OK;
}

int trial_forced_way(const void *ctx, const ax_gemm_key *key)
{
    (void)ctx;
    int ways = 0;
    int64_t mix = 31 * key->m + 17 * key->n + 7 * key->k + 3 * key->ta + 5 * key->tb;
    if (key->in == AX_BF16)
        return ax_gemm_way_find("cpu", "widened"); // others want instructions for bf16
    while (ax_gemm_way_name("cpu", ways))
        ways++;
    return 1 + (int)(mix % (ways - 1));
}

ax_status trial_settle(ax_trainer *t)
{
    t->dev.tuner->timing = false;
    AX_TRY(ax_tuning_agree(t->dev.tuner, t->grid.world));
    ax_gemm_forget(&t->dev);
    return AX_OK;
}

static ax_status one_step(work *w, int step)
{
    ax_step_result r;
    AX_TRY(load_rows(w, step));
    if (step == 1)
        ax_comm_trace_reset(&w->t.trace);
    if (w->t.dev.tuner)
        w->t.dev.tuner->timing = w->trial->tuned == TRIAL_TIMED && step == 1;
    AX_TRY(ax_step(&w->t, w->trial->lr, &r));
    w->o->loss[step - 1] = r.loss;
    w->o->norm[step - 1] = r.grad_norm;
    if (step == 1) {
        w->o->kept = r.kept;
        AX_TRY(check_traffic(w));
        AX_TRY(whole_gather(&w->t, WHOLE_GRAD, w->o->grad, &w->o->replicas));
        if (w->trial->tuned == TRIAL_TIMED)
            AX_TRY(trial_settle(&w->t));
    }
    // Masters can be looked at without waiting for the new weights, which may still be under way.
    whole_pick pick = w->trial->settle ? WHOLE_WEIGHT : WHOLE_MASTER;
    return whole_gather(&w->t, pick, w->whole, &w->o->replicas);
}

static ax_status dry_runs(work *w)
{
    ax_trainer *t = &w->t;
    float *logits = malloc((size_t)t->layout.vocab_padded * sizeof *logits);
    AX_CHECK(logits, AX_ENOMEM, "no memory for logits");
    double sum;
    ax_status st =
        ax_model_loss(&t->model, &(ax_batch){t->ids, t->targets, t->positions}, &sum, NULL);
    if (st == AX_OK)
        st = ax_model_logits(&t->model, t->ids, 0, logits);
    free(logits);
    AX_TRY(st);
    AX_TRY(ax_comm_sum(t->grid.zdata, &sum, 1));
    w->o->eval_loss = sum;
    return AX_OK;
}

static void check_memory(work *w)
{
    const ax_trainer *t = &w->t;
    const ax_arena *const all[AX_ARENAS] = {&t->run, &t->step, &t->call, &t->copy};
    for (int i = 0; i < AX_ARENAS; i++) {
        // A step alone may need less than an evaluation or a token.
        bool exact = w->trial->dry_runs || i == 0;
        w->o->unmeasured +=
            exact ? all[i]->peak != t->size.arena[i] : all[i]->peak > t->size.arena[i];
        w->o->unmeasured += i > 0 && all[i]->used != 0;
    }
}

// Ranks must have seen the same numbers: compared with those of rank 0.
static ax_status compare_ranks(work *w)
{
    ax_comm *world = w->t.grid.world;
    outcome *o = w->o;
    double mine[2 * TRIAL_STEPS], first[2 * TRIAL_STEPS];
    memcpy(mine, o->loss, sizeof o->loss);
    memcpy(mine + TRIAL_STEPS, o->norm, sizeof o->norm);
    memcpy(first, mine, sizeof mine);
    AX_TRY(ax_comm_bcast(
        world, &(ax_xfer){.recv = first, .count = 2 * TRIAL_STEPS, .dtype = AX_F64, .tag = "curve"},
        0));
    o->disagreed = memcmp(first, mine, sizeof mine) != 0;
    double ids[TRIAL_STEPS * TRIAL_BATCH], seen[TRIAL_STEPS * TRIAL_BATCH];
    for (int i = 0; i < TRIAL_STEPS * TRIAL_BATCH; i++)
        ids[i] = seen[i] = (double)o->sample[i]; // -1 where another rank reads
    AX_TRY(ax_comm_max(world, seen, TRIAL_STEPS * TRIAL_BATCH));
    for (int i = 0; i < TRIAL_STEPS * TRIAL_BATCH; i++) {
        o->disagreed += ids[i] >= 0 && ids[i] != seen[i];
        o->sample[i] = (int64_t)seen[i];
    }
    double sums[] = {(double)o->replicas, (double)o->uncovered, (double)o->bytes,
                     (double)o->unmeasured, (double)o->disagreed};
    AX_TRY(ax_comm_sum(world, sums, 5));
    o->replicas = (int64_t)sums[0];
    o->uncovered = (int64_t)sums[1];
    o->bytes = (int64_t)sums[2];
    o->unmeasured = (int64_t)sums[3];
    o->disagreed = (int64_t)sums[4];
    return AX_OK;
}

static ax_status train(work *w)
{
    AX_TRY(describe(w));
    AX_TRY(start_weights(w));
    for (int step = 1; step <= w->trial->steps; step++)
        AX_TRY(one_step(w, step));
    AX_TRY(whole_gather(&w->t, WHOLE_MASTER, w->o->final, &w->o->replicas));
    AX_TRY(whole_gather(&w->t, WHOLE_WEIGHT, w->whole, &w->o->replicas));
    if (w->trial->dry_runs)
        AX_TRY(dry_runs(w));
    check_memory(w);
    return compare_ranks(w);
}

ax_status trial_run_on(const trial *j, ax_comm *world, outcome *out)
{
    work w = {.trial = j, .o = out};
    ax_trainer_config config = j->config;
    config.arch = &j->arch;
    config.document_mask = j->documents;
    *out = (outcome){0};
    for (int i = 0; i < TRIAL_STEPS * TRIAL_BATCH; i++)
        out->sample[i] = -1;
    AX_CHECK(j->arch.seq >= LEAST_SEQ && j->arch.seq < LEAST_SEQ + SEQS, AX_EINTERNAL,
             "no data for rows of %lld", (long long)j->arch.seq);
    AX_TRY(ax_loader_init(&w.loader, data.corpus[j->arch.seq - LEAST_SEQ], config.batch, 5));
    ax_tuner *tuner = calloc(1, sizeof *tuner);
    AX_CHECK(tuner, AX_ENOMEM, "no memory for a tuner");
    tuner->known = j->tuned == TRIAL_FORCED ? trial_forced_way : NULL;
    config.tuner = j->tuned ? tuner : NULL;
    ax_status st = ax_trainer_open(&config, world, &w.t);
    if (st == AX_OK) {
        st = train(&w);
        ax_trainer_close(&w.t);
    }
    free(tuner);
    free(w.whole);
    if (st != AX_OK)
        outcome_fini(out);
    return st;
}

typedef struct local_trial {
    const trial *trial;
    outcome *first; // of rank 0
} local_trial;

// The job over emulated links: over a copy of the world, which is the launcher's to close.
static ax_status run_linked(const trial *j, ax_comm *world, outcome *out)
{
    ax_comm *copy = NULL;
    ax_links *links = calloc(1, sizeof *links);
    AX_CHECK(links, AX_ENOMEM, "no memory for links");
    memcpy(links->link, j->links, sizeof links->link);
    ax_status st = ax_comm_split(world, "world", 0, world->rank, &copy);
    if (st == AX_OK)
        st = ax_comm_link_open(copy, links, &copy);
    if (st == AX_OK)
        st = trial_run_on(j, copy, out);
    ax_comm_close(copy);
    free(links);
    return st;
}

static ax_status local_rank(void *ctx, ax_comm *world)
{
    local_trial *l = ctx;
    outcome *mine = calloc(1, sizeof *mine);
    AX_CHECK(mine, AX_ENOMEM, "no memory for the outcome of a job");
    ax_status st =
        l->trial->links ? run_linked(l->trial, world, mine) : trial_run_on(l->trial, world, mine);
    if (st == AX_OK && world->rank == 0)
        *l->first = *mine;
    else if (st == AX_OK)
        outcome_fini(mine);
    free(mine);
    return st;
}

ax_status trial_run_local(const trial *j, outcome *out)
{
    *out = (outcome){0};
    return ax_ranks_run(ax_grid_ranks(&j->config.grid), local_rank,
                        &(local_trial){.trial = j, .first = out});
}

void outcome_fini(outcome *o)
{
    free(o->span);
    free(o->init);
    free(o->grad);
    free(o->final);
    *o = (outcome){0};
}

// ---- differences ----

static double norm_of(const double *a, const double *b, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        double d = a[i] - (b ? b[i] : 0);
        sum += d * d;
    }
    return sqrt(sum);
}

// A NaN is never smaller than anything: it must not be lost in a maximum.
static bool beats(double a, double b)
{
    return !(a <= b);
}

double outcome_grad_difference(const outcome *a, const outcome *b, const char **worst)
{
    double most = 0, all = norm_of(b->grad, NULL, b->count);
    *worst = "";
    for (int i = 0; i < b->spans; i++) {
        const span *s = &b->span[i];
        const double *x = a->grad + s->first, *y = b->grad + s->first;
        double size = strstr(s->name, "attn.k.bias") ? all : norm_of(y, NULL, s->count);
        double d = norm_of(x, y, s->count) / size;
        if (beats(d, most)) {
            most = d;
            *worst = s->name;
        }
    }
    return most;
}

static double curve_difference(const double *a, const double *b, int steps)
{
    double most = 0;
    for (int i = 0; i < steps; i++) {
        double d = fabs(a[i] - b[i]) / fabs(b[i]);
        if (beats(d, most))
            most = d;
    }
    return most;
}

double outcome_loss_difference(const outcome *a, const outcome *b)
{
    return curve_difference(a->loss, b->loss, b->steps);
}

double outcome_norm_difference(const outcome *a, const outcome *b)
{
    return curve_difference(a->norm, b->norm, b->steps);
}

double outcome_weight_difference(const outcome *a, const outcome *b)
{
    return norm_of(a->final, b->final, b->count) / norm_of(b->final, NULL, b->count);
}
