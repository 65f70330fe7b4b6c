#include "data/bpe.h"

#include "data/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { SHORT_WORD = 48, LONG_WORD = 1 << 14, JOINT_BITS = 1 << 19 };

// ---- strings to ids

static uint64_t mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0x9E3779B97F4A7C15u;
    return x ^ x >> 29;
}

static uint64_t hash_text(const char *text, size_t length)
{
    uint64_t h = length;
    for (size_t i = 0; i < length; i++)
        h = (h ^ (unsigned char)text[i]) * 0x100000001B3u;
    return mix(h);
}

static uint64_t power_above(uint64_t n)
{
    uint64_t power = 16;
    while (power < n)
        power *= 2;
    return power;
}

ax_status ax_spell_map_build(ax_spell_map *m, const ax_spelling *spelling, int64_t ids)
{
    uint64_t slots = power_above((uint64_t)ids * 2);
    int32_t *slot = malloc(slots * sizeof *slot);
    AX_CHECK(slot, AX_ENOMEM, "no memory for a vocabulary of %lld tokens", (long long)ids);
    memset(slot, 0xFF, slots * sizeof *slot);
    *m = (ax_spell_map){.spelling = spelling, .slot = slot, .mask = slots - 1};
    for (int64_t id = 0; id < ids; id++) {
        if (!spelling[id].text)
            continue;
        uint64_t at = hash_text(spelling[id].text, spelling[id].length) & m->mask;
        while (slot[at] >= 0)
            at = (at + 1) & m->mask;
        slot[at] = (int32_t)id;
    }
    return AX_OK;
}

int32_t ax_spell_map_find(const ax_spell_map *m, const char *text, size_t length)
{
    for (uint64_t at = hash_text(text, length) & m->mask; m->slot[at] >= 0;
         at = (at + 1) & m->mask) {
        const ax_spelling *s = &m->spelling[m->slot[at]];
        if (s->length == length && memcmp(s->text, text, length) == 0)
            return m->slot[at];
    }
    return -1;
}

// ---- merges

static uint64_t pair_key(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static const ax_bpe_pair *find_pair(const ax_bpe *b, int32_t left, int32_t right)
{
    uint64_t key = pair_key(left, right);
    for (uint64_t at = mix(key) & b->pair_mask; b->pair[at].rank >= 0; at = (at + 1) & b->pair_mask)
        if (b->pair[at].key == key)
            return &b->pair[at];
    return NULL;
}

// Of two merges of one pair the later counts.
static void put_pair(ax_bpe *b, const ax_bpe_merge *m, int32_t rank)
{
    uint64_t key = pair_key(m->left, m->right), at = mix(key) & b->pair_mask;
    while (b->pair[at].rank >= 0 && b->pair[at].key != key)
        at = (at + 1) & b->pair_mask;
    b->pair[at] = (ax_bpe_pair){.key = key, .rank = rank, .joined = m->joined};
}

static uint64_t joint_bit(uint32_t left, uint32_t right)
{
    return mix((uint64_t)left << 21 | right) % JOINT_BITS;
}

// Cutting is exact only where every character has tokens of its own and no merge takes a byte's
// token: then a merge joins the last character of its left side to the first of its right.
static bool can_cut(const ax_bpe *b, const ax_bpe_merge *merge, int64_t merges)
{
    if (b->bytes || b->ignore_merges || !b->byte_fallback)
        return false;
    for (int i = 0; i < 256; i++)
        if (b->byte[i] < 0)
            return false;
    for (int64_t i = 0; i < merges; i++)
        for (int j = 0; j < 256; j++)
            if (merge[i].left == b->byte[j] || merge[i].right == b->byte[j])
                return false;
    return true;
}

static void mark_joints(ax_bpe *b, const ax_bpe_merge *merge, int64_t merges)
{
    for (int64_t i = 0; i < merges; i++) {
        const ax_spelling *left = &b->spelling[merge[i].left];
        const ax_spelling *right = &b->spelling[merge[i].right];
        uint32_t last, first;
        ax_utf8_last(left->text, left->length, &last);
        ax_utf8_next(right->text, right->length, &first);
        uint64_t bit = joint_bit(last, first);
        b->joint[bit / 64] |= (uint64_t)1 << bit % 64;
    }
}

ax_status ax_bpe_build(ax_bpe *b, const ax_bpe_merge *merge, int64_t merges)
{
    AX_TRY(ax_spell_map_build(&b->map, b->bytes ? b->raw : b->spelling, b->ids));
    uint64_t slots = power_above((uint64_t)merges * 2);
    b->pair = malloc(slots * sizeof *b->pair);
    AX_CHECK(b->pair, AX_ENOMEM, "no memory for %lld merges", (long long)merges);
    b->pair_mask = slots - 1;
    b->merges = merges;
    for (uint64_t i = 0; i < slots; i++)
        b->pair[i].rank = -1;
    for (int64_t i = 0; i < merges; i++)
        put_pair(b, &merge[i], (int32_t)i);
    if (can_cut(b, merge, merges)) {
        b->joint = calloc(JOINT_BITS / 64, sizeof *b->joint);
        AX_CHECK(b->joint, AX_ENOMEM, "no memory for the joints of a vocabulary");
        mark_joints(b, merge, merges);
    }
    return AX_OK;
}

void ax_bpe_fini(ax_bpe *b)
{
    free(b->map.slot);
    free(b->pair);
    free(b->joint);
    b->map = (ax_spell_map){0};
    b->pair = NULL;
    b->joint = NULL;
}

size_t ax_bpe_cut(const ax_bpe *b, const char *word, size_t length)
{
    if (!b->joint || length == 0)
        return length;
    uint32_t left, right;
    size_t at = ax_utf8_next(word, length, &left);
    while (at < length) {
        size_t n = ax_utf8_next(word + at, length - at, &right);
        uint64_t bit = joint_bit(left, right);
        if (!(b->joint[bit / 64] >> bit % 64 & 1))
            return at;
        left = right;
        at += n;
    }
    return length;
}

// ---- scratch

void ax_bpe_scratch_fini(ax_bpe_scratch *s)
{
    free(s->id);
    free(s->next);
    free(s->previous);
    ax_bpe_queue_fini(&s->queue);
    *s = (ax_bpe_scratch){0};
}

static ax_status reserve(ax_bpe_scratch *s, size_t symbols)
{
    if ((int64_t)symbols <= s->room)
        return AX_OK;
    AX_CHECK(symbols < INT32_MAX, AX_EUNSUPPORTED,
             "a word of %zu bytes: at most %d can be encoded at once", symbols, INT32_MAX - 1);
    ax_bpe_scratch_fini(s);
    size_t room = power_above(symbols);
    s->id = malloc(room * sizeof *s->id);
    s->next = malloc(room * sizeof *s->next);
    s->previous = malloc(room * sizeof *s->previous);
    if (!s->id || !s->next || !s->previous) {
        ax_bpe_scratch_fini(s);
        AX_FAIL(AX_ENOMEM, "no memory for a word of %zu bytes", symbols);
    }
    s->room = (int64_t)room;
    return AX_OK;
}

// ---- the first symbols of a word

static int64_t byte_symbols(const ax_bpe *b, const char *word, size_t length, int32_t *id)
{
    int64_t n = 0;
    for (size_t i = 0; i < length; i++) {
        int32_t symbol = b->byte[(unsigned char)word[i]];
        if (symbol < 0)
            symbol = b->unknown;
        if (symbol < 0 || (symbol == b->unknown && b->fuse_unknown && n && id[n - 1] == symbol))
            continue;
        id[n++] = symbol;
    }
    return n;
}

static bool bytes_have_tokens(const ax_bpe *b, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (b->byte[(unsigned char)s[i]] < 0)
            return false;
    return b->byte_fallback;
}

// The library that defined the format holds an unknown token back until the next known character,
// even over the bytes of others; ids must be the same.
static int64_t character_symbols(const ax_bpe *b, const char *word, size_t length, int32_t *id)
{
    int64_t n = 0;
    bool held = false;
    for (size_t i = 0, step; i < length; i += step) {
        step = ax_utf8_next(word + i, length - i, NULL);
        int32_t symbol = ax_spell_map_find(&b->map, word + i, step);
        if (symbol >= 0) {
            if (held)
                id[n++] = b->unknown;
            held = false;
            id[n++] = symbol;
        } else if (bytes_have_tokens(b, word + i, step)) {
            for (size_t j = 0; j < step; j++)
                id[n++] = b->byte[(unsigned char)word[i + j]];
        } else if (b->unknown >= 0) {
            if (held && !b->fuse_unknown)
                id[n++] = b->unknown;
            held = true;
        }
    }
    if (held)
        id[n++] = b->unknown;
    return n;
}

// ---- joining

// For short words a scan for the lowest rank beats any queue.
static int64_t join_short(const ax_bpe *b, int32_t *id, int64_t n)
{
    const ax_bpe_pair *pair[SHORT_WORD];
    for (int64_t i = 0; i + 1 < n; i++)
        pair[i] = find_pair(b, id[i], id[i + 1]);
    for (;;) {
        int64_t best = -1;
        for (int64_t i = 0; i + 1 < n; i++)
            if (pair[i] && (best < 0 || pair[i]->rank < pair[best]->rank))
                best = i;
        if (best < 0)
            return n;
        id[best] = pair[best]->joined;
        n--;
        memmove(id + best + 1, id + best + 2, (size_t)(n - best - 1) * sizeof *id);
        if (best + 1 < n) {
            memmove(pair + best + 1, pair + best + 2, (size_t)(n - best - 2) * sizeof pair[0]);
            pair[best] = find_pair(b, id[best], id[best + 1]);
        }
        if (best > 0)
            pair[best - 1] = find_pair(b, id[best - 1], id[best]);
    }
}

static ax_status push(const ax_bpe *b, ax_bpe_scratch *s, int32_t at)
{
    const ax_bpe_pair *pair = find_pair(b, s->id[at], s->id[s->next[at]]);
    return pair ? ax_bpe_queue_push(&s->queue, pair->rank, at) : AX_OK;
}

// Joins the pair of a queue entry unless it went stale, and queues the pairs that this makes.
static ax_status join_at(const ax_bpe *b, ax_bpe_scratch *s, int32_t rank, int32_t at)
{
    if (s->id[at] < 0 || s->next[at] < 0)
        return AX_OK;
    int32_t right = s->next[at];
    const ax_bpe_pair *pair = find_pair(b, s->id[at], s->id[right]);
    if (!pair || pair->rank != rank)
        return AX_OK;
    s->id[at] = pair->joined;
    s->id[right] = -1;
    s->next[at] = s->next[right];
    if (s->next[at] >= 0)
        s->previous[s->next[at]] = at;
    if (s->previous[at] >= 0) // first, for the queue likes the left before the right
        AX_TRY(push(b, s, s->previous[at]));
    return s->next[at] >= 0 ? push(b, s, at) : AX_OK;
}

static ax_status join_long(const ax_bpe *b, ax_bpe_scratch *s, int64_t *count)
{
    int64_t n = *count, kept = 0;
    int32_t rank, at;
    AX_TRY(ax_bpe_queue_begin(&s->queue, n > LONG_WORD ? b->merges : 0));
    for (int64_t i = 0; i < n; i++) {
        s->next[i] = i + 1 < n ? (int32_t)i + 1 : -1;
        s->previous[i] = (int32_t)i - 1;
    }
    for (int64_t i = 0; i + 1 < n; i++)
        AX_TRY(push(b, s, (int32_t)i));
    while (ax_bpe_queue_pop(&s->queue, &rank, &at))
        AX_TRY(join_at(b, s, rank, at));
    for (int64_t i = 0; i < n; i++)
        if (s->id[i] >= 0)
            s->id[kept++] = s->id[i];
    *count = kept;
    return ax_bpe_queue_begin(&s->queue, 0);
}

ax_status ax_bpe_encode(const ax_bpe *b, ax_bpe_scratch *s, const char *word, size_t length,
                        ax_ids *ids)
{
    if (b->ignore_merges) {
        int32_t whole = ax_spell_map_find(&b->map, word, length);
        if (whole >= 0)
            return ax_ids_push(ids, whole);
    }
    AX_TRY(reserve(s, length));
    int64_t n =
        b->bytes ? byte_symbols(b, word, length, s->id) : character_symbols(b, word, length, s->id);
    if (n <= SHORT_WORD)
        n = join_short(b, s->id, n);
    else
        AX_TRY(join_long(b, s, &n));
    return ax_ids_append(ids, s->id, n);
}
