// Where a long text may be cut: the ids of its parts, one after the other, are those of the whole.
//
// Two kinds of places are considered: an end of line, before a newline or carriage return behind a
// visible ASCII character, and a beginning of line, behind a newline that itself stands behind one,
// before a letter of any script. What has to be shown for a tokenizer is that no step of it sees
// both sides of such a place at once:
//
// - Added tokens: none holds a line break, so none spans the place. None that begins or ends at it:
//   at an end of line, none may end in the character before; at a beginning, none may take the
//   blanks before it. Blanks that a token takes otherwise reach up to the place at most.
// - Normal forms: neither a line break nor a letter ever composes with a line break or visible
// ASCII
//   before it. Replace: with a literal of blanks and characters beyond ASCII. Prepend acts where a
//   text begins, and a part that goes on does not.
// - Splitting: either a pattern that is known to end a piece there whatever stands around it, and
//   to find the same pieces up to there: the two sides are then encoded apart. Or steps that never
//   match there, and a vocabulary without a merge over the place.
//
// Known patterns: none of their parts holds a character that is no blank before a line break, but
// for punctuation with the line breaks behind it (Llama 3), nor a line break before a letter. What
// a run of blanks becomes depends on what follows (\s+(?!\S)), but for a run of one newline, which
// is one piece either way.
#include "data/tokenizer_parts.h"

#include <string.h>

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_visible(char c)
{
    return c > ' ' && c < 0x7f;
}

static bool is_break(char c)
{
    return c == '\n' || c == '\r';
}

static bool holds(const char *s, size_t n, bool (*what)(char c))
{
    for (size_t i = 0; i < n; i++)
        if (what(s[i]))
            return true;
    return false;
}

bool ax_pattern_ends_lines(const char *pattern, size_t length, bool *behind_letters_alone)
{
    static const char *const known[] = {
        // Llama 3, and the same with single digits (Qwen 2)
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
        "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
        "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
        ax_byte_level_pattern,
    };
    enum { KNOWN = sizeof known / sizeof known[0] };
    for (size_t i = 0; i < KNOWN; i++)
        if (strlen(known[i]) == length && memcmp(known[i], pattern, length) == 0) {
            *behind_letters_alone = i + 1 < KNOWN;
            return true;
        }
    return false;
}

// ---- what holds for all places

static bool takes_part(const ax_added *a, ax_literals literals)
{
    return !a->special || literals == AX_LITERALS_ARE_TOKENS;
}

static const char *text_of(const ax_added *a, size_t *n)
{
    *n = a->normalized ? a->normal.length : a->length;
    return a->normalized ? a->normal.text : a->text;
}

// Also of special tokens that are text here: what overlaps one is not found.
static bool passes_tokens(const ax_tokenizer *t)
{
    for (int64_t i = 0; i < t->addeds; i++) {
        size_t n;
        const char *text = text_of(&t->added[i], &n);
        if (holds(text, n, is_break))
            return false;
    }
    return true;
}

static bool is_apart(const ax_step *s) // a literal that has nothing to do with any place
{
    return !s->regex && !holds(s->pattern, s->pattern_length, is_break) &&
           !holds(s->pattern, s->pattern_length, is_visible);
}

static bool passes_normalizer(const ax_steps *steps)
{
    for (int64_t i = 0; i < steps->count; i++) {
        const ax_step *s = &steps->step[i];
        if (s->kind != AX_STEP_FORM && s->kind != AX_STEP_PREPEND &&
            !(s->kind == AX_STEP_REPLACE && is_apart(s)))
            return false;
    }
    return true;
}

// How the splitting steps treat the places.
typedef struct rules {
    bool cut;          // a pattern ends a piece there; else it is left to the merges
    bool letters_only; // an end of line counts behind a letter alone
    bool beginnings;   // of lines count, too
} rules;

// A step at work before a cut: what it makes of the place, or false where that is not known. A cut
// is made of what no step has looked at, and behind it none puts a mark before every piece.
static bool passes_step(const ax_step *s, int64_t number, rules *r)
{
    bool splits = s->kind == AX_STEP_SPLIT || s->split;
    if (r->cut)
        return s->prepend != AX_PREPEND_ALWAYS;
    if (!splits)
        return true;
    r->cut = s->ends_lines && s->behavior == AX_ISOLATED && !s->invert;
    if (r->cut) {
        r->letters_only = r->letters_only || s->behind_letters_alone;
        r->beginnings = number == 0;
        return true;
    }
    r->letters_only = true;
    return s->digits || is_apart(s);
}

static bool find_rules(const ax_tokenizer *t, rules *r)
{
    *r = (rules){0};
    for (int64_t i = 0; i < t->splitter.count; i++)
        if (!passes_step(&t->splitter.step[i], i, r))
            return false;
    if (!r->cut)
        r->beginnings = t->splitter.count == 0;
    return r->cut || t->bpe.joint;
}

// ---- places

static bool merges(const ax_tokenizer *t, const char *left, size_t n)
{
    return ax_bpe_cut(&t->bpe, left, n) != 1;
}

// Before text[at], a line break: no token may end there.
static bool is_end(const ax_tokenizer *t, ax_literals literals, const rules *r, const char *at)
{
    if (!is_break(*at) || !is_visible(at[-1]) || (r->letters_only && !is_letter(at[-1])))
        return false;
    for (int64_t i = 0; i < t->addeds; i++) {
        size_t n;
        const char *text = text_of(&t->added[i], &n);
        if (takes_part(&t->added[i], literals) && n > 0 && text[n - 1] == at[-1])
            return false;
    }
    return r->cut || !merges(t, at - 1, 2);
}

// Before text[at], a letter; no token may take the newline before it.
static bool is_beginning(const ax_tokenizer *t, ax_literals literals, const rules *r,
                         const char *at, size_t left)
{
    uint32_t code;
    if (!r->beginnings || at[-1] != '\n' || !is_visible(at[-2]))
        return false;
    size_t n = ax_utf8_next(at, left, &code);
    if (n == 0 || !ax_utf8_is_letter(code))
        return false;
    for (int64_t i = 0; i < t->addeds; i++)
        if (takes_part(&t->added[i], literals) && t->added[i].strip_left)
            return false;
    return r->cut || !merges(t, at - 1, 1 + n);
}

size_t ax_tokenizer_border(const ax_tokenizer *t, ax_literals literals, const char *text,
                           size_t length)
{
    rules r;
    if (t->only_bytes)
        return length;
    if (!passes_tokens(t) || !passes_normalizer(&t->normalizer) || !find_rules(t, &r))
        return 0;
    for (size_t at = length; at-- > 1;)
        if (is_end(t, literals, &r, text + at) ||
            (at > 1 && is_beginning(t, literals, &r, text + at, length - at)))
            return at;
    return 0;
}
