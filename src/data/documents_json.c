#include "data/documents_json.h"

#include "data/utf8.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 1000 };

typedef struct scan {
    const char *s;
    size_t n, at;
    int depth;
    char *buffer; // of `n` bytes: strings without their escapes, which are never longer
    size_t used;
    ax_json_bad bad;
} scan;

typedef struct raw { // a string between its quotes
    size_t begin, length;
    bool escaped;
} raw;

static bool fail(scan *c, const char *why)
{
    c->bad = (ax_json_bad){why, c->at};
    return false;
}

static int peek(const scan *c)
{
    return c->at < c->n ? (unsigned char)c->s[c->at] : -1;
}

static void skip_blanks(scan *c)
{
    while (c->at < c->n && (c->s[c->at] == ' ' || c->s[c->at] == '\t' || c->s[c->at] == '\r' ||
                            c->s[c->at] == '\n'))
        c->at++;
}

static bool take(scan *c, char letter, const char *why)
{
    skip_blanks(c);
    if (peek(c) != letter)
        return fail(c, c->at < c->n ? why : "the line ends inside of the object");
    c->at++;
    return true;
}

// ---- strings

static int hex_digit(int letter)
{
    if (letter >= '0' && letter <= '9')
        return letter - '0';
    letter |= 0x20;
    return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

// The four digits at `at`; -1: they are none.
static int32_t hex4(const scan *c, size_t at)
{
    int32_t code = 0;
    if (c->n - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit((unsigned char)c->s[at + (size_t)i]);
        if (digit < 0)
            return -1;
        code = code << 4 | digit;
    }
    return code;
}

static bool skip_escape(scan *c)
{
    int letter = c->at + 1 < c->n ? c->s[c->at + 1] : 0;
    if (letter == 0 || !strchr("\"\\/bfnrtu", letter))
        return fail(c, "no escape of JSON");
    if (letter == 'u' && hex4(c, c->at + 2) < 0)
        return fail(c, "\\u needs four hexadecimal digits");
    c->at += letter == 'u' ? 6 : 2;
    return true;
}

// `at` is behind the first quote, and comes to stand behind the second.
static bool take_string(scan *c, raw *out)
{
    raw r = {.begin = c->at};
    for (;;) {
        while (c->at < c->n && (unsigned char)c->s[c->at] >= 0x20 && c->s[c->at] != '"' &&
               c->s[c->at] != '\\')
            c->at++;
        int letter = peek(c);
        if (letter == '"')
            break;
        if (letter < 0)
            return fail(c, "the line ends inside of a string");
        if (letter != '\\')
            return fail(c, "a control character that is not escaped");
        r.escaped = true;
        if (!skip_escape(c))
            return false;
    }
    r.length = c->at++ - r.begin;
    *out = r;
    return true;
}

// The code behind \u at `*at`, with the second half of a pair.
static bool take_code(scan *c, size_t *at, uint32_t *code)
{
    int32_t first = hex4(c, *at), second = -1;
    *at += 4;
    *code = (uint32_t)first;
    if (first < 0xD800 || first > 0xDFFF)
        return true;
    if (first < 0xDC00 && c->n - *at >= 6 && c->s[*at] == '\\' && c->s[*at + 1] == 'u')
        second = hex4(c, *at + 2);
    if (second < 0xDC00 || second > 0xDFFF) {
        c->at = *at - 6;
        return fail(c, "half of a surrogate pair");
    }
    *at += 6;
    *code = 0x10000 + ((uint32_t)(first & 0x3FF) << 10 | (uint32_t)(second & 0x3FF));
    return true;
}

static char plain_escape(char letter)
{
    switch (letter) {
    case 'b':
        return '\b';
    case 'f':
        return '\f';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    default:
        return letter;
    }
}

// Appends the string to the buffer; its escapes were checked.
static bool unescape(scan *c, const raw *r, const char **text, size_t *length)
{
    if (!c->buffer)
        c->buffer = malloc(c->n);
    if (!c->buffer)
        return fail(c, "no memory for a string");
    char *out = c->buffer + c->used;
    for (size_t at = r->begin, end = r->begin + r->length; at < end;) {
        const char *escape = memchr(c->s + at, '\\', end - at);
        size_t plain = escape ? (size_t)(escape - c->s) - at : end - at;
        memcpy(out, c->s + at, plain);
        out += plain;
        at += plain;
        if (!escape)
            break;
        uint32_t code;
        char letter = c->s[at + 1];
        at += 2;
        if (letter != 'u') {
            *out++ = plain_escape(letter);
        } else {
            if (!take_code(c, &at, &code))
                return false;
            out += ax_utf8_put(code, out);
        }
    }
    *text = c->buffer + c->used;
    *length = (size_t)(out - *text);
    return true;
}

static bool take_value_string(scan *c, ax_json_value *value)
{
    raw r;
    if (!take_string(c, &r))
        return false;
    value->is_string = true;
    value->text = c->s + r.begin;
    value->length = r.length;
    if (!r.escaped)
        return true;
    size_t behind = c->at;
    if (!unescape(c, &r, &value->text, &value->length))
        return false;
    c->used += value->length;
    c->at = behind;
    return true;
}

// ---- what is not wanted

static size_t digits(scan *c)
{
    size_t before = c->at;
    while (c->at < c->n && c->s[c->at] >= '0' && c->s[c->at] <= '9')
        c->at++;
    return c->at - before;
}

static bool skip_number(scan *c)
{
    c->at += peek(c) == '-';
    bool zero = peek(c) == '0';
    size_t whole = digits(c);
    if (whole == 0 || (zero && whole > 1))
        return fail(c, "no value of JSON");
    if (peek(c) == '.') {
        c->at++;
        if (digits(c) == 0)
            return fail(c, "a number lacks digits behind its point");
    }
    if (peek(c) == 'e' || peek(c) == 'E') {
        c->at++;
        c->at += peek(c) == '+' || peek(c) == '-';
        if (digits(c) == 0)
            return fail(c, "a number lacks the digits of its exponent");
    }
    return true;
}

static bool skip_word(scan *c, const char *word)
{
    size_t n = strlen(word);
    if (c->n - c->at < n || memcmp(c->s + c->at, word, n) != 0)
        return fail(c, "no value of JSON");
    c->at += n;
    return true;
}

static bool skip_value(scan *c);

// Behind [ or {, to behind ] or }.
static bool skip_entries(scan *c, char close)
{
    raw key;
    skip_blanks(c);
    if (peek(c) == close) {
        c->at++;
        return true;
    }
    for (;;) {
        if (close == '}' && (!take(c, '"', "a key must be a string") || !take_string(c, &key) ||
                             !take(c, ':', "a key needs a ':' behind it")))
            return false;
        if (!skip_value(c))
            return false;
        skip_blanks(c);
        if (peek(c) != ',')
            return take(c, close, close == '}' ? "expected ',' or '}'" : "expected ',' or ']'");
        c->at++;
    }
}

static bool skip_nested(scan *c, char close)
{
    if (c->depth == DEPTH)
        return fail(c, "nested deeper than 1000");
    c->at++;
    c->depth++;
    bool good = skip_entries(c, close);
    c->depth--;
    return good;
}

static bool skip_value(scan *c)
{
    raw string;
    skip_blanks(c);
    switch (peek(c)) {
    case '"':
        c->at++;
        return take_string(c, &string);
    case '{':
        return skip_nested(c, '}');
    case '[':
        return skip_nested(c, ']');
    case 't':
        return skip_word(c, "true");
    case 'f':
        return skip_word(c, "false");
    case 'n':
        return skip_word(c, "null");
    case -1:
        return fail(c, "the line ends inside of the object");
    default:
        return skip_number(c);
    }
}

// ---- the object

// Which of the keys stands between the quotes; -1: none.
static bool find_key(scan *c, const raw *r, const char *const *key, int keys, int *found)
{
    const char *name = c->s + r->begin;
    size_t length = r->length, behind = c->at;
    if (r->escaped && !unescape(c, r, &name, &length))
        return false;
    c->at = behind;
    *found = -1;
    for (int i = 0; i < keys && *found < 0; i++)
        if (strlen(key[i]) == length && memcmp(key[i], name, length) == 0)
            *found = i;
    return true;
}

static bool take_entry(scan *c, const char *const *key, int keys, ax_json_value *value)
{
    raw name = {0};
    int wanted = -1;
    if (!take(c, '"', "a key must be a string") || !take_string(c, &name) ||
        !find_key(c, &name, key, keys, &wanted) || !take(c, ':', "a key needs a ':' behind it"))
        return false;
    if (wanted < 0)
        return skip_value(c);
    if (value[wanted].found) {
        c->at = name.begin;
        return fail(c, "the key stands twice");
    }
    value[wanted].found = true;
    skip_blanks(c);
    if (peek(c) != '"')
        return skip_value(c);
    c->at++;
    return take_value_string(c, &value[wanted]);
}

static bool take_object(scan *c, const char *const *key, int keys, ax_json_value *value)
{
    skip_blanks(c);
    if (peek(c) != '{')
        return fail(c, "not a JSON object");
    c->at++;
    skip_blanks(c);
    if (peek(c) == '}') {
        c->at++;
        return true;
    }
    for (;;) {
        if (!take_entry(c, key, keys, value))
            return false;
        skip_blanks(c);
        if (peek(c) != ',')
            return take(c, '}', "expected ',' or '}'");
        c->at++;
    }
}

static bool take_all(scan *c, const char *const *key, int keys, ax_json_value *value)
{
    size_t valid = ax_utf8_valid(c->s, c->n);
    if (valid < c->n) {
        c->at = valid;
        return fail(c, "not valid UTF-8");
    }
    if (!take_object(c, key, keys, value))
        return false;
    skip_blanks(c);
    return c->at == c->n || fail(c, "more text behind the object");
}

bool ax_json_pick(const char *text, size_t length, const ax_json_wish *wish, void **owner,
                  ax_json_bad *bad)
{
    scan c = {.s = text, .n = length};
    memset(wish->value, 0, (size_t)wish->keys * sizeof *wish->value);
    if (!take_all(&c, wish->key, wish->keys, wish->value)) {
        free(c.buffer);
        *bad = c.bad;
        return false;
    }
    *owner = c.buffer;
    return true;
}
