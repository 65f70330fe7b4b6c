// Text in and out: strict numbers, growing strings, and option tables (key=value).
//
// An option table describes the keys of one struct; parsing, defaults, range checks, `axonn help
// keys` and docs/options.md all come from it. A key stands in a table only beside the code that
// obeys it.
//
//     typedef struct ax_train_options { int64_t steps; double lr; const char *out; } ax_train_options;
//     const ax_option ax_train_option_table[] = {
//         { "train.steps", AX_OPT_INT,  offsetof(ax_train_options, steps), "100", "1..", "optimizer steps" },
//         { "train.lr",    AX_OPT_REAL, offsetof(ax_train_options, lr), "3e-4", "0..1", "peak learning rate" },
//         { "train.out",   AX_OPT_TEXT, offsetof(ax_train_options, out), "", "", "run directory" },
//         { 0 } };
#pragma once
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum ax_opt_kind {
    AX_OPT_INT,    // int64_t; suffixes k, M, G (powers of ten) are accepted
    AX_OPT_REAL,   // double, finite
    AX_OPT_TEXT,   // const char *, owned by the ax_options that parsed it; never NULL
    AX_OPT_CHOICE, // int64_t: index into the words of `range` ("fp32|bf16")
    AX_OPT_FLAG,   // bool: on|off
    AX_OPT_LIST,   // const char *: comma-separated text; a YAML sequence is joined by commas
} ax_opt_kind;

typedef struct ax_option {
    const char *key; // dotted; NULL ends a table
    ax_opt_kind kind;
    size_t offset;     // of the field in the table's struct
    const char *value; // default, in the syntax of the command line
    const char
        *range; // INT and REAL: "lo..hi", either end may be missing; CHOICE: words joined by |
    const char *help; // one line, with the unit
} ax_option;

// A set of tables joined for one program run. Strings live until ax_options_fini.
enum { AX_OPTIONS_TABLES = 16 };
typedef struct ax_options {
    struct {
        const ax_option *table;
        void *target;
    } part[AX_OPTIONS_TABLES];
    int parts;
    struct ax_option_state *state; // which keys were set, and from where
} ax_options;

ax_status ax_options_init(ax_options *o);
void ax_options_fini(ax_options *o);
// Adds a table and writes its defaults into `target`.
ax_status ax_options_add(ax_options *o, const ax_option *table, void *target);
// Sets one key. `where` names the place for messages ("quickstart.yaml:12", "command line").
// AX_EUSAGE: unknown key (names the nearest), bad value (names kind, range).
ax_status ax_options_set(ax_options *o, const char *key, const char *value, const char *where);
bool ax_options_is_set(const ax_options *o, const char *key);
// The place that set a key last, or NULL where none did.
const char *ax_options_where(const ax_options *o, const char *key);
const ax_option *ax_options_find(const ax_options *o, const char *key);
// The present value of a key as the command line would write it; `text` is always terminated.
ax_status ax_options_get(const ax_options *o, const char *key, char *text, size_t size);

// Strict numbers: the whole text must be one number inside the type; false otherwise.
bool ax_parse_int(const char *text, int64_t *out);
bool ax_parse_real(const char *text, double *out);

// The entry of a NULL-terminated list that is nearest to `word` by edit distance, or NULL when
// none is near (more than a third of its letters differ).
const char *ax_nearest(const char *word, const char *const *list);

// A growing string. Zero-initialised is empty; text is NULL until the first append.
typedef struct ax_text {
    char *text;
    size_t length, room;
    bool failed; // memory ran out: the text is incomplete; checked once at the end
} ax_text;
void ax_text_add(ax_text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void ax_text_add_json(ax_text *t, const char *s); // a quoted, escaped JSON string, YAML as well
// The same for bytes that may contain zeros; s[length] must be readable and zero.
void ax_text_add_json_bytes(ax_text *t, const char *s, size_t length);
void ax_text_add_bytes(ax_text *t, const char *s, size_t length); // as they are
// For terminals: what could drive one shows as \xNN. That is C0 but newline and tab, DEL, and C1,
// as bytes of its own or as U+0080 to U+009F; other bytes stay as they are.
void ax_text_add_visible(ax_text *t, const char *s, size_t length);
void ax_text_fini(ax_text *t);
