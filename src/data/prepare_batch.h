// Some lines on their way through prepare: bytes as they were read, then ids.
#pragma once
#include "data/documents.h"
#include "data/tokenizer.h"

enum {
    AX_BATCH_BYTES = 256 << 10, // full from here on; one line more may make it longer
    AX_BATCH_LINES = 4096,
};

typedef struct ax_batch_line {
    size_t begin;     // in the batch's bytes
    ax_record record; // its bytes are set when it is parsed
    const char *path;
    int64_t text_bytes; // of its document, or this part of it; 0 at its beginning: left out
    int64_t ids_end;    // in the batch's ids
    ax_status st;       // AX_EFORMAT: no document
    char *why;          // where st is not AX_OK
} ax_batch_line;

typedef struct ax_batch { // zero-initialised is empty
    char *bytes;
    size_t length, room;
    ax_batch_line *line; // AX_BATCH_LINES
    int64_t lines;
    ax_ids ids;
} ax_batch;

typedef struct ax_batch_wish {
    const char *text_key;
    int32_t bos, eod; // -1: none
} ax_batch_wish;

ax_status ax_batch_add(ax_batch *b, const ax_record *r, const char *path); // copies; `path` is kept
bool ax_batch_is_full(const ax_batch *b);
// Fills in text_bytes, ids_end, st and why of every line. What fails is in the lines.
void ax_batch_encode(ax_batch *b, const ax_batch_wish *wish, ax_encoder *e);
void ax_batch_clear(ax_batch *b); // keeps ordinary amounts of memory
void ax_batch_fini(ax_batch *b);
