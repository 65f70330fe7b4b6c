#include "comm/hook_link.h"

#include "base/log.h"
#include "comm/trace.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    TIMES = 4 * AX_LINK_FLIGHTS, // more than one rank can be ahead of another
    NAP_NS = 20000,
};

static const double patience_s = 60; // for ranks that have not begun

// When the ranks of a communicator began its collectives.
struct ax_link_board {
    atomic_int members; // that have not closed it
    int ranks;
    struct row {
        _Alignas(64) atomic_ullong last; // serial of the newest
        double begun_s[TIMES];           // by serial
    } row[];
};

typedef struct linked {
    ax_comm base;
    ax_comm *inner;
    ax_links *links;
    ax_link_board *board;
} linked;

// ---- the time a transfer takes ----

static unsigned links_of(const ax_links *l, const ax_comm *c)
{
    unsigned bits = 0;
    for (int i = 0; i < AX_LINKS && l->link[i].axis; i++)
        if (strstr(c->name, l->link[i].axis))
            bits |= 1u << i;
    return bits;
}

double ax_link_seconds(const ax_links *l, const ax_comm *c, ax_coll coll, const ax_xfer *x)
{
    double ring = (double)(c->size - 1) / c->size * (coll == AX_ALLREDUCE ? 2 : 1);
    double bytes = (double)ax_comm_bytes(c, coll, x) * (coll == AX_BCAST ? 1 : ring), most = 0;
    unsigned bits = links_of(l, c);
    for (int i = 0; i < AX_LINKS; i++)
        if (bits & 1u << i)
            most = fmax(most, bytes / l->link[i].bytes_per_s + l->link[i].latency_s);
    return most;
}

// When the last rank began; 0: one has not.
static double all_begun(const ax_link_board *b, uint64_t serial)
{
    double last = 0;
    for (int p = 0; p < b->ranks; p++) {
        if (atomic_load_explicit(&b->row[p].last, memory_order_acquire) < serial)
            return 0;
        last = fmax(last, b->row[p].begun_s[serial % TIMES]);
    }
    return last;
}

// Puts on the links, in the order of their begin, all transfers that may be: whose ranks are all
// there, behind none that shares a link and is still missing some.
static void occupy(ax_links *l)
{
    unsigned held = 0;
    for (int k = 0; k < l->flights; k++) {
        ax_link_flight *f = &l->flight[k];
        double start_s = f->end_s > 0 || held & f->links ? 0 : all_begun(f->board, f->serial);
        if (f->end_s > 0)
            continue;
        if (start_s == 0) {
            held |= f->links;
            continue;
        }
        for (int i = 0; i < AX_LINKS; i++)
            if (f->links & 1u << i)
                start_s = fmax(start_s, l->link[i].free_s);
        f->end_s = start_s + f->seconds;
        for (int i = 0; i < AX_LINKS; i++)
            if (f->links & 1u << i) {
                l->link[i].free_s = f->end_s;
                l->link[i].busy_s += f->seconds;
            }
    }
}

// ---- the operations ----

static ax_status link_begun(ax_comm *c, const ax_req *r)
{
    linked *k = c->impl;
    ax_links *l = k->links;
    AX_CHECK(l->flights < AX_LINK_FLIGHTS, AX_EINTERNAL,
             "more than %d transfers on emulated links at once", AX_LINK_FLIGHTS);
    double now_s = ax_clock_s();
    l->flight[l->flights++] = (ax_link_flight){.board = k->board,
                                               .begun_s = now_s,
                                               .serial = r->serial,
                                               .links = links_of(l, c),
                                               .seconds = ax_link_seconds(l, c, r->coll, &r->x)};
    struct row *own = &k->board->row[c->rank];
    own->begun_s[r->serial % TIMES] = now_s;
    atomic_store_explicit(&own->last, r->serial, memory_order_release);
    return AX_OK;
}

static ax_link_flight *flight_of(const linked *k, const ax_req *r)
{
    ax_links *l = k->links;
    for (int i = 0; i < l->flights; i++)
        if (l->flight[i].board == k->board && l->flight[i].serial == r->serial)
            return &l->flight[i];
    return NULL;
}

static void land(ax_links *l, ax_link_flight *f)
{
    f->landed_s = ax_clock_s();
    if (l->logged < l->log_room)
        l->log[l->logged++] = *f;
    int64_t after = l->flights - (f - l->flight) - 1;
    memmove(f, f + 1, (size_t)after * sizeof *f);
    l->flights--;
}

static void nap(double seconds)
{
    long ns = seconds > 1 ? 1000000000L - 1 : (long)(seconds * 1e9);
    nanosleep(&(struct timespec){.tv_nsec = ns < NAP_NS ? NAP_NS : ns}, NULL);
}

// Moves the data of `r` and, as a network would, of what is begun after it on this communicator,
// as far as the ranks are there.
static ax_status move(linked *k, ax_req *r, bool block)
{
    for (ax_req *q = r; q; q = k->base.lazy ? NULL : q->next) {
        ax_link_flight *f = flight_of(k, q);
        if (!f || f->moved) // it has no elements, or was moved before
            continue;
        AX_TRY(k->inner->ops->advance(k->inner, q, block && q == r));
        if (!q->done)
            return AX_OK;
        f->moved = true;
        q->done = false; // not before its time is over
    }
    return AX_OK;
}

static ax_status link_advance(ax_comm *c, ax_req *r, bool block)
{
    linked *k = c->impl;
    ax_link_flight *f = flight_of(k, r);
    AX_CHECK(f, AX_EINTERNAL, "%s on %s was never begun on its link", r->x.tag, c->name);
    if (block && f->asked_s == 0)
        f->asked_s = ax_clock_s();
    AX_TRY(move(k, r, block));
    if (!f->moved)
        return AX_OK;
    for (double began_s = ax_clock_s(), now_s = began_s;; now_s = ax_clock_s()) {
        occupy(k->links);
        r->done = f->links == 0 || (f->end_s > 0 && now_s >= f->end_s);
        if (r->done)
            land(k->links, f);
        if (r->done || !block)
            return AX_OK;
        AX_CHECK(f->end_s > 0 || now_s - began_s < patience_s, AX_ECOMM,
                 "%s on %s: a rank of an earlier transfer on its link never came", r->x.tag,
                 c->name);
        nap(f->end_s > 0 ? f->end_s - now_s : 0);
    }
}

static ax_status link_split(ax_comm *c, int color, int key, ax_comm **out)
{
    linked *k = c->impl;
    ax_comm *inner = NULL;
    AX_TRY(k->inner->ops->split(k->inner, color, key, &inner));
    *out = NULL;
    if (!inner)
        return AX_OK;
    ax_status st = ax_comm_link_open(inner, k->links, out);
    if (st != AX_OK)
        ax_comm_close(inner);
    return st;
}

static void board_drop(ax_link_board *b)
{
    if (atomic_fetch_sub(&b->members, 1) == 1)
        free(b);
}

static void link_close(ax_comm *c)
{
    linked *k = c->impl;
    ax_links *l = k->links;
    for (int i = l->flights - 1; i >= 0; i--) // of requests that failed
        if (l->flight[i].board == k->board)
            land(l, &l->flight[i]);
    ax_comm_close(k->inner);
    board_drop(k->board);
    free(k);
}

static void link_abort(ax_comm *c, const char *why)
{
    linked *k = c->impl;
    ax_comm_abort(k->inner, why);
}

static ax_status link_alloc(ax_comm *c, size_t bytes, void **out)
{
    linked *k = c->impl;
    return k->inner->ops->alloc(k->inner, bytes, out);
}

static void link_free(ax_comm *c, void *mem, size_t bytes)
{
    linked *k = c->impl;
    k->inner->ops->free(k->inner, mem, bytes);
}

static const ax_comm_ops link_ops = {
    .name = "link",
    .split = link_split,
    .close = link_close,
    .abort = link_abort,
    .begun = link_begun,
    .advance = link_advance,
    .alloc = link_alloc,
    .free = link_free,
};

static ax_link_board *board_open(int ranks)
{
    size_t bytes = sizeof(ax_link_board) + (size_t)ranks * sizeof(struct row);
    ax_link_board *b = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!b)
        return NULL;
    memset(b, 0, bytes);
    b->ranks = ranks;
    atomic_init(&b->members, ranks);
    return b;
}

ax_status ax_comm_link_open(ax_comm *inner, ax_links *links, ax_comm **out)
{
    union {
        ax_link_board *board;
        int32_t half[2];
    } said = {0};
    AX_CHECK(!inner->head, AX_EINTERNAL, "link hook over %s while a request is outstanding",
             inner->name);
    linked *k = calloc(1, sizeof *k);
    if (inner->rank == 0)
        said.board = board_open(inner->size);
    AX_TRY(ax_comm_bcast(
        inner, &(ax_xfer){.recv = said.half, .count = 2, .dtype = AX_I32, .tag = "link"}, 0));
    if (said.board && !k)
        board_drop(said.board);
    AX_CHECK(k && said.board, AX_ENOMEM, "no memory for a communicator");
    k->base = *inner;
    k->base.ops = &link_ops;
    k->base.impl = k;
    k->inner = inner;
    k->links = links;
    k->board = said.board;
    k->base.issued = 0; // the board counts from here
    *out = &k->base;
    return AX_OK;
}
