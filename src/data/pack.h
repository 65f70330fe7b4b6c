// How a range of a source is cut into rows of `seq` inputs and seq targets.
//
// Stream: row i is tokens [i*seq, i*seq + seq] of the range, whatever documents they belong to; the
// last row may be shorter. Whole: a row is a range of whole documents, in order, taken until the
// next one would not fit (next-fit), so that rows are ranges here, too. Only a document longer than
// seq + 1 tokens is cut: it begins a row, each piece but the last fills one, and a piece begins
// with the last token of the one before, as in a stream, so that no target is lost.
//
// Whole rows are planned once, with 8 bytes a row.
#pragma once
#include "data/source.h"

typedef struct ax_pack {
    int64_t begin, end; // of the range, in the source
    int64_t seq, rows;
    bool whole;
    int64_t *row; // of whole: 2 * begin of the row + whether it goes on with a document
    int64_t room;
} ax_pack;

void ax_pack_stream(int64_t begin, int64_t end, int64_t seq, ax_pack *out);
// The range must begin and end with a document of a source whose borders are known.
ax_status ax_pack_whole(const ax_source *s, int64_t begin, int64_t end, int64_t seq, ax_pack *out);
void ax_pack_fini(ax_pack *p); // a zeroed one is legal

// Documents of whole rows that are longer than a row, and were cut.
int64_t ax_pack_cut(const ax_pack *p);

// Rows that are full: what training on a stream takes.
int64_t ax_pack_full_rows(const ax_pack *p);
// Tokens [*begin, *end) of the source, seq + 1 at most: inputs are all but the last, targets all
// but the first.
void ax_pack_row(const ax_pack *p, int64_t row, int64_t *begin, int64_t *end);
