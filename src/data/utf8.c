#include "data/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

void ax_bytes_add(ax_text *t, const char *bytes, size_t length)
{
    if (t->failed)
        return;
    if (t->room - t->length <= length) {
        size_t room = t->room ? t->room : 64;
        while (room - t->length <= length && room <= SIZE_MAX / 2)
            room *= 2;
        char *text = room - t->length > length ? realloc(t->text, room) : NULL;
        if (!text) {
            t->failed = true;
            return;
        }
        t->text = text;
        t->room = room;
    }
    if (length)
        memcpy(t->text + t->length, bytes, length);
    t->length += length;
    t->text[t->length] = 0;
}

// Sanitizers look at all of what memmem is given, which makes a walk over many hits quadratic.
const char *ax_bytes_find(const char *s, size_t n, const char *what, size_t length)
{
    return length == 1 ? memchr(s, *what, n) : memmem(s, n, what, length);
}

// ---- characters

// The lowest second byte and the highest that may follow a first byte, and the length.
static size_t shape(unsigned char first, unsigned char *low, unsigned char *high)
{
    *low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    *high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    if (first < 0x80)
        return 1;
    if (first < 0xC2 || first > 0xF4)
        return 0;
    return first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

// How many bytes at s are as they must be, of a character that needs *need (0: no character).
static size_t good_bytes(const unsigned char *s, size_t n, size_t *need)
{
    unsigned char low, high;
    *need = shape(s[0], &low, &high);
    if (*need == 0)
        return 0;
    size_t good = 1;
    while (good < *need && good < n && s[good] >= low && s[good] <= high) {
        low = 0x80;
        high = 0xBF;
        good++;
    }
    return good;
}

size_t ax_utf8_next(const char *s, size_t n, uint32_t *code)
{
    const unsigned char *u = (const unsigned char *)s;
    size_t need;
    if (good_bytes(u, n, &need) < need || need == 0)
        return 0;
    if (code) {
        static const unsigned char mask[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
        uint32_t c = u[0] & mask[need];
        for (size_t i = 1; i < need; i++)
            c = c << 6 | (u[i] & 0x3F);
        *code = c;
    }
    return need;
}

size_t ax_utf8_last(const char *s, size_t n, uint32_t *code)
{
    size_t length = 1;
    while (length < n && length < 4 && ((unsigned char)s[n - length] & 0xC0) == 0x80)
        length++;
    ax_utf8_next(s + n - length, length, code);
    return length;
}

size_t ax_utf8_put(uint32_t c, char out[4])
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3F));
    out[0] = (char)(lead[n] | c);
    return n;
}

size_t ax_utf8_valid(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n) {
        uint64_t eight;
        if (n - i >= sizeof eight) {
            memcpy(&eight, s + i, sizeof eight);
            if (!(eight & 0x8080808080808080u)) {
                i += sizeof eight;
                continue;
            }
        }
        size_t step = ax_utf8_next(s + i, n - i, NULL);
        if (step == 0)
            break;
        i += step;
    }
    return i;
}

size_t ax_utf8_broken(const char *s, size_t n, bool *open)
{
    size_t need, good = good_bytes((const unsigned char *)s, n, &need);
    *open = good > 0 && good == n && good < need;
    return good ? good : 1;
}

bool ax_utf8_is_blank(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
           c == 0x205F || c == 0x3000;
}

bool ax_utf8_is_letter(uint32_t c)
{
    utf8proc_category_t kind = utf8proc_category((utf8proc_int32_t)c);
    return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

bool ax_utf8_is_word(uint32_t c)
{
    static const uint32_t circled[][2] = {
        {0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}};
    for (int i = 0; i < 4; i++)
        if (c >= circled[i][0] && c <= circled[i][1])
            return true;
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
        return true;
    default:
        return c == 0x200C || c == 0x200D;
    }
}

// ---- normal forms

static utf8proc_option_t options_of(ax_normal_form form)
{
    switch (form) {
    case AX_NFC:
        return UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    case AX_NFD:
        return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
    case AX_NFKC:
        return UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT;
    default:
        return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT;
    }
}

static ax_status normalize_run(utf8proc_option_t options, const char *s, size_t n, ax_text *out)
{
    utf8proc_uint8_t *text = NULL;
    utf8proc_ssize_t length =
        utf8proc_map((const utf8proc_uint8_t *)s, (utf8proc_ssize_t)n, &text, options);
    AX_CHECK(length >= 0, length == UTF8PROC_ERROR_NOMEM ? AX_ENOMEM : AX_EFORMAT,
             "normal form of %zu bytes: %s", n, utf8proc_errmsg(length));
    ax_bytes_add(out, (const char *)text, (size_t)length);
    free(text);
    return AX_OK;
}

// ASCII is its own normal form, but its last character may take up the marks that follow it.
ax_status ax_utf8_normalize(ax_normal_form form, const char *s, size_t n, ax_text *out)
{
    utf8proc_option_t options = options_of(form);
    for (size_t i = 0; i < n;) {
        size_t ascii = i;
        while (ascii < n && !(s[ascii] & 0x80))
            ascii++;
        if (ascii < n && ascii > i)
            ascii--;
        ax_bytes_add(out, s + i, ascii - i);
        size_t end = ascii + (ascii < n);
        while (end < n && (s[end] & 0x80))
            end++;
        if (end > ascii)
            AX_TRY(normalize_run(options, s + ascii, end - ascii, out));
        i = end;
    }
    AX_CHECK(!out->failed, AX_ENOMEM, "no memory for the normal form of %zu bytes", n);
    return AX_OK;
}
