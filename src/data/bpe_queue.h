// The merges that a long word waits for, in order: lowest rank first, then leftmost.
//
// Of one rank, entries mostly come from left to right, so that each rank has a run to which they
// are appended, and taking the next is a step along it: the work is linear in the word. An entry
// that comes out of order goes to a heap beside the runs, which is right for any list of merges.
#pragma once
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct ax_bpe_run {
    int32_t *at;
    int32_t head, count, room;
} ax_bpe_run;

typedef struct ax_bpe_queue { // zero-initialised is empty
    ax_bpe_run *run;          // of every rank; NULL: all entries go to the heap
    int32_t *rank;            // a heap of the ranks whose run is not empty
    int64_t ranks, rank_count;
    uint64_t *heap; // rank << 32 | at
    int64_t heap_count, heap_room;
} ax_bpe_queue;

// Empties the queue. For words of many symbols `ranks` is how many ranks there are, else 0.
ax_status ax_bpe_queue_begin(ax_bpe_queue *q, int64_t ranks);
ax_status ax_bpe_queue_push(ax_bpe_queue *q, int32_t rank, int32_t at);
bool ax_bpe_queue_pop(ax_bpe_queue *q, int32_t *rank, int32_t *at); // false: empty
void ax_bpe_queue_fini(ax_bpe_queue *q);
