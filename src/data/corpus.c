#include "data/loader.h"

#include "base/log.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const ax_option ax_data_option_table[] = {
    {"data.train", AX_OPT_LIST, offsetof(ax_data_options, train), "", "",
     "training files: *.jsonl holds one JSON object a line, any other is one text document"},
    {"data.valid", AX_OPT_LIST, offsetof(ax_data_options, valid), "", "",
     "held-out files; empty: the tail of data.train"},
    {"data.tokenizer", AX_OPT_TEXT, offsetof(ax_data_options, tokenizer), "byte", "",
     "byte (256 bytes and one end-of-document id), or a tokenizer.json or its directory"},
    {"data.text_key", AX_OPT_TEXT, offsetof(ax_data_options, text_key), "text", "",
     "key that holds the text of a JSONL object"},
    {"data.bos", AX_OPT_FLAG, offsetof(ax_data_options, bos), "off", "",
     "begin each document with the tokenizer's id for it"},
    {"data.eod", AX_OPT_FLAG, offsetof(ax_data_options, eod), "on", "",
     "end each document with the tokenizer's id for it"},
    {"data.literals", AX_OPT_CHOICE, offsetof(ax_data_options, literals), "text", "text|tokens",
     "what the text of a special token, as <|endoftext|>, becomes in a document: text like any "
     "other, or the token"},
    {"data.valid_fraction", AX_OPT_REAL, offsetof(ax_data_options, valid_fraction), "0.05",
     "0..0.99", "share of the tokens held out where data.valid is empty; 0: none"},
    {"data.seed", AX_OPT_INT, offsetof(ax_data_options, seed), "1", "0..", "seed of the shuffle"},
    {0},
};

typedef struct part { // of one split: a range of the stream
    int64_t begin, count;
    int64_t documents, bytes;
} part;

struct ax_corpus {
    const ax_tokenizer *tokenizer;
    const char *text_key; // only while opening
    ax_ids ids;
    part split[2];
    int64_t empty_files, empty_documents;
};

static ax_status add_document(ax_corpus *c, const char *text, size_t length)
{
    if (length == 0) {
        c->empty_documents++;
        return AX_OK;
    }
    AX_TRY(ax_tokenizer_encode(c->tokenizer, text, length, &c->ids));
    return ax_ids_push(&c->ids, ax_tokenizer_eod(c->tokenizer));
}

static ax_status add_object(ax_corpus *c, const json_t *object, const char *path, int64_t line)
{
    AX_CHECK(json_is_object(object), AX_EFORMAT, "%s:%lld: not a JSON object", path,
             (long long)line);
    const json_t *text = json_object_get(object, c->text_key);
    AX_CHECK(text, AX_EFORMAT, "%s:%lld: the object has no key '%s'; data.text_key names it", path,
             (long long)line, c->text_key);
    AX_CHECK(json_is_string(text), AX_EFORMAT, "%s:%lld: the value of '%s' is not a string", path,
             (long long)line, c->text_key);
    return add_document(c, json_string_value(text), json_string_length(text));
}

static ax_status add_line(ax_corpus *c, const char *text, size_t length, const char *path,
                          int64_t line)
{
    size_t skipped = 0;
    if (line == 1 && length >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)
        skipped = 3;
    while (length > skipped && strchr("\r\n\t ", text[length - 1]) && text[length - 1])
        length--;
    if (length == skipped)
        return AX_OK;
    json_error_t error;
    json_t *object = json_loadb(text + skipped, length - skipped,
                                JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!object)
        AX_FAIL(AX_EFORMAT, "%s:%lld: byte %lld: %s", path, (long long)line,
                (long long)error.position + (long long)skipped, error.text);
    ax_status st = add_object(c, object, path, line);
    json_decref(object);
    return st;
}

static ax_status read_jsonl(ax_corpus *c, FILE *f, const char *path)
{
    char *text = NULL;
    size_t room = 0;
    int64_t line = 0;
    ax_status st = AX_OK;
    for (ssize_t n; st == AX_OK && (n = getline(&text, &room, f)) >= 0;)
        st = add_line(c, text, (size_t)n, path, ++line);
    if (st == AX_OK && !feof(f))
        st = ax_fail(AX_EIO, __FILE__, __LINE__, "%s: %s after line %lld", path, strerror(errno),
                     (long long)line);
    free(text);
    return st;
}

static ax_status read_text(ax_corpus *c, FILE *f, const char *path)
{
    size_t length = 0, room = 1 << 20;
    char *text = malloc(room);
    ax_status st = AX_OK;
    while (text) {
        length += fread(text + length, 1, room - length, f);
        if (length < room)
            break;
        char *grown = realloc(text, room *= 2);
        if (!grown)
            free(text);
        text = grown;
    }
    if (!text)
        st = ax_fail(AX_ENOMEM, __FILE__, __LINE__, "%s: no memory for its text", path);
    else if (ferror(f))
        st = ax_fail(AX_EIO, __FILE__, __LINE__, "%s: %s", path, strerror(errno));
    else
        st = add_document(c, text, length);
    free(text);
    return st;
}

static ax_status read_file(ax_corpus *c, const char *path)
{
    struct stat about;
    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode))
        AX_FAIL(AX_EUSAGE, "%s: not a regular file; pipes and devices have no end to wait for",
                path);
    FILE *f = fopen(path, "rb");
    AX_CHECK(f, errno == ENOENT ? AX_EUSAGE : AX_EIO, "%s: %s", path, strerror(errno));
    const char *dot = strrchr(path, '.');
    bool is_jsonl = dot && strcmp(dot, ".jsonl") == 0;
    int64_t before = c->ids.count, empty = c->empty_documents;
    ax_status st = is_jsonl ? read_jsonl(c, f, path) : read_text(c, f, path);
    fclose(f);
    if (st == AX_OK && c->ids.count == before) {
        c->empty_files++;
        if (!is_jsonl) // its one document is the file itself: count it once
            c->empty_documents = empty;
    }
    return st;
}

static ax_status read_files(ax_corpus *c, const char *key, const char *list)
{
    for (const char *at = list;; at++) {
        size_t n = strcspn(at, ",");
        AX_CHECK(n > 0, AX_EUSAGE, "%s=%s: an empty file name in the list", key, list);
        char *path = strndup(at, n);
        AX_CHECK(path, AX_ENOMEM, "no memory for a file name");
        ax_status st = read_file(c, path);
        free(path);
        AX_TRY(st);
        at += n;
        if (!*at)
            return AX_OK;
    }
}

// What the ids [begin, end) hold; a document cut by a border counts on both sides.
static ax_status measure(const ax_corpus *c, int64_t begin, int64_t end, part *out)
{
    part p = {.begin = begin, .count = end - begin};
    int32_t eod = ax_tokenizer_eod(c->tokenizer);
    for (int64_t i = begin; i < end; i++) {
        const char *bytes;
        size_t length;
        AX_TRY(ax_tokenizer_decode(c->tokenizer, c->ids.id[i], &bytes, &length));
        p.bytes += (int64_t)length;
        p.documents += c->ids.id[i] == eod || i == end - 1;
    }
    *out = p;
    return AX_OK;
}

static ax_status load(ax_corpus *c, const ax_data_options *o, bool scoring)
{
    AX_CHECK(*o->train || (scoring && *o->valid), AX_EUSAGE,
             "%s is not set: name a text or a JSONL file", scoring ? "data.valid" : "data.train");
    if (!scoring || !*o->valid)
        AX_TRY(read_files(c, "data.train", o->train));
    int64_t total = c->ids.count;
    int64_t border = llround((double)total * (1.0 - o->valid_fraction));
    if (*o->valid) {
        border = total;
        AX_TRY(read_files(c, "data.valid", o->valid));
    }
    AX_TRY(measure(c, 0, border, &c->split[AX_TRAIN]));
    return measure(c, border, c->ids.count, &c->split[AX_VALID]);
}

static ax_status open_corpus(const ax_data_options *options, const ax_tokenizer *t, bool scoring,
                             ax_corpus **out)
{
    AX_CHECK(ax_tokenizer_eod(t) >= 0, AX_EUSAGE,
             "data.tokenizer=%s has no token that ends a document; name one as eos_token in a "
             "tokenizer_config.json beside it",
             ax_tokenizer_name(t));
    ax_corpus *c = calloc(1, sizeof *c);
    AX_CHECK(c, AX_ENOMEM, "no memory for the corpus");
    c->tokenizer = t;
    c->text_key = options->text_key;
    ax_status st = load(c, options, scoring);
    if (st != AX_OK) {
        ax_corpus_close(c);
        return st;
    }
    c->text_key = NULL;
    if (c->empty_files || c->empty_documents)
        ax_log(AX_LOG_WARN, "data", "skipped %lld empty files and %lld empty documents",
               (long long)c->empty_files, (long long)c->empty_documents);
    *out = c;
    return AX_OK;
}

ax_status ax_corpus_open(const ax_data_options *options, const ax_tokenizer *t, ax_corpus **out)
{
    return open_corpus(options, t, false, out);
}

ax_status ax_corpus_open_valid(const ax_data_options *options, const ax_tokenizer *t,
                               ax_corpus **out)
{
    return open_corpus(options, t, true, out);
}

void ax_corpus_close(ax_corpus *c)
{
    if (c)
        ax_ids_fini(&c->ids);
    free(c);
}

const int32_t *ax_corpus_tokens(const ax_corpus *c, ax_split split, int64_t *count)
{
    *count = c->split[split].count;
    return c->ids.id ? c->ids.id + c->split[split].begin : NULL;
}

int64_t ax_corpus_documents(const ax_corpus *c, ax_split split)
{
    return c->split[split].documents;
}

int64_t ax_corpus_bytes(const ax_corpus *c, ax_split split)
{
    return c->split[split].bytes;
}

int64_t ax_corpus_windows(const ax_corpus *c, ax_split split, int64_t seq)
{
    int64_t targets = c->split[split].count - 1;
    return targets < 1 ? 0 : (targets - 1) / seq + 1;
}

int64_t ax_corpus_window(const ax_corpus *c, ax_split split, int64_t seq, int64_t i,
                         const ax_row *out)
{
    int64_t count;
    const int32_t *ids = ax_corpus_tokens(c, split, &count);
    int64_t kept = count - 1 - i * seq;
    kept = kept < 0 ? 0 : kept > seq ? seq : kept;
    for (int64_t j = 0; j < seq; j++) {
        out->ids[j] = j < kept ? ids[i * seq + j] : ax_tokenizer_eod(c->tokenizer);
        out->positions[j] = (int32_t)j;
        out->targets[j] = j < kept ? ids[i * seq + j + 1] : -1;
    }
    return kept;
}
