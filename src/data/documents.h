// Documents of one file, one after the other, in memory that does not grow with the file.
//
//     ax_documents *d;
//     AX_TRY(ax_documents_open("books.jsonl.zst", &(ax_documents_options){.text_key = "text"}, &d));
//     while ((st = ax_documents_next(d, &document, &found)) == AX_OK && found)
//         use(document.text, document.length);
//     ax_documents_close(d);
//
// *.jsonl: a JSON object a line, the document under `text_key`, else a pair {"prompt",
// "completion"}. Blank lines, CRLF, a leading byte-order mark and a last line without newline are
// legal. Any other file is one document, its bytes as they are. Either may end in .zst: one or more
// zstd frames. Files packed otherwise, which would be read as text, are refused. A line may be of
// any length that fits the memory, in a packed file up to 64 MiB or 1024 times its size; work is
// linear in bytes.
#pragma once
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum ax_documents_bad { // what a line that is no document does
    AX_DOCUMENTS_STOP,
    AX_DOCUMENTS_SKIP, // counted; the first few are warned of by line
} ax_documents_bad;

typedef struct ax_documents_options {
    const char *text_key;
    ax_documents_bad on_error;
    const char *prompt_key, *completion_key; // of pairs; NULL: "prompt" and "completion"
    // Where a long text may be cut: the last place in text[0..length), or 0. NULL, as for
    // ax_documents_next: a text is one record.
    size_t (*border)(const void *ctx, const char *text, size_t length);
    const void *border_ctx;
} ax_documents_options;

typedef struct ax_document {
    const char *text; // NULL for a pair; not terminated
    size_t length;
    const char *prompt, *completion; // of a pair
    size_t prompt_length, completion_length;
    int64_t line; // from 1; 0: the file is the document
    void *owner;  // of strings that had escapes
} ax_document;

typedef struct ax_documents ax_documents; // of one thread at a time

// AX_EUSAGE: no such file, or not a regular one. The options' text must outlive the reader.
ax_status ax_documents_open(const char *path, const ax_documents_options *options,
                            ax_documents **out);
void ax_documents_close(ax_documents *d);

// The next document, the reader's until the following call; *found is false at the end.
// AX_EFORMAT names file, line and byte (from 0); AX_EIO the file and, of lines, the last one read.
ax_status ax_documents_next(ax_documents *d, ax_document *out, bool *found);

int64_t ax_documents_lines(const ax_documents *d); // so far, blank ones included
int64_t ax_documents_bytes(const ax_documents *d); // so far, out of the compression
int64_t ax_documents_skipped(const ax_documents *d);
bool ax_documents_has_lines(const char *path); // by its name: JSON lines, not one text

// ---- the two halves of ax_documents_next, for whoever reads in one thread and parses in others

typedef struct ax_record { // a line without its end, a text file, or a part of one
    const char *bytes;
    size_t length;
    size_t skipped; // bytes of the line before these: a byte-order mark
    int64_t line;   // as of a document
    int64_t at;     // bytes of the text that came in records before this one
    bool goes_on;   // the next record is of the same text
} ax_record;

// The next line that is not blank; its bytes are the reader's until the following call.
ax_status ax_documents_read(ax_documents *d, ax_record *out, bool *found);

enum { AX_DOCUMENT_WHY = 1024 };
// Purely local. False: `why` tells the place and the reason, and `out` needs no fini. The record's
// bytes must outlive the document.
bool ax_document_parse(const ax_record *r, const char *path, const ax_documents_options *keys,
                       ax_document *out, char why[AX_DOCUMENT_WHY]);
void ax_document_fini(ax_document *d); // a zeroed one is legal
