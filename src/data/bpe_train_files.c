#include "data/bpe_train.h"
#include "data/documents.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 16 << 20 }; // of a text file; longer files are cut behind a line

static ax_status add_document(ax_bpe_trainer *t, const ax_document *d)
{
    if (d->text)
        return ax_bpe_trainer_add(t, d->text, d->length);
    AX_TRY(ax_bpe_trainer_add(t, d->prompt, d->prompt_length));
    return ax_bpe_trainer_add(t, d->completion, d->completion_length);
}

static ax_status add_documents(ax_bpe_trainer *t, const char *path, const char *text_key)
{
    ax_documents *d;
    ax_document document;
    bool found = true;
    AX_TRY(ax_documents_open(path, &(ax_documents_options){.text_key = text_key}, &d));
    ax_status st = AX_OK;
    while (st == AX_OK && (st = ax_documents_next(d, &document, &found)) == AX_OK && found)
        st = add_document(t, &document);
    ax_documents_close(d);
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

// A plain text is read in blocks: no part of the training needs it whole.
static ax_status add_text_file(ax_bpe_trainer *t, const char *path)
{
    FILE *f = fopen(path, "rb");
    AX_CHECK(f, AX_EUSAGE, "%s: %s", path, strerror(errno));
    ax_status st = add_text(t, f);
    if (st == AX_OK && ferror(f))
        st = ax_fail(AX_EIO, __FILE__, __LINE__, "%s: cannot be read: %s", path, strerror(errno));
    fclose(f);
    return st;
}

ax_status ax_bpe_trainer_add_file(ax_bpe_trainer *t, const char *path, const char *text_key)
{
    size_t n = strlen(path);
    bool packed = n > 4 && strcmp(path + n - 4, ".zst") == 0;
    return packed || ax_documents_has_lines(path) ? add_documents(t, path, text_key)
                                                  : add_text_file(t, path);
}
