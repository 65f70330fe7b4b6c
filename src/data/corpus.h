// The data of a run: sources (files), what of them is learnt from and what is held out, and the
// rows that both are cut into.
//
//     ax_corpus *c;
//     AX_TRY(ax_corpus_open(&options, tokenizer, &(ax_corpus_use){.seq = 1024, .vocab = v}, &c));
//     AX_TRY(ax_corpus_window(c, AX_VALID, i, &(ax_row){ids, targets, positions}));
//
// Files are text, JSONL (.jsonl), either of them as .zst, or token files (source.h, shard.h). A
// list of files is one source in file order; a list with weights, FILE@0.7,FILE@0.3, is one source
// a file (mixture.h). The last `valid_fraction` of each source is held out (training ends at
// round(tokens * (1 - fraction))), or `valid` names files of its own, which are one source.
//
// Rows are cut by `packing` (pack.h): stream, the default of texts and token files, or whole, that
// of pairs of prompt and completion. Where whole documents are packed, the held-out border moves to
// the nearest border of documents.
//
// With `document_mask` a document sees itself alone: positions restart with each document, or with
// the row that goes on with it, and the last token of a document has no target, since what follows
// is the next one's. Without, rows are read as running text across borders.
#pragma once
#include "base/text.h"
#include "data/tokenizer.h"

typedef enum ax_packing {
    AX_PACKING_AUTO, // whole for pairs, else stream
    AX_PACKING_STREAM,
    AX_PACKING_WHOLE,
} ax_packing;

typedef struct ax_data_options {
    const char *train;                                  // comma-separated files
    const char *valid;                                  // likewise; empty: the tail of train
    const char *tokenizer;                              // "byte"
    const char *text_key, *prompt_key, *completion_key; // of JSONL objects
    bool bos, eod;                                      // ids before and behind each document
    int64_t literals; // ax_literals: what the text of a special token becomes
    int64_t packing;  // ax_packing
    bool document_mask;
    double valid_fraction;
    int64_t seed;
} ax_data_options;

extern const ax_option ax_data_option_table[]; // data.*

// A sample as the model reads it: seq values each, the caller's memory.
typedef struct ax_row {
    int32_t *ids;
    int32_t *targets;   // what follows ids[i]; -1: does not count
    int32_t *positions; // of ids[i] in its document, or in the row where documents are not masked
} ax_row;

typedef enum ax_split {
    AX_TRAIN,
    AX_VALID,
} ax_split;

typedef struct ax_corpus ax_corpus; // read-only once open; may be shared by the rank threads

typedef struct ax_corpus_use {
    int64_t seq;    // of a row
    int64_t vocab;  // ids of token files lie below it; at least the tokenizer's
    bool scoring;   // where data.valid is given, data.train is not read and may be missing
    bool documents; // documents are numbered in token files without an index, too: one more pass
} ax_corpus_use;

// AX_EIO, AX_EFORMAT name the file and the line or token; AX_EUSAGE a file that does not exist.
// Empty files and documents are skipped, counted and warned of. `t` must outlive the corpus.
ax_status ax_corpus_open(const ax_data_options *options, const ax_tokenizer *t,
                         const ax_corpus_use *use, ax_corpus **out);
void ax_corpus_close(ax_corpus *c);

int64_t ax_corpus_seq(const ax_corpus *c);
int64_t ax_corpus_tokens(const ax_corpus *c, ax_split split);
// Bytes of text behind the held-out tokens; 0 where they are not known (token files), or where not
// every token is a target (document_mask, pairs), so that a loss cannot be spread over them.
int64_t ax_corpus_held_out_bytes(const ax_corpus *c);

// Evaluation: every row of the split once, in file order. On a stream every id of a source but the
// first is a target exactly once, the last row being shorter. 0 rows below two ids.
int64_t ax_corpus_windows(const ax_corpus *c, ax_split split);
// Row `i`: seq inputs and seq targets; beyond the end of the row inputs are the end-of-document id
// (0 where there is none) and targets -1. AX_EIO, AX_EFORMAT of token files.
ax_status ax_corpus_window(const ax_corpus *c, ax_split split, int64_t i, const ax_row *out);

// The sources as data.train, then data.valid, name them. *share: of the samples, 0..1; 0 for
// held-out files.
int ax_corpus_sources(const ax_corpus *c);
const struct ax_source *ax_corpus_source_at(const ax_corpus *c, int source, double *share);

// ---- for the loader

// A part is what one source gives to a split.
int ax_corpus_parts(const ax_corpus *c, ax_split split);
const struct ax_source *ax_corpus_source(const ax_corpus *c, ax_split split, int part);
const struct ax_mixture *ax_corpus_mixture(const ax_corpus *c); // of the parts of AX_TRAIN
// Rows of a part: full ones of a stream, or all of packed documents.
int64_t ax_corpus_samples(const ax_corpus *c, ax_split split, int part);
bool ax_corpus_is_packed(const ax_corpus *c, ax_split split, int part); // whole documents
// Tokens [*begin, *end) of the source that row `row` of a part holds.
void ax_corpus_span(const ax_corpus *c, ax_split split, int part, int64_t row, int64_t *begin,
                    int64_t *end);
ax_status ax_corpus_read(const ax_corpus *c, ax_split split, int part, int64_t row,
                         const ax_row *out);
