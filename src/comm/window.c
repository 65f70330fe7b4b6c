#include "comm/window.h"

#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    LINE = 64,
    SMALL_BYTES = 32 << 10, // an allreduce up to here is added by everybody: half the steps
    FEW_RANKS = 3,          // and one of so few ranks, too: adding again is cheaper than copying
    NAP_MS = 50,
};

enum { STAGE_START, STAGE_WHOLE, STAGE_SUM, STAGE_GATHER, STAGE_BCAST };

// Work that one poll may do: kernels wait for it.
static const double poll_s = 1e-3;

size_t ax_lane_slot(size_t bytes)
{
    if (bytes < sizeof(ax_lane) + AX_WINDOW_SLOTS * 4096)
        return 0;
    return (bytes - sizeof(ax_lane)) / AX_WINDOW_SLOTS / LINE * LINE;
}

void ax_lane_init(ax_lane *lane)
{
    atomic_init(&lane->put, 0);
    atomic_init(&lane->put_sleepers, 0);
    atomic_init(&lane->got, 0);
    atomic_init(&lane->got_sleepers, 0);
}

// ---- counters ----

static bool reached(uint32_t value, uint32_t target)
{
    return (int32_t)(value - target) >= 0;
}

static void relax(void)
{
#ifdef __x86_64__
    __builtin_ia32_pause();
#endif
}

// Sequentially consistent on both sides: either the load sees the sleeper, or the sleeper, who
// counts itself first, sees the new value before it sleeps.
static void advance_counter(atomic_uint *word, atomic_int *sleepers, uint32_t value)
{
    atomic_store(word, value);
    if (atomic_load(sleepers) > 0)
        syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static void sleep_until(atomic_uint *word, atomic_int *sleepers, uint32_t target)
{
    struct timespec nap = {.tv_nsec = NAP_MS * 1000000L};
    atomic_fetch_add(sleepers, 1);
    uint32_t seen = atomic_load(word);
    if (!reached(seen, target))
        syscall(SYS_futex, word, FUTEX_WAIT, seen, &nap, NULL, 0);
    atomic_fetch_sub(sleepers, 1);
}

// The first peer whose counter has not come to `target`; -1: all have.
static int behind(const ax_window *w, bool put, uint32_t target)
{
    for (int i = 0; i < w->ranks; i++) {
        int p = (w->me + i) % w->ranks;
        atomic_uint *word = put ? &w->lane[p]->put : &w->lane[p]->got;
        if (!reached(atomic_load_explicit(word, memory_order_acquire), target))
            return p;
    }
    return -1;
}

// Step `put` goes where step `put - slots` was.
static int slot_reader(const ax_window *w)
{
    return behind(w, false, w->put + 1 - AX_WINDOW_SLOTS);
}

bool ax_window_is_idle(const ax_window *w)
{
    return behind(w, false, w->put) < 0;
}

// ---- steps ----

static void *slot_of(const ax_window *w, int rank, uint32_t step)
{
    return w->lane[rank]->data + step % AX_WINDOW_SLOTS * w->slot_bytes;
}

// Elements of a piece (STAGE_SUM), or of a rank's vector, that one step moves.
static int64_t step_elements(const ax_window *w, const ax_req *r)
{
    size_t bytes =
        r->stage == STAGE_SUM ? w->slot_bytes / (size_t)w->ranks / LINE * LINE : w->slot_bytes;
    return (int64_t)(bytes / ax_dtype_size(r->x.dtype));
}

static int64_t part(int64_t n, int64_t at, int64_t most)
{
    return n <= at ? 0 : n - at < most ? n - at : most;
}

static int64_t steps_of(const ax_window *w, const ax_req *r)
{
    bool whole = r->stage == STAGE_WHOLE || r->stage == STAGE_BCAST;
    int64_t longest = whole ? r->x.count : ax_cut_count(ax_cut_of(r->coll, &r->x, w->ranks), 0);
    int64_t each = step_elements(w, r);
    return (longest + each - 1) / each;
}

static void copy(const ax_req *r, void *to, const void *from, int64_t n, bool stream)
{
    ax_put(to, from, (size_t)n * ax_dtype_size(r->x.dtype), stream);
}

// What this rank gives to a gather: its own piece, from its first element on.
static const void *own_piece(const ax_window *w, const ax_req *r, ax_cut cut)
{
    return r->coll == AX_ALLREDUCE ? ax_at(r->x.recv, r->x.dtype, ax_cut_first(cut, w->me))
                                   : r->x.send;
}

static void put_step(const ax_window *w, const ax_req *r, int64_t k)
{
    const ax_xfer *x = &r->x;
    ax_cut cut = ax_cut_of(r->coll, x, w->ranks);
    int64_t each = step_elements(w, r), at = k * each;
    void *slot = slot_of(w, w->me, w->put);
    if (r->stage == STAGE_WHOLE) {
        copy(r, slot, ax_at(x->send, x->dtype, at), part(x->count, at, each), false);
    } else if (r->stage == STAGE_GATHER) {
        int64_t n = part(ax_cut_count(cut, w->me), at, each);
        copy(r, slot, ax_at(own_piece(w, r, cut), x->dtype, at), n, false);
    } else if (r->stage == STAGE_BCAST) {
        if (w->me == r->root)
            copy(r, slot, ax_at(x->recv, x->dtype, at), part(x->count, at, each), false);
    } else {
        for (int p = 0; p < w->ranks; p++)
            if (p != w->me)
                copy(r, ax_at(slot, x->dtype, p * each),
                     ax_at(x->send, x->dtype, ax_cut_first(cut, p) + at),
                     part(ax_cut_count(cut, p), at, each), false);
    }
}

// Adds n elements: of every slot from element `in_slot`, of the own vector from `own`.
static void fold(const ax_window *w, const ax_req *r, int64_t in_slot, int64_t own, int64_t n,
                 int64_t to)
{
    const ax_xfer *x = &r->x;
    for (int p = 0; p < w->ranks; p++)
        w->from[p] = p == w->me ? ax_at(x->send, x->dtype, own)
                                : ax_at(slot_of(w, p, w->got), x->dtype, in_slot);
    ax_fold(&(ax_fold_args){.op = x->op,
                            .dtype = x->dtype,
                            .from = w->from,
                            .ranks = w->ranks,
                            .count = n,
                            .out = &x->recv,
                            .outs = 1,
                            .out_at = to,
                            .stream = ax_is_stream(x, r->coll, w->ranks)});
}

static void get_gathered(const ax_window *w, const ax_req *r, ax_cut cut, int64_t at)
{
    const ax_xfer *x = &r->x;
    int64_t each = step_elements(w, r);
    bool stream = ax_is_stream(x, r->coll, w->ranks);
    for (int i = 0; i < w->ranks; i++) {
        int p = (w->me + i) % w->ranks;
        const void *from =
            p == w->me ? ax_at(own_piece(w, r, cut), x->dtype, at) : slot_of(w, p, w->got);
        copy(r, ax_at(x->recv, x->dtype, ax_cut_first(cut, p) + at), from,
             part(ax_cut_count(cut, p), at, each), stream);
    }
}

static void get_step(const ax_window *w, const ax_req *r, int64_t k)
{
    const ax_xfer *x = &r->x;
    ax_cut cut = ax_cut_of(r->coll, x, w->ranks);
    int64_t each = step_elements(w, r), at = k * each;
    if (r->stage == STAGE_WHOLE) {
        fold(w, r, 0, at, part(x->count, at, each), at);
    } else if (r->stage == STAGE_GATHER) {
        get_gathered(w, r, cut, at);
    } else if (r->stage == STAGE_BCAST) {
        if (w->me != r->root)
            copy(r, ax_at(x->recv, x->dtype, at), slot_of(w, r->root, w->got),
                 part(x->count, at, each), ax_is_stream(x, r->coll, w->ranks));
    } else {
        int64_t own = ax_cut_first(cut, w->me) + at;
        fold(w, r, w->me * each, own, part(ax_cut_count(cut, w->me), at, each),
             r->coll == AX_ALLREDUCE ? own : at);
    }
}

// ---- the state machine ----

static void enter_stage(ax_window *w, ax_req *r, int stage)
{
    r->stage = stage;
    w->first = w->put;
}

static void start(ax_window *w, ax_req *r)
{
    int64_t bytes = r->x.count * (int64_t)ax_dtype_size(r->x.dtype);
    bool whole = w->ranks <= FEW_RANKS || bytes <= SMALL_BYTES;
    static const int stage[] = {[AX_ALLREDUCE] = STAGE_SUM,
                                [AX_ALLGATHER] = STAGE_GATHER,
                                [AX_REDUCE_SCATTER] = STAGE_SUM,
                                [AX_BCAST] = STAGE_BCAST};
    enter_stage(w, r, r->coll == AX_ALLREDUCE && whole ? STAGE_WHOLE : stage[r->coll]);
}

// All steps of a stage are made.
static void finish_stage(ax_window *w, ax_req *r)
{
    const ax_xfer *x = &r->x;
    if (r->stage == STAGE_SUM && r->coll == AX_ALLREDUCE) {
        enter_stage(w, r, STAGE_GATHER);
        return;
    }
    if (r->stage == STAGE_SUM) {
        int64_t n = ax_cut_count(ax_cut_of(r->coll, x, w->ranks), w->me);
        memset(ax_at(x->recv, x->dtype, n), 0, (size_t)(x->count - n) * ax_dtype_size(x->dtype));
    }
    r->done = true;
}

// One put and one get, where the peers allow them. Whether there was any.
static bool make_step(ax_window *w, ax_req *r, int64_t steps)
{
    ax_lane *own = w->lane[w->me];
    bool moved = false;
    if ((int64_t)(w->put - w->first) < steps && slot_reader(w) < 0) {
        put_step(w, r, w->put - w->first);
        advance_counter(&own->put, &own->put_sleepers, ++w->put);
        moved = true;
    }
    if (w->got != w->put && behind(w, true, w->got + 1) < 0) {
        get_step(w, r, w->got - w->first);
        advance_counter(&own->got, &own->got_sleepers, ++w->got);
        moved = true;
    }
    r->at += moved;
    return moved;
}

// Until make_step can do something.
static void wait_for_peers(const ax_window *w, int64_t steps)
{
    for (int spin = 0;; spin++) {
        bool may_put = (int64_t)(w->put - w->first) < steps;
        int reader = may_put ? slot_reader(w) : -1;
        int writer = w->got != w->put ? behind(w, true, w->got + 1) : -1;
        if ((may_put && reader < 0) || (w->got != w->put && writer < 0))
            return;
        if (spin < w->spins)
            relax();
        else if (writer >= 0)
            sleep_until(&w->lane[writer]->put, &w->lane[writer]->put_sleepers, w->got + 1);
        else
            sleep_until(&w->lane[reader]->got, &w->lane[reader]->got_sleepers,
                        w->put + 1 - AX_WINDOW_SLOTS);
    }
}

void ax_window_advance(ax_window *w, ax_req *r, bool block)
{
    double end_s = block ? 0 : ax_clock_s() + poll_s;
    if (r->stage == STAGE_START)
        start(w, r);
    while (!r->done) {
        int64_t steps = steps_of(w, r);
        if ((int64_t)(w->got - w->first) == steps) {
            finish_stage(w, r);
            continue;
        }
        bool moved = make_step(w, r, steps);
        if (!block && (!moved || ax_clock_s() > end_s))
            return;
        if (!moved)
            wait_for_peers(w, steps);
    }
}
