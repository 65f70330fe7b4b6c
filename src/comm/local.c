// Ranks are threads of one process and read one another's memory directly.
//
// A group (the shared half of a communicator) has one counter of arrivals. Phase k of the group is
// over when the counter has reached k * ranks; every rank arrives once a phase and may not arrive
// at the next before this one is over. A collective is one phase, and the work after it:
//
//     say where my buffers are; arrive | take chunks until there are none; all chunks are done
//
// Whoever is there does the work, its own share first: a rank that waits reads and writes the
// memory of those that still compute. Once all have arrived no rank needs another to come back.
// A small collective copies its data into the group's own memory and needs the phase only. A slot
// is one of two that alternate, so it is rewritten when all ranks have passed the collective after.
#include "comm/comm.h"

#include "base/log.h"
#include "comm/chunks.h"

#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    SMALL_BYTES = 4096, // up to here a copy is cheaper than another phase
    SPINS = 2000,       // looks at the counter before sleeping: some microseconds
    SPINS_CROWDED = 50, // the same with more ranks than cores: the peer needs this core
    NAP_MS = 50,        // a sleeping rank looks at the abort flag this often
};

// Work that one poll may do: kernels wait for it.
static const double poll_s = 1e-3;

// All communicators of one ax_comm_local_open.
typedef struct world {
    atomic_int groups;  // open; the last one takes the world along
    atomic_int claimed; // somebody is writing `why`
    atomic_int guilty;  // rank + 1 that ended the job; 0: none
    atomic_int reading; // ranks that are inside a peer's memory
    int spins;
    char why[200];
    bool said[]; // of each rank: it has named the guilty one, or is it
} world;

// What a rank says about its current collective.
typedef struct slot {
    const void *send;
    void *recv;
    int64_t count, limit;
    ax_coll coll;
    ax_dtype dtype;
    ax_redop op;
    int root;
    _Alignas(64) atomic_llong next; // chunk of this rank's list that nobody has taken yet
    _Alignas(64) unsigned char copy[SMALL_BYTES];
} slot;

typedef struct group {
    _Alignas(64) atomic_uint arrived; // all arrivals of all phases; wraps
    atomic_int sleepers;
    atomic_uint finished[2]; // chunks that are done, of the two collectives that alternate
    _Alignas(64) world *world;
    atomic_int members; // ranks that have not closed it; the last one frees it
    int ranks;
    slot slots[]; // two of each rank
} group;

// One rank's half of a communicator.
typedef struct ticket {
    int32_t color, key;
} ticket;

typedef struct member {
    ax_comm base;
    group *group;
    int world_rank;
    uint32_t phase; // arrivals of this rank
    uint32_t turn;  // collectives of this rank; picks the slot
    int list;       // whose chunks this rank takes now, counted from its own
    ax_call call;   // the collective under way
    // Scratch, one a rank: made here, because a split that lacks memory on one rank only would
    // leave the others waiting.
    const void **send;
    void **recv;
    ticket *tickets;
    group **groups;
} member;

enum { STAGE_SAY, STAGE_ARRIVE, STAGE_MOVE, STAGE_LEAVE };

// ---- phases ----

static void wake(group *g, atomic_uint *word)
{
    // Sequentially consistent on both sides: either this load sees the sleeper, or the sleeper,
    // who counts itself first, sees the new value before it sleeps.
    if (atomic_load(&g->sleepers) > 0)
        syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

static void arrive(member *m)
{
    group *g = m->group;
    uint32_t now = atomic_fetch_add(&g->arrived, 1) + 1;
    m->phase++;
    if (now == m->phase * (uint32_t)g->ranks)
        wake(g, &g->arrived);
}

static bool reached(uint32_t value, uint32_t target)
{
    return (int32_t)(value - target) >= 0;
}

static void sleep_until(group *g, atomic_uint *word, uint32_t target)
{
    struct timespec nap = {.tv_nsec = NAP_MS * 1000000L};
    atomic_fetch_add(&g->sleepers, 1);
    uint32_t seen = atomic_load(word);
    if (!reached(seen, target))
        syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, &nap, NULL, 0);
    atomic_fetch_sub(&g->sleepers, 1);
}

static inline void relax(void)
{
#ifdef __x86_64__
    __builtin_ia32_pause();
#endif
}

// The job has ended. Returns once no peer is inside this rank's memory, which its owner will now
// free; says which rank it was, once.
static ax_status ended(const member *m)
{
    world *w = m->group->world;
    while (atomic_load(&w->reading) > 0)
        sched_yield();
    if (w->said[m->world_rank])
        return AX_ECOMM;
    w->said[m->world_rank] = true;
    AX_FAIL(AX_ECOMM, "rank %d failed: %s", atomic_load(&w->guilty) - 1, w->why);
}

// Whether `word` has come to `target`.
static ax_status look(const member *m, atomic_uint *word, uint32_t target, bool block, bool *over)
{
    group *g = m->group;
    for (int spin = 0;; spin++) {
        *over = reached(atomic_load_explicit(word, memory_order_acquire), target);
        if (*over)
            return AX_OK;
        if (atomic_load(&g->world->guilty))
            return ended(m);
        if (!block)
            return AX_OK;
        if (spin < g->world->spins)
            relax();
        else
            sleep_until(g, word, target);
    }
}

// Between enter and leave peers' memory may be read: a rank that gives up because the job has ended
// waits for those inside, and nobody enters after that.
static ax_status enter(const member *m)
{
    world *w = m->group->world;
    atomic_fetch_add(&w->reading, 1);
    if (!atomic_load(&w->guilty))
        return AX_OK;
    atomic_fetch_sub(&w->reading, 1);
    return ended(m);
}

static void leave(const member *m)
{
    atomic_fetch_sub(&m->group->world->reading, 1);
}

// ---- one collective ----

static slot *slot_of(const member *m, int rank)
{
    return &m->group->slots[2 * rank + (int)(m->turn & 1)];
}

// Bytes that a rank hands to its peers; the same on all ranks, whatever `limit` leaves of them.
static bool is_small(const member *m, const ax_req *r)
{
    int64_t pieces = r->coll == AX_REDUCE_SCATTER ? m->group->ranks : 1;
    return pieces * r->x.count <= SMALL_BYTES / (int64_t)ax_dtype_size(r->x.dtype);
}

static void say(member *m, const ax_req *r)
{
    m->turn++;
    if (m->base.rank == 0)
        atomic_store_explicit(&m->group->finished[m->turn & 1], 0, memory_order_relaxed);
    const ax_xfer *x = &r->x;
    slot *s = slot_of(m, m->base.rank);
    s->send = r->coll == AX_BCAST ? x->recv : x->send;
    s->recv = x->recv;
    s->count = x->count;
    s->limit = x->limit;
    s->coll = r->coll;
    s->dtype = x->dtype;
    s->op = x->op;
    s->root = r->root;
    atomic_store_explicit(&s->next, 0, memory_order_relaxed);
    bool unread = r->coll == AX_BCAST && r->root != m->base.rank;
    if (!is_small(m, r) || unread)
        return;
    ax_cut cut = ax_cut_of(r->coll, x, m->group->ranks);
    int64_t n = r->coll == AX_ALLGATHER ? ax_cut_count(cut, m->base.rank) : cut.total;
    memcpy(s->copy, s->send, (size_t)n * ax_dtype_size(x->dtype));
    s->send = s->copy;
}

// Ranks that called different things would read beyond one another's buffers. All compare with
// all, so that all fail together.
static ax_status compare_calls(const member *m, const ax_req *r)
{
    const slot *first = slot_of(m, 0);
    for (int p = 1; p < m->group->ranks; p++) {
        const slot *s = slot_of(m, p);
        bool same = s->coll == first->coll && s->count == first->count &&
                    s->limit == first->limit && s->dtype == first->dtype && s->op == first->op &&
                    s->root == first->root;
        AX_CHECK(same, AX_EINTERNAL,
                 "%s, tag %s: ranks 0 and %d called different collectives (kinds %d and %d, counts "
                 "%lld and %lld)",
                 m->base.name, r->x.tag, p, (int)first->coll, (int)s->coll, (long long)first->count,
                 (long long)s->count);
    }
    return AX_OK;
}

// All that the ranks have said, in one place.
static void listen(member *m, const ax_req *r)
{
    for (int p = 0; p < m->group->ranks; p++) {
        const slot *s = slot_of(m, p);
        m->send[p] = s->send;
        m->recv[p] = s->recv;
    }
    m->call = (ax_call){.coll = r->coll,
                        .x = r->x,
                        .ranks = m->group->ranks,
                        .root = r->root,
                        .send = m->send,
                        .recv = m->recv};
    m->list = 0;
}

// Each rank does all of its own; sums, for one, on every rank.
static void move_small(const member *m, const ax_req *r)
{
    ax_call own = m->call;
    int me = m->base.rank;
    if (r->coll != AX_ALLREDUCE) {
        for (int64_t i = 0; i < ax_chunks_of(&own, me); i++)
            ax_chunk_run(&own, me, i);
        return;
    }
    ax_fold(&(ax_fold_args){.op = r->x.op,
                            .dtype = r->x.dtype,
                            .from = m->send,
                            .ranks = m->group->ranks,
                            .count = r->x.count,
                            .out = &m->recv[me],
                            .outs = 1});
}

// Takes a chunk that nobody has: of this rank's list, then of its neighbours'.
static bool take(member *m, int *list, int64_t *i)
{
    for (; m->list < m->group->ranks; m->list++) {
        *list = (m->base.rank + m->list) % m->group->ranks;
        slot *s = slot_of(m, *list);
        *i = atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed);
        if (*i < ax_chunks_of(&m->call, *list))
            return true;
    }
    return false;
}

static ax_status move_chunks(member *m, ax_req *r, bool block)
{
    atomic_uint *finished = &m->group->finished[m->turn & 1];
    uint32_t all = (uint32_t)ax_chunks_all(&m->call);
    double end_s = block ? 0 : ax_clock_s() + poll_s;
    int list;
    int64_t i;
    while (block || ax_clock_s() < end_s) {
        AX_TRY(enter(m)); // before taking: a chunk that was taken is done
        bool taken = take(m, &list, &i);
        if (taken)
            ax_chunk_run(&m->call, list, i);
        leave(m);
        if (!taken) {
            r->stage = STAGE_LEAVE;
            return AX_OK;
        }
        r->at++;
        if (atomic_fetch_add(finished, 1) + 1 == all)
            wake(m->group, finished);
    }
    return AX_OK;
}

// All have arrived.
static ax_status set_out(member *m, ax_req *r)
{
    AX_TRY(compare_calls(m, r));
    listen(m, r);
    r->stage = STAGE_MOVE;
    if (is_small(m, r)) { // all in the group's memory
        move_small(m, r);
        r->done = true;
    }
    return AX_OK;
}

static ax_status begin(member *m, ax_req *r)
{
    if (atomic_load(&m->group->world->guilty))
        return ended(m);
    say(m, r);
    r->stage = STAGE_ARRIVE;
    arrive(m);
    return AX_OK;
}

// One stage, as far as it goes now; `stuck`: peers are awaited.
static ax_status act(member *m, ax_req *r, bool block, bool *stuck)
{
    group *g = m->group;
    bool over = true;
    if (r->stage == STAGE_SAY)
        return begin(m, r);
    if (r->stage == STAGE_ARRIVE) {
        AX_TRY(look(m, &g->arrived, m->phase * (uint32_t)g->ranks, block, &over));
        *stuck = !over;
        return over ? set_out(m, r) : AX_OK;
    }
    if (r->stage == STAGE_MOVE) {
        AX_TRY(move_chunks(m, r, block));
        *stuck = r->stage == STAGE_MOVE; // not by peers: this poll has done its part
        return AX_OK;
    }
    uint32_t all = (uint32_t)ax_chunks_all(&m->call);
    AX_TRY(look(m, &g->finished[m->turn & 1], all, block, &over));
    r->done = over;
    *stuck = !over;
    return AX_OK;
}

static ax_status local_advance(ax_comm *c, ax_req *r, bool block)
{
    bool stuck = false;
    while (!r->done && !stuck)
        AX_TRY(act(c->impl, r, block, &stuck));
    return AX_OK;
}

// ---- opening, splitting, closing ----

static group *group_open(world *w, int ranks)
{
    size_t bytes = sizeof(group) + 2 * (size_t)ranks * sizeof(slot);
    group *g = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!g)
        return NULL;
    memset(g, 0, sizeof *g);
    g->world = w;
    g->ranks = ranks;
    atomic_init(&g->members, ranks);
    atomic_fetch_add(&w->groups, 1);
    return g;
}

static void group_drop(group *g)
{
    if (atomic_fetch_sub(&g->members, 1) > 1)
        return;
    world *w = g->world;
    free(g);
    if (atomic_fetch_sub(&w->groups, 1) == 1)
        free(w);
}

static const ax_comm_ops local_ops;

static void member_free(member *m)
{
    if (!m)
        return;
    free(m->send);
    free(m->recv);
    free(m->tickets);
    free(m->groups);
    free(m);
}

static member *member_open(group *g, int rank, int world_rank)
{
    size_t ranks = (size_t)g->ranks;
    member *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->base.ops = &local_ops;
    m->base.rank = rank;
    m->base.size = g->ranks;
    m->base.impl = m;
    m->group = g;
    m->world_rank = world_rank;
    m->send = calloc(ranks, sizeof *m->send);
    m->recv = calloc(ranks, sizeof *m->recv);
    m->tickets = calloc(ranks, sizeof *m->tickets);
    m->groups = calloc(ranks, sizeof(group *));
    if (m->send && m->recv && m->tickets && m->groups)
        return m;
    member_free(m);
    return NULL;
}

static void local_close(ax_comm *c)
{
    member *m = c->impl;
    group *g = m->group;
    member_free(m);
    group_drop(g);
}

// An allgather beside the queue: not traced, not lazy, through hooks or not.
static ax_status exchange(ax_comm *c, const void *mine, void *all, int64_t count, const char *tag)
{
    ax_req r = {.coll = AX_ALLGATHER,
                .x = {.send = mine, .recv = all, .count = count, .dtype = AX_I32, .tag = tag}};
    return local_advance(c, &r, true);
}

// Rank and size in the new communicator, and the old rank of its first member.
static void place_of(const ticket *all, int ranks, int me, int *rank, int *size, int *leader)
{
    *rank = *size = 0;
    *leader = me;
    for (int p = 0; p < ranks; p++) {
        if (all[p].color != all[me].color)
            continue;
        ++*size;
        if (all[p].key < all[me].key || (all[p].key == all[me].key && p < me))
            ++*rank;
        if (all[p].key < all[*leader].key || (all[p].key == all[*leader].key && p < *leader))
            *leader = p;
    }
}

static ax_status local_split(ax_comm *c, int color, int key, ax_comm **out)
{
    member *m = c->impl;
    int me = c->rank, rank, size, leader;
    AX_TRY(exchange(c, &(ticket){color, key}, m->tickets, 2, "split"));
    place_of(m->tickets, c->size, me, &rank, &size, &leader);
    group *own = NULL;
    if (color >= 0 && leader == me)
        own = group_open(m->group->world, size);
    AX_TRY(exchange(c, &own, m->groups, sizeof own / 4, "split"));
    if (color < 0) {
        *out = NULL;
        return AX_OK;
    }
    group *g = m->groups[leader];
    AX_CHECK(g, AX_ENOMEM, "no memory for a communicator of %d ranks", size);
    member *made = member_open(g, rank, m->world_rank);
    if (!made) {
        group_drop(g);
        AX_FAIL(AX_ENOMEM, "no memory for a communicator of %d ranks", size);
    }
    *out = &made->base;
    return AX_OK;
}

static void local_abort(ax_comm *c, const char *why)
{
    member *m = c->impl;
    world *w = m->group->world;
    w->said[m->world_rank] = true;
    if (atomic_exchange(&w->claimed, 1) == 0) {
        snprintf(w->why, sizeof w->why, "%s", why);
        atomic_store(&w->guilty, m->world_rank + 1);
    }
    // Copies in flight end soon; after them this rank's memory is its own again.
    while (!atomic_load(&w->guilty) || atomic_load(&w->reading) > 0)
        sched_yield();
}

static ax_status local_alloc(ax_comm *c, size_t bytes, void **out)
{
    void *mem = aligned_alloc(64, (bytes + 63) / 64 * 64);
    AX_CHECK(mem || bytes == 0, AX_ENOMEM, "%s: no %zu bytes for a communicator's buffer", c->name,
             bytes);
    *out = mem;
    return AX_OK;
}

static void local_free(ax_comm *c, void *mem, size_t bytes)
{
    (void)c, (void)bytes;
    free(mem);
}

static const ax_comm_ops local_ops = {
    .name = "local",
    .split = local_split,
    .close = local_close,
    .abort = local_abort,
    .advance = local_advance,
    .alloc = local_alloc,
    .free = local_free,
};

static bool is_crowded(int ranks)
{
    cpu_set_t cores;
    return sched_getaffinity(0, sizeof cores, &cores) == 0 && ranks > CPU_COUNT(&cores);
}

ax_status ax_comm_local_open(int ranks, ax_comm **worlds)
{
    AX_CHECK(ranks > 0, AX_EUSAGE, "%d ranks: need at least one", ranks);
    world *w = calloc(1, sizeof *w + (size_t)ranks * sizeof w->said[0]);
    group *g = w ? group_open(w, ranks) : NULL;
    if (!g) {
        free(w);
        AX_FAIL(AX_ENOMEM, "no memory for %d ranks", ranks);
    }
    w->spins = is_crowded(ranks) ? SPINS_CROWDED : SPINS;
    int made = 0;
    for (; made < ranks; made++) {
        member *m = member_open(g, made, made);
        if (!m)
            break;
        strcpy(m->base.name, "world");
        worlds[made] = &m->base;
    }
    if (made == ranks)
        return AX_OK;
    for (int p = made; p < ranks; p++)
        group_drop(g);
    while (made-- > 0)
        local_close(worlds[made]);
    AX_FAIL(AX_ENOMEM, "no memory for %d ranks", ranks);
}
