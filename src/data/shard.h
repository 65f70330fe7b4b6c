// A file of token ids, read where it lies: nothing of it is held in memory, whatever its size.
//
//     ax_shard *s;
//     AX_TRY(ax_shard_open("books", &s));                        // books.bin and books.idx
//     AX_TRY(ax_shard_read(s, vocab, ax_shard_tokens(s) - 9, 9, ids)); // the last nine
//
// Three formats, told apart by name and by first bytes:
//     PREFIX, PREFIX.bin, PREFIX.idx   Megatron's pair, where both files are there. It alone knows
//                                      documents, each of any number of sequences
//     FILE                             llm.c: 1024 bytes of header, then uint16 (magic 20240520,
//                                      version 1) or uint32 (20240801, version 7)
//     FILE:uint16, FILE:uint32         ids and nothing else, in the byte order of the machine
// Bare ids do not tell how wide they are, so a .bin that is none of the others is refused until
// its width is stated.
//
// An open shard is read-only and serves any number of threads.
#pragma once
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct ax_shard ax_shard;

// Whether `path` means a token file, sound or not; else it is a file of text.
bool ax_shard_is(const char *path);

// Checks every rule of the format that needs no look at the ids: an index is read once, in blocks.
// AX_EUSAGE: no such file, or a width that is missing or does not belong. AX_EFORMAT names the file
// and the sequence or document; AX_EUNSUPPORTED: ids that are no integers, multimodal sequences.
ax_status ax_shard_open(const char *path, ax_shard **out);
void ax_shard_close(ax_shard *s);

const char *ax_shard_path(const ax_shard *s); // of the file that holds the ids
int64_t ax_shard_tokens(const ax_shard *s);
int64_t ax_shard_documents(const ax_shard *s); // empty ones included; 0: the format does not tell
int64_t ax_shard_widest(const ax_shard *s);    // largest id that the width can hold

// ids[count] = tokens [first, first + count), which must lie in the file. AX_EFORMAT names file,
// token, id and vocabulary where an id is not in 0..vocab-1; AX_EIO: the file cannot be read, or
// was cut since it was opened.
ax_status ax_shard_read(const ax_shard *s, int64_t vocab, int64_t first, int64_t count,
                        int32_t *ids);
// The same for all of the file, in one pass from front to back.
ax_status ax_shard_check(const ax_shard *s, int64_t vocab);

// begin[count] = the token with which document first, first + 1, ... begins; number `documents` is
// the end of the file. Empty documents begin where the next one does.
ax_status ax_shard_borders(const ax_shard *s, int64_t first, int64_t count, int64_t *begin);
// The document that holds `token`.
ax_status ax_shard_find(const ax_shard *s, int64_t token, int64_t *document);
