// The steps of a tokenizer.json: normalizer, pre_tokenizer and decoder.
#include "data/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

const char ax_byte_level_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

enum { STEPS_MOST = 64, NESTED_MOST = 8 };

// What rewriting makes of a text must stay in proportion to it: a file of a few hundred bytes could
// ask for all memory, by one Replace behind the other.
enum { GROWTH_MOST = 1024, CONTENT_MOST = 256, FORM_GROWTH = 11 };

void ax_steps_fini(ax_steps *s)
{
    for (int64_t i = 0; i < s->count; i++) {
        ax_regex_free(s->step[i].regex);
        free(s->step[i].pattern);
        free(s->step[i].text);
    }
    free(s->step);
    *s = (ax_steps){0};
}

// ---- members of objects

ax_status ax_json_bool(const json_t *o, const char *key, bool missing, const char *where, bool *out)
{
    const json_t *v = json_object_get(o, key);
    AX_CHECK(!v || json_is_boolean(v) || json_is_null(v), AX_EFORMAT,
             "%s: '%s' must be true or false", where, key);
    *out = v && !json_is_null(v) ? json_is_true(v) : missing;
    return AX_OK;
}

ax_status ax_json_text(const json_t *o, const char *key, const char *where, const char **out,
                       size_t *length)
{
    const json_t *v = json_object_get(o, key);
    AX_CHECK(json_is_string(v), AX_EFORMAT, "%s: '%s' must be a string", where, key);
    *out = json_string_value(v);
    *length = json_string_length(v);
    return AX_OK;
}

static ax_status copy_text(const char *text, size_t length, char **out)
{
    char *copy = malloc(length + 1);
    AX_CHECK(copy, AX_ENOMEM, "no memory for a tokenizer");
    memcpy(copy, text, length);
    copy[length] = 0;
    free(*out);
    *out = copy;
    return AX_OK;
}

static ax_status copy_member(const json_t *o, const char *key, const char *where, char **out,
                             size_t *length)
{
    const char *text;
    AX_TRY(ax_json_text(o, key, where, &text, length));
    return copy_text(text, *length, out);
}

static ax_status read_count(const json_t *o, const char *key, const char *where, int64_t *out)
{
    const json_t *v = json_object_get(o, key);
    AX_CHECK(json_is_integer(v) && json_integer_value(v) >= 0, AX_EFORMAT,
             "%s: '%s' must be a count", where, key);
    *out = json_integer_value(v);
    return AX_OK;
}

// {"String": "..."} or {"Regex": "..."}.
static ax_status read_pattern(const json_t *o, const char *where, ax_step *s)
{
    const json_t *pattern = json_object_get(o, "pattern");
    if (json_object_get(pattern, "Regex")) {
        const char *text;
        size_t length;
        AX_TRY(ax_json_text(pattern, "Regex", where, &text, &length));
        s->ends_lines = ax_pattern_ends_lines(text, length, &s->behind_letters_alone);
        return ax_regex_compile(where, text, length, &s->regex);
    }
    AX_CHECK(json_object_get(pattern, "String"), AX_EFORMAT,
             "%s: 'pattern' must hold a 'String' or a 'Regex'", where);
    AX_TRY(copy_member(pattern, "String", where, &s->pattern, &s->pattern_length));
    AX_CHECK(s->pattern_length > 0, AX_EUNSUPPORTED, "%s: an empty 'pattern' matches everywhere",
             where);
    return AX_OK;
}

// Index of the word in a NULL-terminated list, or -1.
static int64_t choice(const char *word, const char *const *list)
{
    for (int64_t i = 0; list[i]; i++)
        if (strcmp(word, list[i]) == 0)
            return i;
    return -1;
}

// ---- single steps

static ax_status read_split(const json_t *o, const char *where, ax_step *s)
{
    static const char *const behaviors[] = {"Removed",        "Isolated",   "MergedWithPrevious",
                                            "MergedWithNext", "Contiguous", NULL};
    const char *behavior;
    size_t length;
    s->kind = AX_STEP_SPLIT;
    AX_TRY(read_pattern(o, where, s));
    AX_TRY(ax_json_text(o, "behavior", where, &behavior, &length));
    int64_t i = choice(behavior, behaviors);
    AX_CHECK(i >= 0, AX_EUNSUPPORTED, "%s: Split has no behavior '%.40s'", where, behavior);
    s->behavior = (ax_behavior)i;
    return ax_json_bool(o, "invert", false, where, &s->invert);
}

static ax_status read_digits(const json_t *o, const char *where, ax_step *s)
{
    bool individual;
    s->kind = AX_STEP_SPLIT;
    AX_TRY(ax_json_bool(o, "individual_digits", false, where, &individual));
    s->behavior = individual ? AX_ISOLATED : AX_CONTIGUOUS;
    s->digits = true;
    return ax_regex_compile(where, "\\p{N}", 5, &s->regex);
}

static ax_status read_byte_level(const json_t *o, const char *where, ax_step *s)
{
    bool prefix;
    s->kind = AX_STEP_BYTE_LEVEL;
    AX_TRY(ax_json_bool(o, "add_prefix_space", true, where, &prefix));
    AX_TRY(ax_json_bool(o, "use_regex", true, where, &s->split));
    s->prepend = prefix ? AX_PREPEND_ALWAYS : AX_PREPEND_NEVER;
    s->behavior = AX_ISOLATED;
    s->ends_lines = true;
    AX_TRY(copy_text(" ", 1, &s->text));
    s->text_length = 1;
    return s->split ? ax_regex_compile(where, ax_byte_level_pattern, strlen(ax_byte_level_pattern),
                                       &s->regex)
                    : AX_OK;
}

// Files before prepend_scheme say add_prefix_space.
static ax_status read_scheme(const json_t *o, const char *where, ax_prepend *out)
{
    static const char *const schemes[] = {"never", "first", "always", NULL};
    bool prefix;
    const char *scheme;
    size_t length;
    AX_TRY(ax_json_bool(o, "add_prefix_space", true, where, &prefix));
    *out = prefix ? AX_PREPEND_ALWAYS : AX_PREPEND_NEVER;
    if (!json_object_get(o, "prepend_scheme"))
        return AX_OK;
    AX_TRY(ax_json_text(o, "prepend_scheme", where, &scheme, &length));
    int64_t i = choice(scheme, schemes);
    AX_CHECK(i >= 0, AX_EUNSUPPORTED, "%s: Metaspace has no prepend_scheme '%.40s'", where, scheme);
    AX_CHECK(prefix || i == AX_PREPEND_NEVER, AX_EFORMAT,
             "%s: 'add_prefix_space' false and 'prepend_scheme' %s contradict each other", where,
             scheme);
    *out = (ax_prepend)i;
    return AX_OK;
}

static ax_status read_metaspace(const json_t *o, const char *where, ax_step *s)
{
    s->kind = AX_STEP_METASPACE;
    s->behavior = AX_MERGED_WITH_NEXT;
    AX_TRY(copy_member(o, "replacement", where, &s->text, &s->text_length));
    AX_CHECK(ax_utf8_next(s->text, s->text_length + 1, NULL) == s->text_length, AX_EFORMAT,
             "%s: 'replacement' must be one character", where);
    AX_TRY(copy_text(s->text, s->text_length, &s->pattern));
    s->pattern_length = s->text_length;
    AX_TRY(ax_json_bool(o, "split", true, where, &s->split));
    return read_scheme(o, where, &s->prepend);
}

static ax_status read_replace(const json_t *o, const char *where, ax_step *s)
{
    s->kind = AX_STEP_REPLACE;
    AX_TRY(read_pattern(o, where, s));
    return copy_member(o, "content", where, &s->text, &s->text_length);
}

static ax_status read_strip(const json_t *o, const char *where, ax_step *s)
{
    s->kind = AX_STEP_STRIP;
    AX_TRY(copy_member(o, "content", where, &s->text, &s->text_length));
    AX_CHECK(ax_utf8_next(s->text, s->text_length + 1, NULL) == s->text_length, AX_EFORMAT,
             "%s: the 'content' of Strip must be one character", where);
    AX_TRY(read_count(o, "start", where, &s->start));
    return read_count(o, "stop", where, &s->stop);
}

static ax_status read_prepend(const json_t *o, const char *where, ax_step *s)
{
    s->kind = AX_STEP_PREPEND;
    return copy_member(o, "prepend", where, &s->text, &s->text_length);
}

static ax_status read_form(const json_t *o, const char *where, ax_step *s)
{
    static const char *const forms[] = {"NFC", "NFD", "NFKC", "NFKD", NULL};
    const char *type;
    size_t length;
    s->kind = AX_STEP_FORM;
    AX_TRY(ax_json_text(o, "type", where, &type, &length));
    s->form = (ax_normal_form)choice(type, forms);
    return AX_OK;
}

static ax_status read_fallback(const json_t *o, const char *where, ax_step *s)
{
    (void)o;
    (void)where;
    s->kind = AX_STEP_BYTE_FALLBACK;
    return AX_OK;
}

static ax_status read_fuse(const json_t *o, const char *where, ax_step *s)
{
    (void)o;
    (void)where;
    s->kind = AX_STEP_FUSE;
    return AX_OK;
}

// ---- lists of steps

typedef struct part {
    const char *type;
    ax_status (*read)(const json_t *o, const char *where, ax_step *s);
} part;

typedef struct section {
    const char *key, *members; // of a Sequence
    const part *part;
} section;

static const part normalizer_parts[] = {
    {"NFC", read_form},        {"NFD", read_form},        {"NFKC", read_form}, {"NFKD", read_form},
    {"Prepend", read_prepend}, {"Replace", read_replace}, {NULL, NULL}};
static const part splitter_parts[] = {{"ByteLevel", read_byte_level},
                                      {"Split", read_split},
                                      {"Digits", read_digits},
                                      {"Metaspace", read_metaspace},
                                      {NULL, NULL}};
static const part decoder_parts[] = {{"ByteLevel", read_byte_level},
                                     {"Replace", read_replace},
                                     {"ByteFallback", read_fallback},
                                     {"Fuse", read_fuse},
                                     {"Strip", read_strip},
                                     {"Metaspace", read_metaspace},
                                     {NULL, NULL}};

static const section sections[] = {
    {"normalizer", "normalizers", normalizer_parts},
    {"pre_tokenizer", "pretokenizers", splitter_parts},
    {"decoder", "decoders", decoder_parts},
};

static ax_status read_single(const json_t *o, const char *type, const section *of,
                             const char *where, ax_steps *out)
{
    const part *p = of->part;
    while (p->type && strcmp(p->type, type) != 0)
        p++;
    AX_CHECK(p->type, AX_EUNSUPPORTED, "%s: %s '%.40s' is not supported", where, of->key, type);
    AX_CHECK(out->count < STEPS_MOST, AX_EUNSUPPORTED, "%s: %s has more than %d steps", where,
             of->key, STEPS_MOST);
    if (!out->step)
        out->step = calloc(STEPS_MOST, sizeof *out->step);
    AX_CHECK(out->step, AX_ENOMEM, "no memory for a tokenizer");
    return p->read(o, where, &out->step[out->count++]);
}

static ax_status read_steps(const json_t *o, const section *of, int depth, const char *where,
                            ax_steps *out)
{
    const char *type;
    size_t length;
    AX_CHECK(json_is_object(o), AX_EFORMAT, "%s: %s must be an object or null", where, of->key);
    AX_TRY(ax_json_text(o, "type", where, &type, &length));
    if (strcmp(type, "Sequence") != 0)
        return read_single(o, type, of, where, out);
    const json_t *members = json_object_get(o, of->members);
    AX_CHECK(json_is_array(members), AX_EFORMAT, "%s: %s: '%s' must be a list", where, of->key,
             of->members);
    AX_CHECK(depth < NESTED_MOST, AX_EUNSUPPORTED, "%s: %s: Sequences nested deeper than %d", where,
             of->key, NESTED_MOST);
    for (size_t i = 0; i < json_array_size(members); i++)
        AX_TRY(read_steps(json_array_get(members, i), of, depth + 1, where, out));
    return AX_OK;
}

static ax_status check_splitter(const ax_steps *s, const char *where)
{
    for (int64_t i = 0; i + 1 < s->count; i++)
        AX_CHECK(s->step[i].kind != AX_STEP_BYTE_LEVEL, AX_EUNSUPPORTED,
                 "%s: pre_tokenizer 'ByteLevel' must be the last one", where);
    return AX_OK;
}

// What stands before a Fuse is done to each token; behind it only the start of the text may change.
static ax_status check_decoder(const ax_steps *s, const char *where)
{
    bool fused = false;
    for (int64_t i = 0; i < s->count; i++) {
        const ax_step *step = &s->step[i];
        bool fine = !fused || step->kind == AX_STEP_FUSE ||
                    (step->kind == AX_STEP_STRIP && step->stop == 0 && i + 1 == s->count);
        AX_CHECK(fine, AX_EUNSUPPORTED,
                 "%s: decoder: behind Fuse or ByteLevel only a Strip of the start is supported",
                 where);
        fused = fused || step->kind == AX_STEP_FUSE || step->kind == AX_STEP_BYTE_LEVEL;
    }
    return AX_OK;
}

// Bytes that a step can make of one, rounded up. NFKC makes 33 bytes of the 3 of U+FDFA, but none
// more of what is in a normal form.
static int64_t growth_of(const ax_step *step, bool is_normal)
{
    int64_t text = (int64_t)step->text_length, pattern = (int64_t)step->pattern_length;
    if (step->kind == AX_STEP_FORM)
        return is_normal ? 1 : FORM_GROWTH;
    if (step->kind != AX_STEP_REPLACE || text == 0)
        return 1;
    return step->regex ? text + 1 : (text + pattern - 1) / pattern; // a match may be empty
}

static ax_status check_growth(const ax_steps *s, const char *key, const char *where)
{
    int64_t growth = 1;
    bool is_normal = false;
    for (int64_t i = 0; i < s->count; i++) {
        const ax_step *step = &s->step[i];
        AX_CHECK(step->text_length <= CONTENT_MOST, AX_EUNSUPPORTED,
                 "%s: %s: a Replace or Prepend with more than %d bytes is not supported", where,
                 key, CONTENT_MOST);
        growth *= growth_of(step, is_normal);
        AX_CHECK(growth <= GROWTH_MOST, AX_EUNSUPPORTED,
                 "%s: %s: its steps could make more than %d bytes of one, which is not supported",
                 where, key, GROWTH_MOST);
        is_normal = step->kind == AX_STEP_FORM;
    }
    return AX_OK;
}

ax_status ax_steps_read(ax_tokenizer *t, const json_t *root, const char *where)
{
    ax_steps *const lists[] = {&t->normalizer, &t->splitter, &t->decoder};
    for (int i = 0; i < 3; i++) {
        const json_t *o = json_object_get(root, sections[i].key);
        if (o && !json_is_null(o))
            AX_TRY(read_steps(o, &sections[i], 0, where, lists[i]));
        AX_TRY(check_growth(lists[i], sections[i].key, where));
    }
    AX_TRY(check_splitter(&t->splitter, where));
    return check_decoder(&t->decoder, where);
}

// ---- rewriting

static ax_status replace_literal(const ax_step *step, const char *s, size_t n, ax_text *out)
{
    const char *end = s + n;
    for (const char *hit;
         (hit = ax_bytes_find(s, (size_t)(end - s), step->pattern, step->pattern_length));
         s = hit + step->pattern_length) {
        ax_bytes_add(out, s, (size_t)(hit - s));
        ax_bytes_add(out, step->text, step->text_length);
    }
    ax_bytes_add(out, s, (size_t)(end - s));
    return AX_OK;
}

static ax_status replace_matches(const ax_step *step, const ax_regex_match *m, const char *s,
                                 size_t n, ax_text *out)
{
    size_t done = 0, at = 0, from, to;
    const char *why;
    int found = 0;
    while (at <= n && (found = ax_regex_find(m, s, n, at, &from, &to, &why)) > 0) {
        if (to > from || from > done || done == 0) {
            ax_bytes_add(out, s + done, from - done);
            ax_bytes_add(out, step->text, step->text_length);
            done = to;
        }
        at = to > from ? to : to + (to < n ? ax_utf8_next(s + to, n - to, NULL) : 1);
    }
    AX_CHECK(found >= 0, AX_EFORMAT, "byte %zu of a text: Replace met %s of its pattern", at, why);
    ax_bytes_add(out, s + done, n - done);
    return AX_OK;
}

static ax_status replace(const ax_step *step, const char *s, size_t n, ax_text *out)
{
    if (!step->regex)
        return replace_literal(step, s, n, out);
    ax_regex_match m;
    AX_TRY(ax_regex_open(step->regex, &m));
    ax_status st = replace_matches(step, &m, s, n, out);
    ax_regex_close(&m);
    return st;
}

ax_status ax_step_rewrite(const ax_step *step, const char *s, size_t n, ax_text *out)
{
    if (step->kind == AX_STEP_FORM)
        return ax_utf8_normalize(step->form, s, n, out);
    if (step->kind == AX_STEP_REPLACE) {
        AX_TRY(replace(step, s, n, out));
    } else {
        if (n > 0)
            ax_bytes_add(out, step->text, step->text_length);
        ax_bytes_add(out, s, n);
    }
    AX_CHECK(!out->failed, AX_ENOMEM, "no memory to normalize %zu bytes", n);
    return AX_OK;
}
