// Writes Megatron's pair PREFIX.bin and PREFIX.idx, a sequence a document.
//
//     ax_shard_writer *w;
//     AX_TRY(ax_shard_writer_open("books", vocab, &w));   // refuses what is there already
//     AX_TRY(ax_shard_writer_add(w, ids, count));         // a document; or put, put, ..., end
//     AX_TRY(ax_shard_writer_finish(w));                  // now, and only now, the pair is there
//     ax_shard_writer_close(w);                           // unfinished: nothing is left
//
// Both files are written beside their names (.tmp-BASE.bin, .tmp-BASE.idx), synced, and renamed,
// the .bin first: without its .idx it is not taken for a token file. Memory is a few buffers,
// whatever the number of documents. Ids are uint16 where vocab < 65500, as Megatron has it, else
// int32. The caller holds a lock on PREFIX: temporaries of a killed writer are removed.
#pragma once
#include "base/err.h"

#include <stdint.h>

typedef struct ax_shard_writer ax_shard_writer;

// AX_EUSAGE: one of the two is there. AX_EIO names the file.
ax_status ax_shard_writer_open(const char *prefix, int64_t vocab, ax_shard_writer **out);
// AX_EFORMAT: an id is not in 0..vocab-1, or a document has 2^31 ids or more. AX_EIO: a full disk
// and its like; the writer is then only good for closing.
ax_status ax_shard_writer_add(ax_shard_writer *w, const int32_t *ids, int64_t count);
// The same in parts: put appends to the document under way, end ends it, drop forgets it.
ax_status ax_shard_writer_put(ax_shard_writer *w, const int32_t *ids, int64_t count);
ax_status ax_shard_writer_end(ax_shard_writer *w);
ax_status ax_shard_writer_drop(ax_shard_writer *w);
ax_status ax_shard_writer_finish(ax_shard_writer *w);
void ax_shard_writer_close(ax_shard_writer *w);

int ax_shard_writer_width(const ax_shard_writer *w); // bytes of an id
