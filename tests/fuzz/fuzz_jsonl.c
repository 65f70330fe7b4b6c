// Any bytes as lines of JSON: each is refused with its place, or gives texts in UTF-8 that lie
// where they may.
#include "base/log.h"
#include "data/documents.h"
#include "data/utf8.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look_at(const char *text, size_t length)
{
    if (text && ax_utf8_valid(text, length) != length)
        abort();
}

static void parse(const char *line, size_t length)
{
    char why[AX_DOCUMENT_WHY];
    ax_document d;
    ax_record r = {.bytes = line, .length = length, .line = 1};
    if (!ax_document_parse(&r, "fuzz", &(ax_documents_options){.text_key = "text"}, &d, why)) {
        if (strncmp(why, "fuzz:1: byte ", 13) != 0 || strtoul(why + 13, NULL, 10) > length)
            abort();
        return;
    }
    if (!d.text == !d.prompt)
        abort();
    look_at(d.text, d.length);
    look_at(d.prompt, d.prompt_length);
    look_at(d.completion, d.completion_length);
    ax_document_fini(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *at = (const char *)data, *end = at + size;
    ax_log_setup((ax_log_config){.ranks = 1, .muted = true, .level = AX_LOG_ERROR});
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((newline ? newline : end) - at);
        char *line = malloc(length ? length : 1); // of the exact size, for the sanitizer
        if (!line)
            abort();
        memcpy(line, at, length);
        parse(line, length);
        free(line);
        at += length + 1;
    }
    return 0;
}
