#include "train/config_yaml.h"

#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum { KEY_MAX = 256 }; // of a dotted key; bounds the nesting, too

typedef struct reader {
    const char *path;
    const char *bytes;
    size_t length;
    yaml_parser_t parser;
    ax_config_key *set;
    void *ctx;
    char key[KEY_MAX]; // dotted key of the mapping being read
} reader;

static ax_status fail_syntax(const reader *r)
{
    const yaml_parser_t *p = &r->parser;
    size_t line = p->problem_mark.line + 1, column = p->problem_mark.column + 1;
    if (p->error == YAML_MEMORY_ERROR)
        AX_FAIL(AX_ENOMEM, "%s: no memory to read it", r->path);
    if (p->error == YAML_READER_ERROR) { // knows a byte, but no mark
        line = column = 1;
        for (size_t i = 0; i < p->problem_offset && i < r->length; i++) {
            column = r->bytes[i] == '\n' ? 1 : column + 1;
            line += r->bytes[i] == '\n';
        }
    }
    AX_FAIL(AX_EFORMAT, "%s:%zu:%zu: not valid YAML: %s", r->path, line, column,
            p->problem ? p->problem : "unknown problem");
}

static ax_status fail_at(const reader *r, const yaml_event_t *e, const char *what)
{
    AX_FAIL(AX_EFORMAT, "%s:%zu:%zu: %s", r->path, e->start_mark.line + 1, e->start_mark.column + 1,
            what);
}

static bool has_anchor(const yaml_event_t *e)
{
    return e->type == YAML_ALIAS_EVENT || (e->type == YAML_SCALAR_EVENT && e->data.scalar.anchor) ||
           (e->type == YAML_SEQUENCE_START_EVENT && e->data.sequence_start.anchor) ||
           (e->type == YAML_MAPPING_START_EVENT && e->data.mapping_start.anchor);
}

// The caller deletes the event, on failure too.
static ax_status next_event(reader *r, yaml_event_t *e)
{
    memset(e, 0, sizeof *e);
    if (!yaml_parser_parse(&r->parser, e))
        return fail_syntax(r);
    if (has_anchor(e))
        return fail_at(r, e, "anchors and aliases are not supported; write the value out");
    return AX_OK;
}

static bool is_null(const yaml_event_t *e)
{
    static const char *const words[] = {"", "~", "null", "Null", "NULL"};
    const char *text = (const char *)e->data.scalar.value;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(text, words[i]) == 0)
            return e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    return false;
}

static const char *scalar_text(const yaml_event_t *e)
{
    return (const char *)e->data.scalar.value;
}

// A C string cannot hold it.
static bool has_zero_byte(const yaml_event_t *e)
{
    return strlen(scalar_text(e)) != e->data.scalar.length;
}

static ax_status emit(reader *r, const yaml_event_t *key, const char *value)
{
    char where[4096];
    snprintf(where, sizeof where, "%s:%zu", r->path, key->start_mark.line + 1);
    return r->set(r->ctx, r->key, value, where);
}

static ax_status add_item(const reader *r, const yaml_event_t *e, ax_text *list)
{
    if (e->type != YAML_SCALAR_EVENT || is_null(e))
        return fail_at(r, e, "an item of a list must be a plain value");
    if (has_zero_byte(e) || strchr(scalar_text(e), ','))
        return fail_at(r, e, "an item of a list may not contain a comma or a zero byte");
    ax_text_add(list, "%s%s", list->text ? "," : "", scalar_text(e));
    return AX_OK;
}

static ax_status read_sequence(reader *r, const yaml_event_t *key)
{
    ax_text list = {0};
    ax_status st = AX_OK;
    for (bool end = false; st == AX_OK && !end;) {
        yaml_event_t e;
        st = next_event(r, &e);
        end = e.type == YAML_SEQUENCE_END_EVENT;
        if (st == AX_OK && !end)
            st = add_item(r, &e, &list);
        yaml_event_delete(&e);
    }
    if (st == AX_OK && list.failed)
        st = ax_fail(AX_ENOMEM, __FILE__, __LINE__, "%s: no memory for a list", r->path);
    if (st == AX_OK)
        st = emit(r, key, list.text ? list.text : "");
    ax_text_fini(&list);
    return st;
}

static ax_status read_mapping(reader *r);

static ax_status read_value(reader *r, const yaml_event_t *key, const yaml_event_t *e)
{
    if (e->type == YAML_MAPPING_START_EVENT)
        return read_mapping(r);
    if (e->type == YAML_SEQUENCE_START_EVENT)
        return read_sequence(r, key);
    if (is_null(e))
        AX_FAIL(AX_EFORMAT, "%s:%zu:%zu: %s has no value", r->path, key->start_mark.line + 1,
                key->start_mark.column + 1, r->key);
    if (has_zero_byte(e))
        return fail_at(r, e, "a zero byte in a value");
    return emit(r, key, scalar_text(e));
}

// One `key: value` of a mapping; extends r->key for the time of the value.
static ax_status read_pair(reader *r, const yaml_event_t *key)
{
    if (key->type != YAML_SCALAR_EVENT || !*scalar_text(key) || has_zero_byte(key))
        return fail_at(r, key, "a key must be a plain word");
    const char *word = scalar_text(key);
    size_t before = strlen(r->key);
    if (before + strlen(word) + 2 > KEY_MAX)
        return fail_at(r, key, "the key is too long");
    snprintf(r->key + before, KEY_MAX - before, "%s%s", before ? "." : "", word);
    yaml_event_t value;
    ax_status st = next_event(r, &value);
    if (st == AX_OK)
        st = read_value(r, key, &value);
    yaml_event_delete(&value);
    r->key[before] = 0;
    return st;
}

static ax_status read_mapping(reader *r)
{
    ax_status st = AX_OK;
    for (bool end = false; st == AX_OK && !end;) {
        yaml_event_t key;
        st = next_event(r, &key);
        end = key.type == YAML_MAPPING_END_EVENT;
        if (st == AX_OK && !end)
            st = read_pair(r, &key);
        yaml_event_delete(&key);
    }
    return st;
}

static ax_status read_stream(reader *r)
{
    bool seen = false;
    ax_status st = AX_OK;
    for (bool end = false; st == AX_OK && !end;) {
        yaml_event_t e;
        st = next_event(r, &e);
        end = e.type == YAML_STREAM_END_EVENT;
        if (st == AX_OK && e.type == YAML_DOCUMENT_START_EVENT) {
            if (seen)
                st = fail_at(r, &e, "a second document; a run has one");
            seen = true;
        } else if (st == AX_OK && e.type == YAML_MAPPING_START_EVENT) {
            st = read_mapping(r);
        } else if (st == AX_OK &&
                   (e.type == YAML_SEQUENCE_START_EVENT || e.type == YAML_SCALAR_EVENT)) {
            st = fail_at(r, &e, "the file must hold keys with values (`train.steps: 100`)");
        }
        yaml_event_delete(&e);
    }
    return st;
}

enum { FILE_MAX = 1 << 20 };

static ax_status read_bytes(const char *path, char **bytes, size_t *length)
{
    FILE *f = fopen(path, "rb");
    AX_CHECK(f, errno == ENOENT ? AX_EUSAGE : AX_EIO, "%s: %s", path, strerror(errno));
    ax_status st = AX_OK;
    char *all = malloc(FILE_MAX);
    size_t n = all ? fread(all, 1, FILE_MAX, f) : 0;
    if (!all)
        st = ax_fail(AX_ENOMEM, __FILE__, __LINE__, "%s: no memory to read it", path);
    else if (ferror(f))
        st = ax_fail(AX_EIO, __FILE__, __LINE__, "%s: %s", path, strerror(errno));
    else if (n == FILE_MAX)
        st = ax_fail(AX_EFORMAT, __FILE__, __LINE__, "%s: too large for a configuration", path);
    fclose(f);
    if (st != AX_OK) {
        free(all);
        return st;
    }
    *bytes = all;
    *length = n;
    return AX_OK;
}

ax_status ax_config_yaml_parse(const char *text, size_t length, const char *name,
                               ax_config_key *set, void *ctx)
{
    reader r = {.path = name, .length = length, .set = set, .ctx = ctx};
    if (!yaml_parser_initialize(&r.parser))
        AX_FAIL(AX_ENOMEM, "%s: no memory for the YAML parser", name);
    r.bytes = text;
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, length);
    ax_status st = read_stream(&r);
    yaml_parser_delete(&r.parser);
    return st;
}

ax_status ax_config_yaml_read(const char *path, ax_config_key *set, void *ctx)
{
    char *bytes;
    size_t length;
    AX_TRY(read_bytes(path, &bytes, &length));
    ax_status st = ax_config_yaml_parse(bytes, length, path, set, ctx);
    free(bytes);
    return st;
}
