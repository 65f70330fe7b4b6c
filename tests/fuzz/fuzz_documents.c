// Any bytes as a file of documents. The first letter tells which: 'l' JSON lines, which must give
// the same packed into two frames of zstd; 't' a text; 'L' and 'T' the same as packed bytes.
// Documents are valid UTF-8, and of the lines that are not blank each is one or is skipped. The
// reader of JSON takes what jansson takes, and finds the same text there.
#include "base/log.h"
#include "data/documents.h"
#include "data/utf8.h"
#include "fuzz_folder.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct tally {
    int64_t documents, skipped, lines;
    uint64_t hash; // of all texts
    ax_status end;
} tally;

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void add_text(tally *t, const char *text, size_t length, bool line)
{
    require(!line || length == 0 || ax_utf8_valid(text, length) == length);
    for (size_t i = 0; i < length; i++)
        t->hash = (t->hash ^ (unsigned char)text[i]) * 1099511628211u;
    t->hash = (t->hash ^ length) * 1099511628211u;
}

static tally read_all(const char *path, ax_documents_bad on_error)
{
    ax_documents_options options = {.text_key = "text", .on_error = on_error};
    ax_documents *d;
    ax_document doc;
    bool found = true;
    tally t = {.end = ax_documents_open(path, &options, &d)};
    if (t.end != AX_OK)
        return t;
    while ((t.end = ax_documents_next(d, &doc, &found)) == AX_OK && found) {
        t.documents++;
        require(doc.text || (doc.prompt && doc.completion) || (!doc.line && !doc.length));
        add_text(&t, doc.text, doc.length, doc.line > 0);
        add_text(&t, doc.prompt, doc.prompt_length, true);
        add_text(&t, doc.completion, doc.completion_length, true);
    }
    t.skipped = ax_documents_skipped(d);
    t.lines = ax_documents_lines(d);
    require(t.skipped == 0 || on_error == AX_DOCUMENTS_SKIP);
    require(t.documents + t.skipped <= (t.lines ? t.lines : 1));
    ax_documents_close(d);
    return t;
}

static void check_packed(const uint8_t *data, size_t size, const tally *plain)
{
    size_t half = size / 2, room = 2 * ZSTD_compressBound(size), n, m;
    uint8_t *packed = malloc(room);
    require(packed != NULL);
    n = ZSTD_compress(packed, room, data, half, 1);
    require(!ZSTD_isError(n));
    m = ZSTD_compress(packed + n, room - n, data + half, size - half, 1);
    require(!ZSTD_isError(m));
    tally t = read_all(fuzz_file("d.jsonl.zst", packed, n + m), AX_DOCUMENTS_SKIP);
    free(packed);
    require(t.end == plain->end && t.documents == plain->documents && t.hash == plain->hash &&
            t.skipped == plain->skipped && t.lines == plain->lines);
}

// What jansson refuses for reasons of its own.
static bool is_particular(const json_error_t *e)
{
    return strstr(e->text, "overflow") || strstr(e->text, "Unicode") || strstr(e->text, "NUL");
}

static void compare_with_jansson(const ax_record *r)
{
    const ax_documents_options keys = {.text_key = "text"};
    char why[AX_DOCUMENT_WHY];
    ax_document d = {0};
    json_error_t error;
    json_t *tree =
        json_loadb(r->bytes, r->length, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &error);
    const json_t *text = json_object_get(tree, "text");
    // A block of the exact size, so that a sanitizer sees the first byte read behind it.
    ax_record exact = *r;
    char *bytes = malloc(r->length);
    require(bytes != NULL);
    exact.bytes = memcpy(bytes, r->bytes, r->length);
    if (ax_document_parse(&exact, "d", &keys, &d, why)) {
        require((tree || is_particular(&error)) && !d.text != !d.prompt);
        if (d.text && tree)
            require(d.length == json_string_length(text) &&
                    memcmp(d.text, json_string_value(text), d.length) == 0);
        ax_document_fini(&d);
    } else {
        require(!json_is_string(text) || strstr(why, "twice") || strstr(why, "nested deeper"));
        require(strstr(why, ": byte ") &&
                strtoul(strstr(why, ": byte ") + 7, NULL, 10) <= r->length + r->skipped);
    }
    free(bytes);
    json_decref(tree);
}

static void compare_lines(const char *path)
{
    ax_documents_options options = {.text_key = "text"};
    ax_documents *d;
    ax_record r;
    bool found;
    require(ax_documents_open(path, &options, &d) == AX_OK);
    while (ax_documents_read(d, &r, &found) == AX_OK && found)
        compare_with_jansson(&r);
    ax_documents_close(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ax_log_setup((ax_log_config){.ranks = 1, .muted = true, .level = AX_LOG_ERROR});
    const char *name = size == 0        ? NULL
                       : data[0] == 'l' ? "d.jsonl"
                       : data[0] == 'L' ? "d.jsonl.zst"
                       : data[0] == 't' ? "d.txt"
                       : data[0] == 'T' ? "d.txt.zst"
                                        : NULL;
    if (!name)
        return 0;
    const char *path = fuzz_file(name, data + 1, size - 1);
    tally strict = read_all(path, AX_DOCUMENTS_STOP);
    tally t = read_all(path, AX_DOCUMENTS_SKIP);
    require(strict.documents <= t.documents);
    if (data[0] == 'l') {
        require(t.end == AX_OK && (t.skipped == 0) == (strict.end == AX_OK));
        compare_lines(path);
        if (size % 4 == 0) // it is slow
            check_packed(data + 1, size - 1, &t);
    }
    return 0;
}
