#include "comm/chunks.h"

#include <string.h>

enum { CHUNK_BYTES = 128 << 10 };

// Elements of the vector that one chunk covers: whole cache lines.
static int64_t chunk_elements(const ax_call *c)
{
    return CHUNK_BYTES / (int64_t)ax_dtype_size(c->x.dtype);
}

static int64_t chunks_in(const ax_call *c, int64_t n)
{
    int64_t chunk = chunk_elements(c);
    return (n + chunk - 1) / chunk;
}

int64_t ax_chunks_of(const ax_call *c, int list)
{
    ax_cut cut = ax_cut_of(c->coll, &c->x, c->ranks);
    switch (c->coll) {
    case AX_ALLREDUCE:
        return chunks_in(c, ax_cut_count(cut, list));
    case AX_REDUCE_SCATTER:
        return chunks_in(c, c->x.count); // what is beyond the limit is set to zero
    case AX_ALLGATHER:
        return c->ranks * chunks_in(c, c->x.count);
    case AX_BCAST:
        break;
    }
    return list == c->root ? 0 : chunks_in(c, c->x.count);
}

int64_t ax_chunks_all(const ax_call *c)
{
    int64_t all = 0;
    for (int list = 0; list < c->ranks; list++)
        all += ax_chunks_of(c, list);
    return all;
}

// Elements of the chunk that starts at `at` of n.
static int64_t length(const ax_call *c, int64_t at, int64_t n)
{
    int64_t chunk = chunk_elements(c);
    return n <= at ? 0 : n - at < chunk ? n - at : chunk;
}

static void fold(const ax_call *c, int64_t at, int64_t n, void *const *out, int outs, int64_t to)
{
    ax_fold(&(ax_fold_args){.op = c->x.op,
                            .dtype = c->x.dtype,
                            .from = c->send,
                            .ranks = c->ranks,
                            .at = at,
                            .count = n,
                            .out = out,
                            .outs = outs,
                            .out_at = to,
                            .stream = ax_is_stream(&c->x, c->coll, c->ranks)});
}

static void copy(const ax_call *c, void *to, const void *from, int64_t n)
{
    ax_put(to, from, (size_t)n * ax_dtype_size(c->x.dtype), ax_is_stream(&c->x, c->coll, c->ranks));
}

static void gather_chunk(const ax_call *c, ax_cut cut, int list, int64_t i)
{
    int64_t each = chunks_in(c, c->x.count);
    int p = (int)((list + i / each) % c->ranks); // each starts at another peer
    int64_t at = i % each * chunk_elements(c);
    copy(c, ax_at(c->recv[list], c->x.dtype, ax_cut_first(cut, p) + at),
         ax_at(c->send[p], c->x.dtype, at), length(c, at, ax_cut_count(cut, p)));
}

static void scatter_chunk(const ax_call *c, ax_cut cut, int list, int64_t i)
{
    int64_t at = i * chunk_elements(c), sums = length(c, at, ax_cut_count(cut, list));
    int64_t all = length(c, at, c->x.count);
    fold(c, ax_cut_first(cut, list) + at, sums, &c->recv[list], 1, at);
    memset(ax_at(c->recv[list], c->x.dtype, at + sums), 0,
           (size_t)(all - sums) * ax_dtype_size(c->x.dtype));
}

void ax_chunk_run(const ax_call *c, int list, int64_t i)
{
    ax_cut cut = ax_cut_of(c->coll, &c->x, c->ranks);
    int64_t at = i * chunk_elements(c);
    if (c->coll == AX_ALLGATHER) {
        gather_chunk(c, cut, list, i);
    } else if (c->coll == AX_REDUCE_SCATTER) {
        scatter_chunk(c, cut, list, i);
    } else if (c->coll == AX_ALLREDUCE) {
        int64_t first = ax_cut_first(cut, list) + at;
        fold(c, first, length(c, at, ax_cut_count(cut, list)), c->recv, c->ranks, first);
    } else {
        copy(c, ax_at(c->recv[list], c->x.dtype, at), ax_at(c->send[c->root], c->x.dtype, at),
             length(c, at, c->x.count));
    }
}
