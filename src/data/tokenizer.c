#include "data/tokenizer.h"

#include <stdlib.h>
#include <string.h>

enum { BYTES = 256, END_OF_DOCUMENT = 256, VOCABULARY = 257 };

struct ax_tokenizer {
    char byte[BYTES]; // what decoding points into
};

ax_status ax_tokenizer_open(const char *name, ax_tokenizer **out)
{
    AX_CHECK(strcmp(name, "byte") == 0, AX_EUSAGE, "data.tokenizer=%s: only 'byte' in this version",
             name);
    ax_tokenizer *t = malloc(sizeof *t);
    AX_CHECK(t, AX_ENOMEM, "no memory for a tokenizer");
    for (int i = 0; i < BYTES; i++)
        t->byte[i] = (char)i;
    *out = t;
    return AX_OK;
}

void ax_tokenizer_close(ax_tokenizer *t)
{
    free(t);
}

int64_t ax_tokenizer_vocab(const ax_tokenizer *t)
{
    (void)t;
    return VOCABULARY;
}

int32_t ax_tokenizer_eod(const ax_tokenizer *t)
{
    (void)t;
    return END_OF_DOCUMENT;
}

const char *ax_tokenizer_name(const ax_tokenizer *t)
{
    (void)t;
    return "byte";
}

static ax_status reserve(ax_ids *ids, int64_t more)
{
    if (more <= ids->room - ids->count)
        return AX_OK;
    int64_t room = ids->room ? ids->room : 1024;
    while (room - ids->count < more)
        room *= 2;
    int32_t *id = realloc(ids->id, (size_t)room * sizeof *id);
    AX_CHECK(id, AX_ENOMEM, "no memory for %lld token ids", (long long)room);
    ids->id = id;
    ids->room = room;
    return AX_OK;
}

ax_status ax_ids_push(ax_ids *ids, int32_t id)
{
    AX_TRY(reserve(ids, 1));
    ids->id[ids->count++] = id;
    return AX_OK;
}

void ax_ids_fini(ax_ids *ids)
{
    free(ids->id);
    *ids = (ax_ids){0};
}

ax_status ax_tokenizer_encode(const ax_tokenizer *t, const char *text, size_t length, ax_ids *ids)
{
    (void)t;
    AX_CHECK(length <= SIZE_MAX / 16, AX_ENOMEM, "a text of %zu bytes is too large", length);
    AX_TRY(reserve(ids, (int64_t)length));
    int32_t *to = ids->id + ids->count;
    for (size_t i = 0; i < length; i++)
        to[i] = (unsigned char)text[i];
    ids->count += (int64_t)length;
    return AX_OK;
}

ax_status ax_tokenizer_decode(const ax_tokenizer *t, int32_t id, const char **bytes, size_t *length)
{
    AX_CHECK(id >= 0 && id < VOCABULARY, AX_EFORMAT,
             "token id %d: the byte tokenizer has ids 0 to %d", (int)id, VOCABULARY - 1);
    *bytes = id < BYTES ? &t->byte[id] : "";
    *length = id < BYTES;
    return AX_OK;
}
