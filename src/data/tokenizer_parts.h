// What a tokenizer is made of. Private to the tokenizer*.c, encoder.c and decoder.c.
#pragma once
#include "data/bpe.h"
#include "data/regex.h"
#include "data/utf8.h"

#include <jansson.h>
#include <pthread.h>

// ---- added tokens: texts that are cut out before anything else happens

typedef struct ax_added {
    int32_t id;
    char *text;
    size_t length;
    ax_text normal; // of one with `normalized`: what is looked for, and what it decodes to
    bool single_word, strip_left, strip_right, normalized, special;
} ax_added;

typedef struct ax_trie_node {
    int32_t child, sibling; // 0: none
    int32_t added;          // index of the token that ends here; -1: none
    unsigned char byte;
} ax_trie_node;

typedef struct ax_trie {
    ax_trie_node *node;
    int32_t count, room; // 0 nodes: no token
} ax_trie;

ax_status ax_trie_add(ax_trie *t, const char *text, size_t length, int32_t added);
void ax_trie_fini(ax_trie *t);

typedef struct ax_added_match {
    size_t from, to; // with the blanks that strip_left and strip_right take
    const ax_added *token;
} ax_added_match;
// The next token in s[done..n) that counts; false: none. `done` is the end of the one before.
// The first call has *at 0.
bool ax_trie_next(const ax_trie *t, const ax_added *added, bool skip_special, const char *s,
                  size_t n, size_t done, size_t *at, ax_added_match *out);

// ---- steps: what is done to the text between added tokens

typedef enum ax_step_kind {
    AX_STEP_FORM, // a normal form
    AX_STEP_PREPEND,
    AX_STEP_REPLACE,
    AX_STEP_SPLIT,      // also Digits
    AX_STEP_METASPACE,  // blanks to a mark, a mark in front, split before marks
    AX_STEP_BYTE_LEVEL, // words are bytes from here on
    AX_STEP_BYTE_FALLBACK,
    AX_STEP_STRIP,
    AX_STEP_FUSE,
} ax_step_kind;

typedef enum ax_behavior {
    AX_REMOVED,
    AX_ISOLATED,
    AX_MERGED_WITH_PREVIOUS,
    AX_MERGED_WITH_NEXT,
    AX_CONTIGUOUS,
} ax_behavior;

typedef enum ax_prepend {
    AX_PREPEND_NEVER,
    AX_PREPEND_FIRST, // only where the text begins
    AX_PREPEND_ALWAYS,
} ax_prepend;

typedef struct ax_step {
    ax_step_kind kind;
    ax_normal_form form;
    ax_regex *regex; // of Split, Replace and ByteLevel; NULL: `pattern` as it stands, or no split
    char *pattern;   // literal to look for
    size_t pattern_length;
    char *text; // to prepend, to put in place, the mark of Metaspace, or the character to strip
    size_t text_length;
    ax_behavior behavior;
    ax_prepend prepend;
    bool invert, split;
    bool ends_lines;           // a pattern that ends pieces at ends and beginnings of lines
    bool behind_letters_alone; // at ends of lines, only behind letters
    bool digits;               // a pattern of single digits
    int64_t start, stop;       // characters of Strip
} ax_step;

typedef struct ax_steps {
    ax_step *step;
    int64_t count;
} ax_steps;
void ax_steps_fini(ax_steps *s);

// Appends s[0..n) after one Prepend, Replace or normal form.
ax_status ax_step_rewrite(const ax_step *step, const char *s, size_t n, ax_text *out);

// ---- the tokenizer

typedef struct ax_piece { // the bytes of a token when decoded
    size_t at;
    uint32_t length;
    bool special;
} ax_piece;

struct ax_tokenizer {
    char *name;
    bool only_bytes; // "byte": nothing below is used
    char byte[256];

    ax_bpe bpe;
    char *spellings; // what bpe.spelling and bpe.raw point into
    char *raws;
    ax_added *added;
    int64_t addeds;
    ax_trie raw_trie, normal_trie; // tokens looked for before and after normalising
    ax_steps normalizer, splitter, decoder;
    int32_t eod, bos;

    ax_piece *piece; // of every id
    ax_text pieces;  // their bytes
    bool each_byte;  // broken bytes decode to a U+FFFD each
    bool spaced;     // decoding writes a blank between tokens: the file names no decoder
    int64_t strip;   // characters taken from the start of a decoded text, each strip_text
    const char *strip_text;
    size_t strip_length;
    bool first_loses_marks; // Metaspace: the first token of a text loses its marks
    const char *mark;
    size_t mark_length;

    pthread_mutex_t lock; // of the encoders at rest
    ax_encoder *resting;
};

// The character that the byte-level alphabet writes for a byte, and back (-1: none).
uint32_t ax_byte_character(int byte);
int ax_character_byte(uint32_t code);
// The bytes that s[0..n) stands for in that alphabet, to out[0..n); false: not all of it is.
bool ax_byte_level_bytes(const char *s, size_t n, char *out, size_t *length);

extern const char ax_byte_level_pattern[]; // how GPT-2 splits text
// See tokenizer_border.c.
bool ax_pattern_ends_lines(const char *pattern, size_t length, bool *behind_letters_alone);

// Reads normalizer, pre_tokenizer and decoder. `where` is the file.
ax_status ax_steps_read(ax_tokenizer *t, const json_t *root, const char *where);
// Reads the whole of a parsed tokenizer.json; afterwards `t` only lacks eod and bos.
ax_status ax_tokenizer_read(ax_tokenizer *t, const json_t *root, const char *where);
// Builds the tables of decoding.
ax_status ax_pieces_build(ax_tokenizer *t, const char *where);
void ax_encoder_free(ax_encoder *e); // and the chain of resting ones behind it

// Members of an object, or AX_EFORMAT with the file and the path of the key.
ax_status ax_json_bool(const json_t *o, const char *key, bool missing, const char *where,
                       bool *out);
ax_status ax_json_text(const json_t *o, const char *key, const char *where, const char **out,
                       size_t *length);
