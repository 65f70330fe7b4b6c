// Byte-pair encoding: a vocabulary, ranked merges, and words turned into ids.
//
// The symbols a word starts from are its bytes (GPT-2, Llama 3) or its characters (Llama 2), where
// a character without a token becomes its bytes' tokens <0x00>..<0xFF> or the unknown token. Then
// the pair of lowest rank is joined, the leftmost on a tie, until none is left.
#pragma once
#include "data/bpe_queue.h"
#include "data/tokenizer.h"

#include <stdbool.h>

typedef struct ax_spelling {
    const char *text; // NULL: no token has this id
    uint32_t length;
} ax_spelling;

// Strings to ids. Strings are not copied.
typedef struct ax_spell_map {
    const ax_spelling *spelling; // of every id
    int32_t *slot;               // -1: free
    uint64_t mask;
} ax_spell_map;

typedef struct ax_bpe_pair {
    uint64_t key; // left << 32 | right
    int32_t rank, joined;
} ax_bpe_pair;

typedef struct ax_bpe {
    int64_t ids;           // one above the highest id
    ax_spelling *spelling; // as the file has it
    ax_spelling *raw;      // with `bytes`: the bytes it stands for; text NULL: for none
    ax_spell_map map;      // of `raw` with `bytes`, else of `spelling`
    ax_bpe_pair *pair;
    uint64_t pair_mask;
    int64_t merges;
    uint64_t *joint; // bits of hashed character pairs that a merge may join; NULL: no cutting
    int32_t byte[256];
    int32_t unknown; // id; -1: none
    bool bytes, fuse_unknown, byte_fallback, ignore_merges;
} ax_bpe;

typedef struct ax_bpe_merge {
    int32_t left, right, joined;
} ax_bpe_merge;

ax_status ax_spell_map_build(ax_spell_map *m, const ax_spelling *spelling, int64_t ids);
int32_t ax_spell_map_find(const ax_spell_map *m, const char *text, size_t length); // -1: none

// Builds the tables from ids, spelling, raw, byte and the flags. Merges are in order of rank.
ax_status ax_bpe_build(ax_bpe *b, const ax_bpe_merge *merge, int64_t merges);
void ax_bpe_fini(ax_bpe *b); // the tables; spelling and raw belong to the caller

// Memory of one thread for words of any length; zero-initialised is empty.
typedef struct ax_bpe_scratch {
    int32_t *id, *next, *previous;
    int64_t room;
    ax_bpe_queue queue;
} ax_bpe_scratch;
void ax_bpe_scratch_fini(ax_bpe_scratch *s);

// Appends the ids of one word. Without `bytes` the word is valid UTF-8.
ax_status ax_bpe_encode(const ax_bpe *b, ax_bpe_scratch *s, const char *word, size_t length,
                        ax_ids *ids);
// Bytes of `word` up to the first place that no merge can span, or its length.
size_t ax_bpe_cut(const ax_bpe *b, const char *word, size_t length);
