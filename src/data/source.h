// A source of tokens: files in a row, read as one endless tape of ids with document borders.
//
//     ax_source *s;
//     AX_TRY(ax_source_open("data.train", "a.jsonl,books.bin", &options, &s));
//     AX_TRY(ax_source_read(s, begin, count, ids));
//
// A text or JSONL file (documents.h) is encoded when it is opened and held as ids; a token file
// (shard.h) is read where it lies. Documents are the texts of a text file, those of a Megatron
// index, and, in a token file that has no index, what ends with the end-of-document id.
//
// A text becomes [bos] ids [eod]. A pair {"prompt", "completion"} becomes [bos], the prompt's ids,
// the completion's ids, [eod]; the two are encoded apart from each other, so that a prompt has the
// same ids whatever follows it, and only the completion and its eod are targets. A file holds
// texts or pairs, not both.
//
// Read-only once open: any number of threads may read, nothing is allocated or locked.
#pragma once
#include "data/tokenizer.h"

typedef struct ax_source ax_source;

typedef struct ax_source_options {
    const ax_tokenizer *tokenizer; // must outlive the source
    const char *text_key, *prompt_key, *completion_key;
    bool bos, eod; // around every text
    ax_literals literals;
    int64_t vocab;  // ids of token files lie below it
    bool documents; // borders must be known in every file: one more pass over bare ids
} ax_source_options;

// Where a document came from.
typedef struct ax_source_place {
    const char *path;
    int64_t line;  // of a JSONL file, from 1; 0: the file has no lines
    int64_t index; // in its file, from 0
} ax_source_place;

// `files` are separated by commas; `key` is for messages. AX_EUSAGE: an empty name, a missing file,
// a token that options ask for and the tokenizer lacks; AX_EFORMAT names file and line or token.
ax_status ax_source_open(const char *key, const char *files, const ax_source_options *options,
                         ax_source **out);
void ax_source_close(ax_source *s);

const char *ax_source_name(const ax_source *s); // the files, as given

// One of its files.
typedef struct ax_source_file {
    const char *path;
    int64_t begin, count;              // its tokens, in the source
    int64_t first_document, documents; // likewise; none where borders are not known
    bool held;                         // in memory: reading costs nothing
} ax_source_file;
int ax_source_files(const ax_source *s);
ax_source_file ax_source_file_at(const ax_source *s, int file);

int64_t ax_source_tokens(const ax_source *s);
bool ax_source_has_pairs(const ax_source *s);
int64_t ax_source_empty_files(const ax_source *s);
int64_t ax_source_empty_documents(const ax_source *s); // skipped

// ids[count] = tokens [first, first + count), which must lie in the source; ~id where the token is
// part of a prompt and no target. AX_EFORMAT, AX_EIO as ax_shard_read.
ax_status ax_source_read(const ax_source *s, int64_t first, int64_t count, int32_t *ids);

// ends[k] = 1 where token first + k is the last of its document, else 0; ids[k] is that token.
ax_status ax_source_ends(const ax_source *s, int64_t first, int64_t count, const int32_t *ids,
                         int32_t *ends);

// Bytes of text behind [begin, end); 0 where not every id is a target, or the text is not at hand.
ax_status ax_source_bytes(const ax_source *s, int64_t begin, int64_t end, int64_t *bytes);

// Documents are numbered in file order, from 0. -1: a file does not tell, and was not asked to.
int64_t ax_source_documents(const ax_source *s);
// Where there are borders: begin[count] of documents first, first + 1, ...; number `documents` is
// the end. Empty documents begin where the next one does.
ax_status ax_source_borders(const ax_source *s, int64_t first, int64_t count, int64_t *begin);
ax_status ax_source_find(const ax_source *s, int64_t token, int64_t *document);
ax_source_place ax_source_locate(const ax_source *s, int64_t document);
