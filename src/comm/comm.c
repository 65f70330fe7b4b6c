#include "comm/comm.h"

#include "base/log.h"
#include "comm/pieces.h"
#include "comm/trace.h"

#include <math.h>
#include <string.h>

static const char *coll_name(ax_coll coll)
{
    static const char *const names[] = {
        [AX_ALLREDUCE] = "allreduce",
        [AX_ALLGATHER] = "allgather",
        [AX_REDUCE_SCATTER] = "reduce_scatter",
        [AX_BCAST] = "bcast",
    };
    return names[coll];
}

// ---- checks ----

// Where the two buffers of a call lie, and the one address of recv that is legal in place.
typedef struct extent {
    const char *send, *recv;
    size_t send_bytes, recv_bytes;
    bool in_place;
} extent;

static extent extent_of(const ax_comm *c, ax_coll coll, const ax_xfer *x)
{
    ax_cut cut = ax_cut_of(coll, x, c->size);
    size_t size = ax_dtype_size(x->dtype);
    size_t whole = (size_t)cut.total * size, piece = (size_t)x->count * size;
    ptrdiff_t own = (ptrdiff_t)(piece * (size_t)c->rank);
    extent e = {.send = x->send, .recv = x->recv, .send_bytes = whole, .recv_bytes = whole};
    if (coll == AX_BCAST) {
        e.send = NULL;
        e.send_bytes = 0;
    } else if (coll == AX_ALLGATHER) {
        e.send_bytes = (size_t)ax_cut_count(cut, c->rank) * size;
        e.in_place = e.send == e.recv + own;
    } else if (coll == AX_REDUCE_SCATTER) {
        e.recv_bytes = piece;
        e.in_place = e.recv == e.send + own;
    } else {
        e.in_place = e.send == e.recv;
    }
    return e;
}

static ax_status check(const ax_comm *c, ax_coll coll, const ax_xfer *x, int root)
{
    const char *name = coll_name(coll);
    AX_CHECK(x->tag, AX_EINTERNAL, "%s on %s: no tag", name, c->name);
    AX_CHECK(x->count >= 0 && x->count <= INT64_MAX / 16 / c->size, AX_EINTERNAL,
             "%s %s on %s: count %lld", name, x->tag, c->name, (long long)x->count);
    AX_CHECK(x->dtype <= AX_I32 && x->op <= AX_MAX, AX_EINTERNAL, "%s %s on %s: dtype %d, op %d",
             name, x->tag, c->name, (int)x->dtype, (int)x->op);
    AX_CHECK(root >= 0 && root < c->size, AX_EINTERNAL, "%s %s on %s: root %d of %d ranks", name,
             x->tag, c->name, root, c->size);
    bool pieces = coll == AX_ALLGATHER || coll == AX_REDUCE_SCATTER;
    int64_t most = pieces ? c->size * x->count : 0;
    AX_CHECK(x->limit >= 0 && x->limit <= most, AX_EINTERNAL,
             "%s %s on %s: limit %lld of at most %lld elements", name, x->tag, c->name,
             (long long)x->limit, (long long)most);
    if (x->count == 0 || c->measuring)
        return AX_OK;
    AX_CHECK(x->recv && (x->send || coll == AX_BCAST), AX_EINTERNAL, "%s %s on %s: no buffer", name,
             x->tag, c->name);
    extent e = extent_of(c, coll, x);
    bool apart = e.send + e.send_bytes <= e.recv || e.recv + e.recv_bytes <= e.send;
    AX_CHECK(e.in_place || apart || coll == AX_BCAST, AX_EINTERNAL,
             "%s %s on %s: send and recv overlap other than in place (see comm.h)", name, x->tag,
             c->name);
    return AX_OK;
}

// ---- the queue of one communicator ----

// Whether time is taken on this communicator, and where it goes.
static bool is_timed(const ax_comm *c)
{
    return c->size > 1 && (c->trace || c->timeline);
}

static void add_span(const ax_comm *c, const ax_req *r, ax_timeline_kind kind, double begin_s)
{
    int64_t bytes = ax_comm_bytes(c, r->coll, &r->x);
    ax_timeline_add(c->timeline, &(ax_timeline_span){.name = r->x.tag,
                                                     .axis = c->name,
                                                     .lane = c,
                                                     .kind = kind,
                                                     .size = {bytes},
                                                     .begin_s = begin_s,
                                                     .end_s = ax_clock_s()});
}

static void spent(const ax_comm *c, const ax_req *r, double begin_s)
{
    if (c->trace)
        ax_comm_trace_spent(c->trace, c, ax_clock_s() - begin_s);
    if (c->timeline)
        add_span(c, r, AX_TIME_WAIT, begin_s);
}

// A communicator of one rank, or nothing to move: no backend is needed.
static void finish_alone(const ax_comm *c, ax_req *r)
{
    const ax_xfer *x = &r->x;
    r->done = true;
    if (c->size > 1 || x->count == 0 || r->coll == AX_BCAST)
        return;
    int64_t valid = ax_cut_of(r->coll, x, 1).total;
    size_t size = ax_dtype_size(x->dtype);
    if (x->recv != x->send)
        memcpy(x->recv, x->send, (size_t)valid * size);
    if (r->coll == AX_REDUCE_SCATTER)
        memset(ax_at(x->recv, x->dtype, valid), 0, (size_t)(x->count - valid) * size);
}

static void pop(ax_comm *c)
{
    if (c->timeline && c->size > 1) {
        add_span(c, c->head, AX_TIME_TRANSFER, fmax(c->head->begun_s, c->free_s));
        c->free_s = ax_clock_s();
    }
    c->head = c->head->next;
    if (!c->head)
        c->tail = NULL;
}

// One failure ends all requests of a communicator: ranks no longer agree on what comes next.
static ax_status break_off(ax_comm *c, ax_status st)
{
    c->failed = st;
    for (; c->head; pop(c))
        c->head->done = c->head->failed = true;
    return st;
}

static ax_status advance_head(ax_comm *c, bool block)
{
    ax_req *r = c->head;
    ax_status st = AX_OK;
    if (c->size == 1 || r->x.count == 0)
        finish_alone(c, r);
    else
        st = c->ops->advance(c, r, block);
    if (st != AX_OK)
        return break_off(c, st);
    if (r->done)
        pop(c);
    return AX_OK;
}

static ax_status advance_all(ax_comm *c)
{
    for (ax_req *r = c->head; r; r = c->head) {
        AX_TRY(advance_head(c, false));
        if (c->head == r)
            break;
    }
    return AX_OK;
}

ax_status ax_comm_progress(ax_comm *c)
{
    if (c->lazy)
        return AX_OK;
    if (!is_timed(c) || !c->head)
        return advance_all(c);
    ax_req was = *c->head;
    double begin_s = ax_clock_s();
    AX_TRY(advance_all(c));
    bool moved = !c->head || c->head->serial != was.serial || c->head->stage != was.stage ||
                 c->head->at != was.at;
    if (moved && c->trace)
        ax_comm_trace_moved(c->trace, c, ax_clock_s() - begin_s);
    if (moved && c->timeline)
        add_span(c, &was, AX_TIME_PROGRESS, begin_s);
    return AX_OK;
}

// All bits set is a NaN in every float format; own data that peers still need is left alone.
static void poison(const ax_comm *c, const ax_req *r)
{
    const ax_xfer *x = &r->x;
    int fill = x->dtype == AX_I32 ? 0x7f : 0xff;
    extent e = extent_of(c, r->coll, x);
    if (x->count == 0 || (r->coll == AX_BCAST && r->root == c->rank))
        return;
    if (!e.in_place) {
        memset(x->recv, fill, e.recv_bytes);
    } else if (r->coll == AX_ALLGATHER) {
        size_t before = (size_t)(e.send - e.recv);
        if (before > e.recv_bytes)
            before = e.recv_bytes;
        size_t after = before + e.send_bytes;
        memset(x->recv, fill, before);
        memset((char *)x->recv + after, fill, e.recv_bytes - after);
    }
}

static ax_status start(ax_comm *c, ax_req *r)
{
    if (c->trace && c->size > 1)
        AX_TRY(ax_comm_trace_count(c->trace, c, r->coll, &r->x));
    r->comm = c;
    r->serial = ++c->issued;
    if (c->measuring) {
        r->done = true;
        return AX_OK;
    }
    if (c->ops->begun && c->size > 1 && r->x.count > 0)
        AX_TRY(c->ops->begun(c, r));
    if (c->tail)
        c->tail->next = r;
    else
        c->head = r;
    c->tail = r;
    if (c->lazy)
        poison(c, r);
    return c->lazy ? AX_OK : advance_all(c);
}

static ax_status begin(ax_comm *c, ax_coll coll, const ax_xfer *x, int root, ax_req *r)
{
    *r = (ax_req){0};
    AX_TRY(check(c, coll, x, root));
    AX_TRY(c->failed);
    bool timed = is_timed(c);
    double begin_s = timed ? ax_clock_s() : 0;
    *r = (ax_req){.x = *x, .coll = coll, .root = root, .begun_s = begin_s};
    ax_status st = start(c, r);
    if (timed)
        spent(c, r, begin_s);
    return st;
}

ax_status ax_comm_wait(ax_req *r)
{
    ax_comm *c = r->comm;
    if (!c)
        return AX_OK;
    bool timed = is_timed(c);
    double begin_s = timed ? ax_clock_s() : 0;
    ax_status st = AX_OK;
    while (!r->done && st == AX_OK)
        st = advance_head(c, true);
    if (r->failed)
        st = c->failed;
    r->comm = NULL;
    if (timed)
        spent(c, r, begin_s);
    return st;
}

// ---- the public calls ----

ax_status ax_comm_allreduce_begin(ax_comm *c, const ax_xfer *x, ax_req *r)
{
    return begin(c, AX_ALLREDUCE, x, 0, r);
}

ax_status ax_comm_allgather_begin(ax_comm *c, const ax_xfer *x, ax_req *r)
{
    return begin(c, AX_ALLGATHER, x, 0, r);
}

ax_status ax_comm_reduce_scatter_begin(ax_comm *c, const ax_xfer *x, ax_req *r)
{
    return begin(c, AX_REDUCE_SCATTER, x, 0, r);
}

ax_status ax_comm_bcast_begin(ax_comm *c, const ax_xfer *x, int root, ax_req *r)
{
    return begin(c, AX_BCAST, x, root, r);
}

static ax_status begin_and_wait(ax_comm *c, ax_coll coll, const ax_xfer *x, int root)
{
    ax_req r;
    // The request lives on this stack: it may not stay in the queue whatever begin says, and a
    // begin that failed has emptied the queue.
    AX_TRY(begin(c, coll, x, root, &r));
    return ax_comm_wait(&r);
}

ax_status ax_comm_allreduce(ax_comm *c, const ax_xfer *x)
{
    return begin_and_wait(c, AX_ALLREDUCE, x, 0);
}

ax_status ax_comm_allgather(ax_comm *c, const ax_xfer *x)
{
    return begin_and_wait(c, AX_ALLGATHER, x, 0);
}

ax_status ax_comm_reduce_scatter(ax_comm *c, const ax_xfer *x)
{
    return begin_and_wait(c, AX_REDUCE_SCATTER, x, 0);
}

ax_status ax_comm_bcast(ax_comm *c, const ax_xfer *x, int root)
{
    return begin_and_wait(c, AX_BCAST, x, root);
}

ax_status ax_comm_split(ax_comm *c, const char *name, int color, int key, ax_comm **out)
{
    ax_comm *made = NULL;
    AX_CHECK(strlen(name) < sizeof made->name, AX_EINTERNAL, "communicator name %s is too long",
             name);
    AX_CHECK(!c->head, AX_EINTERNAL, "split of %s while a request is outstanding", c->name);
    AX_TRY(c->failed);
    AX_TRY(c->ops->split(c, color, key, &made));
    if (made) {
        strcpy(made->name, name);
        made->lazy = c->lazy;
        made->trace = c->trace;
        made->timeline = c->timeline;
    }
    *out = made;
    return AX_OK;
}

void ax_comm_close(ax_comm *c)
{
    if (c)
        c->ops->close(c);
}

void ax_comm_abort(ax_comm *c, const char *why)
{
    c->ops->abort(c, why);
    c->failed = AX_ECOMM;
}

void ax_comm_set_lazy(ax_comm *c, bool lazy)
{
    c->lazy = lazy;
}

// ---- host scalars ----

// Status and rank in one number: the worst status wins, and among its ranks the lowest.
enum { RANK_SPAN = 1 << 20 };

ax_status ax_comm_agree(ax_comm *c, ax_status mine)
{
    int32_t value = (int32_t)mine * RANK_SPAN + (RANK_SPAN - 1 - c->rank);
    AX_TRY(ax_comm_allreduce(c, &(ax_xfer){.send = &value,
                                           .recv = &value,
                                           .count = 1,
                                           .dtype = AX_I32,
                                           .op = AX_MAX,
                                           .tag = "agree"}));
    ax_status worst = (ax_status)(value / RANK_SPAN);
    int rank = RANK_SPAN - 1 - value % RANK_SPAN;
    c->agreed = c->agreed || worst != AX_OK;
    int speaker = rank == 0 ? 1 : 0; // one of those that do not know yet is enough
    if (worst != AX_OK && mine == AX_OK && c->rank == speaker)
        ax_log(AX_LOG_ERROR, NULL, "rank %d of %s failed (%s); its own message says why", rank,
               c->name, ax_status_name(worst));
    return worst;
}

ax_status ax_comm_end(ax_comm *world, ax_status st)
{
    if (st != AX_OK && !world->agreed)
        ax_comm_abort(world, *ax_error_text() ? ax_error_text() : ax_status_name(st));
    return st;
}

void ax_comm_recover(ax_comm *c)
{
    c->agreed = false;
}

static ax_status reduce_scalars(ax_comm *c, double *values, int count, ax_redop op, const char *tag)
{
    return ax_comm_allreduce(
        c,
        &(ax_xfer){
            .send = values, .recv = values, .count = count, .dtype = AX_F64, .op = op, .tag = tag});
}

ax_status ax_comm_sum(ax_comm *c, double *values, int count)
{
    return reduce_scalars(c, values, count, AX_SUM, "sum");
}

ax_status ax_comm_max(ax_comm *c, double *values, int count)
{
    return reduce_scalars(c, values, count, AX_MAX, "max");
}

ax_status ax_comm_check_equal(ax_comm *c, int64_t value, const char *what)
{
    // Both halves and their complements: the maximum of ~v is the complement of the minimum of v.
    int32_t low = (int32_t)(value & 0xffffffff), high = (int32_t)(value >> 32);
    int32_t most[4] = {low, high, ~low, ~high};
    AX_TRY(ax_comm_allreduce(c, &(ax_xfer){.send = most,
                                           .recv = most,
                                           .count = 4,
                                           .dtype = AX_I32,
                                           .op = AX_MAX,
                                           .tag = "check"}));
    if (most[0] == ~most[2] && most[1] == ~most[3])
        return AX_OK;
    c->agreed = true;
    if (c->rank == 0)
        ax_fail(AX_EUSAGE, __FILE__, __LINE__, "%s differs between the ranks of %s", what, c->name);
    return AX_EUSAGE;
}
