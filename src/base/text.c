#include "base/text.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- numbers

// strtoll and strtod skip leading blanks; a strict number starts at once.
static bool starts_number(const char *text)
{
    return *text && strchr("+-.0123456789", *text);
}

bool ax_parse_int(const char *text, int64_t *out)
{
    if (!starts_number(text))
        return false;
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (end == text || *end || errno)
        return false;
    *out = v;
    return true;
}

bool ax_parse_real(const char *text, double *out)
{
    // Starting with a digit, sign or point keeps out "inf" and "nan"; the test of x keeps out hex.
    if (!starts_number(text) || strpbrk(text, "xX"))
        return false;
    char *end;
    double v = strtod(text, &end);
    if (end == text || *end || !isfinite(v))
        return false;
    *out = v;
    return true;
}

// An integer with an optional power-of-ten suffix.
static bool parse_scaled(const char *text, int64_t *out)
{
    static const struct {
        char letter;
        int64_t factor;
    } scales[] = {{'k', 1000}, {'M', 1000000}, {'G', 1000000000}};
    size_t n = strlen(text);
    char digits[32];
    if (n < 2 || n >= sizeof digits)
        return ax_parse_int(text, out);
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
        if (text[n - 1] != scales[i].letter)
            continue;
        memcpy(digits, text, n - 1);
        digits[n - 1] = 0;
        int64_t v;
        if (!ax_parse_int(digits, &v) || __builtin_mul_overflow(v, scales[i].factor, &v))
            return false;
        *out = v;
        return true;
    }
    return ax_parse_int(text, out);
}

// The shortest decimal that reads back as the same double.
static void print_real(double v, char *text, size_t size)
{
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, size, "%.*g", digits, v);
        if (strtod(text, NULL) == v)
            return;
    }
}

// ---- nearest word

enum { WORD_MAX = 64 };

// Edit distance, a swap of neighbours counting once (optimal string alignment); words beyond
// WORD_MAX letters are far from everything.
static size_t edit_distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    if (n > WORD_MAX || m > WORD_MAX)
        return n + m;
    size_t row[3][WORD_MAX + 1]; // the last three of the table; row i % 3 is that of a[0..i)
    for (size_t j = 0; j <= m; j++)
        row[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        const size_t *up = row[(i + 2) % 3], *upper = row[(i + 1) % 3];
        size_t *now = row[i % 3];
        now[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t best = up[j - 1] + (a[i - 1] != b[j - 1]);
            best = up[j] + 1 < best ? up[j] + 1 : best;
            best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && upper[j - 2] + 1 < best) // neighbours typed in the wrong order
                best = upper[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[n % 3][m];
}

// True when `entry` is near `word` and nearer than `*best`, which it then becomes.
static bool is_nearer(const char *word, const char *entry, size_t *best)
{
    size_t d = edit_distance(word, entry), letters = strlen(entry);
    if (d * 3 > letters || d >= *best)
        return false;
    *best = d;
    return true;
}

const char *ax_nearest(const char *word, const char *const *list)
{
    const char *found = NULL;
    size_t best = SIZE_MAX;
    for (; *list; list++)
        if (is_nearer(word, *list, &best))
            found = *list;
    return found;
}

// ---- growing strings

static bool reserve(ax_text *t, size_t more)
{
    if (t->failed)
        return false;
    if (t->length + more < t->room)
        return true;
    size_t room = t->room ? t->room : 256;
    while (room <= t->length + more)
        room *= 2;
    char *text = realloc(t->text, room);
    if (!text) {
        t->failed = true;
        return false;
    }
    t->text = text;
    t->room = room;
    return true;
}

void ax_text_add(ax_text *t, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n < 0)
        t->failed = true;
    else if (reserve(t, (size_t)n)) {
        vsnprintf(t->text + t->length, (size_t)n + 1, fmt, again);
        t->length += (size_t)n;
    }
    va_end(again);
}

// Bytes of the well-formed UTF-8 sequence at `s`, or 0. The terminating zero stops any overrun:
// it is never a continuation byte.
static int utf8_length(const unsigned char *s)
{
    if (s[0] < 0x80)
        return 1;
    int n = s[0] >= 0xF0 ? 4 : s[0] >= 0xE0 ? 3 : 2;
    if (s[0] < 0xC2 || s[0] > 0xF4)
        return 0;
    for (int i = 1; i < n; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    bool overlong = (s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xF0 && s[1] < 0x90);
    bool outside = (s[0] == 0xED && s[1] > 0x9F) || (s[0] == 0xF4 && s[1] > 0x8F);
    return overlong || outside ? 0 : n;
}

// Code of the character of n bytes where YAML, which reads our JSON strings too, takes it for the
// end of a line or refuses it: C1 controls, U+2028, U+2029, U+FEFF, U+FFFE, U+FFFF. 0: it does not.
static unsigned special_code(const unsigned char *s, int n)
{
    unsigned code = 0;
    if (n == 2)
        code = (s[0] & 0x1Fu) << 6 | (s[1] & 0x3Fu);
    else if (n == 3)
        code = (s[0] & 0xFu) << 12 | (s[1] & 0x3Fu) << 6 | (s[2] & 0x3Fu);
    bool special = (code >= 0x80 && code < 0xA0) || code == 0x2028 || code == 0x2029 ||
                   code == 0xFEFF || code == 0xFFFE || code == 0xFFFF;
    return special ? code : 0;
}

// Bytes at `s` that JSON holds as they are.
static int plain_length(const char *s)
{
    enum { MOST = 1 << 20 };
    int length = 0;
    while (length < MOST) {
        unsigned char c = (unsigned char)s[length];
        int n = utf8_length((const unsigned char *)s + length);
        bool special = n && special_code((const unsigned char *)s + length, n);
        if (c < 0x20 || c == '"' || c == '\\' || c == 0x7F || n == 0 || special)
            break;
        length += n;
    }
    return length;
}

void ax_text_add_bytes(ax_text *t, const char *s, size_t length)
{
    if (!reserve(t, length))
        return;
    memcpy(t->text + t->length, s, length);
    t->length += length;
    t->text[t->length] = 0;
}

void ax_text_add_json(ax_text *t, const char *s)
{
    ax_text_add_json_bytes(t, s, strlen(s));
}

void ax_text_add_json_bytes(ax_text *t, const char *s, size_t length)
{
    const char *end = s + length;
    ax_text_add(t, "\"");
    while (s < end) {
        unsigned char c = (unsigned char)*s;
        int plain = plain_length(s);
        if (plain) {
            ax_text_add(t, "%.*s", plain, s);
            s += plain;
            continue;
        }
        int n = utf8_length((const unsigned char *)s);
        if (c == '"' || c == '\\')
            ax_text_add(t, "\\%c", c);
        else if (c == '\n')
            ax_text_add(t, "\\n");
        else if (n > 0)
            ax_text_add(t, "\\u%04x", n == 1 ? c : special_code((const unsigned char *)s, n));
        else
            ax_text_add(t, "\\ufffd"); // JSON cannot hold bytes that are not UTF-8
        s += n ? n : 1;
    }
    ax_text_add(t, "\"");
}

// Bytes of the character that begins at s[0] by its first byte, all there and continued rightly; 1
// where it is none.
static size_t character(const unsigned char *s, size_t length)
{
    size_t n = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : s[0] >= 0xc2 ? 2 : 1;
    for (size_t i = 1; i < n; i++)
        if (i >= length || (s[i] & 0xc0) != 0x80)
            return 1;
    return n;
}

void ax_text_add_visible(ax_text *t, const char *s, size_t length)
{
    const unsigned char *b = (const unsigned char *)s;
    for (size_t i = 0, n; i < length; i += n) {
        n = character(b + i, length - i);
        bool c0 = (b[i] < 0x20 && b[i] != '\n' && b[i] != '\t') || b[i] == 0x7f;
        bool alone = n == 1 && b[i] >= 0x80 && b[i] < 0xa0;
        bool c1 = n == 2 && b[i] == 0xc2 && b[i + 1] < 0xa0;
        if (!c0 && !alone && !c1)
            ax_text_add_bytes(t, s + i, n);
        for (size_t k = 0; k < n && (c0 || alone || c1); k++)
            ax_text_add(t, "\\x%02X", b[i + k]);
    }
}

void ax_text_fini(ax_text *t)
{
    free(t->text);
    *t = (ax_text){0};
}

// ---- option tables

typedef struct entry { // one key that was set
    const ax_option *option;
    char *value, *where;
} entry;

struct ax_option_state {
    entry *set;
    size_t count, room;
};

ax_status ax_options_init(ax_options *o)
{
    *o = (ax_options){.state = calloc(1, sizeof(struct ax_option_state))};
    AX_CHECK(o->state, AX_ENOMEM, "no memory for the option tables");
    return AX_OK;
}

void ax_options_fini(ax_options *o)
{
    for (size_t i = 0; o->state && i < o->state->count; i++) {
        free(o->state->set[i].value);
        free(o->state->set[i].where);
    }
    if (o->state)
        free(o->state->set);
    free(o->state);
    *o = (ax_options){0};
}

static bool in_range(const ax_option *option, double v)
{
    const char *dots = strstr(option->range, "..");
    AX_ASSERT(dots);
    double low = -INFINITY, high = INFINITY;
    if (dots != option->range)
        low = strtod(option->range, NULL); // stops at the second point
    if (dots[2])
        high = strtod(dots + 2, NULL);
    return v >= low && v <= high;
}

static bool parse_choice(const char *words, const char *value, int64_t *out)
{
    size_t n = strlen(value);
    for (int64_t i = 0; words; i++) {
        const char *bar = strchr(words, '|');
        size_t length = bar ? (size_t)(bar - words) : strlen(words);
        if (n == length && strncmp(words, value, n) == 0) {
            *out = i;
            return true;
        }
        words = bar ? bar + 1 : NULL;
    }
    return false;
}

// Writes `value` into the field; false when it is not one of the option's. `value` must live as
// long as the field does.
static bool assign(const ax_option *option, const char *value, void *target)
{
    void *field = (char *)target + option->offset;
    int64_t i;
    double r;
    switch (option->kind) {
    case AX_OPT_INT:
        if (!parse_scaled(value, &i) || !in_range(option, (double)i))
            return false;
        *(int64_t *)field = i;
        return true;
    case AX_OPT_REAL:
        if (!ax_parse_real(value, &r) || !in_range(option, r))
            return false;
        *(double *)field = r;
        return true;
    case AX_OPT_CHOICE:
        return parse_choice(option->range, value, field);
    case AX_OPT_FLAG:
        if (!parse_choice("off|on", value, &i))
            return false;
        *(bool *)field = i == 1;
        return true;
    case AX_OPT_TEXT:
    case AX_OPT_LIST:
        *(const char **)field = value;
        return true;
    }
    return false;
}

ax_status ax_options_add(ax_options *o, const ax_option *table, void *target)
{
    AX_CHECK(o->parts < AX_OPTIONS_TABLES, AX_EINTERNAL, "more than %d option tables",
             AX_OPTIONS_TABLES);
    for (const ax_option *option = table; option->key; option++) {
        AX_CHECK(!ax_options_find(o, option->key), AX_EINTERNAL, "%s stands in two option tables",
                 option->key);
        AX_CHECK(assign(option, option->value, target), AX_EINTERNAL,
                 "%s=%s: the default is out of its own range", option->key, option->value);
    }
    o->part[o->parts].table = table;
    o->part[o->parts].target = target;
    o->parts++;
    return AX_OK;
}

static const ax_option *find(const ax_options *o, const char *key, void **target)
{
    for (int p = 0; p < o->parts; p++)
        for (const ax_option *option = o->part[p].table; option->key; option++)
            if (strcmp(option->key, key) == 0) {
                *target = o->part[p].target;
                return option;
            }
    return NULL;
}

const ax_option *ax_options_find(const ax_options *o, const char *key)
{
    void *target;
    return find(o, key, &target);
}

static entry *find_set(const ax_options *o, const char *key)
{
    for (size_t i = 0; i < o->state->count; i++)
        if (strcmp(o->state->set[i].option->key, key) == 0)
            return &o->state->set[i];
    return NULL;
}

bool ax_options_is_set(const ax_options *o, const char *key)
{
    return find_set(o, key) != NULL;
}

const char *ax_options_where(const ax_options *o, const char *key)
{
    const entry *e = find_set(o, key);
    return e ? e->where : NULL;
}

// The nearest known key, or the nearest by its last word ("steps" finds train.steps), or NULL.
static const char *nearest_key(const ax_options *o, const char *key)
{
    const char *found = NULL;
    size_t best = SIZE_MAX;
    for (int pass = 0; pass < 2 && !found; pass++)
        for (int p = 0; p < o->parts; p++)
            for (const ax_option *option = o->part[p].table; option->key; option++) {
                const char *dot = pass ? strrchr(option->key, '.') : NULL;
                if (is_nearer(key, dot ? dot + 1 : option->key, &best))
                    found = option->key;
            }
    return found;
}

static ax_status fail_unknown(const ax_options *o, const char *key, const char *where)
{
    const char *near = nearest_key(o, key);
    if (near)
        AX_FAIL(AX_EUSAGE, "%s: unknown key '%s'; the nearest known key is '%s'", where, key, near);
    AX_FAIL(AX_EUSAGE, "%s: unknown key '%s'; `axonn help keys` lists all", where, key);
}

static ax_status fail_value(const ax_option *option, const char *value, const char *where)
{
    static const char *const kinds[] = {
        [AX_OPT_INT] = "an integer",
        [AX_OPT_REAL] = "a number",
        [AX_OPT_CHOICE] = "one of",
        [AX_OPT_FLAG] = "on or off",
    };
    bool numeric = option->kind == AX_OPT_INT || option->kind == AX_OPT_REAL;
    const char *range = option->kind == AX_OPT_FLAG ? "" : option->range;
    if (numeric && strcmp(range, "..") == 0)
        range = "";
    AX_FAIL(AX_EUSAGE, "%s: %s=%s: the value must be %s%s%s", where, option->key, value,
            kinds[option->kind], *range ? (numeric ? " in " : " ") : "", range);
}

// Length of the file name in "FILE:LINE" or "FILE:LINE:COLUMN"; 0 for a place that is no file.
static size_t file_part(const char *where)
{
    size_t n = strlen(where), file = 0;
    for (int numbers = 0; numbers < 2; numbers++) {
        size_t i = n;
        while (i > 0 && where[i - 1] >= '0' && where[i - 1] <= '9')
            i--;
        if (i == n || i < 2 || where[i - 1] != ':')
            break;
        file = n = i - 1;
    }
    return file;
}

static ax_status record(ax_options *o, entry *old, entry fresh)
{
    struct ax_option_state *s = o->state;
    if (old) {
        free(old->value);
        free(old->where);
        *old = fresh;
        return AX_OK;
    }
    if (s->count == s->room) {
        size_t room = s->room ? 2 * s->room : 32;
        entry *set = realloc(s->set, room * sizeof *set);
        AX_CHECK(set, AX_ENOMEM, "no memory to keep %s", fresh.option->key);
        s->set = set;
        s->room = room;
    }
    s->set[s->count++] = fresh;
    return AX_OK;
}

ax_status ax_options_set(ax_options *o, const char *key, const char *value, const char *where)
{
    void *target;
    const ax_option *option = find(o, key, &target);
    if (!option)
        return fail_unknown(o, key, where);
    entry *old = find_set(o, key);
    size_t file = file_part(where), old_file = old ? file_part(old->where) : 0;
    if (old && file && file == old_file && strncmp(where, old->where, file) == 0)
        AX_FAIL(AX_EUSAGE, "%s: %s is set twice, first at %s; keep one", where, key, old->where);

    ax_status st = AX_OK;
    entry fresh = {option, strdup(value), strdup(where)};
    union {
        int64_t i;
        double r;
        const char *text;
    } scratch;
    ax_option probe = *option;
    probe.offset = 0;
    // The line wins whatever the order of the calls; a file's value is then only checked.
    bool shadowed = old && file && !old_file;
    if (!fresh.value || !fresh.where)
        st = ax_fail(AX_ENOMEM, __FILE__, __LINE__, "no memory to keep %s", key);
    else if (!assign(&probe, fresh.value, &scratch))
        st = fail_value(option, value, where);
    else if (!shadowed && (st = record(o, old, fresh)) == AX_OK) {
        assign(option, fresh.value, target);
        return AX_OK;
    }
    free(fresh.value);
    free(fresh.where);
    return st;
}

ax_status ax_options_get(const ax_options *o, const char *key, char *text, size_t size)
{
    void *target;
    const ax_option *option = find(o, key, &target);
    AX_CHECK(option, AX_EINTERNAL, "%s: no such key", key);
    const void *field = (const char *)target + option->offset;
    char number[40];
    const char *value = number;
    size_t length;
    switch (option->kind) {
    case AX_OPT_INT:
        snprintf(number, sizeof number, "%lld", (long long)*(const int64_t *)field);
        break;
    case AX_OPT_REAL:
        print_real(*(const double *)field, number, sizeof number);
        break;
    case AX_OPT_FLAG:
        value = *(const bool *)field ? "on" : "off";
        break;
    case AX_OPT_TEXT:
    case AX_OPT_LIST:
        value = *(const char *const *)field;
        break;
    case AX_OPT_CHOICE:
        value = option->range;
        for (int64_t i = *(const int64_t *)field; i > 0 && value; i--)
            value = strchr(value, '|') ? strchr(value, '|') + 1 : NULL;
        AX_CHECK(value, AX_EINTERNAL, "%s holds no word of %s", key, option->range);
        break;
    }
    length = option->kind == AX_OPT_CHOICE ? strcspn(value, "|") : strlen(value);
    int n = snprintf(text, size, "%.*s", (int)length, value);
    AX_CHECK(n >= 0 && (size_t)n < size, AX_EINTERNAL, "%s: its value needs %d bytes, not %zu", key,
             n + 1, size);
    return AX_OK;
}
