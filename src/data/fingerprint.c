#include "data/fingerprint.h"

#include <stdlib.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

enum {
    ROOM = 1 << 16,         // tokens or borders that are read at once
    BLOCKS = 64,            // of a file that is not read as a whole
    FEW_DOCUMENTS = 1 << 18 // of an index that is
};

typedef struct printer {
    const ax_source *source;
    ax_source_file file;
    XXH3_state_t *state;
    void *room; // ROOM borders, or as many ids
} printer;

typedef ax_status read_some(printer *p, int64_t first, int64_t count);

static ax_status read_ids(printer *p, int64_t first, int64_t count)
{
    AX_TRY(ax_source_read(p->source, p->file.begin + first, count, p->room));
    XXH3_64bits_update(p->state, p->room, (size_t)count * sizeof(int32_t));
    return AX_OK;
}

// From the start of the file, so that what stands before it in a list does not matter.
static ax_status read_borders(printer *p, int64_t first, int64_t count)
{
    int64_t *begin = p->room;
    AX_TRY(ax_source_borders(p->source, p->file.first_document + first, count, begin));
    for (int64_t i = 0; i < count; i++)
        begin[i] -= p->file.begin;
    XXH3_64bits_update(p->state, begin, (size_t)count * sizeof *begin);
    return AX_OK;
}

// All of `total`, or blocks of it.
static ax_status walk(printer *p, int64_t total, bool whole, int64_t block, read_some *read)
{
    for (int64_t at = 0; whole && at < total; at += ROOM)
        AX_TRY(read(p, at, total - at < ROOM ? total - at : ROOM));
    int64_t gaps = BLOCKS - 1, spare = total - block;
    for (int64_t i = 0; !whole && i < BLOCKS; i++) // spare * i / gaps, which could be too large
        AX_TRY(read(p, spare / gaps * i + spare % gaps * i / gaps, block));
    return AX_OK;
}

static ax_status hash(printer *p)
{
    const ax_source_file *f = &p->file;
    const int64_t size[] = {f->count, f->documents};
    int64_t few = FEW_DOCUMENTS;
    XXH3_64bits_reset(p->state);
    XXH3_64bits_update(p->state, size, sizeof size);
    bool whole = f->held || f->count <= (int64_t)BLOCKS * ROOM;
    AX_TRY(walk(p, f->count, whole, ROOM, read_ids));
    return walk(p, f->documents, f->held || f->documents <= few, few / BLOCKS, read_borders);
}

ax_status ax_fingerprint_file(const ax_source *s, int file, uint64_t *out)
{
    printer p = {.source = s, .file = ax_source_file_at(s, file)};
    p.state = XXH3_createState();
    p.room = malloc(ROOM * sizeof(int64_t));
    ax_status st = p.state && p.room ? hash(&p)
                                     : ax_fail(AX_ENOMEM, __FILE__, __LINE__,
                                               "%s: no memory to read it", p.file.path);
    if (st == AX_OK)
        *out = XXH3_64bits_digest(p.state);
    XXH3_freeState(p.state);
    free(p.room);
    return st;
}
