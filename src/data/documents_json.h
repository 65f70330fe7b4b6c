// Strings under some keys of one JSON object, without building the rest of it.
//
// All of the text must be one object by the letter of RFC 8259, in UTF-8; numbers are checked and
// not converted, so none is too large. Work is linear, and memory beyond the text is its length
// at most.
#pragma once
#include <stdbool.h>
#include <stddef.h>

typedef struct ax_json_value {
    bool found, is_string;
    const char *text; // of a string, in the text itself or in the owner; not terminated
    size_t length;
} ax_json_value;

typedef struct ax_json_bad {
    const char *why; // in words
    size_t at;       // byte of the text
} ax_json_bad;

typedef struct ax_json_wish {
    const char *const *key; // of the object itself, not deeper
    int keys;
    ax_json_value *value; // [keys]: what stands there
} ax_json_wish;

// A wanted key that stands twice is an error. *owner (NULL where no string needed it) is the
// caller's to free.
bool ax_json_pick(const char *text, size_t length, const ax_json_wish *wish, void **owner,
                  ax_json_bad *bad);
