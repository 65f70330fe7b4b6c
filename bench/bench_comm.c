// Collectives by size, as bytes a second and as a share of what the machine's copies allow.
//
//     bench_comm [ranks=2] [least=4096] [most=67108864] [rounds=9]
//     mpirun -n 2 bench_comm
//
// Under a launcher the ranks are its processes, else `ranks` threads. GB/s are bytes of the whole
// vector (of all pieces together) over the time of the slowest rank.
//
// The ceiling: all ranks copy a vector of the same size at the same moment, in the same run,
// between the rounds, with memcpy and with stores past the caches; the better median counts. That
// is the rate at which each of them can read one byte and write one byte. Of a vector of N bytes
// over R ranks, a rank must at least
//     all-reduce      read N    (a share of each rank's)    write N
//     all-gather      read N                                write N
//     reduce-scatter  read N    (a share of each rank's)    write N/R
// and the share is the time that this would take at the rate of the copy, over the time taken. The
// second share is the same in processor seconds of all ranks, which a busy machine bends less.
#include "train/ranks.h"

#include "base/text.h"
#include "comm/pieces.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_ROUNDS = 1000 };

typedef struct bench {
    int64_t ranks, least, most, rounds;
} bench;

typedef struct buffers {
    ax_comm *comm;
    void *send, *recv;
    size_t bytes; // of the vector
} buffers;

enum { MOVE, COPY, COPY_PAST, WAYS };

typedef struct sample {
    double wall[WAYS][MOST_ROUNDS]; // seconds of the slowest rank
    double work[WAYS];              // processor seconds of all ranks, all rounds
    int count;
} sample;

static double processor_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static ax_status meet(ax_comm *c)
{
    double one = 1;
    return ax_comm_sum(c, &one, 1);
}

static ax_status move(const buffers *b, ax_coll coll, ax_dtype dtype)
{
    int64_t n = (int64_t)(b->bytes / ax_dtype_size(dtype));
    bool pieces = coll != AX_ALLREDUCE;
    ax_xfer x = {.send = b->send,
                 .recv = b->recv,
                 .count = pieces ? n / b->comm->size : n,
                 .dtype = dtype,
                 .tag = "bench"};
    if (coll == AX_ALLREDUCE)
        return ax_comm_allreduce(b->comm, &x);
    return coll == AX_ALLGATHER ? ax_comm_allgather(b->comm, &x)
                                : ax_comm_reduce_scatter(b->comm, &x);
}

static ax_status one_way(const buffers *b, ax_coll coll, ax_dtype dtype, int way)
{
    if (way == MOVE)
        return move(b, coll, dtype);
    ax_put(b->recv, b->send, b->bytes, way == COPY_PAST);
    return AX_OK;
}

static ax_status time_way(const buffers *b, ax_coll coll, ax_dtype dtype, int way, double *wall,
                          double *work)
{
    AX_TRY(meet(b->comm));
    double begun = ax_clock_s(), worked = processor_s();
    AX_TRY(one_way(b, coll, dtype, way));
    *wall = ax_clock_s() - begun;
    *work = processor_s() - worked;
    AX_TRY(ax_comm_max(b->comm, wall, 1));
    return ax_comm_sum(b->comm, work, 1);
}

static ax_status measure(const buffers *b, ax_coll coll, ax_dtype dtype, int rounds, sample *s)
{
    *s = (sample){.count = rounds};
    for (int i = -1; i < rounds; i++) // one to warm up
        for (int way = 0; way < WAYS; way++) {
            double wall, work;
            AX_TRY(time_way(b, coll, dtype, way, &wall, &work));
            s->wall[way][i < 0 ? 0 : i] = wall;
            s->work[way] += i < 0 ? 0 : work;
        }
    return AX_OK;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static const char *size_text(size_t bytes)
{
    static char text[32];
    bool large = bytes >= 1 << 20;
    snprintf(text, sizeof text, "%zu %s", bytes >> (large ? 20 : 10), large ? "MiB" : "KiB");
    return text;
}

static void print(const buffers *b, const char *name, ax_dtype dtype, double copies, sample *s)
{
    for (int way = 0; way < WAYS; way++)
        qsort(s->wall[way], (size_t)s->count, sizeof(double), ascending);
    double gb = (double)b->bytes * 1e-9;
    const double *move = s->wall[MOVE];
    double typical = move[s->count / 2], copy = s->wall[COPY][s->count / 2];
    double past = s->wall[COPY_PAST][s->count / 2];
    copy = past < copy ? past : copy;
    double work = s->work[COPY_PAST] < s->work[COPY] ? s->work[COPY_PAST] : s->work[COPY];
    printf("%-14s %-5s %8s %9.1f us  %6.2f GB/s (%6.2f .. %6.2f)  copy %6.2f GB/s  %5.1f %%  "
           "%5.1f %%\n",
           name, ax_dtype_name(dtype), size_text(b->bytes), typical * 1e6, gb / typical,
           gb / move[s->count - 1], gb / move[0], gb / copy, 100 * copies * copy / typical,
           100 * copies * work / s->work[MOVE]);
    fflush(stdout);
}

static ax_status bench_size(const bench *p, buffers *b)
{
    static const ax_dtype dtypes[] = {AX_F32, AX_BF16};
    static const char *const names[] = {"all-reduce", "all-gather", "reduce-scatter"};
    static const ax_coll colls[] = {AX_ALLREDUCE, AX_ALLGATHER, AX_REDUCE_SCATTER};
    double piece = 1.0 / b->comm->size;
    const double copies[] = {1, 1, (1 + piece) / 2};
    int64_t rounds = p->rounds * (p->most / (int64_t)b->bytes);
    rounds = rounds > 40 * p->rounds ? 40 * p->rounds : rounds;
    sample *s = calloc(1, sizeof *s);
    AX_CHECK(s, AX_ENOMEM, "no memory for the samples");
    ax_status st = AX_OK;
    for (int c = 0; c < 3 && st == AX_OK; c++)
        for (int d = 0; d < 2 && st == AX_OK; d++) {
            st = measure(b, colls[c], dtypes[d], (int)rounds, s);
            if (st == AX_OK && b->comm->rank == 0)
                print(b, names[c], dtypes[d], copies[c], s);
        }
    free(s);
    return st;
}

static ax_status bench_rank(void *ctx, ax_comm *world)
{
    const bench *p = ctx;
    size_t room = (size_t)p->most + 4096;
    buffers b = {
        .comm = world, .send = aligned_alloc(4096, room), .recv = aligned_alloc(4096, room)};
    ax_status st = b.send && b.recv ? AX_OK : AX_ENOMEM;
    st = ax_comm_agree(world, st);
    if (st == AX_OK) {
        memset(b.send, 0, room);
        memset(b.recv, 0, room);
    }
    if (st == AX_OK && world->rank == 0)
        printf("%d ranks, %s\n", world->size, world->ops->name);
    for (b.bytes = (size_t)p->least; st == AX_OK && b.bytes <= (size_t)p->most; b.bytes *= 4)
        st = bench_size(p, &b);
    free(b.send);
    free(b.recv);
    return st;
}

static ax_status parse(bench *b, const char *argument)
{
    static const struct {
        const char *key;
        size_t offset;
        int64_t most;
    } number[] = {{"ranks=", offsetof(bench, ranks), 64},
                  {"least=", offsetof(bench, least), 1 << 30},
                  {"most=", offsetof(bench, most), 1 << 30},
                  {"rounds=", offsetof(bench, rounds), MOST_ROUNDS / 40}};
    for (size_t i = 0; i < sizeof number / sizeof number[0]; i++) {
        size_t n = strlen(number[i].key);
        if (strncmp(argument, number[i].key, n) != 0)
            continue;
        int64_t *to = (int64_t *)((char *)b + number[i].offset);
        AX_CHECK(ax_parse_int(argument + n, to) && *to > 0 && *to <= number[i].most, AX_EUSAGE,
                 "%s is not a number from 1 to %lld", argument, (long long)number[i].most);
        return AX_OK;
    }
    AX_FAIL(AX_EUSAGE, "%s: known are ranks=, least=, most= (bytes), rounds=", argument);
}

int main(int argc, char **argv)
{
    bench b = {.ranks = 2, .least = 4096, .most = 64 << 20, .rounds = 9};
    for (int i = 1; i < argc; i++)
        if (parse(&b, argv[i]) != AX_OK)
            return 2;
    ax_status st = ax_comm_launch().launcher ? ax_ranks_run_mpi(bench_rank, &b)
                                             : ax_ranks_run((int)b.ranks, bench_rank, &b);
    return st == AX_OK ? 0 : 1;
}
