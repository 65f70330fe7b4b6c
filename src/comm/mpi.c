// Ranks are processes; any MPI 3 library. Requests are small state machines that a poll advances.
//
// A communicator whose ranks are all on one machine goes through memory that they share
// (comm/mpi_node.h, comm/window.h). What follows is for the others, and for machines without room
// for a window.
//
// Sums are made here, never by the library, because its order of adding depends on sizes and
// versions: each rank gets its piece from all peers, in chunks that fit a bounded staging buffer,
// and adds them in rank order. For the same reason ranks that share a machine do not add among
// themselves first: the order of all ranks is the only one that every placement can keep. An
// allreduce then gathers the pieces; a small one gathers the vectors of all ranks and adds on each.
//
// Pieces travel point to point where MPI_Ialltoallv would do the same through int displacements,
// which end at 2^31 elements.
#include "comm/comm.h"

#include "base/log.h"
#include "comm/mpi_node.h"

#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    STAGE_BYTES = 4 << 20, // of each communicator
    SMALL_BYTES = 4096,    // an allreduce up to here is one allgather
    ROUND_BYTES = 4 << 20, // of a gather or broadcast: libraries copy what is larger into memory
                           // that they map and unmap each time
    SPINS = 2000,          // tests before waiting more politely
    SPINS_CROWDED = 20,    // the same when this node has more ranks than cores
    YIELDS = 200,          // then this many yields, then naps
    NAP_US = 20,
    NAP_MOST_US = 200,
    TAG = 1,
};

enum { STEP_START, STEP_SMALL, STEP_SUM, STEP_GATHER, STEP_BCAST };

typedef struct peer_comm {
    ax_comm base;
    MPI_Comm comm;
    bool is_world; // this communicator ends MPI
    bool finalize; // we started MPI
    bool broken;   // an MPI call failed: peers may no longer be there to meet
    int spins;
    ax_mpi_node *node; // the world's; every communicator of the job uses it
    ax_window window;  // ranks 0: through messages
    unsigned char *staging;
    const void **from;    // addresses of one element range, by rank
    int *counts, *displs; // of the collective in flight
    MPI_Request *flight;  // pending ones of the head request
    MPI_Status *statuses; // of them; MPI_STATUSES_IGNORE makes gcc warn of MPICH's prototype
    int flying;
} peer_comm;

static ax_status mpi_fail(peer_comm *m, const char *call, int code)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    m->broken = true;
    AX_FAIL(AX_ECOMM, "%s on %s failed: %s", call, m->base.name, text);
}

#define MPI_TRY(m, call, ...)                                                                      \
    do {                                                                                           \
        int mpi_code = call(__VA_ARGS__);                                                          \
        if (mpi_code != MPI_SUCCESS)                                                               \
            return mpi_fail(m, #call, mpi_code);                                                   \
    } while (0)

static MPI_Datatype type_of(ax_dtype dtype)
{
    switch (dtype) {
    case AX_F32:
        return MPI_FLOAT;
    case AX_F64:
        return MPI_DOUBLE;
    case AX_BF16:
        return MPI_UINT16_T;
    case AX_I32:
        break;
    }
    return MPI_INT32_T;
}

// ---- messages in flight ----

static ax_status send_to(peer_comm *m, const ax_req *r, const void *base, int64_t at, int64_t n,
                         int peer)
{
    if (n > 0)
        MPI_TRY(m, MPI_Isend, ax_at(base, r->x.dtype, at), (int)n, type_of(r->x.dtype), peer, TAG,
                m->comm, &m->flight[m->flying++]);
    return AX_OK;
}

static ax_status receive_from(peer_comm *m, const ax_req *r, void *base, int64_t at, int64_t n,
                              int peer)
{
    if (n > 0)
        MPI_TRY(m, MPI_Irecv, ax_at(base, r->x.dtype, at), (int)n, type_of(r->x.dtype), peer, TAG,
                m->comm, &m->flight[m->flying++]);
    return AX_OK;
}

static void nap(long us)
{
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

// Whether everything in flight has landed. A rank that waits must not take the core from the peer
// it waits for: some libraries never yield by themselves.
static ax_status landed(peer_comm *m, bool block, bool *all)
{
    long us = NAP_US;
    for (int tries = 0;; tries++) {
        int done = 1;
        if (m->flying > 0)
            MPI_TRY(m, MPI_Testall, m->flying, m->flight, &done, m->statuses);
        *all = done;
        if (done)
            m->flying = 0;
        if (done || !block)
            return AX_OK;
        if (tries < m->spins)
            continue;
        if (tries < m->spins + YIELDS && m->spins == SPINS) {
            sched_yield();
            continue;
        }
        nap(us);
        us = us * 2 < NAP_MOST_US ? us * 2 : NAP_MOST_US;
    }
}

// ---- sums ----

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

// Elements from `at` on that the next message of a piece of n elements carries.
static int64_t next_part(int64_t n, int64_t at, int64_t most)
{
    return n > at ? least(n - at, most) : 0;
}

// Elements of staging that belong to one rank.
static int64_t slot_elements(const peer_comm *m, ax_dtype dtype)
{
    int64_t bytes = STAGE_BYTES / m->base.size / 64 * 64;
    return bytes / (int64_t)ax_dtype_size(dtype);
}

static bool is_small(const peer_comm *m, const ax_req *r)
{
    int64_t most = SMALL_BYTES / (int64_t)ax_dtype_size(r->x.dtype);
    return r->x.count <= least(most, slot_elements(m, r->x.dtype));
}

static ax_status post_sum_chunk(peer_comm *m, const ax_req *r)
{
    int size = m->base.size, me = m->base.rank;
    ax_cut cut = ax_cut_of(r->coll, &r->x, size);
    int64_t slot = slot_elements(m, r->x.dtype), n = ax_cut_count(cut, me);
    for (int i = 1; i < size; i++) {
        int p = (me + size - i) % size;
        AX_TRY(receive_from(m, r, m->staging, p * slot, next_part(n, r->at, slot), p));
    }
    for (int i = 1; i < size; i++) {
        int p = (me + i) % size;
        int64_t part = next_part(ax_cut_count(cut, p), r->at, slot);
        AX_TRY(send_to(m, r, r->x.send, ax_cut_first(cut, p) + r->at, part, p));
    }
    return AX_OK;
}

static void add_sum_chunk(const peer_comm *m, const ax_req *r, ax_cut cut)
{
    const ax_xfer *x = &r->x;
    int me = m->base.rank;
    int64_t slot = slot_elements(m, x->dtype), first = ax_cut_first(cut, me);
    for (int p = 0; p < m->base.size; p++)
        m->from[p] = ax_at(m->staging, x->dtype, p * slot);
    m->from[me] = ax_at(x->send, x->dtype, first + r->at);
    int64_t to = r->coll == AX_ALLREDUCE ? first + r->at : r->at;
    ax_fold(&(ax_fold_args){.op = x->op,
                            .dtype = x->dtype,
                            .from = m->from,
                            .ranks = m->base.size,
                            .count = next_part(ax_cut_count(cut, me), r->at, slot),
                            .out = &x->recv,
                            .outs = 1,
                            .out_at = to});
}

static ax_status begin_gather(peer_comm *m, ax_req *r);

static ax_status step_sum(peer_comm *m, ax_req *r)
{
    const ax_xfer *x = &r->x;
    ax_cut cut = ax_cut_of(r->coll, x, m->base.size);
    add_sum_chunk(m, r, cut);
    r->at += slot_elements(m, x->dtype);
    if (r->at < ax_cut_count(cut, 0)) // the longest piece
        return post_sum_chunk(m, r);
    if (r->coll == AX_ALLREDUCE)
        return begin_gather(m, r);
    int64_t n = ax_cut_count(cut, m->base.rank);
    memset(ax_at(x->recv, x->dtype, n), 0, (size_t)(x->count - n) * ax_dtype_size(x->dtype));
    r->done = true;
    return AX_OK;
}

static ax_status begin_small(peer_comm *m, ax_req *r)
{
    r->stage = STEP_SMALL;
    MPI_Datatype type = type_of(r->x.dtype);
    int n = (int)r->x.count;
    MPI_TRY(m, MPI_Iallgather, r->x.send, n, type, m->staging, n, type, m->comm, &m->flight[0]);
    m->flying = 1;
    return AX_OK;
}

static ax_status step_small(peer_comm *m, ax_req *r)
{
    const ax_xfer *x = &r->x;
    for (int p = 0; p < m->base.size; p++)
        m->from[p] = ax_at(m->staging, x->dtype, p * x->count);
    ax_fold(&(ax_fold_args){.op = x->op,
                            .dtype = x->dtype,
                            .from = m->from,
                            .ranks = m->base.size,
                            .count = x->count,
                            .out = &x->recv,
                            .outs = 1});
    r->done = true;
    return AX_OK;
}

// ---- gathers and broadcasts ----

// Elements of each piece that one round moves.
static int64_t round_elements(const peer_comm *m, ax_dtype dtype)
{
    int64_t n = ROUND_BYTES / m->base.size / (int64_t)ax_dtype_size(dtype);
    return n > 64 ? n / 64 * 64 : 64;
}

// One call of the library, where all displacements are ints.
static ax_status gather_at_once(peer_comm *m, const ax_req *r, ax_cut cut, const void *own)
{
    int64_t most = round_elements(m, r->x.dtype);
    for (int p = 0; p < m->base.size; p++) {
        m->counts[p] = (int)next_part(ax_cut_count(cut, p), r->at, most);
        m->displs[p] = (int)(ax_cut_first(cut, p) + r->at);
    }
    MPI_Datatype type = type_of(r->x.dtype);
    const void *mine = ax_at(own, r->x.dtype, r->at);
    bool in_place = mine == ax_at(r->x.recv, r->x.dtype, m->displs[m->base.rank]);
    MPI_TRY(m, MPI_Iallgatherv, in_place ? MPI_IN_PLACE : mine,
            in_place ? 0 : m->counts[m->base.rank], type, r->x.recv, m->counts, m->displs, type,
            m->comm, &m->flight[0]);
    m->flying = 1;
    return AX_OK;
}

static ax_status gather_by_messages(peer_comm *m, const ax_req *r, ax_cut cut, const void *own)
{
    int size = m->base.size, me = m->base.rank;
    int64_t most = round_elements(m, r->x.dtype);
    for (int i = 1; i < size; i++) {
        int p = (me + size - i) % size;
        int64_t part = next_part(ax_cut_count(cut, p), r->at, most);
        AX_TRY(receive_from(m, r, r->x.recv, ax_cut_first(cut, p) + r->at, part, p));
    }
    int64_t part = next_part(ax_cut_count(cut, me), r->at, most);
    ax_put(ax_at(r->x.recv, r->x.dtype, ax_cut_first(cut, me) + r->at),
           ax_at(own, r->x.dtype, r->at), (size_t)part * ax_dtype_size(r->x.dtype), false);
    for (int i = 1; i < size; i++)
        AX_TRY(send_to(m, r, own, r->at, part, (me + i) % size));
    return AX_OK;
}

static ax_status post_gather_round(peer_comm *m, const ax_req *r)
{
    ax_cut cut = ax_cut_of(r->coll, &r->x, m->base.size);
    const void *own = r->x.send;
    if (r->coll == AX_ALLREDUCE)
        own = ax_at(r->x.recv, r->x.dtype, ax_cut_first(cut, m->base.rank));
    return cut.total <= INT32_MAX ? gather_at_once(m, r, cut, own)
                                  : gather_by_messages(m, r, cut, own);
}

static ax_status begin_gather(peer_comm *m, ax_req *r)
{
    r->stage = STEP_GATHER;
    r->at = 0;
    return post_gather_round(m, r);
}

static ax_status step_gather(peer_comm *m, ax_req *r)
{
    ax_cut cut = ax_cut_of(r->coll, &r->x, m->base.size);
    r->at += round_elements(m, r->x.dtype);
    r->done = r->at >= ax_cut_count(cut, 0);
    return r->done ? AX_OK : post_gather_round(m, r);
}

static ax_status step_bcast(peer_comm *m, ax_req *r)
{
    const ax_xfer *x = &r->x;
    int64_t part = next_part(x->count, r->at, ROUND_BYTES / (int64_t)ax_dtype_size(x->dtype));
    r->done = part == 0;
    if (r->done)
        return AX_OK;
    MPI_TRY(m, MPI_Ibcast, ax_at(x->recv, x->dtype, r->at), (int)part, type_of(x->dtype), r->root,
            m->comm, &m->flight[0]);
    m->flying = 1;
    r->at += part;
    return AX_OK;
}

static ax_status begin(peer_comm *m, ax_req *r)
{
    if (r->coll == AX_ALLGATHER)
        return begin_gather(m, r);
    if (r->coll == AX_BCAST) {
        r->stage = STEP_BCAST;
        return step_bcast(m, r);
    }
    if (r->coll == AX_ALLREDUCE && is_small(m, r))
        return begin_small(m, r);
    r->stage = STEP_SUM;
    return post_sum_chunk(m, r);
}

// Everything in flight has landed: use it and send what comes next.
static ax_status step(peer_comm *m, ax_req *r)
{
    switch (r->stage) {
    case STEP_START:
        return begin(m, r);
    case STEP_SMALL:
        return step_small(m, r);
    case STEP_SUM:
        return step_sum(m, r);
    case STEP_GATHER:
        return step_gather(m, r);
    default:
        return step_bcast(m, r);
    }
}

static ax_status mpi_advance(ax_comm *c, ax_req *r, bool block)
{
    peer_comm *m = c->impl;
    if (m->window.ranks) {
        ax_window_advance(&m->window, r, block);
        return AX_OK;
    }
    while (!r->done) {
        bool all;
        AX_TRY(landed(m, block, &all));
        if (!all)
            return AX_OK;
        AX_TRY(step(m, r));
    }
    return AX_OK;
}

// ---- opening, splitting, closing ----

static void peer_free(peer_comm *m)
{
    if (!m)
        return;
    free(m->staging);
    free(m->from);
    free(m->counts);
    free(m->displs);
    free(m->flight);
    free(m->statuses);
    free(m);
}

static const ax_comm_ops mpi_ops;

// Collective over `comm`. Takes it over on success.
static ax_status peer_open(MPI_Comm comm, int spins, ax_mpi_node *node, peer_comm **out)
{
    int rank, size;
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    size_t n = (size_t)size;
    peer_comm *m = calloc(1, sizeof *m);
    AX_CHECK(m, AX_ENOMEM, "no memory for a communicator of %d ranks", size);
    m->base.ops = &mpi_ops;
    m->base.rank = rank;
    m->base.size = size;
    m->base.impl = m;
    m->comm = comm;
    m->spins = spins;
    m->node = node;
    ax_status st = size > 1 ? ax_mpi_node_window(node, &comm, spins, &m->window) : AX_OK;
    bool stages = size > 1 && m->window.ranks == 0;
    m->staging = stages ? aligned_alloc(64, STAGE_BYTES) : NULL;
    m->from = calloc(n, sizeof *m->from);
    m->counts = calloc(n, sizeof *m->counts);
    m->displs = calloc(n, sizeof *m->displs);
    m->flight = calloc(2 * n, sizeof(MPI_Request));
    m->statuses = calloc(2 * n, sizeof(MPI_Status));
    bool complete =
        m->from && m->counts && m->displs && m->flight && m->statuses && (m->staging || !stages);
    if (st == AX_OK && complete) {
        *out = m;
        return AX_OK;
    }
    ax_mpi_node_return(node, &m->window, false);
    peer_free(m);
    AX_TRY(st);
    AX_FAIL(AX_ENOMEM, "no memory for a communicator of %d ranks", size);
}

static ax_status mpi_split(ax_comm *c, int color, int key, ax_comm **out)
{
    peer_comm *m = c->impl, *made;
    MPI_Comm comm;
    MPI_TRY(m, MPI_Comm_split, m->comm, color < 0 ? MPI_UNDEFINED : color, key, &comm);
    *out = NULL;
    if (comm == MPI_COMM_NULL)
        return AX_OK;
    ax_status st = peer_open(comm, m->spins, m->node, &made);
    if (st != AX_OK) {
        MPI_Comm_free(&comm);
        return st;
    }
    *out = &made->base;
    return AX_OK;
}

static void mpi_close(ax_comm *c)
{
    peer_comm *m = c->impl;
    // After a failure the peers may be gone. Leaving without a farewell is how the launcher learns
    // that the job has failed.
    bool farewell = !m->broken && c->failed == AX_OK;
    ax_mpi_node_return(m->node, &m->window, farewell);
    if (farewell && m->is_world)
        MPI_Barrier(m->comm);
    if (m->is_world)
        ax_mpi_node_close(m->node, farewell);
    if (farewell) {
        MPI_Comm_free(&m->comm);
        if (m->is_world && m->finalize)
            MPI_Finalize();
    }
    peer_free(m);
}

static void mpi_abort(ax_comm *c, const char *why)
{
    (void)c;
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    ax_log(AX_LOG_ERROR, NULL, "rank %d failed: %s; the job ends", rank, why);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static ax_status mpi_alloc(ax_comm *c, size_t bytes, void **out)
{
    void *mem = aligned_alloc(64, (bytes + 63) / 64 * 64);
    AX_CHECK(mem || bytes == 0, AX_ENOMEM, "%s: no %zu bytes for a communicator's buffer", c->name,
             bytes);
    *out = mem;
    return AX_OK;
}

static void mpi_free(ax_comm *c, void *mem, size_t bytes)
{
    (void)c, (void)bytes;
    free(mem);
}

static const ax_comm_ops mpi_ops = {
    .name = "mpi",
    .split = mpi_split,
    .close = mpi_close,
    .abort = mpi_abort,
    .advance = mpi_advance,
    .alloc = mpi_alloc,
    .free = mpi_free,
};

void ax_comm_mpi_library(char *text, size_t size)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = ""; // several lines, with tabs
    int length = 0;
    MPI_Get_library_version(version, &length);
    version[strcspn(version, "\n,")] = '\0';
    size_t n = 0;
    for (const char *c = version; *c && n + 1 < size; c++) {
        bool blank = *c == ' ' || *c == '\t';
        if (!blank || (c[1] != ' ' && c[1] != '\t'))
            text[n++] = blank ? ' ' : *c;
    }
    if (size)
        text[n] = '\0';
}

// A launcher of another MPI starts N programs that each believe to be alone: they would all train
// the same model and write the same files.
static ax_status check_launcher(int size)
{
    ax_launch launch = ax_comm_launch();
    if (launch.tasks <= 1 || size > 1)
        return AX_OK;
    char library[64];
    ax_comm_mpi_library(library, sizeof library);
    AX_FAIL(AX_EUNSUPPORTED,
            "%s started %d tasks, but the MPI of this build (%s) sees 1: start it with the "
            "launcher of that MPI, or build for the other",
            launch.launcher, launch.tasks, library);
}

static int spins_here(const ax_mpi_node *node)
{
    return ax_mpi_node_ranks(node) > sysconf(_SC_NPROCESSORS_ONLN) ? SPINS_CROWDED : SPINS;
}

static ax_status open_over(MPI_Comm comm, peer_comm **out)
{
    ax_mpi_node *node;
    AX_TRY(ax_mpi_node_open(&comm, &node));
    ax_status st = peer_open(comm, spins_here(node), node, out);
    if (st != AX_OK)
        ax_mpi_node_close(node, false);
    return st;
}

static ax_status open_world(bool finalize, ax_comm **world)
{
    int size = 1;
    MPI_Comm comm;
    peer_comm *m;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    AX_TRY(check_launcher(size));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    AX_CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &comm) == MPI_SUCCESS, AX_ECOMM, "MPI_Comm_dup failed");
    ax_status st = open_over(comm, &m);
    if (st != AX_OK) {
        MPI_Comm_free(&comm);
        return st;
    }
    strcpy(m->base.name, "world");
    m->is_world = true;
    m->finalize = finalize;
    *world = &m->base;
    return AX_OK;
}

ax_status ax_comm_mpi_open(ax_comm **world)
{
    int started = 0, threads;
    MPI_Initialized(&started);
    if (!started)
        AX_CHECK(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &threads) == MPI_SUCCESS,
                 AX_ECOMM, "MPI_Init_thread failed");
    ax_status st = open_world(!started, world);
    if (st != AX_OK && !started)
        MPI_Finalize();
    return st;
}
