// Text to ids and back.
//
//     ax_tokenizer *t;
//     AX_TRY(ax_tokenizer_open("models/llama", &t));
//     AX_TRY(ax_tokenizer_encode(t, text, length, &ids));   // ids.id[0..ids.count)
//
// A tokenizer is read-only and serves any number of threads. A thread that encodes much holds an
// ax_encoder, which keeps the words it has seen.
//
// "byte": id = byte value, 256 = end of document; vocabulary 257. Any other name is a
// tokenizer.json, or a directory with that file or with vocab.json and merges.txt: byte-pair
// encoding as GPT-2, Llama 2 and Llama 3 use it. Ids are those of the library that defined the
// format. A component of a tokenizer.json that is not understood is refused by its name.
//
// Text is bytes. What is not valid UTF-8 takes no part in normalising, splitting or added tokens:
// it becomes the tokens of its bytes, and decodes to the same bytes. No id is added to a text:
// beginning and end of a document are the caller's.
#pragma once
#include "base/err.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ax_tokenizer ax_tokenizer;

typedef struct ax_ids { // growing list of ids; zero-initialised is empty
    int32_t *id;
    int64_t count, room;
} ax_ids;

// AX_EUSAGE: no such file or directory. AX_EFORMAT, AX_EUNSUPPORTED name the file and the key.
ax_status ax_tokenizer_open(const char *name, ax_tokenizer **out);
// From the text of a tokenizer.json; `name` is for messages.
ax_status ax_tokenizer_parse(const char *name, const char *json, size_t length, ax_tokenizer **out);
void ax_tokenizer_close(ax_tokenizer *t);

int64_t ax_tokenizer_vocab(const ax_tokenizer *t); // one above the highest id
// The id that ends a document: the eos_token of tokenizer_config.json beside the tokenizer.json,
// else the first of <|endoftext|>, <|end_of_text|>, </s> and the like. -1: there is none.
int32_t ax_tokenizer_eod(const ax_tokenizer *t);
int32_t ax_tokenizer_bos(const ax_tokenizer *t); // that begins one; -1: there is none
const char *ax_tokenizer_name(const ax_tokenizer *t);

// ---- encoding

// Whether the text of a special token (<|endoftext|>) that stands in a document becomes that
// token, as the library has it, or is text like any other, as training data wants it.
typedef enum ax_literals {
    AX_LITERALS_ARE_TEXT,
    AX_LITERALS_ARE_TOKENS,
} ax_literals;

// Appends the ids of text[0..length) to `ids`, literals as text. AX_EFORMAT names the byte.
ax_status ax_tokenizer_encode(const ax_tokenizer *t, const char *text, size_t length, ax_ids *ids);

typedef struct ax_encoder ax_encoder; // of one thread at a time; `t` must outlive it
ax_status ax_encoder_open(const ax_tokenizer *t, ax_literals literals, ax_encoder **out);
void ax_encoder_close(ax_encoder *e);
ax_status ax_encoder_encode(ax_encoder *e, const char *text, size_t length, ax_ids *ids);

// A text that is encoded in parts: the last place in text[0..length) where it may be cut, so that
// the ids of the parts, one after the other, are those of the whole, whatever follows `length`. 0:
// none is known (nor will be, where a tokenizer's own rules leave none: see tokenizer_border.c).
size_t ax_tokenizer_border(const ax_tokenizer *t, ax_literals literals, const char *text,
                           size_t length);
// The part behind such a place, `before` bytes into the text; messages count from there.
ax_status ax_encoder_continue(ax_encoder *e, const char *text, size_t length, size_t before,
                              ax_ids *ids);

// ---- decoding

// The bytes of one id, not terminated; a special token has none. AX_EFORMAT: no such id.
ax_status ax_tokenizer_decode(const ax_tokenizer *t, int32_t id, const char **bytes,
                              size_t *length);
// The token as the file spells it, NULL where the id has none.
const char *ax_tokenizer_spelling(const ax_tokenizer *t, int32_t id, size_t *length);
int32_t ax_tokenizer_find(const ax_tokenizer *t, const char *spelling); // -1: none
bool ax_tokenizer_is_special(const ax_tokenizer *t, int32_t id);

// Ids to text, one after the other. Zero-initialised but for the tokenizer and the wishes.
//
//     ax_decoder d = {.tokenizer = t};
//     AX_TRY(ax_decoder_push(&d, id, &text));   // appends what is certain: whole characters
//     ax_decoder_finish(&d, &text);             // appends the rest
typedef struct ax_decoder {
    const ax_tokenizer *tokenizer;
    bool special; // write special tokens, too
    bool exact;   // bytes as they are; else what is not UTF-8 becomes U+FFFD
    bool started; // the rest is the decoder's own
    int64_t stripped;
    char held[4];
    size_t holds;
} ax_decoder;
ax_status ax_decoder_push(ax_decoder *d, int32_t id, ax_text *out);
void ax_decoder_finish(ax_decoder *d, ax_text *out);

// ---- lists of ids

ax_status ax_ids_push(ax_ids *ids, int32_t id);
ax_status ax_ids_append(ax_ids *ids, const int32_t *id, int64_t count);
void ax_ids_fini(ax_ids *ids);
