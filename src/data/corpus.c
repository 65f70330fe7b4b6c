#include "data/corpus.h"

#include "base/log.h"
#include "data/mixture.h"
#include "data/pack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const ax_option ax_data_option_table[] = {
    {"data.train", AX_OPT_LIST, offsetof(ax_data_options, train), "", "",
     "training files: text, JSONL (.jsonl), either as .zst, or token files; FILE@WEIGHT at each "
     "mixes them by weight"},
    {"data.valid", AX_OPT_LIST, offsetof(ax_data_options, valid), "", "",
     "held-out files; empty: the tail of data.train"},
    {"data.tokenizer", AX_OPT_TEXT, offsetof(ax_data_options, tokenizer), "byte", "",
     "byte (256 bytes and one end-of-document id), or a tokenizer.json or its directory"},
    {"data.text_key", AX_OPT_TEXT, offsetof(ax_data_options, text_key), "text", "",
     "key that holds the text of a JSONL object"},
    {"data.prompt_key", AX_OPT_TEXT, offsetof(ax_data_options, prompt_key), "prompt", "",
     "key that holds the prompt of a JSONL object without a text: read, not learnt"},
    {"data.completion_key", AX_OPT_TEXT, offsetof(ax_data_options, completion_key), "completion",
     "", "key that holds what follows the prompt: learnt"},
    {"data.bos", AX_OPT_FLAG, offsetof(ax_data_options, bos), "off", "",
     "begin each document with the tokenizer's id for it"},
    {"data.eod", AX_OPT_FLAG, offsetof(ax_data_options, eod), "on", "",
     "end each document with the tokenizer's id for it"},
    {"data.literals", AX_OPT_CHOICE, offsetof(ax_data_options, literals), "text", "text|tokens",
     "what the text of a special token, as <|endoftext|>, becomes in a document: text like any "
     "other, or the token"},
    {"data.packing", AX_OPT_CHOICE, offsetof(ax_data_options, packing), "auto", "auto|stream|whole",
     "rows cut from running text, or of whole documents; auto: whole for prompts and completions"},
    {"data.document_mask", AX_OPT_FLAG, offsetof(ax_data_options, document_mask), "off", "",
     "a document sees itself alone: attention and positions restart at its border"},
    {"data.valid_fraction", AX_OPT_REAL, offsetof(ax_data_options, valid_fraction), "0.05",
     "0..0.99", "share of each source held out where data.valid is empty; 0: none"},
    {"data.seed", AX_OPT_INT, offsetof(ax_data_options, seed), "1", "0..", "seed of the shuffle"},
    {0},
};

typedef struct slice { // of a source: what it gives to a split
    const ax_source *source;
    ax_pack pack;
} slice;

struct ax_corpus {
    ax_mixture mixture; // of the training sources
    ax_source **source; // those, then data.valid's
    int sources;
    slice *part[2]; // one a source at most
    int parts[2];
    int64_t seq, bytes; // held out; -1: not to be known
    int32_t pad;
    bool mask;
};

// ---- opening

static ax_status check_options(const ax_data_options *o, bool scoring)
{
    AX_CHECK(*o->train || (scoring && *o->valid), AX_EUSAGE,
             scoring ? "data.valid is not set: name files to score, or, as data.train, those whose "
                       "held-out tail is scored"
                     : "data.train is not set: name a text, a JSONL or a token file");
    const char *text = o->text_key, *prompt = o->prompt_key, *completion = o->completion_key;
    bool differ = strcmp(text, prompt) && strcmp(text, completion) && strcmp(prompt, completion);
    AX_CHECK(differ, AX_EUSAGE,
             "data.text_key=%s, data.prompt_key=%s, data.completion_key=%s: name three keys that "
             "differ",
             text, prompt, completion);
    return AX_OK;
}

static ax_source_options source_options(const ax_data_options *o, const ax_tokenizer *t,
                                        const ax_corpus_use *use)
{
    bool whole = o->packing == AX_PACKING_WHOLE;
    return (ax_source_options){.tokenizer = t,
                               .text_key = o->text_key,
                               .prompt_key = o->prompt_key,
                               .completion_key = o->completion_key,
                               .bos = o->bos,
                               .eod = o->eod,
                               .literals = (ax_literals)o->literals,
                               .vocab = use->vocab,
                               .documents = whole || use->documents};
}

static ax_status add_source(ax_corpus *c, const char *key, const char *files,
                            const ax_source_options *options)
{
    ax_source **grown = realloc(c->source, (size_t)(c->sources + 1) * sizeof(ax_source *));
    AX_CHECK(grown, AX_ENOMEM, "no memory for a list of sources");
    c->source = grown;
    AX_TRY(ax_source_open(key, files, options, &c->source[c->sources]));
    c->sources++;
    return AX_OK;
}

static ax_status open_sources(ax_corpus *c, const ax_data_options *o, bool scoring,
                              const ax_source_options *options)
{
    if (!scoring || !*o->valid) {
        AX_TRY(ax_mixture_parse("data.train", o->train, &c->mixture));
        for (int i = 0; i < c->mixture.sources; i++)
            AX_TRY(add_source(c, "data.train", c->mixture.files[i], options));
    }
    if (!*o->valid)
        return AX_OK;
    ax_mixture held;
    AX_TRY(ax_mixture_parse("data.valid", o->valid, &held));
    bool weighted = strcmp(held.files[0], o->valid) != 0;
    ax_mixture_fini(&held);
    AX_CHECK(!weighted, AX_EUSAGE,
             "data.valid=%s: held-out files carry no weights; each of their tokens counts once",
             o->valid);
    return add_source(c, "data.valid", o->valid, options);
}

// The border of documents that is nearest to a token.
static ax_status round_border(const ax_source *s, int64_t *border)
{
    int64_t document, around[2];
    if (*border == 0 || *border == ax_source_tokens(s))
        return AX_OK;
    AX_TRY(ax_source_find(s, *border, &document));
    AX_TRY(ax_source_borders(s, document, 2, around));
    *border = *border - around[0] <= around[1] - *border ? around[0] : around[1];
    return AX_OK;
}

static ax_status count_bytes(ax_corpus *c, const ax_source *s, int64_t begin, int64_t end,
                             bool whole)
{
    int64_t bytes = 0;
    if (!c->mask && !whole && c->bytes >= 0)
        AX_TRY(ax_source_bytes(s, begin, end, &bytes));
    c->bytes = bytes ? c->bytes + bytes : -1;
    return AX_OK;
}

// A completion behind a cut no longer sees the whole of its prompt.
static void warn_of_cuts(const slice *p, int64_t seq)
{
    int64_t cut = ax_pack_cut(&p->pack);
    if (cut > 0 && ax_log_current().rank == 0)
        ax_log(AX_LOG_WARN, "data",
               "%lld documents are longer than model.seq + 1 = %lld and are cut", (long long)cut,
               (long long)seq + 1);
}

static ax_status add_part(ax_corpus *c, ax_split split, const ax_source *s, int64_t begin,
                          int64_t end, bool whole)
{
    slice *p = &c->part[split][c->parts[split]];
    p->source = s;
    if (whole)
        AX_TRY(ax_pack_whole(s, begin, end, c->seq, &p->pack));
    else
        ax_pack_stream(begin, end, c->seq, &p->pack);
    warn_of_cuts(p, c->seq);
    c->parts[split]++;
    return split == AX_VALID && begin < end ? count_bytes(c, s, begin, end, whole) : AX_OK;
}

static ax_status divide(ax_corpus *c, const ax_data_options *o)
{
    for (int i = 0; i < 2; i++) {
        c->part[i] = calloc((size_t)c->sources, sizeof(slice));
        AX_CHECK(c->part[i], AX_ENOMEM, "no memory for a list of sources");
    }
    for (int i = 0; i < c->sources; i++) {
        const ax_source *s = c->source[i];
        int64_t total = ax_source_tokens(s);
        bool whole = o->packing == AX_PACKING_WHOLE ||
                     (o->packing == AX_PACKING_AUTO && ax_source_has_pairs(s));
        bool is_valid = i >= c->mixture.sources;
        int64_t border = is_valid    ? 0
                         : *o->valid ? total
                                     : llround((double)total * (1.0 - o->valid_fraction));
        bool known = ax_source_documents(s) >= 0;
        AX_CHECK(known || !whole, AX_EUSAGE,
                 "%s: prompts and completions beside token ids without documents; give each a "
                 "weight (FILE@WEIGHT), or set data.packing",
                 ax_source_name(s));
        if (known && (whole || ax_source_has_pairs(s)))
            AX_TRY(round_border(s, &border));
        if (!is_valid)
            AX_TRY(add_part(c, AX_TRAIN, s, 0, border, whole));
        if (is_valid || !*o->valid)
            AX_TRY(add_part(c, AX_VALID, s, border, total, whole));
    }
    return AX_OK;
}

static void warn_of_empty(const ax_corpus *c)
{
    int64_t files = 0, documents = 0;
    for (int i = 0; i < c->sources; i++) {
        files += ax_source_empty_files(c->source[i]);
        documents += ax_source_empty_documents(c->source[i]);
    }
    if (files || documents)
        ax_log(AX_LOG_WARN, "data", "skipped %lld empty files and %lld empty documents",
               (long long)files, (long long)documents);
}

static ax_status open_corpus(ax_corpus *c, const ax_data_options *o, const ax_tokenizer *t,
                             const ax_corpus_use *use)
{
    const ax_source_options options = source_options(o, t, use);
    AX_TRY(check_options(o, use->scoring));
    c->seq = use->seq;
    c->mask = o->document_mask;
    c->pad = ax_tokenizer_eod(t) >= 0 ? ax_tokenizer_eod(t) : 0;
    AX_TRY(open_sources(c, o, use->scoring, &options));
    return divide(c, o);
}

ax_status ax_corpus_open(const ax_data_options *options, const ax_tokenizer *t,
                         const ax_corpus_use *use, ax_corpus **out)
{
    ax_corpus *c = calloc(1, sizeof *c);
    AX_CHECK(c, AX_ENOMEM, "no memory for the corpus");
    ax_status st = open_corpus(c, options, t, use);
    if (st != AX_OK) {
        ax_corpus_close(c);
        return st;
    }
    warn_of_empty(c);
    *out = c;
    return AX_OK;
}

void ax_corpus_close(ax_corpus *c)
{
    if (!c)
        return;
    for (int split = 0; split < 2; split++) {
        for (int i = 0; i < c->parts[split]; i++)
            ax_pack_fini(&c->part[split][i].pack);
        free(c->part[split]);
    }
    for (int i = 0; i < c->sources; i++)
        ax_source_close(c->source[i]);
    free(c->source);
    ax_mixture_fini(&c->mixture);
    free(c);
}

// ---- what there is

int64_t ax_corpus_seq(const ax_corpus *c)
{
    return c->seq;
}

int64_t ax_corpus_tokens(const ax_corpus *c, ax_split split)
{
    int64_t tokens = 0;
    for (int i = 0; i < c->parts[split]; i++)
        tokens += c->part[split][i].pack.end - c->part[split][i].pack.begin;
    return tokens;
}

int64_t ax_corpus_held_out_bytes(const ax_corpus *c)
{
    return c->bytes > 0 ? c->bytes : 0;
}

int ax_corpus_sources(const ax_corpus *c)
{
    return c->sources;
}

const ax_source *ax_corpus_source_at(const ax_corpus *c, int source, double *share)
{
    bool learnt = source < c->mixture.sources;
    *share = learnt ? ax_mixture_share(&c->mixture, source) : 0;
    return c->source[source];
}

int ax_corpus_parts(const ax_corpus *c, ax_split split)
{
    return c->parts[split];
}

const ax_source *ax_corpus_source(const ax_corpus *c, ax_split split, int part)
{
    return c->part[split][part].source;
}

const ax_mixture *ax_corpus_mixture(const ax_corpus *c)
{
    return &c->mixture;
}

int64_t ax_corpus_samples(const ax_corpus *c, ax_split split, int part)
{
    return ax_pack_full_rows(&c->part[split][part].pack);
}

bool ax_corpus_is_packed(const ax_corpus *c, ax_split split, int part)
{
    return c->part[split][part].pack.whole;
}

void ax_corpus_span(const ax_corpus *c, ax_split split, int part, int64_t row, int64_t *begin,
                    int64_t *end)
{
    ax_pack_row(&c->part[split][part].pack, row, begin, end);
}

// ---- rows

// Targets from the ids: one to the right, those of prompts and beyond `next` left out.
static void set_targets(const ax_row *out, int64_t inputs, int32_t next)
{
    for (int64_t k = 0; k < inputs; k++) {
        int32_t target = k + 1 < inputs ? out->ids[k + 1] : next;
        out->targets[k] = target < 0 ? -1 : target;
    }
    for (int64_t k = 0; k < inputs; k++)
        out->ids[k] = out->ids[k] < 0 ? ~out->ids[k] : out->ids[k];
}

// From `positions` as flags of documents that end to positions in documents.
static void restart_at_ends(const ax_row *out, int64_t inputs)
{
    int32_t position = 0;
    for (int64_t k = 0; k < inputs; k++) {
        bool ends = out->positions[k];
        out->positions[k] = position++;
        if (ends) {
            out->targets[k] = -1;
            position = 0;
        }
    }
}

// The rest of a row, a document of its own that nothing is learnt from.
static void pad(const ax_corpus *c, int64_t inputs, const ax_row *out)
{
    for (int64_t k = inputs; k < c->seq; k++) {
        out->ids[k] = c->pad;
        out->targets[k] = -1;
        out->positions[k] = (int32_t)(c->mask ? k - inputs : k);
    }
}

ax_status ax_corpus_read(const ax_corpus *c, ax_split split, int part, int64_t row,
                         const ax_row *out)
{
    int64_t begin, end;
    int32_t next = -1;
    const slice *p = &c->part[split][part];
    ax_pack_row(&p->pack, row, &begin, &end);
    int64_t inputs = end - begin - 1;
    AX_TRY(ax_source_read(p->source, begin, inputs, out->ids));
    AX_TRY(ax_source_read(p->source, end - 1, 1, &next));
    set_targets(out, inputs, next);
    if (c->mask) {
        AX_TRY(ax_source_ends(p->source, begin, inputs, out->ids, out->positions));
        restart_at_ends(out, inputs);
    } else {
        for (int64_t k = 0; k < inputs; k++)
            out->positions[k] = (int32_t)k;
    }
    pad(c, inputs, out);
    return AX_OK;
}

int64_t ax_corpus_windows(const ax_corpus *c, ax_split split)
{
    int64_t rows = 0;
    for (int i = 0; i < c->parts[split]; i++)
        rows += c->part[split][i].pack.rows;
    return rows;
}

ax_status ax_corpus_window(const ax_corpus *c, ax_split split, int64_t i, const ax_row *out)
{
    int part = 0;
    while (part < c->parts[split] && i >= c->part[split][part].pack.rows)
        i -= c->part[split][part++].pack.rows;
    if (part < c->parts[split])
        return ax_corpus_read(c, split, part, i, out);
    pad(c, 0, out);
    return AX_OK;
}
