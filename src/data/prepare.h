// Text to token files: one thread reads, several parse and encode, the caller's writes in order.
//
//     ax_prepare_result r;
//     AX_TRY(ax_prepare_files(&data, &options, tokenizer, writer, NULL, &r));
//     AX_TRY(ax_shard_writer_finish(writer));
//
// The documents of data.train, in order: data.bos and data.eod frame each with an id, empty ones
// are left out and counted. What is written depends on the input alone, not on the number of
// threads. Memory is bounded by the threads and the longest line.
#pragma once
#include "base/text.h"
#include "data/documents.h"
#include "data/loader.h"
#include "data/shard_write.h"

typedef struct ax_prepare_options {
    const char *out;  // PREFIX of PREFIX.bin and PREFIX.idx
    int64_t threads;  // that encode; 0: as many as there are cores
    int64_t on_error; // ax_documents_bad
} ax_prepare_options;
extern const ax_option ax_prepare_option_table[]; // prepare.*

typedef struct ax_prepare_result {
    int64_t documents, tokens; // written
    int64_t text_bytes;        // of the documents written
    int64_t read_bytes;        // of the files, out of their compression
    int64_t skipped, empty;    // lines that are no documents; documents without text
    int threads;
    double seconds;
} ax_prepare_result;

// Asked now and then; true: give up.
typedef struct ax_prepare_stop {
    bool (*asked)(void *ctx);
    void *ctx;
} ax_prepare_stop;

// AX_EUSAGE: a file that is missing or holds tokens already, prompt and completion, a tokenizer
// without the id that data.eod or data.bos wants, no document at all. AX_EFORMAT names file, line
// and byte, where on_error is stop. AX_EIO; also when `stop` (which may be NULL) asked to.
ax_status ax_prepare_files(const ax_data_options *data, const ax_prepare_options *options,
                           const ax_tokenizer *t, ax_shard_writer *w, const ax_prepare_stop *stop,
                           ax_prepare_result *out);
