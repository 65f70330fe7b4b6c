// Characters of UTF-8, normal forms, and byte strings that may hold zeros.
#pragma once
#include "base/err.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Appends bytes; the text stays terminated.
void ax_bytes_add(ax_text *t, const char *bytes, size_t length);

// The first place of `what` in s[0..n), or NULL.
const char *ax_bytes_find(const char *s, size_t n, const char *what, size_t length);

// Bytes of the character at s[0..n), n > 0, or 0 where it is not valid UTF-8 (overlong forms,
// surrogates and what lies above U+10FFFF are not). *code may be NULL.
size_t ax_utf8_next(const char *s, size_t n, uint32_t *code);
// Bytes of the character that ends at s + n; s[0..n) is valid and not empty.
size_t ax_utf8_last(const char *s, size_t n, uint32_t *code);
size_t ax_utf8_put(uint32_t code, char out[4]); // returns the bytes written
size_t ax_utf8_valid(const char *s, size_t n);  // bytes before the first that is not valid UTF-8
// Bytes at s[0..n) that one U+FFFD stands for: the longest beginning of a character, at least 1.
// *open: more bytes could still make it valid.
size_t ax_utf8_broken(const char *s, size_t n, bool *open);

bool ax_utf8_is_blank(uint32_t code); // White_Space
bool ax_utf8_is_letter(uint32_t code);
bool ax_utf8_is_word(uint32_t code); // letters, marks, decimal digits, connectors, joiners

typedef enum ax_normal_form {
    AX_NFC,
    AX_NFD,
    AX_NFKC,
    AX_NFKD,
} ax_normal_form;

// Appends the normal form of valid UTF-8.
ax_status ax_utf8_normalize(ax_normal_form form, const char *s, size_t n, ax_text *out);
