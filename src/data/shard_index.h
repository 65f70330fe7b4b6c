// The .idx file of a Megatron pair: where sequences and documents lie in the .bin beside it.
//
// Little-endian, in this order: "MMIDIDX\0\0", uint64 version 1, uint8 code of the ids, uint64 S,
// uint64 D, int32[S] lengths in ids, int64[S] offsets in bytes, int64[D] the sequence with which
// each document begins, from 0 to S: D - 1 documents.
#pragma once
#include "base/err.h"

#include <stdint.h>

enum {
    AX_SHARD_INDEX_HEAD = 34,
    AX_SHARD_INT8 = 2, // codes of ids; the others are refused
    AX_SHARD_UINT8 = 1,
    AX_SHARD_INT16 = 3,
    AX_SHARD_INT32 = 4,
    AX_SHARD_INT64 = 5,
    AX_SHARD_UINT16 = 8,
};

typedef struct ax_shard_index {
    const char *path; // the caller's
    int fd;           // -1: none
    int code, width;  // of an id, in bytes
    int64_t sequences, documents, tokens;
} ax_shard_index;

// Reads all of it once, in blocks, and checks it against the .bin of `bin_bytes` bytes. On failure
// nothing is open.
ax_status ax_shard_index_open(const char *path, int64_t bin_bytes, ax_shard_index *out);
void ax_shard_index_close(ax_shard_index *x);

// As ax_shard_borders, whose checks are the caller's.
ax_status ax_shard_index_borders(const ax_shard_index *x, int64_t first, int64_t count,
                                 int64_t *begin);

// bytes[count] at `offset`, all of them: AX_EIO names the file, which may have been cut.
ax_status ax_shard_pread(int fd, const char *path, void *bytes, int64_t count, int64_t offset);
