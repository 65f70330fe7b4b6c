// Training data: documents to one token stream, the stream to samples, samples to batches.
//
//     ax_corpus *c;
//     AX_TRY(ax_corpus_open(&options, tokenizer, &c));          // reads the files, once a process
//     ax_loader l;
//     AX_TRY(ax_loader_init(&l, c, AX_TRAIN, seq, batch, seed)); // refuses data below one step
//     ax_loader_row(&l, step, row, &(ax_row){ids, targets, positions}); // one row of a batch
//
// The stream is every document's ids followed by the end-of-document id, in file order. The last
// `valid_fraction` of it is held out (training ends at round(tokens * (1 - fraction))), or `valid`
// names files of its own. Sample i is ids [i*seq, i*seq + seq] of the stream: seq inputs and the
// seq targets one to their right. A batch is a pure function of (seed, step): row j of step s
// (from 1) is number g = (s-1)*batch + j of the endless list of epochs, each epoch a permutation of
// all samples of its own.
//
// JSONL: one object a line, its text under `text_key`; empty lines are skipped, CRLF, a leading
// byte-order mark and a last line without newline are legal. Text files are read as bytes, one
// document a file.
#pragma once
#include "base/text.h"
#include "data/tokenizer.h"

typedef struct ax_data_options {
    const char *train;     // comma-separated files: *.jsonl is one JSON object a line, else text
    const char *valid;     // likewise; empty: the tail of train
    const char *tokenizer; // "byte"
    const char *text_key;  // of JSONL objects
    bool bos, eod;         // ids before and behind each document
    int64_t literals;      // ax_literals: what the text of a special token becomes
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

// AX_EIO, AX_EFORMAT name the file, line and byte (from 0); AX_EUSAGE a file that does not exist.
// Empty files and documents are skipped, counted and warned of. `t` must outlive the corpus.
ax_status ax_corpus_open(const ax_data_options *options, const ax_tokenizer *t, ax_corpus **out);
// For scoring alone: where data.valid is given, data.train is not read and may be missing.
ax_status ax_corpus_open_valid(const ax_data_options *options, const ax_tokenizer *t,
                               ax_corpus **out);
void ax_corpus_close(ax_corpus *c);
const int32_t *ax_corpus_tokens(const ax_corpus *c, ax_split split, int64_t *count);
int64_t ax_corpus_documents(const ax_corpus *c, ax_split split);
int64_t ax_corpus_bytes(const ax_corpus *c, ax_split split); // bytes of text behind the tokens

// Evaluation: the split in file order as windows of seq targets, stride seq, the last shorter one
// included, so that every id but the first is a target exactly once. 0 windows below two ids.
int64_t ax_corpus_windows(const ax_corpus *c, ax_split split, int64_t seq);
// Window `i`: seq inputs and seq targets; beyond the end inputs are the end-of-document id and
// targets -1. Returns how many targets count.
int64_t ax_corpus_window(const ax_corpus *c, ax_split split, int64_t seq, int64_t i,
                         const ax_row *out);

typedef struct ax_loader {
    const ax_corpus *corpus;
    const int32_t *token;
    int64_t tokens, samples; // samples of one epoch
    int64_t seq, batch;
    uint64_t seed;
} ax_loader;

// AX_EUSAGE with the three numbers (samples at hand, samples a step needs, tokens a sample needs)
// when the split holds less than one step.
ax_status ax_loader_init(ax_loader *l, const ax_corpus *c, ax_split split, int64_t seq,
                         int64_t batch, int64_t seed);

// Number of the sample (0..samples) that row `row` (0..batch) of `step` (1..) reads.
int64_t ax_loader_sample_id(const ax_loader *l, int64_t step, int64_t row);

// That row's seq inputs and seq targets, and how many targets count (all of them, today).
int64_t ax_loader_row(const ax_loader *l, int64_t step, int64_t row, const ax_row *out);
