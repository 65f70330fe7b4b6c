// Run by mpirun. Without an argument: the battery. "die": rank 1 kills itself in a collective.
// "abort": rank 1 aborts while the others wait. "speed": bandwidth of sums, printed.
#include "comm_battery.h"

#include "base/log.h"
#include "comm/hook_fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int battery(ax_comm *world)
{
    // The largest needs several rounds of every buffer a piece.
    int64_t largest = 3600007 / world->size;
    int wrong = battery_collectives(world, largest) + battery_splits(world);
    wrong += battery_queues(world);
    wrong += battery_lazy(world) + battery_scalars(world) + battery_trace(world);
    double total = wrong;
    if (ax_comm_sum(world, &total, 1) != AX_OK)
        return 1;
    if (world->rank == 0)
        printf("%d ranks: %g things wrong\n", world->size, total);
    return total != 0;
}

static int end_early(ax_comm *world, bool die)
{
    ax_fault plan = {.nth = die && world->rank == 1 ? 5 : 0, .what = AX_FAULT_KILL};
    if (ax_comm_fault_open(world, &plan, &world) != AX_OK)
        return 1;
    for (int i = 0; i < 10; i++) {
        double v = 1;
        if (!die && i == 5 && world->rank == 1)
            ax_comm_abort(world, "told to");
        if (ax_comm_sum(world, &v, 1) != AX_OK)
            ax_comm_abort(world, "a sum failed");
    }
    ax_comm_close(world);
    return 0; // wrong: the job should have ended
}

static int speed(ax_comm *world)
{
    static const int64_t counts[] = {1, 1 << 14, 1 << 20, 1 << 24};
    float *v = calloc(1 << 24, sizeof *v), *w = calloc(1 << 24, sizeof *w);
    int wrong = 0;
    for (int i = 0; i < 4; i++) {
        ax_xfer x = {.send = v, .recv = w, .count = counts[i], .tag = "speed"};
        int rounds = counts[i] > 1 << 20 ? 5 : 100;
        double best = 1e9;
        for (int k = 0; k < rounds; k++) {
            double t0 = seconds_now();
            wrong += ax_comm_allreduce(world, &x) != AX_OK;
            double t = seconds_now() - t0;
            best = t < best ? t : best;
        }
        double bytes = 4.0 * (double)counts[i];
        if (world->rank == 0)
            printf("allreduce %10.0f bytes: %10.1f us %6.2f GB/s\n", bytes, best * 1e6,
                   bytes / best * 1e-9);
    }
    free(v);
    free(w);
    return wrong;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    ax_comm *world;
    alarm(170); // a hang ends here
    if (ax_comm_mpi_open(&world) != AX_OK)
        return 1;
    ax_log_setup((ax_log_config){.rank = world->rank, .ranks = world->size, .level = AX_LOG_INFO});
    if (strcmp(what, "die") == 0 || strcmp(what, "abort") == 0)
        return end_early(world, *what == 'd');
    int wrong = strcmp(what, "speed") == 0 ? speed(world) : battery(world);
    ax_comm_close(world);
    return wrong != 0;
}
