#include "comm_battery.h"

#include "base/log.h"
#include "comm/trace.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(cond, ...)                                                                          \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            wrong++;                                                                               \
            fprintf(stderr, "%s:%d: not so: %s; ", __FILE__, __LINE__, #cond);                     \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fputc('\n', stderr);                                                                   \
        }                                                                                          \
    } while (0)

enum { GUARD = 16 }; // elements behind recv that nobody may touch

typedef struct job {
    ax_comm *comm;
    ax_coll coll;
    ax_xfer x;
    int root;
    bool in_place;
    uint64_t seed;
    unsigned char *memory, *expected; // memory: send, then recv, then guard
    int64_t send_count, recv_count;   // elements
} job;

// Numbers of very different sizes, so that another order of adding gives other bits.
static double sample(uint64_t seed, int rank, int64_t i)
{
    uint64_t v = seed * 0x9e3779b97f4a7c15u + (uint64_t)rank * 0xd1342543de82ef95u + (uint64_t)i;
    v = (v ^ v >> 31) * 0xbf58476d1ce4e5b9u;
    v ^= v >> 29;
    double mantissa = (double)(v & 0xffff) / 32768.0 - 1.0;
    return mantissa * (1 << (v >> 20 & 15));
}

static void put(void *base, ax_dtype dtype, int64_t at, double value)
{
    if (dtype == AX_F32)
        ((float *)base)[at] = (float)value;
    else if (dtype == AX_F64)
        ((double *)base)[at] = value;
    else if (dtype == AX_BF16)
        ((ax_bf16 *)base)[at] = ax_f32_to_bf16((float)value);
    else
        ((int32_t *)base)[at] = (int32_t)(value * 100);
}

static double get(const void *base, ax_dtype dtype, int64_t at)
{
    if (dtype == AX_F32)
        return ((const float *)base)[at];
    if (dtype == AX_F64)
        return ((const double *)base)[at];
    if (dtype == AX_BF16)
        return ax_bf16_to_f32(((const ax_bf16 *)base)[at]);
    return ((const int32_t *)base)[at];
}

// What a rank contributes at element i of its send buffer, after rounding to the dtype.
static double given(const job *j, int rank, int64_t i)
{
    unsigned char one[8];
    put(one, j->x.dtype, 0, sample(j->seed, rank, i));
    return get(one, j->x.dtype, 0);
}

static double reduced(const job *j, int64_t i)
{
    ax_dtype dtype = j->x.dtype;
    double acc = given(j, 0, i);
    for (int p = 1; p < j->comm->size; p++) {
        double v = given(j, p, i);
        if (j->x.op == AX_MAX)
            acc = v > acc ? v : acc;
        else if (dtype == AX_F32 || dtype == AX_BF16)
            acc = (double)(float)((float)acc + (float)v);
        else
            acc += v;
    }
    return acc;
}

static int64_t valid_total(const job *j)
{
    return j->x.limit ? j->x.limit : j->x.count * j->comm->size;
}

// The whole of recv, element by element; what must stay as it was is copied from there.
static void expect_all(job *j, const void *before)
{
    const ax_xfer *x = &j->x;
    size_t size = ax_dtype_size(x->dtype);
    memcpy(j->expected, before, (size_t)(j->recv_count + GUARD) * size);
    int64_t total = valid_total(j);
    for (int64_t i = 0; i < j->recv_count; i++) {
        double v;
        int64_t at = j->comm->rank * x->count + i;
        if (j->coll == AX_ALLREDUCE)
            v = reduced(j, i);
        else if (j->coll == AX_BCAST)
            v = given(j, j->root, i);
        else if (j->coll == AX_REDUCE_SCATTER)
            v = at < total ? reduced(j, at) : 0;
        else if (i < total)
            v = given(j, (int)(i / x->count), i % x->count);
        else
            continue;
        // An i32 sample was scaled when it was made; results are not scaled again.
        if (x->dtype == AX_I32)
            ((int32_t *)j->expected)[i] = (int32_t)v;
        else
            put(j->expected, x->dtype, i, v);
    }
}

static int64_t mine_of(const job *j)
{
    int64_t left = valid_total(j) - j->comm->rank * j->x.count;
    return left < 0 ? 0 : left < j->x.count ? left : j->x.count;
}

// Buffers of exactly the legal size: a byte too far is the sanitizer's to find, or the guard's.
static void set_up(job *j)
{
    ax_xfer *x = &j->x;
    int size = j->comm->size, me = j->comm->rank;
    size_t bytes = ax_dtype_size(x->dtype);
    j->send_count = j->coll == AX_REDUCE_SCATTER ? valid_total(j)
                    : j->coll == AX_ALLGATHER    ? mine_of(j)
                    : j->coll == AX_BCAST        ? 0
                                                 : x->count;
    j->recv_count = j->coll == AX_ALLGATHER ? valid_total(j) : x->count;
    int64_t most = size * x->count + x->count + GUARD;
    j->memory = malloc((size_t)(2 * most) * bytes);
    j->expected = malloc((size_t)most * bytes);
    memset(j->memory, 0x5a, (size_t)(2 * most) * bytes);
    unsigned char *first = j->memory, *second = j->memory + (size_t)most * bytes;
    x->send = first;
    x->recv = second;
    if (j->in_place && j->coll == AX_ALLREDUCE)
        x->recv = first;
    else if (j->in_place && j->coll == AX_REDUCE_SCATTER)
        x->recv = first + (size_t)(me * x->count) * bytes;
    else if (j->in_place && j->coll == AX_ALLGATHER)
        x->send = second + (size_t)(me * x->count) * bytes;
    for (int64_t i = 0; i < j->send_count; i++)
        put((void *)x->send, x->dtype, i, sample(j->seed, me, i));
    if (j->coll == AX_BCAST && j->root == me)
        for (int64_t i = 0; i < x->count; i++)
            put(x->recv, x->dtype, i, sample(j->seed, me, i));
    expect_all(j, x->recv);
}

static ax_status begin(job *j, ax_req *r)
{
    switch (j->coll) {
    case AX_ALLREDUCE:
        return ax_comm_allreduce_begin(j->comm, &j->x, r);
    case AX_ALLGATHER:
        return ax_comm_allgather_begin(j->comm, &j->x, r);
    case AX_REDUCE_SCATTER:
        return ax_comm_reduce_scatter_begin(j->comm, &j->x, r);
    case AX_BCAST:
        break;
    }
    return ax_comm_bcast_begin(j->comm, &j->x, j->root, r);
}

static bool is_right(const job *j)
{
    size_t bytes = (size_t)(j->recv_count + GUARD) * ax_dtype_size(j->x.dtype);
    return memcmp(j->x.recv, j->expected, bytes) == 0;
}

static int tear_down(job *j, ax_status st)
{
    int wrong = 0;
    EXPECT(st == AX_OK && is_right(j),
           "%s rank %d of %d: kind %d %s op %d count %lld limit %lld in place %d status %d",
           j->comm->name, j->comm->rank, j->comm->size, (int)j->coll, ax_dtype_name(j->x.dtype),
           (int)j->x.op, (long long)j->x.count, (long long)j->x.limit, j->in_place, (int)st);
    free(j->memory);
    free(j->expected);
    return wrong;
}

static int run_one(job j)
{
    ax_req r;
    set_up(&j);
    ax_status st = begin(&j, &r);
    if (st == AX_OK)
        st = ax_comm_wait(&r);
    return tear_down(&j, st);
}

static int run_limits(job j)
{
    int wrong = run_one(j);
    int64_t whole = j.x.count * j.comm->size;
    bool pieces = j.coll == AX_ALLGATHER || j.coll == AX_REDUCE_SCATTER;
    if (!pieces || j.x.count == 0)
        return wrong;
    int64_t limits[] = {whole - 1, whole, j.x.count, 1}; // the last leave ranks without a piece
    int tried = j.x.count < 1000 ? 4 : 1;
    for (int i = 0; i < tried; i++) {
        j.x.limit = limits[i];
        if (j.x.limit > 0)
            wrong += run_one(j);
    }
    return wrong;
}

int battery_collectives(ax_comm *world, int64_t largest)
{
    static const int64_t counts[] = {0, 1, 7, 64, 1023, 4099};
    enum { COUNTS = sizeof counts / sizeof counts[0] };
    int wrong = 0;
    uint64_t seed = 1;
    for (int c = 0; c <= COUNTS; c++)
        for (int coll = AX_ALLREDUCE; coll <= AX_BCAST; coll++)
            for (int dtype = AX_F32; dtype <= AX_I32; dtype++)
                for (int variant = 0; variant < 4; variant++) {
                    bool big = c == COUNTS;
                    if (big && (dtype == AX_I32 || dtype == AX_F64 || variant / 2 == 1))
                        continue;
                    job j = {.comm = world, .coll = (ax_coll)coll, .seed = seed++};
                    j.in_place = variant % 2;
                    j.root = variant % world->size;
                    j.x = (ax_xfer){.count = big ? largest : counts[c],
                                    .dtype = (ax_dtype)dtype,
                                    .op = variant / 2 ? AX_MAX : AX_SUM,
                                    .tag = "battery"};
                    wrong += big ? run_one(j) : run_limits(j);
                }
    return wrong;
}

// ---- splits ----

int battery_splits(ax_comm *world)
{
    int wrong = 0, me = world->rank, n = world->size;
    ax_comm *pairs = NULL, *columns = NULL, *turned = NULL, *few = NULL;
    EXPECT(ax_comm_split(world, "pairs", me / 2, me, &pairs) == AX_OK, "split");
    EXPECT(ax_comm_split(world, "columns", me % 2, me, &columns) == AX_OK, "split");
    EXPECT(ax_comm_split(world, "turned", 0, -me, &turned) == AX_OK, "split");
    EXPECT(ax_comm_split(world, "few", me == 0 ? 3 : -1, 0, &few) == AX_OK, "split");
    if (wrong)
        return wrong;
    EXPECT(pairs->rank == me % 2 && pairs->size == (me / 2 * 2 + 1 < n ? 2 : 1), "rank %d", me);
    EXPECT(columns->rank == me / 2 && columns->size == (n + 1 - me % 2) / 2, "rank %d", me);
    EXPECT(turned->rank == n - 1 - me && turned->size == n, "rank %d", me);
    EXPECT((few != NULL) == (me == 0) && (!few || few->size == 1), "rank %d", me);
    EXPECT(strcmp(turned->name, "turned") == 0, "%s", turned->name);

    ax_comm *comms[] = {pairs, columns, turned, world};
    for (int round = 0; round < 12; round++) { // all four in flight, waited for in another order
        job j[4];
        ax_req r[4];
        for (int i = 0; i < 4; i++) {
            j[i] = (job){.comm = comms[i], .coll = (ax_coll)((i + round) % 4), .seed = 77u + i};
            j[i].in_place = round & 1;
            j[i].x = (ax_xfer){.count = 1 + 700 * (round + i), .dtype = AX_F32, .tag = "splits"};
            set_up(&j[i]);
            EXPECT(begin(&j[i], &r[i]) == AX_OK, "begin");
        }
        for (int i = 0; i < 4; i++) {
            int k = (i * 3 + round) % 4;
            wrong += tear_down(&j[k], ax_comm_wait(&r[k]));
        }
    }
    ax_comm_close(few);
    ax_comm_close(turned);
    ax_comm_close(columns);
    ax_comm_close(pairs);
    ax_comm_close(NULL);
    return wrong;
}

// ---- queues ----

int battery_queues(ax_comm *world)
{
    enum { MANY = 24 };
    int wrong = 0;
    job j[MANY];
    ax_req r[MANY];
    for (int backwards = 0; backwards < 2; backwards++) {
        for (int i = 0; i < MANY; i++) {
            j[i] = (job){.comm = world, .coll = (ax_coll)(i % 4), .seed = 5u + i};
            j[i].x = (ax_xfer){.count = i % 5 * 900, .dtype = AX_BF16, .tag = "queue"};
            set_up(&j[i]);
            EXPECT(begin(&j[i], &r[i]) == AX_OK, "begin");
        }
        for (int i = 0; i < MANY; i++) {
            int k = backwards ? MANY - 1 - i : i;
            ax_status st = ax_comm_wait(&r[k]);
            for (int e = 0; backwards && i == 0 && e < MANY; e++)
                EXPECT(r[e].done, "request %d is older than one that was waited for", e);
            wrong += tear_down(&j[k], st);
            EXPECT(ax_comm_wait(&r[k]) == AX_OK, "a second wait returns at once");
        }
    }
    // Polling alone finishes a request.
    j[0] = (job){.comm = world, .coll = AX_ALLREDUCE, .seed = 3};
    j[0].x = (ax_xfer){.count = 50000, .dtype = AX_F32, .tag = "poll"};
    set_up(&j[0]);
    EXPECT(begin(&j[0], &r[0]) == AX_OK, "begin");
    while (!r[0].done)
        EXPECT(ax_comm_progress(world) == AX_OK, "progress");
    EXPECT(is_right(&j[0]), "polled");
    wrong += tear_down(&j[0], ax_comm_wait(&r[0]));
    ax_req zero = {0};
    EXPECT(ax_comm_wait(&zero) == AX_OK, "never begun");
    return wrong;
}

// ---- lazy mode ----

// Outside its own data, recv holds NaN (0x7f bytes for integers).
static bool is_poisoned(const job *j)
{
    for (int64_t i = 0; i < j->recv_count; i++) {
        int64_t piece = j->comm->rank * j->x.count;
        bool own = j->in_place && j->coll == AX_ALLGATHER && i >= piece && i < piece + mine_of(j);
        if (own)
            continue;
        if (j->x.dtype == AX_I32 ? ((int32_t *)j->x.recv)[i] != 0x7f7f7f7f
                                 : !isnan(get(j->x.recv, j->x.dtype, i)))
            return false;
    }
    return true;
}

static int lazy_round(ax_comm *comm, ax_dtype dtype, bool in_place)
{
    int wrong = 0;
    job j[4];
    ax_req r[4];
    for (int i = 0; i < 4; i++) {
        j[i] = (job){.comm = comm, .coll = (ax_coll)i, .seed = 9u + i, .in_place = in_place};
        j[i].x = (ax_xfer){.count = 33, .dtype = dtype, .tag = "lazy"};
        set_up(&j[i]);
        EXPECT(begin(&j[i], &r[i]) == AX_OK, "begin");
        EXPECT(ax_comm_progress(comm) == AX_OK, "progress");
    }
    for (int i = 0; i < 4; i++) {
        bool keeps = (i == AX_BCAST && comm->rank == 0) || (in_place && i == AX_ALLREDUCE) ||
                     (in_place && i == AX_REDUCE_SCATTER);
        EXPECT(!r[i].done, "kind %d ran before its wait", i);
        EXPECT(keeps || is_poisoned(&j[i]), "kind %d %s: not poisoned", i, ax_dtype_name(dtype));
        if (i == AX_ALLREDUCE && in_place)
            EXPECT(get(j[i].x.recv, dtype, 3) == given(&j[i], comm->rank, 3), "own data kept");
    }
    wrong += tear_down(&j[2], ax_comm_wait(&r[2]));
    EXPECT(r[0].done && r[1].done && !r[3].done, "a wait runs the older ones and no younger one");
    wrong += tear_down(&j[0], ax_comm_wait(&r[0]));
    wrong += tear_down(&j[1], ax_comm_wait(&r[1]));
    wrong += tear_down(&j[3], ax_comm_wait(&r[3]));
    return wrong;
}

int battery_lazy(ax_comm *world)
{
    int wrong = 0;
    ax_comm *part = NULL;
    ax_comm_set_lazy(world, true);
    EXPECT(ax_comm_split(world, "part", world->rank % 2, 0, &part) == AX_OK && part->lazy, "split");
    for (int dtype = AX_F32; dtype <= AX_I32; dtype++)
        for (int in_place = 0; in_place < 2; in_place++) {
            wrong += lazy_round(world, (ax_dtype)dtype, in_place);
            wrong += lazy_round(part, (ax_dtype)dtype, in_place);
        }
    ax_comm_close(part);
    ax_comm_set_lazy(world, false);
    return wrong;
}

// ---- scalars ----

int battery_scalars(ax_comm *world)
{
    int wrong = 0, me = world->rank, n = world->size;
    EXPECT(ax_comm_agree(world, AX_OK) == AX_OK, "all fine");
    ax_log_config before = ax_log_current(), silent = before;
    silent.muted = true; // the failures below are wanted
    ax_log_setup(silent);
    EXPECT(ax_comm_agree(world, me == n - 1 ? AX_EIO : AX_OK) == AX_EIO, "the last rank failed");
    ax_status mixed = me == 0 ? AX_ENOMEM : me == n - 1 ? AX_EIO : AX_OK;
    EXPECT(ax_comm_agree(world, mixed) == AX_ENOMEM, "the worst of two");
    EXPECT(ax_comm_check_equal(world, -5, "five") == AX_OK, "equal");
    ax_status st = ax_comm_check_equal(world, (int64_t)1 << 40 | (me == 0), "forty");
    EXPECT(st == (n > 1 ? AX_EUSAGE : AX_OK), "not equal");
    st = ax_comm_check_equal(world, me == 0 ? INT64_MIN : INT64_MAX, "ends");
    EXPECT(st == (n > 1 ? AX_EUSAGE : AX_OK), "not equal");
    ax_log_setup(before);
    double v[3] = {me + 1, 0.1 * me, me == 1 ? NAN : 1}, w[2] = {-me, me == 0 ? 7.5 : me};
    double sum = 0;
    for (int p = 0; p < n; p++)
        sum += 0.1 * p;
    EXPECT(ax_comm_sum(world, v, 3) == AX_OK, "sum");
    EXPECT(v[0] == n * (n + 1) / 2 && v[1] == sum && isnan(v[2]) == (n > 1), "%g %g", v[0], v[1]);
    EXPECT(ax_comm_max(world, w, 2) == AX_OK, "max");
    EXPECT(w[0] == 0 && w[1] == (n - 1 > 7.5 ? n - 1 : 7.5), "%g %g", w[0], w[1]);
    double u = me == n - 1 ? NAN : me;
    EXPECT(ax_comm_max(world, &u, 1) == AX_OK && isnan(u), "a NaN survives the maximum");
    return wrong;
}

// ---- trace ----

static const ax_comm_trace_row *row(const ax_comm_trace *t, const char *axis, const char *tag,
                                    ax_coll coll)
{
    for (int i = 0; i < t->rows; i++)
        if (strcmp(t->row[i].axis, axis) == 0 && strcmp(t->row[i].tag, tag) == 0 &&
            t->row[i].coll == coll)
            return &t->row[i];
    return NULL;
}

// Whoever begins first is not done by its begin: a poll moves something, or sees it moved.
static int polls_are_counted(ax_comm *world, ax_comm_trace *t)
{
    int wrong = 0;
    job j = {.comm = world, .coll = AX_ALLREDUCE, .x = {.count = 60000, .tag = "poll"}};
    ax_req r;
    set_up(&j);
    double before = t->axis[0].moving_s, moved;
    EXPECT(begin(&j, &r) == AX_OK, "begin");
    while (!r.done)
        EXPECT(ax_comm_progress(world) == AX_OK, "progress");
    moved = t->axis[0].moving_s - before;
    wrong += tear_down(&j, ax_comm_wait(&r));
    EXPECT(ax_comm_sum(world, &moved, 1) == AX_OK && (moved > 0 || world->size == 1), "%g", moved);
    return wrong;
}

int battery_trace(ax_comm *world)
{
    int wrong = 0, n = world->size;
    ax_comm_trace *t = calloc(1, sizeof *t);
    ax_comm *part = NULL, *alone = NULL;
    ax_comm_trace_attach(world, t);
    EXPECT(ax_comm_split(world, "part", world->rank / 2, 0, &part) == AX_OK, "split");
    EXPECT(ax_comm_split(world, "alone", world->rank, 0, &alone) == AX_OK, "split");
    EXPECT(t->rows == 0, "a split is not traffic");
    job j = {.comm = world, .coll = AX_ALLREDUCE, .x = {.count = 11, .tag = "a"}};
    wrong += run_one(j);
    wrong += run_one(j);
    j.coll = AX_ALLGATHER;
    j.x = (ax_xfer){.count = 9, .limit = n * 9 - 4, .dtype = AX_BF16, .tag = "a"};
    wrong += run_one(j);
    j.comm = part;
    j.coll = AX_REDUCE_SCATTER;
    wrong += (j.x.limit = 0, run_one(j));
    j.comm = alone;
    wrong += run_one(j);
    const ax_comm_trace_row *a = row(t, "world", "a", AX_ALLREDUCE);
    const ax_comm_trace_row *b = row(t, "world", "a", AX_ALLGATHER);
    const ax_comm_trace_row *c = row(t, "part", "a", AX_REDUCE_SCATTER);
    if (n == 1) {
        EXPECT(t->rows == 0, "one rank alone moves nothing");
    } else {
        EXPECT(a && a->calls == 2 && a->bytes == 2 * 11 * 4, "allreduce");
        EXPECT(b && b->calls == 1 && b->bytes == n * 9 * 2, "allgather");
        EXPECT(part->size == 1 ? !c : c && c->calls == 1 && c->bytes == 2 * 9 * 2, "scatter");
        EXPECT(t->axes == (part->size == 1 ? 1 : 2), "%d axes", t->axes);
        EXPECT(t->axis[0].bytes == 2 * 11 * 4 + n * 9 * 2, "%lld", (long long)t->axis[0].bytes);
        EXPECT(t->wait_s > 0 && t->axis[0].exposed_s > 0, "time");
    }
    wrong += polls_are_counted(world, t);
    ax_comm_trace_reset(t);
    EXPECT(t->rows == 0 && t->axes == 0, "reset");
    ax_comm_trace_attach(world, NULL);
    ax_comm_close(alone);
    ax_comm_close(part);
    free(t);
    return wrong;
}
