#include "data/bpe_train.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 16 << 20 }; // of a text file; longer files are cut behind a line

static ax_status add_line(ax_bpe_trainer *t, const char *line, size_t n, const char *text_key,
                          const char *path, long long number)
{
    json_error_t error;
    if (n == 0 || strspn(line, " \t\r\n") >= n)
        return AX_OK;
    json_t *object = json_loadb(line, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    AX_CHECK(object, AX_EFORMAT, "%s:%lld: byte %d: %s", path, number, error.position, error.text);
    const json_t *text = json_object_get(object, text_key);
    ax_status st = AX_OK;
    if (json_is_string(text))
        st = ax_bpe_trainer_add(t, json_string_value(text), json_string_length(text));
    else
        st = ax_fail(AX_EFORMAT, __FILE__, __LINE__,
                     "%s:%lld: no text under the key '%s'; data.text_key names it", path, number,
                     text_key);
    json_decref(object);
    return st;
}

static ax_status add_jsonl(ax_bpe_trainer *t, FILE *f, const char *text_key, const char *path)
{
    char *line = NULL;
    size_t room = 0;
    long long number = 0;
    ax_status st = AX_OK;
    for (ssize_t n; st == AX_OK && (n = getline(&line, &room, f)) >= 0;) {
        size_t mark = number == 0 && n >= 3 && memcmp(line, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
        st = add_line(t, line + mark, (size_t)n - mark, text_key, path, ++number);
    }
    free(line);
    return st;
}

static ax_status add_text(ax_bpe_trainer *t, FILE *f)
{
    char *text = malloc(BLOCK);
    size_t kept = 0;
    ax_status st = AX_OK;
    AX_CHECK(text, AX_ENOMEM, "no memory to read a text");
    for (size_t n; st == AX_OK && (n = fread(text + kept, 1, BLOCK - kept, f)) > 0;) {
        size_t have = kept + n;
        const char *end = have == BLOCK ? memrchr(text, '\n', have) : NULL;
        size_t whole = end ? (size_t)(end - text) + 1 : have == BLOCK ? have : 0;
        st = ax_bpe_trainer_add(t, text, whole);
        memmove(text, text + whole, have - whole);
        kept = have - whole;
    }
    if (st == AX_OK)
        st = ax_bpe_trainer_add(t, text, kept);
    free(text);
    return st;
}

ax_status ax_bpe_trainer_add_file(ax_bpe_trainer *t, const char *path, const char *text_key)
{
    size_t n = strlen(path);
    FILE *f = fopen(path, "rb");
    AX_CHECK(f, AX_EUSAGE, "%s: %s", path, strerror(errno));
    bool jsonl = n >= 6 && strcmp(path + n - 6, ".jsonl") == 0;
    ax_status st = jsonl ? add_jsonl(t, f, text_key, path) : add_text(t, f);
    if (st == AX_OK && ferror(f))
        st = ax_fail(AX_EIO, __FILE__, __LINE__, "%s: cannot be read: %s", path, strerror(errno));
    fclose(f);
    return st;
}
