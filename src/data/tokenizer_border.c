// Where a long text may be cut: the ids of its parts, one after the other, are those of the whole.
//
// The places considered are those before a newline that follows an ASCII letter. What has to be
// shown for a tokenizer is that no step of it sees both sides of such a place at once:
//
// - Added tokens: none holds a newline, so none spans the place or begins at it; none ends in a
//   letter, so none ends there. Blanks that a token takes reach from the right as far as the
//   newline at most, and from the left not over the letter.
// - Normal forms: a newline never composes with what stands before it, and letters and newlines are
//   their own normal forms. Replace: with a literal that holds neither letters nor newlines. Prepend
//   acts where a text begins, and a part that goes on does not.
// - Splitting: either a pattern that is known to end a piece between letter and newline whatever
//   stands around them: the pieces are then encoded apart from each other. Or steps that never
//   match there, and a vocabulary without a merge over the place.
#include "data/tokenizer_parts.h"

#include <string.h>

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool holds(const char *s, size_t n, bool (*what)(char c))
{
    for (size_t i = 0; i < n; i++)
        if (what(s[i]))
            return true;
    return false;
}

static bool is_newline(char c)
{
    return c == '\n';
}

static bool passes_tokens(const ax_tokenizer *t, ax_literals literals)
{
    for (int64_t i = 0; i < t->addeds; i++) {
        const ax_added *a = &t->added[i];
        if (a->special && literals == AX_LITERALS_ARE_TEXT)
            continue;
        size_t n = a->normalized ? a->normal.length : a->length;
        const char *text = a->normalized ? a->normal.text : a->text;
        if (n > 0 && (holds(text, n, is_newline) || is_letter(text[n - 1])))
            return false;
    }
    return true;
}

static bool is_apart(const ax_step *s) // a literal that has nothing to do with the place
{
    return !s->regex && !holds(s->pattern, s->pattern_length, is_newline) &&
           !holds(s->pattern, s->pattern_length, is_letter);
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

bool ax_pattern_ends_lines(const char *pattern, size_t length)
{
    static const char *const known[] = {
        ax_byte_level_pattern,
        // Llama 3, and the same with single digits (Qwen 2)
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
        "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
        "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strlen(known[i]) == length && memcmp(known[i], pattern, length) == 0)
            return true;
    return false;
}

typedef enum verdict {
    OPAQUE,  // nothing is known
    CUT,     // a piece ends at every such place
    PASSING, // the place lies inside of a piece, and the step does not look at it
} verdict;

static verdict judge(const ax_step *s)
{
    bool splits = s->kind == AX_STEP_SPLIT || s->split;
    if (!splits)
        return PASSING;
    if (s->ends_lines && s->behavior == AX_ISOLATED && !s->invert)
        return CUT;
    if (s->digits || is_apart(s))
        return PASSING;
    return OPAQUE;
}

// Whether the splitting steps keep the two sides apart: by a cut, behind which no step puts a mark
// before every piece, or by leaving it to the merges.
static bool passes_splitter(const ax_tokenizer *t, bool *cut)
{
    const ax_steps *steps = &t->splitter;
    *cut = false;
    for (int64_t i = 0; i < steps->count; i++) {
        const ax_step *s = &steps->step[i];
        if (*cut && s->prepend == AX_PREPEND_ALWAYS)
            return false;
        verdict v = *cut ? PASSING : judge(s);
        if (v == OPAQUE)
            return false;
        *cut = *cut || v == CUT;
    }
    return true;
}

static bool is_border(const ax_tokenizer *t, bool cut, const char *at)
{
    return *at == '\n' && is_letter(at[-1]) && (cut || ax_bpe_cut(&t->bpe, at - 1, 2) == 1);
}

size_t ax_tokenizer_border(const ax_tokenizer *t, ax_literals literals, const char *text,
                           size_t length)
{
    bool cut;
    if (t->only_bytes)
        return length;
    if (!passes_tokens(t, literals) || !passes_normalizer(&t->normalizer) ||
        !passes_splitter(t, &cut) || (!cut && !t->bpe.joint))
        return 0;
    for (size_t at = length; at-- > 1;)
        if (is_border(t, cut, text + at))
            return at;
    return 0;
}
