// A collective as lists of chunks that any rank can do which sees the memory of all.
//
//     ax_call call = {...};                        // what all ranks have said
//     for (int64_t i = 0; i < ax_chunks_of(&call, list); i++)
//         ax_chunk_run(&call, list, i);            // in any order, on any rank
//
// There is one list for each rank: what is written to its memory, or, of an allreduce, its share of
// the vector, written to the memory of all. A chunk reads nothing that another chunk writes.
#pragma once
#include "comm/pieces.h"

typedef struct ax_call {
    ax_coll coll;
    ax_xfer x; // as every rank gave it, but for the addresses
    int ranks, root;
    const void *const *send; // of each rank; of a bcast: where its data is to go or is
    void *const *recv;
} ax_call;

// The chunks of one list: of some tens of microseconds each.
int64_t ax_chunks_of(const ax_call *c, int list);
int64_t ax_chunks_all(const ax_call *c);
void ax_chunk_run(const ax_call *c, int list, int64_t i);
