#include "data/pack.h"

#include <stdlib.h>

enum { FEW = 256 }; // borders read at once

void ax_pack_stream(int64_t begin, int64_t end, int64_t seq, ax_pack *out)
{
    int64_t targets = end - begin - 1;
    *out = (ax_pack){
        .begin = begin, .end = end, .seq = seq, .rows = targets < 1 ? 0 : (targets - 1) / seq + 1};
}

static ax_status add_row(ax_pack *p, int64_t begin, bool goes_on)
{
    if (p->rows == p->room) {
        int64_t room = p->room ? 2 * p->room : 256;
        int64_t *grown = realloc(p->row, (size_t)room * sizeof *grown);
        AX_CHECK(grown, AX_ENOMEM, "no memory to plan %lld rows of whole documents",
                 (long long)room);
        p->row = grown;
        p->room = room;
    }
    p->row[p->rows++] = 2 * begin + goes_on;
    return AX_OK;
}

// Gives tokens [begin, end), a document, a place; `*open` is where the present row begins.
static ax_status place_document(ax_pack *p, int64_t begin, int64_t end, int64_t *open)
{
    if (*open < 0 || end - *open > p->seq + 1) {
        AX_TRY(add_row(p, begin, false));
        *open = begin;
    }
    while (end - *open > p->seq + 1) {
        *open += p->seq;
        AX_TRY(add_row(p, *open, true));
    }
    return AX_OK;
}

static ax_status place_documents(ax_pack *p, const ax_source *s)
{
    int64_t border[FEW], open = -1, from = p->begin, next = 0, most = ax_source_documents(s);
    if (p->begin < p->end)
        AX_TRY(ax_source_find(s, p->begin, &next));
    for (next++; from < p->end; next += FEW) {
        int64_t n = most + 1 - next < FEW ? most + 1 - next : FEW;
        AX_TRY(ax_source_borders(s, next, n, border));
        for (int64_t i = 0; i < n && from < p->end; i++) {
            if (border[i] > from) // else empty
                AX_TRY(place_document(p, from, border[i], &open));
            from = border[i];
        }
    }
    return AX_OK;
}

ax_status ax_pack_whole(const ax_source *s, int64_t begin, int64_t end, int64_t seq, ax_pack *out)
{
    ax_pack p = {.begin = begin, .end = end, .seq = seq, .whole = true};
    ax_status st = place_documents(&p, s);
    if (st != AX_OK) {
        ax_pack_fini(&p);
        return st;
    }
    *out = p;
    return AX_OK;
}

void ax_pack_fini(ax_pack *p)
{
    free(p->row);
    *p = (ax_pack){0};
}

int64_t ax_pack_cut(const ax_pack *p)
{
    int64_t cut = 0;
    for (int64_t i = 1; p->whole && i < p->rows; i++)
        cut += p->row[i] % 2 && !(p->row[i - 1] % 2);
    return cut;
}

int64_t ax_pack_full_rows(const ax_pack *p)
{
    int64_t targets = p->end - p->begin - 1;
    if (p->whole)
        return p->rows;
    return targets < 1 ? 0 : targets / p->seq;
}

void ax_pack_row(const ax_pack *p, int64_t row, int64_t *begin, int64_t *end)
{
    if (!p->whole) {
        *begin = p->begin + row * p->seq;
        *end = p->end - *begin > p->seq + 1 ? *begin + p->seq + 1 : p->end;
        return;
    }
    *begin = p->row[row] / 2;
    bool last = row + 1 == p->rows;
    *end = last ? p->end : p->row[row + 1] / 2 + p->row[row + 1] % 2;
}
