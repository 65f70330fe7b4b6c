#include "data/prompts.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

ax_status ax_prompts_add(ax_prompts *p, const char *text, size_t length)
{
    if (p->count == p->room) {
        int64_t room = p->room ? 2 * p->room : 16;
        ax_prompt *grown = realloc(p->list, (size_t)room * sizeof *grown);
        AX_CHECK(grown, AX_ENOMEM, "no memory for %lld prompts", (long long)room);
        p->list = grown;
        p->room = room;
    }
    char *copy = malloc(length + 1);
    AX_CHECK(copy, AX_ENOMEM, "no memory for a prompt of %zu bytes", length);
    memcpy(copy, text, length);
    copy[length] = 0;
    p->list[p->count++] = (ax_prompt){.text = copy, .length = length};
    return AX_OK;
}

static ax_status add_object(ax_prompts *p, const char *text, size_t length, const char *path,
                            int64_t line)
{
    json_error_t error;
    json_t *object = json_loadb(text, length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!object)
        AX_FAIL(AX_EFORMAT, "%s:%lld: byte %lld: %s", path, (long long)line,
                (long long)error.position, error.text);
    const json_t *prompt = json_object_get(object, "prompt");
    ax_status st =
        json_is_string(prompt)
            ? ax_prompts_add(p, json_string_value(prompt), json_string_length(prompt))
            : ax_fail(AX_EFORMAT, __FILE__, __LINE__,
                      "%s:%lld: no object with a string under \"prompt\"", path, (long long)line);
    json_decref(object);
    return st;
}

typedef struct reading {
    const char *path;
    bool objects;
    int64_t line;
} reading;

static ax_status add_line(ax_prompts *p, const reading *r, const char *text, size_t length)
{
    if (r->line == 1 && length >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) {
        text += 3;
        length -= 3;
    }
    if (length > 0 && text[length - 1] == '\n')
        length--;
    if (length > 0 && text[length - 1] == '\r')
        length--;
    if (length == 0)
        return AX_OK;
    return r->objects ? add_object(p, text, length, r->path, r->line)
                      : ax_prompts_add(p, text, length);
}

static ax_status read_lines(ax_prompts *p, FILE *f, reading *r)
{
    char *text = NULL;
    size_t room = 0;
    ax_status st = AX_OK;
    for (ssize_t n; st == AX_OK && (n = getline(&text, &room, f)) >= 0;) {
        r->line++;
        st = add_line(p, r, text, (size_t)n);
    }
    if (st == AX_OK && !feof(f))
        st = ax_fail(AX_EIO, __FILE__, __LINE__, "%s: %s after line %lld", r->path, strerror(errno),
                     (long long)r->line);
    free(text);
    return st;
}

ax_status ax_prompts_read(ax_prompts *p, const char *path)
{
    struct stat about;
    const char *dot = strrchr(path, '.');
    reading r = {.path = path, .objects = dot && strcmp(dot, ".jsonl") == 0};
    int64_t before = p->count;
    AX_CHECK(stat(path, &about) == 0, errno == ENOENT ? AX_EUSAGE : AX_EIO,
             "generate.prompts=%s: %s", path, strerror(errno));
    AX_CHECK(S_ISREG(about.st_mode), AX_EUSAGE,
             "generate.prompts=%s: not a regular file, which every rank can read", path);
    FILE *f = fopen(path, "rb");
    AX_CHECK(f, AX_EIO, "generate.prompts=%s: %s", path, strerror(errno));
    ax_status st = read_lines(p, f, &r);
    fclose(f);
    AX_TRY(st);
    AX_CHECK(p->count > before, AX_EUSAGE, "generate.prompts=%s: there is no prompt in it", path);
    return AX_OK;
}

static ax_status encode(ax_prompt *p, const ax_tokenizer *t)
{
    if (p->length > 0)
        AX_TRY(ax_tokenizer_encode(t, p->text, p->length, &p->ids));
    if (p->ids.count > 0)
        return AX_OK;
    int32_t start = ax_tokenizer_eod(t) >= 0 ? ax_tokenizer_eod(t) : ax_tokenizer_bos(t);
    AX_CHECK(start >= 0, AX_EUSAGE,
             "an empty prompt: data.tokenizer=%s has no token that ends or begins a document to "
             "start from; give a text",
             ax_tokenizer_name(t));
    return ax_ids_push(&p->ids, start);
}

ax_status ax_prompts_encode(ax_prompts *p, const ax_tokenizer *t)
{
    for (int64_t i = 0; i < p->count; i++)
        AX_TRY(encode(&p->list[i], t));
    return AX_OK;
}

int64_t ax_prompts_longest(const ax_prompts *p)
{
    int64_t most = 0;
    for (int64_t i = 0; i < p->count; i++)
        most = p->list[i].ids.count > most ? p->list[i].ids.count : most;
    return most;
}

void ax_prompts_fini(ax_prompts *p)
{
    for (int64_t i = 0; i < p->count; i++) {
        free(p->list[i].text);
        ax_ids_fini(&p->list[i].ids);
    }
    free(p->list);
    *p = (ax_prompts){0};
}
