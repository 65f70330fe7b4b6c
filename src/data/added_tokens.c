#include "data/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

static ax_status new_node(ax_trie *t, unsigned char byte, int32_t *out)
{
    if (t->count == t->room) {
        int32_t room = t->room ? t->room * 2 : 256;
        ax_trie_node *node = realloc(t->node, (size_t)room * sizeof *node);
        AX_CHECK(node, AX_ENOMEM, "no memory for the added tokens");
        t->node = node;
        t->room = room;
    }
    t->node[t->count] = (ax_trie_node){.added = -1, .byte = byte};
    *out = t->count++;
    return AX_OK;
}

static int32_t child_of(const ax_trie *t, int32_t node, unsigned char byte)
{
    int32_t child = t->node[node].child;
    while (child && t->node[child].byte != byte)
        child = t->node[child].sibling;
    return child;
}

// Of two tokens with one text the first counts.
ax_status ax_trie_add(ax_trie *t, const char *text, size_t length, int32_t added)
{
    int32_t at = 0, next;
    if (t->count == 0)
        AX_TRY(new_node(t, 0, &next));
    for (size_t i = 0; i < length; i++) {
        next = child_of(t, at, (unsigned char)text[i]);
        if (!next) {
            AX_TRY(new_node(t, (unsigned char)text[i], &next));
            t->node[next].sibling = t->node[at].child;
            t->node[at].child = next;
        }
        at = next;
    }
    if (t->node[at].added < 0)
        t->node[at].added = added;
    return AX_OK;
}

void ax_trie_fini(ax_trie *t)
{
    free(t->node);
    *t = (ax_trie){0};
}

// The longest token that starts at s[at].
static int32_t longest(const ax_trie *t, const char *s, size_t n, size_t at, size_t *end)
{
    int32_t node = 0, found = -1;
    for (size_t i = at; i < n; i++) {
        node = child_of(t, node, (unsigned char)s[i]);
        if (!node)
            break;
        if (t->node[node].added >= 0) {
            found = t->node[node].added;
            *end = i + 1;
        }
    }
    return found;
}

static bool touches_words(const char *s, size_t n, size_t from, size_t to)
{
    uint32_t code;
    if (from > 0) {
        ax_utf8_last(s, from, &code);
        if (ax_utf8_is_word(code))
            return true;
    }
    if (to < n) {
        ax_utf8_next(s + to, n - to, &code);
        return ax_utf8_is_word(code);
    }
    return false;
}

static size_t blanks_before(const char *s, size_t from, size_t done)
{
    uint32_t code;
    while (from > done) {
        size_t n = ax_utf8_last(s, from, &code);
        if (!ax_utf8_is_blank(code))
            break;
        from -= n;
    }
    return from < done ? done : from;
}

static size_t blanks_after(const char *s, size_t n, size_t to)
{
    uint32_t code;
    while (to < n) {
        size_t step = ax_utf8_next(s + to, n - to, &code);
        if (!ax_utf8_is_blank(code))
            break;
        to += step;
    }
    return to;
}

// Tokens mostly begin with one and the same character: the next place that can matter.
static size_t next_start(const ax_trie *t, const char *s, size_t n, size_t at)
{
    const ax_trie_node *first = &t->node[t->node[0].child];
    if (first->sibling)
        return at;
    const char *found = memchr(s + at, first->byte, n - at);
    return found ? (size_t)(found - s) : n;
}

bool ax_trie_next(const ax_trie *t, const ax_added *added, bool skip_special, const char *s,
                  size_t n, size_t done, size_t *at, ax_added_match *out)
{
    while (t->count && *at < n) {
        size_t from = next_start(t, s, n, *at), to = 0;
        *at = from;
        int32_t index = longest(t, s, n, from, &to);
        if (index < 0) {
            ++*at;
            continue;
        }
        *at = to; // one that does not count hides what overlaps it all the same
        const ax_added *token = &added[index];
        if (token->special && skip_special)
            continue;
        if (token->single_word && touches_words(s, n, from, to))
            continue;
        if (token->strip_left)
            from = blanks_before(s, from, done);
        if (token->strip_right)
            to = blanks_after(s, n, to);
        *out = (ax_added_match){.from = from, .to = to, .token = token};
        return true;
    }
    return false;
}
