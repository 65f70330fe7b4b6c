// Text to ids and back.
//
//     ax_tokenizer *t;
//     AX_TRY(ax_tokenizer_open("byte", &t));
//     AX_TRY(ax_tokenizer_encode(t, text, length, &ids));   // ids.id[0..ids.count)
//
// "byte": id = byte value, 256 = end of document; vocabulary 257.
#pragma once
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

typedef struct ax_tokenizer ax_tokenizer;

typedef struct ax_ids { // growing list of ids; zero-initialised is empty
    int32_t *id;
    int64_t count, room;
} ax_ids;

ax_status ax_tokenizer_open(const char *name, ax_tokenizer **out);
void ax_tokenizer_close(ax_tokenizer *t);
int64_t ax_tokenizer_vocab(const ax_tokenizer *t);
int32_t ax_tokenizer_eod(const ax_tokenizer *t); // the id that ends a document
const char *ax_tokenizer_name(const ax_tokenizer *t);

// Appends the ids of text[0..length) to `ids`; adds no end-of-document id.
ax_status ax_tokenizer_encode(const ax_tokenizer *t, const char *text, size_t length, ax_ids *ids);

// The bytes of one id, not terminated; the end-of-document id has none. AX_EFORMAT: no such id.
ax_status ax_tokenizer_decode(const ax_tokenizer *t, int32_t id, const char **bytes,
                              size_t *length);

ax_status ax_ids_push(ax_ids *ids, int32_t id);
void ax_ids_fini(ax_ids *ids);
