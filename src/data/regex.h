// Regular expressions over UTF-8, as tokenizer files spell them (the dialect of Oniguruma).
//
//     ax_regex *r;
//     AX_TRY(ax_regex_compile("t.json", "\\p{L}+", 6, &r));
//     ax_regex_match m;
//     AX_TRY(ax_regex_open(r, &m));                          // one a thread
//     AX_TRY(ax_regex_find(&m, text, length, at, &from, &to, &found));
//
// Letters, numbers, marks, digits, words and blanks are those of Unicode 16, whatever the library
// was built for: new scripts must not be split another way on an older system.
#pragma once
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ax_regex ax_regex; // read-only; may be shared by threads

typedef struct ax_regex_match { // the scratch of one thread for one expression
    const ax_regex *regex;
    void *data, *context, *stack;
} ax_regex_match;

// AX_EFORMAT names `where` and the place in the pattern.
ax_status ax_regex_compile(const char *where, const char *pattern, size_t length, ax_regex **out);
void ax_regex_free(ax_regex *r);

ax_status ax_regex_open(const ax_regex *r, ax_regex_match *out);
void ax_regex_close(ax_regex_match *m);

// The first match in text[at..length); `text` must be valid UTF-8 and `at` the start of a
// character. Returns 1 and the match, 0 without one, or -1 with *why set where a limit was met.
int ax_regex_find(const ax_regex_match *m, const char *text, size_t length, size_t at, size_t *from,
                  size_t *to, const char **why);
