#include "train/generate.h"

#include "base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- one sample ----

static int32_t likeliest(const float *logits, int64_t vocab)
{
    int64_t best = 0;
    for (int64_t i = 1; i < vocab; i++)
        if (logits[i] > logits[best])
            best = i;
    return (int32_t)best;
}

typedef struct ranked { // for qsort_r: by falling logit, then rising id
    const float *logits;
} ranked;

static int by_logit(const void *a, const void *b, void *ctx)
{
    int32_t i = *(const int32_t *)a, k = *(const int32_t *)b;
    const float *l = ((const ranked *)ctx)->logits;
    if (l[i] != l[k])
        return l[i] > l[k] ? -1 : 1;
    return i < k ? -1 : i > k;
}

int32_t ax_generate_pick(const float *logits, int64_t vocab, const ax_generate_options *options,
                         double u, int32_t *order)
{
    if (options->temperature <= 0)
        return likeliest(logits, vocab);
    ranked by = {logits};
    for (int64_t i = 0; i < vocab; i++)
        order[i] = (int32_t)i;
    qsort_r(order, (size_t)vocab, sizeof *order, by_logit, &by);
    int64_t n = options->top_k > 0 && options->top_k < vocab ? options->top_k : vocab;
    double top = logits[order[0]], total = 0, kept = 0;
    for (int64_t i = 0; i < n; i++)
        total += exp((logits[order[i]] - top) / options->temperature);
    int64_t nucleus = 0;
    while (nucleus < n && (nucleus == 0 || kept < options->top_p * total))
        kept += exp((logits[order[nucleus++]] - top) / options->temperature);
    double left = u * kept;
    for (int64_t i = 0; i < nucleus; i++) {
        left -= exp((logits[order[i]] - top) / options->temperature);
        if (left < 0)
            return order[i];
    }
    return order[nucleus - 1];
}

// ---- a text ----

typedef struct writer {
    ax_trainer *t;
    const ax_tokenizer *tokenizer;
    const ax_generate_options *options;
    ax_generate_emit *emit;
    void *ctx;
    ax_ids ids;
    float *logits;
    int32_t *order;
} writer;

// Every sequence of the micro-batch is the same window, so any grid that fits the model will do.
static ax_status next_logits(writer *w)
{
    ax_trainer *t = w->t;
    int64_t seq = t->layout.seq, count = w->ids.count < seq ? w->ids.count : seq;
    const int32_t *window = w->ids.id + w->ids.count - count;
    for (int64_t i = 0; i < t->layout.micro_batch; i++) {
        memset(t->ids + i * seq, 0, (size_t)seq * sizeof *t->ids);
        memcpy(t->ids + i * seq, window, (size_t)count * sizeof *t->ids);
    }
    return ax_model_logits(&t->model, t->ids, count - 1, w->logits);
}

// Rank 0 decides, so that rounding can never lead ranks apart.
static ax_status next_token(writer *w, int64_t i, int32_t *id)
{
    AX_TRY(next_logits(w));
    double u = ax_rng_uniform((uint64_t)w->options->seed, ax_rng_stream("generate"), (uint64_t)i);
    *id = ax_generate_pick(w->logits, w->t->config.arch->vocab, w->options, u, w->order);
    return ax_comm_bcast(
        w->t->grid.world,
        &(ax_xfer){.send = id, .recv = id, .count = 1, .dtype = AX_I32, .tag = "token"}, 0);
}

static ax_status emit_token(writer *w, int32_t id)
{
    const char *bytes;
    size_t length;
    if (w->t->grid.rank != 0)
        return AX_OK;
    AX_TRY(ax_tokenizer_decode(w->tokenizer, id, &bytes, &length));
    w->emit(w->ctx, bytes, length);
    return AX_OK;
}

static ax_status start(writer *w)
{
    const char *prompt = w->options->prompt;
    size_t vocab = (size_t)w->t->layout.vocab_padded;
    w->logits = malloc(vocab * sizeof *w->logits);
    w->order = malloc(vocab * sizeof *w->order);
    AX_CHECK(w->logits && w->order, AX_ENOMEM, "no memory for the logits of a token");
    if (!*prompt)
        return ax_ids_push(&w->ids, ax_tokenizer_eod(w->tokenizer));
    if (w->t->grid.rank == 0)
        w->emit(w->ctx, prompt, strlen(prompt));
    return ax_tokenizer_encode(w->tokenizer, prompt, strlen(prompt), &w->ids);
}

static ax_status write_tokens(writer *w)
{
    for (int64_t i = 0; i < w->options->tokens; i++) {
        int32_t id;
        AX_TRY(next_token(w, i, &id));
        if (id == ax_tokenizer_eod(w->tokenizer) || ax_arch_ends(w->t->config.arch, id))
            break;
        AX_TRY(emit_token(w, id));
        AX_TRY(ax_ids_push(&w->ids, id));
    }
    return AX_OK;
}

ax_status ax_generate(ax_trainer *t, const ax_tokenizer *tokenizer,
                      const ax_generate_options *options, ax_generate_emit *emit, void *ctx)
{
    writer w = {.t = t, .tokenizer = tokenizer, .options = options, .emit = emit, .ctx = ctx};
    ax_status st = ax_comm_agree(t->grid.world, start(&w));
    if (st == AX_OK)
        st = write_tokens(&w);
    ax_ids_fini(&w.ids);
    free(w.logits);
    free(w.order);
    return st;
}
