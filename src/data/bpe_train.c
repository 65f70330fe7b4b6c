#include "data/bpe_train.h"

#include "data/regex.h"
#include "data/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

enum { BYTES = 256, LEAST_COUNT = 2 };

typedef struct word {
    uint64_t hash;
    size_t at; // in `bytes`
    uint32_t length;
    int64_t count;
    int32_t *symbol; // while training
    int64_t symbols;
} word;

typedef struct pair {
    uint64_t key; // left << 32 | right, of ids
    int64_t count;
    int32_t *word; // those that may hold it; a word may stand twice
    int32_t words, room;
} pair;

typedef struct entry { // of the queue; stale where the pair's count has changed since
    int64_t count;
    uint64_t key;
    int32_t pair;
} entry;

struct ax_bpe_trainer {
    ax_regex *regex;
    ax_regex_match match;
    ax_text bytes;
    word *word;
    int64_t words, word_room;
    int32_t *word_slot; // -1: free
    uint64_t word_mask;

    pair *pair;
    int64_t pairs, pair_room;
    int32_t *pair_slot;
    uint64_t pair_mask;
    entry *queue;
    int64_t queued, queue_room;
    int32_t byte_id[BYTES];
    int32_t *symbols;  // of all words
    uint64_t *merge;   // pair of each new id
    ax_text *spelling; // of each id
    int64_t ids, merges;
};

static ax_status no_memory(void)
{
    AX_FAIL(AX_ENOMEM, "no memory to train a tokenizer");
}

static uint64_t mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0x9E3779B97F4A7C15u;
    return x ^ x >> 29;
}

// ---- words

static ax_status grow_word_slots(ax_bpe_trainer *t)
{
    uint64_t slots = t->word_mask ? (t->word_mask + 1) * 2 : 1 << 14;
    int32_t *slot = malloc(slots * sizeof *slot);
    if (!slot)
        return no_memory();
    memset(slot, 0xFF, slots * sizeof *slot);
    for (int64_t i = 0; i < t->words; i++) {
        uint64_t at = t->word[i].hash & (slots - 1);
        while (slot[at] >= 0)
            at = (at + 1) & (slots - 1);
        slot[at] = (int32_t)i;
    }
    free(t->word_slot);
    t->word_slot = slot;
    t->word_mask = slots - 1;
    return AX_OK;
}

static ax_status new_word(ax_bpe_trainer *t, uint64_t hash, const char *s, size_t n)
{
    if (t->words == t->word_room) {
        int64_t room = t->word_room ? t->word_room * 2 : 4096;
        word *grown = room < INT32_MAX ? realloc(t->word, (size_t)room * sizeof *grown) : NULL;
        if (!grown)
            return no_memory();
        t->word = grown;
        t->word_room = room;
    }
    t->word[t->words++] =
        (word){.hash = hash, .at = t->bytes.length, .length = (uint32_t)n, .count = 1};
    ax_bytes_add(&t->bytes, s, n);
    return t->bytes.failed ? no_memory() : AX_OK;
}

static ax_status count_word(ax_bpe_trainer *t, const char *s, size_t n)
{
    AX_CHECK(n < INT32_MAX, AX_EUNSUPPORTED, "a word of %zu bytes is too long to train on", n);
    if ((uint64_t)t->words * 2 >= t->word_mask)
        AX_TRY(grow_word_slots(t));
    uint64_t hash = n;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ (unsigned char)s[i]) * 0x100000001B3u;
    hash = mix(hash);
    uint64_t at = hash & t->word_mask;
    for (; t->word_slot[at] >= 0; at = (at + 1) & t->word_mask) {
        word *w = &t->word[t->word_slot[at]];
        if (w->hash == hash && w->length == n && memcmp(t->bytes.text + w->at, s, n) == 0) {
            w->count++;
            return AX_OK;
        }
    }
    t->word_slot[at] = (int32_t)t->words;
    return new_word(t, hash, s, n);
}

// The pattern takes in every character, so that matches follow one another.
static ax_status count_valid(ax_bpe_trainer *t, const char *s, size_t n)
{
    size_t at = 0, from, to;
    const char *why = "";
    int found = 0;
    while (at < n && (found = ax_regex_find(&t->match, s, n, at, &from, &to, &why)) > 0 &&
           to > at) {
        AX_TRY(count_word(t, s + at, to - at));
        at = to;
    }
    AX_CHECK(found >= 0, AX_EFORMAT, "byte %zu of a text: the split pattern met %s", at, why);
    return AX_OK;
}

ax_status ax_bpe_trainer_add(ax_bpe_trainer *t, const char *text, size_t length)
{
    for (size_t at = 0; at < length;) {
        size_t valid = ax_utf8_valid(text + at, length - at);
        AX_TRY(count_valid(t, text + at, valid));
        at += valid;
        size_t end = at;
        while (end < length && !ax_utf8_next(text + end, length - end, NULL))
            end++;
        if (end > at)
            AX_TRY(count_word(t, text + at, end - at));
        at = end;
    }
    return AX_OK;
}

// ---- the queue: highest count first, then the lowest pair

static bool before(const entry *a, const entry *b)
{
    return a->count != b->count ? a->count > b->count : a->key < b->key;
}

static ax_status push(ax_bpe_trainer *t, int32_t index)
{
    if (t->queued == t->queue_room) {
        int64_t room = t->queue_room ? t->queue_room * 2 : 4096;
        entry *grown = realloc(t->queue, (size_t)room * sizeof *grown);
        if (!grown)
            return no_memory();
        t->queue = grown;
        t->queue_room = room;
    }
    entry e = {.count = t->pair[index].count, .key = t->pair[index].key, .pair = index};
    int64_t at = t->queued++;
    for (int64_t up; at > 0 && before(&e, &t->queue[up = (at - 1) / 2]); at = up)
        t->queue[at] = t->queue[up];
    t->queue[at] = e;
    return AX_OK;
}

static entry pop(ax_bpe_trainer *t)
{
    entry top = t->queue[0], last = t->queue[--t->queued];
    int64_t at = 0, n = t->queued;
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && before(&t->queue[child + 1], &t->queue[child]))
            child++;
        if (!before(&t->queue[child], &last))
            break;
        t->queue[at] = t->queue[child];
    }
    t->queue[at] = last;
    return top;
}

// ---- pairs

static ax_status grow_pair_slots(ax_bpe_trainer *t)
{
    uint64_t slots = t->pair_mask ? (t->pair_mask + 1) * 2 : 1 << 14;
    int32_t *slot = malloc(slots * sizeof *slot);
    if (!slot)
        return no_memory();
    memset(slot, 0xFF, slots * sizeof *slot);
    for (int64_t i = 0; i < t->pairs; i++) {
        uint64_t at = mix(t->pair[i].key) & (slots - 1);
        while (slot[at] >= 0)
            at = (at + 1) & (slots - 1);
        slot[at] = (int32_t)i;
    }
    free(t->pair_slot);
    t->pair_slot = slot;
    t->pair_mask = slots - 1;
    return AX_OK;
}

static ax_status find_pair(ax_bpe_trainer *t, int32_t left, int32_t right, int32_t *out)
{
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    if ((uint64_t)t->pairs * 2 >= t->pair_mask)
        AX_TRY(grow_pair_slots(t));
    uint64_t at = mix(key) & t->pair_mask;
    while (t->pair_slot[at] >= 0 && t->pair[t->pair_slot[at]].key != key)
        at = (at + 1) & t->pair_mask;
    if (t->pair_slot[at] < 0) {
        if (t->pairs == t->pair_room) {
            int64_t room = t->pair_room ? t->pair_room * 2 : 4096;
            pair *grown = room < INT32_MAX ? realloc(t->pair, (size_t)room * sizeof *grown) : NULL;
            if (!grown)
                return no_memory();
            t->pair = grown;
            t->pair_room = room;
        }
        t->pair_slot[at] = (int32_t)t->pairs;
        t->pair[t->pairs++] = (pair){.key = key};
    }
    *out = t->pair_slot[at];
    return AX_OK;
}

static ax_status add_count(ax_bpe_trainer *t, int32_t left, int32_t right, int64_t count,
                           int32_t in_word)
{
    int32_t index = 0;
    AX_TRY(find_pair(t, left, right, &index));
    pair *p = &t->pair[index];
    p->count += count;
    if (count < 0 || (p->words && p->word[p->words - 1] == in_word))
        return AX_OK;
    if (p->words == p->room) {
        int32_t room = p->room ? p->room * 2 : 4;
        int32_t *grown = room > 0 ? realloc(p->word, (size_t)room * sizeof *grown) : NULL;
        if (!grown)
            return no_memory();
        p->word = grown;
        p->room = room;
    }
    p->word[p->words++] = in_word;
    return AX_OK;
}

// Joins the pair wherever it stands in a word, from the left.
static ax_status join_in_word(ax_bpe_trainer *t, int32_t index, int32_t left, int32_t right,
                              int32_t joined)
{
    word *w = &t->word[index];
    int32_t *s = w->symbol;
    int64_t kept = 0;
    for (int64_t i = 0; i < w->symbols; i++) {
        if (s[i] != left || i + 1 == w->symbols || s[i + 1] != right) {
            s[kept++] = s[i];
            continue;
        }
        if (kept > 0) {
            AX_TRY(add_count(t, s[kept - 1], left, -w->count, index));
            AX_TRY(add_count(t, s[kept - 1], joined, w->count, index));
        }
        if (i + 2 < w->symbols) {
            AX_TRY(add_count(t, right, s[i + 2], -w->count, index));
            AX_TRY(add_count(t, joined, s[i + 2], w->count, index));
        }
        s[kept++] = joined;
        i++;
    }
    w->symbols = kept;
    return AX_OK;
}

// ---- training

static ax_status begin(ax_bpe_trainer *t, int64_t vocab)
{
    t->spelling = calloc((size_t)vocab, sizeof *t->spelling);
    t->merge = calloc((size_t)vocab, sizeof *t->merge);
    t->symbols = malloc((t->bytes.length + 1) * sizeof *t->symbols);
    if (!t->spelling || !t->merge || !t->symbols)
        return no_memory();
    for (uint32_t code = 0; code < 0x200; code++) {
        int byte = ax_character_byte(code);
        char text[4];
        if (byte < 0)
            continue;
        ax_bytes_add(&t->spelling[t->ids], text, ax_utf8_put(code, text));
        t->byte_id[byte] = (int32_t)t->ids++;
    }
    for (int64_t i = 0; i < t->words; i++) {
        word *w = &t->word[i];
        w->symbol = t->symbols + w->at;
        w->symbols = w->length;
        for (uint32_t j = 0; j < w->length; j++)
            w->symbol[j] = t->byte_id[(unsigned char)t->bytes.text[w->at + j]];
        for (uint32_t j = 0; j + 1 < w->length; j++)
            AX_TRY(add_count(t, w->symbol[j], w->symbol[j + 1], w->count, (int32_t)i));
    }
    for (int64_t i = 0; i < t->pairs; i++)
        AX_TRY(push(t, (int32_t)i));
    return AX_OK;
}

static ax_status merge_pair(ax_bpe_trainer *t, int32_t index)
{
    uint64_t key = t->pair[index].key;
    int32_t left = (int32_t)(key >> 32), right = (int32_t)(uint32_t)key, id = (int32_t)t->ids++;
    int32_t *in = t->pair[index].word, words = t->pair[index].words;
    int64_t old_pairs = t->pairs;
    t->pair[index].word = NULL; // its words are gone through now, and it is done
    t->pair[index].words = t->pair[index].room = 0;
    t->merge[t->merges++] = key;
    ax_bytes_add(&t->spelling[id], t->spelling[left].text, t->spelling[left].length);
    ax_bytes_add(&t->spelling[id], t->spelling[right].text, t->spelling[right].length);
    ax_status st = t->spelling[id].failed ? no_memory() : AX_OK;
    for (int32_t i = 0; st == AX_OK && i < words; i++)
        st = join_in_word(t, in[i], left, right, id);
    free(in);
    t->pair[index].count = 0;
    for (int64_t i = old_pairs; st == AX_OK && i < t->pairs; i++)
        st = push(t, (int32_t)i); // every pair that gained anything holds the new id
    return st;
}

static ax_status train(ax_bpe_trainer *t, int64_t vocab)
{
    AX_TRY(begin(t, vocab));
    while (t->ids < vocab - 1 && t->queued > 0) {
        entry top = pop(t);
        int64_t count = t->pair[top.pair].count;
        if (count < LEAST_COUNT)
            continue;
        if (count != top.count)
            AX_TRY(push(t, top.pair));
        else
            AX_TRY(merge_pair(t, top.pair));
    }
    return AX_OK;
}

// ---- the file

static void write_json(const ax_bpe_trainer *t, ax_text *out)
{
    static const char level[] = "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
                                "\"trim_offsets\": true, \"use_regex\": true}";
    ax_text_add(out,
                "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n"
                "  \"added_tokens\": [\n    {\"id\": %lld, \"content\": \"<|endoftext|>\", "
                "\"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
                "\"normalized\": false, \"special\": true}\n  ],\n  \"normalizer\": null,\n"
                "  \"pre_tokenizer\": %s,\n  \"post_processor\": null,\n  \"decoder\": %s,\n"
                "  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n"
                "    \"unk_token\": null,\n    \"continuing_subword_prefix\": null,\n"
                "    \"end_of_word_suffix\": null,\n    \"fuse_unk\": false,\n"
                "    \"byte_fallback\": false,\n    \"ignore_merges\": false,\n"
                "    \"vocab\": {",
                (long long)t->ids, level, level);
    for (int64_t id = 0; id < t->ids; id++) {
        ax_text_add(out, "\n      ");
        ax_text_add_json(out, t->spelling[id].text);
        ax_text_add(out, ": %lld,", (long long)id);
    }
    ax_text_add(out, "\n      \"<|endoftext|>\": %lld\n    },\n    \"merges\": [",
                (long long)t->ids);
    for (int64_t i = 0; i < t->merges; i++) {
        ax_text_add(out, "%s\n      [", i ? "," : "");
        ax_text_add_json(out, t->spelling[t->merge[i] >> 32].text);
        ax_text_add(out, ", ");
        ax_text_add_json(out, t->spelling[(uint32_t)t->merge[i]].text);
        ax_text_add(out, "]");
    }
    ax_text_add(out, "\n    ]\n  }\n}\n");
}

ax_status ax_bpe_trainer_run(ax_bpe_trainer *t, int64_t vocab, ax_text *json, int64_t *tokens)
{
    AX_CHECK(vocab >= AX_BPE_TRAIN_LEAST && vocab < INT32_MAX, AX_EUSAGE,
             "a vocabulary of %lld tokens: at least %d are needed, one for each byte and one for "
             "the end of a document",
             (long long)vocab, AX_BPE_TRAIN_LEAST);
    AX_CHECK(!t->spelling, AX_EINTERNAL, "a trainer runs once");
    AX_TRY(train(t, vocab));
    write_json(t, json);
    *tokens = t->ids + 1;
    return json->failed ? no_memory() : AX_OK;
}

ax_status ax_bpe_trainer_open(ax_bpe_trainer **out)
{
    ax_bpe_trainer *t = calloc(1, sizeof *t);
    if (!t)
        return no_memory();
    ax_status st = ax_regex_compile("tokenizer", ax_byte_level_pattern,
                                    strlen(ax_byte_level_pattern), &t->regex);
    if (st == AX_OK)
        st = ax_regex_open(t->regex, &t->match);
    if (st != AX_OK) {
        ax_bpe_trainer_close(t);
        return st;
    }
    *out = t;
    return AX_OK;
}

void ax_bpe_trainer_close(ax_bpe_trainer *t)
{
    if (!t)
        return;
    for (int64_t i = 0; i < t->pairs; i++)
        free(t->pair[i].word);
    for (int64_t i = 0; t->spelling && i < t->ids; i++)
        ax_text_fini(&t->spelling[i]);
    ax_regex_close(&t->match);
    ax_regex_free(t->regex);
    ax_text_fini(&t->bytes);
    free(t->word);
    free(t->word_slot);
    free(t->pair);
    free(t->pair_slot);
    free(t->queue);
    free(t->symbols);
    free(t->merge);
    free(t->spelling);
    free(t);
}
