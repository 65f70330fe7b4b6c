#define PCRE2_CODE_UNIT_WIDTH 8
#include "data/regex.h"

#include "data/utf8.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

enum {
    PATTERN_ROOM = 1 << 14,    // bytes of a pattern in a tokenizer file
    STACK_START = 32 << 10,    // of the compiled code, in bytes
    STACK_MOST = 8 << 20,      //
    MATCH_LIMIT = 10000000,    // backtracking points of one match, and as many more for each
    MATCH_LIMIT_BYTE = 16,     // byte: a run of blanks is a single match, however long
    DEPTH_LIMIT = 100000,      //
    HEAP_LIMIT_KIB = 64 << 10, //
};

struct ax_regex {
    pcre2_code *code;
    bool compiled; // to machine code
};

// ---- the dialect

// What Unicode 16 has and Unicode 14, the tables of PCRE2 10.42, has not.
#define NEW_LETTERS                                                                                \
    "\\x{1c89}-\\x{1c8a}\\x{a7cb}-\\x{a7cd}\\x{a7da}-\\x{a7dc}\\x{105c0}-\\x{105f3}"               \
    "\\x{10d4a}-\\x{10d65}\\x{10d6f}-\\x{10d85}\\x{10ec2}-\\x{10ec4}\\x{1123f}-\\x{11240}"         \
    "\\x{11380}-\\x{11389}\\x{1138b}\\x{1138e}\\x{11390}-\\x{113b5}\\x{113b7}\\x{113d1}"           \
    "\\x{113d3}\\x{11bc0}-\\x{11be0}\\x{11f02}\\x{11f04}-\\x{11f10}\\x{11f12}-\\x{11f33}"          \
    "\\x{1342f}\\x{13441}-\\x{13446}\\x{13460}-\\x{143fa}\\x{16100}-\\x{1611d}"                    \
    "\\x{16d40}-\\x{16d6c}\\x{18cff}\\x{1b132}\\x{1b155}\\x{1df25}-\\x{1df2a}"                     \
    "\\x{1e030}-\\x{1e06d}\\x{1e4d0}-\\x{1e4eb}\\x{1e5d0}-\\x{1e5ed}\\x{1e5f0}\\x{2b739}"          \
    "\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}"
#define NEW_DIGITS                                                                                 \
    "\\x{10d40}-\\x{10d49}\\x{116d0}-\\x{116e3}\\x{11bf0}-\\x{11bf9}\\x{11f50}-\\x{11f59}"         \
    "\\x{16130}-\\x{16139}\\x{16d70}-\\x{16d79}\\x{1ccf0}-\\x{1ccf9}\\x{1e4f0}-\\x{1e4f9}"         \
    "\\x{1e5f1}-\\x{1e5fa}"
#define NEW_NUMBERS NEW_DIGITS "\\x{1d2c0}-\\x{1d2d3}"
#define NEW_MARKS                                                                                  \
    "\\x{897}\\x{cf3}\\x{ece}\\x{10d69}-\\x{10d6d}\\x{10efc}-\\x{10eff}\\x{11241}"                 \
    "\\x{113b8}-\\x{113c0}\\x{113c2}\\x{113c5}\\x{113c7}-\\x{113ca}\\x{113cc}-\\x{113d0}"          \
    "\\x{113d2}\\x{113e1}-\\x{113e2}\\x{11f00}-\\x{11f01}\\x{11f03}\\x{11f34}-\\x{11f3a}"          \
    "\\x{11f3e}-\\x{11f42}\\x{11f5a}\\x{13440}\\x{13447}-\\x{13455}\\x{1611e}-\\x{1612f}"          \
    "\\x{1e08f}\\x{1e4ec}-\\x{1e4ef}\\x{1e5ee}-\\x{1e5ef}"

// Escapes that mean another set in PCRE2. The first ranges are the commonest: they are tried first.
static const struct {
    const char *escape, *set, *inverse; // inverse: the escape for all that is not in the set
} classes[] = {
    {"\\p{L}", "A-Za-z\\p{L}" NEW_LETTERS, "\\P{L}"},
    {"\\p{N}", "0-9\\p{N}" NEW_NUMBERS, "\\P{N}"},
    {"\\p{M}", "\\p{M}" NEW_MARKS, "\\P{M}"},
    {"\\p{Nd}", "\\p{Nd}" NEW_DIGITS, "\\P{Nd}"},
    {"\\d", "\\p{Nd}" NEW_DIGITS, "\\D"},
    {"\\w",
     "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\xb2\\xb3\\xb9\\xbc-\\xbe\\x{24b6}-\\x{24e9}"
     "\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}" NEW_LETTERS NEW_MARKS
         NEW_DIGITS,
     "\\W"},
    {"\\s",
     "\\x20\\x09-\\x0d\\x85\\xa0\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}"
     "\\x{3000}",
     "\\S"},
};

static bool starts_with(const char *text, size_t length, const char *prefix)
{
    size_t n = strlen(prefix);
    return n <= length && memcmp(text, prefix, n) == 0;
}

// Writes one escape at text[0..length) in PCRE2's terms and returns its length.
static size_t translate_escape(const char *text, size_t length, bool in_class, ax_text *out)
{
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        bool inverse = starts_with(text, length, classes[i].inverse);
        if (!inverse && !starts_with(text, length, classes[i].escape))
            continue;
        if (inverse && in_class)
            break; // has no spelling inside another class; the library's own set is near enough
        const char *open = in_class ? "" : inverse ? "[^" : "[";
        ax_text_add(out, "%s%s%s", open, classes[i].set, in_class ? "" : "]");
        return strlen(inverse ? classes[i].inverse : classes[i].escape);
    }
    size_t n = 2;
    while (n < length && ((unsigned char)text[n] & 0xC0) == 0x80)
        n++; // an escaped character of several bytes
    n = n < length ? n : length;
    ax_bytes_add(out, text, n);
    return n;
}

static void translate(const char *text, size_t length, ax_text *out)
{
    bool in_class = false;
    for (size_t i = 0; i < length;) {
        if (text[i] == '\\') {
            i += translate_escape(text + i, length - i, in_class, out);
            continue;
        }
        bool opens = !in_class && text[i] == '[', posix = in_class && text[i] == '[';
        size_t n = 1;
        if (opens && starts_with(text + i, length - i, "[^"))
            n = 2;
        if (opens && i + n < length && text[i + n] == ']')
            n++; // a bracket that stands first is a member
        const char *end = posix && starts_with(text + i, length - i, "[:")
                              ? memmem(text + i, length - i, ":]", 2)
                              : NULL;
        if (end)
            n = (size_t)(end - text) + 2 - i;
        ax_bytes_add(out, text + i, n);
        in_class = opens || (in_class && (end || text[i] != ']'));
        i += n;
    }
}

// ---- compiling

static ax_status compile(const char *where, const char *text, size_t length, ax_regex *r)
{
    int error;
    PCRE2_SIZE at;
    // ^ and $ are those of lines in this dialect.
    r->code = pcre2_compile((PCRE2_SPTR)text, length, PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE,
                            &error, &at, NULL);
    if (!r->code) {
        unsigned char message[256];
        pcre2_get_error_message(error, message, sizeof message);
        AX_FAIL(AX_EFORMAT, "%s: regular expression: %s, near '%.*s'", where, (char *)message,
                (int)(length - at < 40 ? length - at : 40), text + at);
    }
    // A pattern may forbid it, which is no error; the size tells.
    size_t size = 0;
    pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE);
    r->compiled = pcre2_pattern_info(r->code, PCRE2_INFO_JITSIZE, &size) == 0 && size > 0;
    return AX_OK;
}

ax_status ax_regex_compile(const char *where, const char *pattern, size_t length, ax_regex **out)
{
    AX_CHECK(length <= PATTERN_ROOM, AX_EFORMAT,
             "%s: regular expression of %zu bytes: at most %d are accepted", where, length,
             PATTERN_ROOM);
    ax_text text = {0};
    translate(pattern, length, &text);
    ax_regex *r = calloc(1, sizeof *r);
    ax_status st = AX_OK;
    if (text.failed || !r)
        st = ax_fail(AX_ENOMEM, __FILE__, __LINE__, "no memory for a regular expression");
    else
        st = compile(where, text.text ? text.text : "", text.length, r);
    ax_text_fini(&text);
    if (st != AX_OK) {
        ax_regex_free(r);
        return st;
    }
    *out = r;
    return AX_OK;
}

void ax_regex_free(ax_regex *r)
{
    if (r)
        pcre2_code_free(r->code);
    free(r);
}

// ---- matching

ax_status ax_regex_open(const ax_regex *r, ax_regex_match *out)
{
    ax_regex_match m = {.regex = r,
                        .data = pcre2_match_data_create(1, NULL),
                        .context = pcre2_match_context_create(NULL),
                        .stack = pcre2_jit_stack_create(STACK_START, STACK_MOST, NULL)};
    if (!m.data || !m.context || (r->compiled && !m.stack)) {
        ax_regex_close(&m);
        AX_FAIL(AX_ENOMEM, "no memory to match a regular expression");
    }
    pcre2_set_depth_limit(m.context, DEPTH_LIMIT);
    pcre2_set_heap_limit(m.context, HEAP_LIMIT_KIB);
    if (r->compiled)
        pcre2_jit_stack_assign(m.context, NULL, m.stack);
    *out = m;
    return AX_OK;
}

void ax_regex_close(ax_regex_match *m)
{
    pcre2_match_data_free(m->data);
    pcre2_match_context_free(m->context);
    pcre2_jit_stack_free(m->stack);
    *m = (ax_regex_match){0};
}

static const char *reason(int code)
{
    switch (code) {
    case PCRE2_ERROR_MATCHLIMIT:
        return "the match limit";
    case PCRE2_ERROR_DEPTHLIMIT:
        return "the depth limit";
    case PCRE2_ERROR_HEAPLIMIT:
        return "the heap limit";
    case PCRE2_ERROR_JIT_STACKLIMIT:
        return "the stack limit";
    default:
        return "a limit";
    }
}

int ax_regex_find(const ax_regex_match *m, const char *text, size_t length, size_t at, size_t *from,
                  size_t *to, const char **why)
{
    const pcre2_code *code = m->regex->code;
    PCRE2_SPTR subject = (PCRE2_SPTR)text;
    size_t limit = MATCH_LIMIT + MATCH_LIMIT_BYTE * (length - at);
    pcre2_set_match_limit(m->context, limit < UINT32_MAX ? (uint32_t)limit : UINT32_MAX);
    int n =
        m->regex->compiled
            ? pcre2_jit_match(code, subject, length, at, PCRE2_NO_UTF_CHECK, m->data, m->context)
            : pcre2_match(code, subject, length, at, PCRE2_NO_UTF_CHECK, m->data, m->context);
    if (n == PCRE2_ERROR_NOMATCH)
        return 0;
    if (n < 0) {
        *why = reason(n);
        return -1;
    }
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(m->data);
    *from = range[0];
    *to = range[1] > range[0] ? range[1] : range[0]; // \K may put the start behind the end
    return 1;
}
