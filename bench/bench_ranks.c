// What a grid keeps of the speed of one rank that has the same cores.
//
//     bench_ranks [grids=z=2/data=2/x=2/y=2] [preset=gpt2-124m] [batch=4] [seq=256]
//                 [precision=fp32|bf16] [steps=2] [rounds=3] [activations=sharded|replicated]
//     mpirun -n 2 bench_ranks grids=z=2/data=2
//
// Each round runs every grid, and one rank with all cores before and after each: the speed of a
// grid is divided by the mean of its two neighbours, so that what the machine does besides falls
// on both. A run warms up with one step. Under mpirun the grids have the launcher's ranks and
// rank 0 alone runs the one, while the others sleep.
#include "bench_case.h"
#include "train/ranks.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_GRIDS = 16, MOST_ROUNDS = 50 };

typedef struct bench {
    bench_case c;
    int64_t rounds;
    ax_activations activations;
    ax_grid_shape grid[MOST_GRIDS];
    int grids;
    ax_comm *world;      // of the launcher; NULL: local ranks
    cpu_set_t cores;     // of this process
    ax_grid_shape shape; // of the run under way
    double tokens_per_s; // of the run that ended, on rank 0
    double exposed_s, step_s;
    double share[MOST_GRIDS][MOST_ROUNDS], exposed[MOST_GRIDS][MOST_ROUNDS];
} bench;

static ax_status run_steps(bench *b, ax_trainer *t)
{
    ax_step_result r;
    double spent = 0;
    AX_TRY(ax_params_init(&t->model.params, &t->grid, &t->dev, 1));
    for (int64_t i = -1; i < b->c.steps; i++) {
        bench_case_load(&b->c, t, i + 1);
        ax_comm_trace_reset(&t->trace);
        AX_TRY(ax_comm_agree(t->world, AX_OK));
        double begun = ax_clock_s();
        AX_TRY(ax_step(t, 1e-4, &r));
        spent += i < 0 ? 0 : ax_clock_s() - begun;
    }
    if (t->grid.rank == 0) {
        b->step_s = spent / (double)b->c.steps;
        b->tokens_per_s = (double)(b->c.batch * b->c.seq) / b->step_s;
        b->exposed_s = t->trace.wait_s; // of the last step
    }
    return AX_OK;
}

static ax_status bench_rank(void *ctx, ax_comm *world)
{
    bench *b = ctx;
    ax_trainer t;
    ax_trainer_config c = bench_case_trainer(&b->c);
    c.grid = b->shape;
    c.activations = b->activations;
    AX_TRY(ax_trainer_open(&c, world, &t));
    ax_status st = run_steps(b, &t);
    ax_comm_end(world, st);
    ax_trainer_close(&t);
    return st;
}

// Waits without a core: a blocking collective would take one from rank 0.
static ax_status sleep_until(ax_comm *world, bool here)
{
    double ready = here;
    ax_req r;
    AX_TRY(ax_comm_allreduce_begin(
        world,
        &(ax_xfer){.send = &ready, .recv = &ready, .count = 1, .dtype = AX_F64, .tag = "sleep"},
        &r));
    while (!r.done) {
        usleep(2000);
        AX_TRY(ax_comm_progress(world));
    }
    return ax_comm_wait(&r);
}

static ax_status run_alone(bench *b)
{
    cpu_set_t bound;
    b->shape = (ax_grid_shape){1, 1, 1, 1, "xyzd"};
    if (b->world && b->world->rank > 0)
        return sleep_until(b->world, true);
    sched_getaffinity(0, sizeof bound, &bound);
    if (b->world) // the launcher may have bound this rank to its share
        sched_setaffinity(0, sizeof b->cores, &b->cores);
    ax_status st = ax_ranks_run(1, bench_rank, b);
    sched_setaffinity(0, sizeof bound, &bound);
    if (b->world && st == AX_OK)
        st = sleep_until(b->world, true);
    return st;
}

static ax_status run_grid(bench *b, int i)
{
    b->shape = b->grid[i];
    return b->world ? bench_rank(b, b->world)
                    : ax_ranks_run(ax_grid_ranks(&b->shape), bench_rank, b);
}

static ax_status run_rounds(bench *b)
{
    for (int64_t round = 0; round < b->rounds; round++) {
        AX_TRY(run_alone(b));
        double before = b->tokens_per_s;
        for (int i = 0; i < b->grids; i++) {
            AX_TRY(run_grid(b, i));
            double here = b->tokens_per_s;
            b->exposed[i][round] = b->exposed_s / b->step_s;
            AX_TRY(run_alone(b));
            b->share[i][round] = here / (0.5 * (before + b->tokens_per_s));
            before = b->tokens_per_s;
        }
    }
    return AX_OK;
}

static void print(bench *b)
{
    printf("%s  B=%lld T=%lld  %s  %s, %lld rounds of %lld steps\n", b->c.preset,
           (long long)b->c.batch, (long long)b->c.seq, ax_dtype_name(b->c.act),
           b->world ? "mpi" : "local ranks", (long long)b->rounds, (long long)b->c.steps);
    printf("one rank, all cores: %.0f tokens/s\n", b->tokens_per_s);
    for (int i = 0; i < b->grids; i++) {
        char name[64];
        bench_spread s = bench_spread_of(b->share[i], b->rounds);
        bench_spread e = bench_spread_of(b->exposed[i], b->rounds);
        ax_grid_print(&b->grid[i], name, sizeof name);
        printf("%-24s %5.1f %% of one rank's speed, median (min %.1f, max %.1f); in calls of "
               "communicators %.1f %% of a step\n",
               name, 100 * s.median, 100 * s.least, 100 * s.most, 100 * e.median);
    }
}

static ax_status parse_grids(bench *b, const char *list)
{
    char text[512];
    AX_CHECK(strlen(list) < sizeof text, AX_EUSAGE, "grids=: too long");
    strcpy(text, list);
    for (char *rest = text, *one; (one = strsep(&rest, "/"));) {
        AX_CHECK(b->grids < MOST_GRIDS, AX_EUSAGE, "at most %d grids", MOST_GRIDS);
        AX_TRY(ax_grid_parse(one, &b->grid[b->grids++]));
    }
    return AX_OK;
}

static ax_status parse(bench *b, int argc, char **argv)
{
    const char *grids = "z=2/data=2/x=2/y=2";
    for (int i = 1; i < argc; i++) {
        bool ok = true, known = bench_case_set(&b->c, argv[i], &ok) ||
                                bench_number(argv[i], "rounds=", &b->rounds, &ok);
        if (strncmp(argv[i], "grids=", 6) == 0)
            grids = argv[i] + 6, known = true;
        if (strcmp(argv[i], "activations=replicated") == 0)
            b->activations = AX_ACT_REPLICATED, known = true;
        if (strcmp(argv[i], "activations=sharded") == 0)
            b->activations = AX_ACT_SHARDED, known = true;
        AX_CHECK(known && ok, AX_EUSAGE,
                 "%s: known are grids=, preset=, batch=, seq=, precision=fp32|bf16, steps=, "
                 "rounds=, activations=sharded|replicated",
                 argv[i]);
    }
    AX_CHECK(b->rounds <= MOST_ROUNDS, AX_EUSAGE, "at most %d rounds", MOST_ROUNDS);
    AX_TRY(parse_grids(b, grids));
    return bench_case_open(&b->c);
}

static ax_status launched(void *ctx, ax_comm *world)
{
    bench *b = ctx;
    b->world = world;
    AX_TRY(run_rounds(b));
    if (world->rank == 0)
        print(b);
    return AX_OK;
}

// The cores of the machine that this user may have: a launcher binds ranks to less.
static void find_cores(cpu_set_t *cores)
{
    cpu_set_t bound, all;
    sched_getaffinity(0, sizeof bound, &bound);
    memset(&all, 0xff, sizeof all);
    sched_setaffinity(0, sizeof all, &all);
    sched_getaffinity(0, sizeof *cores, cores);
    sched_setaffinity(0, sizeof bound, &bound);
}

int main(int argc, char **argv)
{
    static bench b;
    b = (bench){.c = {.preset = "gpt2-124m", .batch = 4, .seq = 256, .steps = 2, .act = AX_F32},
                .rounds = 3};
    if (parse(&b, argc, argv) != AX_OK)
        return 2;
    find_cores(&b.cores);
    if (ax_comm_launch().launcher)
        return ax_ranks_run_mpi(launched, &b) == AX_OK ? 0 : 1;
    if (run_rounds(&b) != AX_OK)
        return 1;
    print(&b);
    return 0;
}
