#include "data/bpe_queue.h"

#include <stdlib.h>
#include <string.h>

static ax_status no_memory(void)
{
    AX_FAIL(AX_ENOMEM, "no memory for the merges of a long word");
}

static void drop_runs(ax_bpe_queue *q)
{
    for (int64_t i = 0; q->run && i < q->ranks; i++)
        free(q->run[i].at);
    free(q->run);
    free(q->rank);
    q->run = NULL;
    q->rank = NULL;
    q->ranks = q->rank_count = 0;
}

// The runs of a long word are too large to keep for the next.
ax_status ax_bpe_queue_begin(ax_bpe_queue *q, int64_t ranks)
{
    drop_runs(q);
    q->heap_count = 0;
    if (ranks == 0)
        return AX_OK;
    q->run = calloc((size_t)ranks, sizeof *q->run);
    q->rank = malloc((size_t)ranks * sizeof *q->rank);
    q->ranks = ranks;
    return q->run && q->rank ? AX_OK : no_memory();
}

void ax_bpe_queue_fini(ax_bpe_queue *q)
{
    drop_runs(q);
    free(q->heap);
    *q = (ax_bpe_queue){0};
}

// ---- the heap of entries, four children a node

static ax_status push_entry(ax_bpe_queue *q, uint64_t key)
{
    if (q->heap_count == q->heap_room) {
        int64_t room = q->heap_room ? q->heap_room * 2 : 1024;
        uint64_t *heap = realloc(q->heap, (size_t)room * sizeof *heap);
        if (!heap)
            return no_memory();
        q->heap = heap;
        q->heap_room = room;
    }
    int64_t at = q->heap_count++;
    for (int64_t up; at > 0 && q->heap[up = (at - 1) / 4] > key; at = up)
        q->heap[at] = q->heap[up];
    q->heap[at] = key;
    return AX_OK;
}

static uint64_t pop_entry(ax_bpe_queue *q)
{
    uint64_t top = q->heap[0], key = q->heap[--q->heap_count];
    int64_t at = 0, n = q->heap_count;
    for (int64_t child; (child = at * 4 + 1) < n;) {
        int64_t least = child;
        for (int64_t i = child + 1; i < child + 4 && i < n; i++)
            if (q->heap[i] < q->heap[least])
                least = i;
        if (q->heap[least] >= key)
            break;
        q->heap[at] = q->heap[least];
        at = least;
    }
    q->heap[at] = key;
    return top;
}

// ---- the heap of ranks

static void push_rank(ax_bpe_queue *q, int32_t rank)
{
    int64_t at = q->rank_count++;
    for (int64_t up; at > 0 && q->rank[up = (at - 1) / 2] > rank; at = up)
        q->rank[at] = q->rank[up];
    q->rank[at] = rank;
}

static void pop_rank(ax_bpe_queue *q)
{
    int32_t last = q->rank[--q->rank_count];
    int64_t at = 0, n = q->rank_count;
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && q->rank[child + 1] < q->rank[child])
            child++;
        if (q->rank[child] >= last)
            break;
        q->rank[at] = q->rank[child];
    }
    q->rank[at] = last;
}

// ---- the queue

static ax_status append(ax_bpe_run *r, int32_t at)
{
    if (r->count == r->room) {
        int64_t room = r->room ? r->room + (int64_t)r->room / 2 : 16;
        int32_t *grown = room < INT32_MAX ? realloc(r->at, (size_t)room * sizeof *grown) : NULL;
        if (!grown)
            return no_memory();
        r->at = grown;
        r->room = (int32_t)room;
    }
    r->at[r->count++] = at;
    return AX_OK;
}

ax_status ax_bpe_queue_push(ax_bpe_queue *q, int32_t rank, int32_t at)
{
    uint64_t key = (uint64_t)rank << 32 | (uint32_t)at;
    if (!q->run)
        return push_entry(q, key);
    ax_bpe_run *r = &q->run[rank];
    if (r->head == r->count) {
        r->head = r->count = 0;
        AX_TRY(append(r, at));
        push_rank(q, rank);
        return AX_OK;
    }
    int32_t last = r->at[r->count - 1];
    if (at == last)
        return AX_OK; // the same entry again
    return at > last ? append(r, at) : push_entry(q, key);
}

bool ax_bpe_queue_pop(ax_bpe_queue *q, int32_t *rank, int32_t *at)
{
    uint64_t key = UINT64_MAX;
    if (q->rank_count) {
        const ax_bpe_run *r = &q->run[q->rank[0]];
        key = (uint64_t)q->rank[0] << 32 | (uint32_t)r->at[r->head];
    }
    if (q->heap_count && q->heap[0] <= key) {
        key = pop_entry(q);
    } else if (q->rank_count) {
        ax_bpe_run *r = &q->run[q->rank[0]];
        if (++r->head == r->count)
            pop_rank(q);
    } else {
        return false;
    }
    *rank = (int32_t)(key >> 32);
    *at = (int32_t)(uint32_t)key;
    return true;
}
