#include "train/ranks.h"

#include "base/log.h"

#include "dev/device.h"

#include <pthread.h>
#include <stdlib.h>

typedef struct seat {
    ax_rank_main *main;
    void *ctx;
    ax_comm *world;
    ax_log_config log;
    ax_status st;
    pthread_t thread;
    bool started;
} seat;

static ax_status serve(ax_rank_main *main, void *ctx, ax_comm *world)
{
    return ax_comm_end(world, main(ctx, world));
}

static void *rank_thread(void *arg)
{
    seat *s = arg;
    ax_log_config log = s->log;
    log.rank = s->world->rank;
    log.ranks = s->world->size;
    ax_log_setup(log);
    s->st = serve(s->main, s->ctx, s->world);
    return NULL;
}

// A rank that failed on its own account explains the job; AX_ECOMM is how the others heard of it.
static ax_status verdict(const seat *seats, int ranks)
{
    ax_status worst = AX_OK;
    for (int i = 0; i < ranks; i++)
        if (seats[i].st != AX_OK && (worst == AX_OK || worst == AX_ECOMM))
            worst = seats[i].st;
    return worst;
}

static void run_threads(seat *seats, int ranks)
{
    for (int i = 1; i < ranks; i++) {
        seats[i].started = pthread_create(&seats[i].thread, NULL, rank_thread, &seats[i]) == 0;
        if (!seats[i].started) {
            seats[i].st = AX_ENOMEM;
            ax_log(AX_LOG_ERROR, NULL, "rank %d: no thread to be had; ask for fewer ranks", i);
            ax_comm_abort(seats[i].world, "its thread could not be started");
        }
    }
    rank_thread(&seats[0]); // rank 0 is this thread: a debugger and a terminal see it first
    for (int i = 1; i < ranks; i++)
        if (seats[i].started)
            pthread_join(seats[i].thread, NULL);
}

ax_status ax_ranks_run(int ranks, ax_rank_main *main, void *ctx)
{
    ax_status st = AX_ENOMEM;
    ax_log_config log = ax_log_current();
    seat *seats = calloc((size_t)ranks, sizeof *seats);
    ax_comm **worlds = calloc((size_t)ranks, sizeof(ax_comm *));
    if (!seats || !worlds) {
        ax_log(AX_LOG_ERROR, NULL, "no memory for %d ranks", ranks);
        goto done;
    }
    AX_TRY_TO(done, ax_comm_local_open(ranks, worlds));
    for (int i = 0; i < ranks; i++)
        seats[i] = (seat){.main = main, .ctx = ctx, .world = worlds[i], .log = log};
    run_threads(seats, ranks);
    st = verdict(seats, ranks);
    for (int i = 0; i < ranks; i++)
        ax_comm_close(worlds[i]);
    ax_log_setup(log);
done:
    free(worlds);
    free(seats);
    return st;
}

ax_status ax_ranks_run_mpi(ax_rank_main *main, void *ctx)
{
    ax_comm *world;
    ax_log_config log = ax_log_current();
    AX_TRY(ax_comm_mpi_open(&world));
    log.rank = world->rank;
    log.ranks = world->size;
    log.muted = false;
    ax_log_setup(log);
    ax_status st = serve(main, ctx, world);
    ax_comm_close(world);
    return st;
}

ax_status ax_ranks_sharing_cores(ax_comm *world, int *ranks, int *place)
{
    uint64_t id = ax_device_cores_id();
    int32_t mine[2] = {(int32_t)(id & 0xffffffff), (int32_t)(id >> 32)};
    int32_t *all = malloc((size_t)world->size * sizeof mine);
    ax_status st = AX_ENOMEM;
    if (all)
        st = ax_comm_allgather(
            world,
            &(ax_xfer){.send = mine, .recv = all, .count = 2, .dtype = AX_I32, .tag = "cores"});
    *ranks = *place = 0;
    for (int i = 0; i < world->size && st == AX_OK; i++) {
        bool same = all[2 * i] == mine[0] && all[2 * i + 1] == mine[1];
        *ranks += same;
        *place += same && i < world->rank;
    }
    free(all);
    AX_CHECK(st != AX_ENOMEM, AX_ENOMEM, "no memory to compare the cores of %d ranks", world->size);
    return st;
}
