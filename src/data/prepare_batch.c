#include "data/prepare_batch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT_BYTES = 4 * AX_BATCH_BYTES };

static ax_status make_room(ax_batch *b, size_t more)
{
    size_t room = b->room ? b->room : AX_BATCH_BYTES * 2;
    while (room - b->length < more)
        room *= 2;
    if (!b->line)
        b->line = malloc(AX_BATCH_LINES * sizeof *b->line);
    char *bytes = room > b->room ? realloc(b->bytes, room) : b->bytes;
    AX_CHECK(b->line && bytes, AX_ENOMEM, "no memory for %zu bytes of text", more);
    b->bytes = bytes;
    b->room = room;
    return AX_OK;
}

ax_status ax_batch_add(ax_batch *b, const ax_record *r, const char *path)
{
    AX_TRY(make_room(b, r->length));
    if (r->length > 0)
        memcpy(b->bytes + b->length, r->bytes, r->length);
    b->line[b->lines++] = (ax_batch_line){.begin = b->length, .record = *r, .path = path};
    b->length += r->length;
    return AX_OK;
}

bool ax_batch_is_full(const ax_batch *b)
{
    return b->length >= AX_BATCH_BYTES || b->lines == AX_BATCH_LINES;
}

static ax_status frame(const ax_batch_wish *wish, const ax_record *r, const ax_document *d,
                       ax_encoder *e, ax_ids *ids)
{
    if (wish->bos >= 0 && r->at == 0)
        AX_TRY(ax_ids_push(ids, wish->bos));
    AX_TRY(ax_encoder_continue(e, d->text, d->length, (size_t)r->at, ids));
    return wish->eod >= 0 && !r->goes_on ? ax_ids_push(ids, wish->eod) : AX_OK;
}

static void refuse(ax_batch_line *l, ax_status st, const char *reason)
{
    char why[AX_DOCUMENT_WHY], line[32] = "";
    if (l->record.line > 0)
        snprintf(line, sizeof line, "%" PRId64 ":", l->record.line);
    snprintf(why, sizeof why, "%s:%s %s", l->path, line, reason);
    l->st = st;
    l->why = strdup(why);
}

static void encode_document(ax_batch *b, ax_batch_line *l, const ax_document *d,
                            const ax_batch_wish *wish, ax_encoder *e)
{
    int64_t before = b->ids.count;
    if (!d->text) {
        refuse(l, AX_EUSAGE,
               "a prompt and its completion: a token file has no place for which ids to learn "
               "from; train on the JSONL itself");
        return;
    }
    if (d->length == 0 && l->record.at == 0)
        return;
    ax_status st = frame(wish, &l->record, d, e, &b->ids);
    if (st == AX_OK) {
        l->text_bytes = (int64_t)d->length;
        return;
    }
    b->ids.count = before;
    refuse(l, st, ax_error_text());
}

void ax_batch_encode(ax_batch *b, const ax_batch_wish *wish, ax_encoder *e)
{
    for (int64_t i = 0; i < b->lines; i++) {
        char why[AX_DOCUMENT_WHY];
        ax_document d;
        ax_batch_line *l = &b->line[i];
        l->record.bytes = b->bytes + l->begin;
        const ax_documents_options keys = {.text_key = wish->text_key};
        if (ax_document_parse(&l->record, l->path, &keys, &d, why)) {
            encode_document(b, l, &d, wish, e);
            ax_document_fini(&d);
        } else {
            l->st = AX_EFORMAT;
            l->why = strdup(why);
        }
        l->ids_end = b->ids.count;
    }
}

void ax_batch_clear(ax_batch *b)
{
    for (int64_t i = 0; i < b->lines; i++)
        free(b->line[i].why);
    b->lines = 0;
    b->length = 0;
    b->ids.count = 0;
    if (b->room > KEPT_BYTES) {
        free(b->bytes);
        b->bytes = NULL;
        b->room = 0;
    }
    if (b->ids.room > KEPT_BYTES)
        ax_ids_fini(&b->ids);
}

void ax_batch_fini(ax_batch *b)
{
    ax_batch_clear(b);
    free(b->bytes);
    free(b->line);
    ax_ids_fini(&b->ids);
    *b = (ax_batch){0};
}
