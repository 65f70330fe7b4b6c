// Text to ids: added tokens are cut out, the rest is normalized, split into words, and each word
// becomes ids, mostly from the cache.
#include "data/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

enum {
    CACHE_SLOTS = 1 << 16,
    CACHE_FULL = CACHE_SLOTS / 8 * 5,
    CACHE_BYTES = 4 << 20, // of words and of ids; full: the cache starts anew
    CACHED_WORD = 96,      // longer words are not kept
    BUFFERS = 64,          // of a list of steps
};

typedef struct slot {
    uint64_t hash; // 0: free
    uint32_t word, ids;
    uint16_t length, count;
} slot;

typedef struct cache {
    slot *slot;
    char *word;
    int32_t *ids;
    uint32_t used, word_bytes, id_count;
} cache;

struct ax_encoder {
    const ax_tokenizer *t;
    ax_literals literals;
    ax_regex_match match[BUFFERS]; // of each splitting step
    ax_text normal[2];             // the normalized text, and the one before
    ax_text changed[BUFFERS];      // a piece that a splitting step changed
    ax_bpe_scratch scratch;
    cache cache;
    ax_ids *ids;
    size_t before;    // bytes of the text that came earlier; offsets below are from there on
    size_t start;     // in the text, of the run of valid UTF-8
    size_t piece_at;  // in the text, of what is being normalized and split; for messages
    const char *base; // where that is
    bool continues;   // what follows bytes that are no character gets nothing put in front
    bool normalized;  // then offsets inside it are not those of the text
    ax_encoder *next; // resting
};

// ---- the cache

static uint64_t load(const char *s, size_t n)
{
    uint64_t x = 0;
    memcpy(&x, s, n);
    return x;
}

static uint64_t hash_word(const char *s, size_t n)
{
    uint64_t h = n * 0x9E3779B97F4A7C15u;
    for (; n > 8; s += 8, n -= 8)
        h = (h ^ load(s, 8)) * 0xD6E8FEB86659FD93u, h ^= h >> 32;
    uint64_t tail = n == 8   ? load(s, 8)
                    : n >= 4 ? load(s, 4) | load(s + n - 4, 4) << 32
                    : n == 3 ? load(s, 2) | load(s + 2, 1) << 16
                    : n == 2 ? load(s, 2)
                             : load(s, n & 1);
    h = (h ^ tail) * 0xD6E8FEB86659FD93u;
    h ^= h >> 32;
    h *= 0xD6E8FEB86659FD93u;
    h ^= h >> 29;
    return h ? h : 1;
}

static slot *find_slot(const cache *c, uint64_t hash, const char *word, size_t length)
{
    for (uint64_t at = hash & (CACHE_SLOTS - 1);; at = (at + 1) & (CACHE_SLOTS - 1)) {
        slot *s = &c->slot[at];
        if (!s->hash || (s->hash == hash && s->length == length &&
                         memcmp(c->word + s->word, word, length) == 0))
            return s;
    }
}

static void keep(cache *c, slot *s, uint64_t hash, const char *word, size_t length,
                 const int32_t *id, int64_t count)
{
    bool full = c->used >= CACHE_FULL || c->word_bytes + length > CACHE_BYTES ||
                c->id_count + (uint64_t)count > CACHE_BYTES / sizeof *id;
    if (full) {
        memset(c->slot, 0, CACHE_SLOTS * sizeof *c->slot);
        c->used = c->word_bytes = c->id_count = 0;
        s = find_slot(c, hash, word, length);
    }
    *s = (slot){.hash = hash,
                .word = c->word_bytes,
                .ids = c->id_count,
                .length = (uint16_t)length,
                .count = (uint16_t)count};
    memcpy(c->word + c->word_bytes, word, length);
    if (count)
        memcpy(c->ids + c->id_count, id, (size_t)count * sizeof *id);
    c->used++;
    c->word_bytes += (uint32_t)length;
    c->id_count += (uint32_t)count;
}

// ---- words

static ax_status encode_word(ax_encoder *e, const char *word, size_t length)
{
    if (length > CACHED_WORD)
        return ax_bpe_encode(&e->t->bpe, &e->scratch, word, length, e->ids);
    uint64_t hash = hash_word(word, length);
    slot *s = find_slot(&e->cache, hash, word, length);
    if (s->hash) {
        if (s->count == 1)
            return ax_ids_push(e->ids, e->cache.ids[s->ids]);
        return ax_ids_append(e->ids, e->cache.ids + s->ids, s->count);
    }
    int64_t before = e->ids->count;
    AX_TRY(ax_bpe_encode(&e->t->bpe, &e->scratch, word, length, e->ids));
    keep(&e->cache, s, hash, word, length, e->ids->id ? e->ids->id + before : NULL,
         e->ids->count - before);
    return AX_OK;
}

static ax_status encode_words(ax_encoder *e, const char *s, size_t n)
{
    while (n > 0) {
        size_t length = ax_bpe_cut(&e->t->bpe, s, n);
        AX_TRY(encode_word(e, s, length));
        s += length;
        n -= length;
    }
    return AX_OK;
}

// ---- splitting

static ax_status split(ax_encoder *e, int64_t k, const char *s, size_t n, bool first);

// One splitting step at work on s[0..n): matches and what lies between come in order, and leave
// as pieces. `from` and `to` are a piece that waits for its neighbour.
typedef struct splitting {
    ax_encoder *e;
    int64_t k;
    const char *s;
    bool first;
    size_t from, to;
    bool waits, previous; // previous: the last event was a match
} splitting;

static ax_status emit(splitting *p, size_t from, size_t to)
{
    if (from == to)
        return AX_OK;
    return split(p->e, p->k + 1, p->s + from, to - from, p->first && from == 0);
}

static ax_status emit_waiting(splitting *p)
{
    bool waits = p->waits;
    p->waits = false;
    return waits ? emit(p, p->from, p->to) : AX_OK;
}

static bool joins(const splitting *p, ax_behavior behavior, bool match)
{
    if (!p->waits)
        return false;
    switch (behavior) {
    case AX_CONTIGUOUS:
        return match == p->previous;
    case AX_MERGED_WITH_PREVIOUS:
        return match && !p->previous;
    case AX_MERGED_WITH_NEXT:
        return !match && p->previous;
    default:
        return false;
    }
}

static ax_status event(splitting *p, const ax_step *step, size_t from, size_t to, bool match)
{
    match = match != step->invert;
    if (step->behavior == AX_ISOLATED)
        return emit(p, from, to);
    if (step->behavior == AX_REMOVED)
        return match ? AX_OK : emit(p, from, to);
    if (joins(p, step->behavior, match)) {
        p->to = to;
    } else {
        AX_TRY(emit_waiting(p));
        p->from = from;
        p->to = to;
        p->waits = true;
    }
    p->previous = match;
    return AX_OK;
}

static ax_status limit_met(const splitting *p, size_t at, const char *why)
{
    const ax_encoder *e = p->e;
    if (e->normalized)
        AX_FAIL(AX_EFORMAT,
                "byte %zu of the normalized text from byte %zu on: the split pattern met %s", at,
                e->before + e->piece_at, why);
    AX_FAIL(AX_EFORMAT, "byte %zu of the text: the split pattern met %s",
            e->before + e->piece_at + (size_t)(p->s - e->base) + at, why);
}

// The next match of a step's literal or pattern; as ax_regex_find.
static int find_next(const ax_encoder *e, int64_t k, const char *s, size_t n, size_t at,
                     size_t *from, size_t *to, const char **why)
{
    const ax_step *step = &e->t->splitter.step[k];
    if (step->regex)
        return ax_regex_find(&e->match[k], s, n, at, from, to, why);
    const char *hit = ax_bytes_find(s + at, n - at, step->pattern, step->pattern_length);
    if (!hit)
        return 0;
    *from = (size_t)(hit - s);
    *to = *from + step->pattern_length;
    return 1;
}

// An empty match right behind another match does not count.
static ax_status split_matches(splitting *p, const ax_step *step, size_t n)
{
    size_t done = 0, at = 0, from, to;
    bool matched = false;
    const char *why;
    int found = 0;
    while (at <= n && (found = find_next(p->e, p->k, p->s, n, at, &from, &to, &why)) > 0) {
        if (to == from && matched && from == done) {
            at = to + (to < n ? ax_utf8_next(p->s + to, n - to, NULL) : 1);
            continue;
        }
        if (from > done)
            AX_TRY(event(p, step, done, from, false));
        AX_TRY(event(p, step, from, to, true));
        done = at = to;
        matched = true;
    }
    if (found < 0)
        return limit_met(p, at, why);
    if (done < n)
        AX_TRY(event(p, step, done, n, false));
    return emit_waiting(p);
}

// Blanks to marks, and a mark or blank in front where the step wants one.
static ax_status change(ax_encoder *e, int64_t k, const char **s, size_t *n, bool first)
{
    const ax_step *step = &e->t->splitter.step[k];
    bool metaspace = step->kind == AX_STEP_METASPACE;
    bool begins = *n >= step->text_length && memcmp(*s, step->text, step->text_length) == 0;
    begins = begins || (metaspace && **s == ' ');
    bool inside = e->continues && first;
    bool prepend =
        !begins && !inside &&
        (step->prepend == AX_PREPEND_ALWAYS || (step->prepend == AX_PREPEND_FIRST && first));
    if (!prepend && !(metaspace && memchr(*s, ' ', *n)))
        return AX_OK;
    ax_text *out = &e->changed[k];
    out->length = 0;
    if (prepend)
        ax_bytes_add(out, step->text, step->text_length);
    if (metaspace) {
        ax_step marks = {.kind = AX_STEP_REPLACE,
                         .pattern = " ",
                         .pattern_length = 1,
                         .text = step->text,
                         .text_length = step->text_length};
        AX_TRY(ax_step_rewrite(&marks, *s, *n, out));
    } else {
        ax_bytes_add(out, *s, *n);
    }
    AX_CHECK(!out->failed, AX_ENOMEM, "no memory for a text of %zu bytes", *n);
    *s = out->text;
    *n = out->length;
    e->normalized = true;
    return AX_OK;
}

// Hands a piece through the splitting steps from the k-th on.
static ax_status split(ax_encoder *e, int64_t k, const char *s, size_t n, bool first)
{
    if (k == e->t->splitter.count)
        return encode_words(e, s, n);
    const ax_step *step = &e->t->splitter.step[k];
    bool split_it = true;
    if (step->kind != AX_STEP_SPLIT) {
        AX_TRY(change(e, k, &s, &n, first));
        split_it = step->split;
    }
    if (!split_it)
        return split(e, k + 1, s, n, first);
    splitting p = {.e = e, .k = k, .s = s, .first = first};
    return split_matches(&p, step, n);
}

// ---- added tokens and normalizing

typedef ax_status between(ax_encoder *e, const char *s, size_t n, size_t at);

// Cuts out the added tokens of a trie; `at` is where s stands in the text.
static ax_status cut(ax_encoder *e, const ax_trie *trie, const char *s, size_t n, size_t at,
                     between *rest)
{
    size_t done = 0, next = 0;
    ax_added_match m;
    bool skip = e->literals == AX_LITERALS_ARE_TEXT;
    while (ax_trie_next(trie, e->t->added, skip, s, n, done, &next, &m)) {
        if (m.from > done)
            AX_TRY(rest(e, s + done, m.from - done, at + done));
        AX_TRY(ax_ids_push(e->ids, m.token->id));
        done = m.to;
    }
    return done < n ? rest(e, s + done, n - done, at + done) : AX_OK;
}

// `first` of a piece: it begins the text, or continues it behind bytes that are no character.
static ax_status begin_split(ax_encoder *e, const char *s, size_t n, size_t at)
{
    e->piece_at = at;
    e->base = s;
    e->normalized = false;
    return split(e, 0, s, n, at == e->start);
}

static ax_status begin_normalized(ax_encoder *e, const char *s, size_t n, size_t at)
{
    (void)at; // offsets in the normalized text mean nothing in the text
    e->normalized = true;
    return split(e, 0, s, n, e->piece_at == e->start && s == e->normal[0].text);
}

static ax_status normalize(ax_encoder *e, const char *s, size_t n, size_t at)
{
    const ax_steps *steps = &e->t->normalizer;
    e->piece_at = at;
    if (steps->count == 0)
        return cut(e, &e->t->normal_trie, s, n, at, begin_split);
    e->normal[0].length = 0;
    ax_bytes_add(&e->normal[0], s, n);
    for (int64_t i = 0; i < steps->count; i++) {
        if (steps->step[i].kind == AX_STEP_PREPEND && e->continues && at == e->start)
            continue;
        e->normal[1].length = 0;
        AX_TRY(ax_step_rewrite(&steps->step[i], e->normal[0].text, e->normal[0].length,
                               &e->normal[1]));
        ax_text swap = e->normal[0];
        e->normal[0] = e->normal[1];
        e->normal[1] = swap;
    }
    AX_CHECK(!e->normal[0].failed, AX_ENOMEM, "no memory to normalize %zu bytes", n);
    return cut(e, &e->t->normal_trie, e->normal[0].text, e->normal[0].length, at, begin_normalized);
}

// ---- the whole text

// Bytes that are no character become the tokens of bytes.
static ax_status encode_broken(ax_encoder *e, const char *s, size_t n, size_t at)
{
    const ax_bpe *b = &e->t->bpe;
    if (b->bytes)
        return encode_word(e, s, n);
    for (size_t i = 0; i < n; i++) {
        int32_t id = b->byte_fallback ? b->byte[(unsigned char)s[i]] : -1;
        id = id >= 0 ? id : b->unknown;
        AX_CHECK(id >= 0, AX_EFORMAT,
                 "byte %zu of the text (0x%02x) is not UTF-8 and the %s tokenizer has no tokens of "
                 "bytes",
                 e->before + at + i, (unsigned char)s[i], e->t->name);
        AX_TRY(ax_ids_push(e->ids, id));
    }
    return AX_OK;
}

static ax_status encode_bpe(ax_encoder *e, const char *s, size_t n)
{
    for (size_t at = 0; at < n;) {
        size_t valid = ax_utf8_valid(s + at, n - at);
        e->start = at;
        e->continues = at > 0 || e->before > 0;
        if (valid > 0)
            AX_TRY(cut(e, &e->t->raw_trie, s + at, valid, at, normalize));
        at += valid;
        size_t end = at;
        while (end < n && !ax_utf8_next(s + end, n - end, NULL))
            end++;
        if (end > at)
            AX_TRY(encode_broken(e, s + at, end - at, at));
        at = end;
    }
    return AX_OK;
}

static ax_status encode_bytes(const char *s, size_t n, ax_ids *ids)
{
    for (size_t i = 0; i < n; i++)
        AX_TRY(ax_ids_push(ids, (unsigned char)s[i]));
    return AX_OK;
}

ax_status ax_encoder_continue(ax_encoder *e, const char *text, size_t length, size_t before,
                              ax_ids *ids)
{
    AX_CHECK(length <= SIZE_MAX / 16, AX_ENOMEM, "a text of %zu bytes is too large", length);
    if (e->t->only_bytes)
        return encode_bytes(text, length, ids);
    int64_t had = ids->count;
    e->ids = ids;
    e->before = before;
    ax_status st = encode_bpe(e, text, length);
    if (st != AX_OK)
        ids->count = had;
    return st;
}

ax_status ax_encoder_encode(ax_encoder *e, const char *text, size_t length, ax_ids *ids)
{
    return ax_encoder_continue(e, text, length, 0, ids);
}

// ---- encoders

static ax_status open_cache(cache *c)
{
    c->slot = calloc(CACHE_SLOTS, sizeof *c->slot);
    c->word = malloc(CACHE_BYTES);
    c->ids = malloc(CACHE_BYTES);
    AX_CHECK(c->slot && c->word && c->ids, AX_ENOMEM, "no memory for an encoder");
    return AX_OK;
}

static ax_status open_matches(ax_encoder *e)
{
    for (int64_t k = 0; k < e->t->splitter.count; k++)
        if (e->t->splitter.step[k].regex)
            AX_TRY(ax_regex_open(e->t->splitter.step[k].regex, &e->match[k]));
    return AX_OK;
}

ax_status ax_encoder_open(const ax_tokenizer *t, ax_literals literals, ax_encoder **out)
{
    ax_encoder *e = calloc(1, sizeof *e);
    AX_CHECK(e, AX_ENOMEM, "no memory for an encoder");
    e->t = t;
    e->literals = literals;
    ax_status st = t->only_bytes ? AX_OK : open_cache(&e->cache);
    if (st == AX_OK)
        st = open_matches(e);
    if (st != AX_OK) {
        ax_encoder_close(e);
        return st;
    }
    *out = e;
    return AX_OK;
}

void ax_encoder_close(ax_encoder *e)
{
    if (!e)
        return;
    for (int k = 0; k < BUFFERS; k++) {
        ax_regex_close(&e->match[k]);
        ax_text_fini(&e->changed[k]);
    }
    ax_text_fini(&e->normal[0]);
    ax_text_fini(&e->normal[1]);
    ax_bpe_scratch_fini(&e->scratch);
    free(e->cache.slot);
    free(e->cache.word);
    free(e->cache.ids);
    free(e);
}

void ax_encoder_free(ax_encoder *e)
{
    while (e) {
        ax_encoder *next = e->next;
        ax_encoder_close(e);
        e = next;
    }
}

// A tokenizer keeps as many encoders as threads ever encoded at once.
ax_status ax_tokenizer_encode(const ax_tokenizer *t, const char *text, size_t length, ax_ids *ids)
{
    ax_tokenizer *shared = (ax_tokenizer *)t; // the list is all that changes, under its lock
    pthread_mutex_lock(&shared->lock);
    ax_encoder *e = shared->resting;
    if (e)
        shared->resting = e->next;
    pthread_mutex_unlock(&shared->lock);
    if (!e)
        AX_TRY(ax_encoder_open(t, AX_LITERALS_ARE_TEXT, &e));
    ax_status st = ax_encoder_encode(e, text, length, ids);
    pthread_mutex_lock(&shared->lock);
    e->next = shared->resting;
    shared->resting = e;
    pthread_mutex_unlock(&shared->lock);
    return st;
}
