#include "comm_battery.h"

#include "base/log.h"
#include "comm/hook_fault.h"
#include "comm/trace.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

enum { MOST_RANKS = 8 };

typedef struct rank_thread rank_thread;
typedef int rank_fn(rank_thread *t);

struct rank_thread {
    pthread_t thread;
    ax_comm *world; // closed when fn returns; fn may wrap it
    ax_fault plan;
    rank_fn *fn;
    void *arg;
    bool muted;
    int wrong;
};

static void *rank_main(void *arg)
{
    rank_thread *t = arg;
    ax_log_setup((ax_log_config){
        .rank = t->world->rank, .ranks = t->world->size, .level = AX_LOG_INFO, .muted = t->muted});
    t->wrong = t->fn(t);
    ax_comm_close(t->world);
    return NULL;
}

// Runs fn on `ranks` threads; returns the sum of what they return. Muted: failures are wanted.
static int run_ranks(int ranks, bool muted, rank_fn *fn, void *arg)
{
    ax_comm *worlds[MOST_RANKS];
    rank_thread threads[MOST_RANKS];
    int wrong = 0;
    assert_int_equal(ax_comm_local_open(ranks, worlds), AX_OK);
    for (int p = 0; p < ranks; p++) {
        threads[p] = (rank_thread){.world = worlds[p], .fn = fn, .arg = arg, .muted = muted};
        assert_int_equal(pthread_create(&threads[p].thread, NULL, rank_main, &threads[p]), 0);
    }
    for (int p = 0; p < ranks; p++) {
        pthread_join(threads[p].thread, NULL);
        wrong += threads[p].wrong;
    }
    return wrong;
}

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// ---- the battery on threads ----

static int collectives(rank_thread *t)
{
    ax_comm *world = t->world;
    return battery_collectives(world, 20011);
}

static void all_collectives_equal_the_serial_sum_bit_by_bit(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= MOST_RANKS; ranks++)
        assert_int_equal(run_ranks(ranks, false, collectives, NULL), 0);
}

// Whole numbers: every order of adding gives the same, and each element is told by its place.
static int large_collectives(rank_thread *t)
{
    enum { COUNT = 2100001 };
    const int ranks = 3, me = t->world->rank;
    float *send = malloc(3 * COUNT * sizeof *send), *recv = malloc(3 * COUNT * sizeof *recv);
    int wrong = !send || !recv;
    for (int i = 0; !wrong && i < ranks * COUNT; i++)
        send[i] = (float)(me + i % 1013);
    ax_xfer x = {.send = send, .recv = recv, .count = COUNT, .tag = "large"};
    wrong += wrong || ax_comm_allreduce(t->world, &x) != AX_OK;
    for (int i = 0; !wrong && i < COUNT; i++)
        wrong += recv[i] != (float)(3 * (i % 1013) + 3);
    wrong += wrong || ax_comm_reduce_scatter(t->world, &x) != AX_OK;
    for (int i = 0; !wrong && i < COUNT; i++)
        wrong += recv[i] != (float)(3 * ((me * COUNT + i) % 1013) + 3);
    wrong += wrong || ax_comm_allgather(t->world, &x) != AX_OK;
    for (int i = 0; !wrong && i < ranks * COUNT; i++)
        wrong += recv[i] != (float)(i / COUNT + i % COUNT % 1013);
    wrong +=
        wrong || ax_comm_bcast(t->world, &(ax_xfer){.recv = send, .count = COUNT, .tag = "l"}, 2);
    for (int i = 0; !wrong && i < COUNT; i++)
        wrong += send[i] != (float)(2 + i % 1013);
    free(send);
    free(recv);
    return wrong;
}

static void vectors_larger_than_the_caches_are_written_past_them(void **state)
{
    (void)state;
    assert_int_equal(run_ranks(3, false, large_collectives, NULL), 0);
}

static int the_rest(rank_thread *t)
{
    ax_comm *world = t->world;
    int wrong = battery_splits(world) + battery_queues(world) + battery_lazy(world);
    return wrong + battery_scalars(world) + battery_trace(world);
}

static void splits_queues_lazy_mode_scalars_and_traces_hold_on_every_number_of_ranks(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= MOST_RANKS; ranks++)
        assert_int_equal(run_ranks(ranks, false, the_rest, NULL), 0);
}

static int delayed(rank_thread *t)
{
    t->plan = (ax_fault){.delay_us = 300, .seed = *(uint64_t *)t->arg + (uint64_t)t->world->rank};
    if (ax_comm_fault_open(t->world, &t->plan, &t->world) != AX_OK)
        return 1;
    int wrong = battery_splits(t->world) + battery_queues(t->world) + battery_scalars(t->world);
    return wrong + (t->plan.count < 60);
}

static void ranks_that_come_late_change_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed += 100)
        assert_int_equal(run_ranks(5, false, delayed, &seed), 0);
}

// ---- misuse ----

static int misuse(rank_thread *t)
{
    ax_comm *world = t->world;
    int wrong = 0;
    float v[16] = {0};
    ax_req r;
    ax_xfer overlap = {.send = v, .recv = v + 1, .count = 8, .tag = "t"};
    ax_xfer no_tag = {.send = v, .recv = v, .count = 8};
    ax_xfer no_buffer = {.send = v, .count = 8, .tag = "t"};
    ax_xfer negative = {.send = v, .recv = v, .count = -1, .tag = "t"};
    ax_xfer limit = {.send = v + 15, .recv = v, .count = 1, .limit = 99, .tag = "t"};
    wrong += ax_comm_allreduce_begin(world, &overlap, &r) != AX_EINTERNAL;
    wrong += ax_comm_wait(&r) != AX_OK; // was never begun
    wrong += ax_comm_allreduce(world, &no_tag) != AX_EINTERNAL;
    wrong += ax_comm_allreduce(world, &no_buffer) != AX_EINTERNAL;
    wrong += ax_comm_allreduce(world, &negative) != AX_EINTERNAL;
    wrong += ax_comm_allgather(world, &limit) != AX_EINTERNAL;
    wrong += ax_comm_bcast(world, &no_buffer, 0) != AX_EINTERNAL;
    overlap.recv = v + 8;
    wrong += ax_comm_bcast(world, &overlap, world->size) != AX_EINTERNAL;
    ax_comm *part;
    wrong += ax_comm_split(world, "a name too long for it", 0, 0, &part) != AX_EINTERNAL;
    return wrong + (ax_comm_allreduce(world, &overlap) != AX_OK); // still in order
}

static void wrong_calls_are_refused_before_anything_moves(void **state)
{
    (void)state;
    assert_int_equal(run_ranks(3, true, misuse, NULL), 0);
}

static int mismatch(rank_thread *t)
{
    ax_comm *world = t->world;
    float v[64] = {0};
    ax_xfer x = {.send = v, .recv = v, .count = world->rank == 2 ? 3 : 4, .tag = "t"};
    int wrong = ax_comm_allreduce(world, &x) != AX_EINTERNAL;
    return wrong + (ax_comm_allreduce(world, &x) == AX_OK); // broken for good
}

static void ranks_that_call_different_collectives_all_fail(void **state)
{
    (void)state;
    assert_int_equal(run_ranks(4, true, mismatch, NULL), 0);
}

// ---- abort ----

typedef struct abort_case {
    int how;
    atomic_int ready; // ranks about to wait for the one that will not come
} abort_case;

static int wait_in_vain(abort_case *a, ax_comm *world, ax_comm *part)
{
    int wrong = 0;
    float v[4] = {0};
    ax_comm *other = NULL;
    ax_xfer x = {.send = v, .recv = v, .count = 4, .tag = "t"};
    ax_req r[3] = {{0}};
    atomic_fetch_add(&a->ready, 1);
    if (a->how == 0) {
        wrong += ax_comm_allreduce(world, &x) != AX_ECOMM;
        wrong += ax_comm_allreduce(part, &x) == AX_OK && world->rank % 2 == 0;
    } else if (a->how == 1) {
        wrong += ax_comm_split(world, "other", 0, 0, &other) != AX_ECOMM;
    } else if (a->how == 2) { // a slow machine may learn of the end in begin already
        ax_status st = AX_OK;
        for (int i = 0; i < 3; i++)
            st = ax_comm_allreduce_begin(world, &x, &r[i]);
        for (int i = 0; i < 3; i++)
            wrong += ax_comm_wait(&r[i]) != AX_ECOMM && st == AX_OK;
    } else {
        ax_status st = ax_comm_allreduce_begin(world, &x, &r[0]);
        while (st == AX_OK)
            st = ax_comm_progress(world);
        wrong += st != AX_ECOMM || ax_comm_wait(&r[0]) != AX_ECOMM;
        wrong += ax_comm_agree(world, AX_OK) != AX_ECOMM;
    }
    return wrong;
}

static int abort_one(rank_thread *t)
{
    abort_case *a = t->arg;
    ax_comm *part = NULL;
    if (ax_comm_split(t->world, "part", t->world->rank % 2, 0, &part) != AX_OK)
        return 1;
    int wrong = 0;
    if (t->world->rank == 2) {
        while (atomic_load(&a->ready) < t->world->size - 1)
            sched_yield();
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        ax_comm_abort(part, "disk on fire");
        wrong += ax_comm_agree(t->world, AX_OK) != AX_ECOMM;
    } else {
        wrong += wait_in_vain(a, t->world, part);
    }
    ax_comm_close(part);
    return wrong;
}

// How often the words stand in the file.
static int occurrences(FILE *f, const char *words)
{
    char line[512];
    int n = 0;
    rewind(f);
    while (fgets(line, sizeof line, f))
        n += strstr(line, words) != NULL;
    return n;
}

static void a_rank_that_aborts_frees_the_others_which_name_it_once(void **state)
{
    (void)state;
    for (int how = 0; how < 4; how++) {
        abort_case a = {.how = how};
        FILE *log = tmpfile();
        int screen = dup(STDERR_FILENO);
        dup2(fileno(log), STDERR_FILENO);
        double t0 = seconds_now();
        int wrong = run_ranks(6, false, abort_one, &a);
        double spent = seconds_now() - t0;
        dup2(screen, STDERR_FILENO);
        close(screen);
        assert_int_equal(wrong, 0);
        assert_int_equal(occurrences(log, "rank 2 failed: disk on fire"), 5);
        assert_true(spent < 5);
        fclose(log);
    }
}

// The aborting rank frees its buffers at once, whoever is copying from them: a sanitizer looks on.
static int abort_and_free(rank_thread *t)
{
    ax_comm *world = t->world;
    enum { COUNT = 200000 };
    float *send = calloc(COUNT, sizeof *send), *recv = calloc(COUNT, sizeof *recv);
    ax_comm *other = NULL;
    ax_req r;
    int wrong = ax_comm_split(world, "other", 0, 0, &other) != AX_OK;
    ax_xfer x = {.send = send, .recv = recv, .count = COUNT, .tag = "t"};
    ax_status st = ax_comm_allreduce_begin(world, &x, &r);
    if (world->rank == 1)
        ax_comm_abort(other, "leaves");
    st = ax_comm_wait(&r);
    wrong += st != AX_OK && st != AX_ECOMM;
    ax_comm_close(other);
    free(send);
    free(recv);
    return wrong;
}

static void memory_is_free_when_an_aborted_call_returns(void **state)
{
    (void)state;
    for (int i = 0; i < 40; i++)
        assert_int_equal(run_ranks(4, true, abort_and_free, NULL), 0);
}

// ---- the fault hook ----

typedef struct fault_case {
    int64_t nth;
    bool finished; // written by rank 1
} fault_case;

static ax_status some_work(ax_comm *world)
{
    float v[1500] = {1};
    double d[2] = {1, 2};
    ax_comm *part = NULL;
    ax_xfer x = {.send = v, .recv = v, .count = 1500, .tag = "work"};
    ax_status st = ax_comm_allreduce(world, &x);
    if (st == AX_OK)
        st = ax_comm_split(world, "part", world->rank % 2, 0, &part);
    if (st == AX_OK)
        st = ax_comm_allreduce(part, &x);
    if (st == AX_OK)
        st = ax_comm_sum(world, d, 2);
    if (st == AX_OK)
        st = ax_comm_agree(world, AX_OK);
    ax_comm_close(part);
    return st;
}

static int fail_nth(rank_thread *t)
{
    fault_case *f = t->arg;
    bool guilty = t->world->rank == 1;
    t->plan = (ax_fault){.nth = f->nth, .what = AX_FAULT_FAIL};
    if (guilty && ax_comm_fault_open(t->world, &t->plan, &t->world) != AX_OK)
        return 1;
    ax_status st = some_work(t->world);
    if (st != AX_OK)
        ax_comm_abort(t->world, "a collective failed");
    if (guilty)
        f->finished = st == AX_OK;
    return st != AX_OK && st != AX_ECOMM;
}

static void a_collective_that_fails_anywhere_ends_all_ranks(void **state)
{
    (void)state;
    fault_case f = {0};
    for (f.nth = 1; !f.finished; f.nth++)
        assert_int_equal(run_ranks(4, true, fail_nth, &f), 0);
    assert_int_equal(f.nth - 1, 5); // 4 collectives, each failed once
}

// ---- speed that a hang or a lost wake-up would ruin ----

static int tiny(rank_thread *t)
{
    ax_comm *world = t->world;
    int rounds = *(int *)t->arg;
    for (int i = 0; i < rounds; i++) {
        double v = world->rank + i;
        if (ax_comm_sum(world, &v, 1) != AX_OK || v != 6 + 4.0 * i)
            return 1;
    }
    return 0;
}

static void twenty_thousand_tiny_collectives_of_four_ranks_take_seconds(void **state)
{
    (void)state;
    int rounds = 20000;
    double t0 = seconds_now();
    assert_int_equal(run_ranks(4, false, tiny, &rounds), 0);
    double spent = seconds_now() - t0;
    printf("           %.1f us a collective\n", spent / rounds * 1e6);
    assert_true(spent < 30);
}

// ---- measure, registry, launchers ----

static void a_measuring_communicator_counts_and_touches_nothing(void **state)
{
    (void)state;
    ax_comm *world, *axis;
    ax_comm_trace *t = calloc(1, sizeof *t);
    void *nowhere = (void *)64;
    ax_log_config before = ax_log_current();
    assert_int_equal(ax_comm_measure_open(5, 8, &world), AX_OK);
    ax_log_setup((ax_log_config){.ranks = 1, .muted = true}); // failures are wanted
    ax_comm_trace_attach(world, t);
    ax_comm_set_lazy(world, true);
    assert_int_equal(ax_comm_measure_open(1, 2, &axis), AX_OK);
    assert_int_equal(ax_comm_split(world, "x", 0, 0, &axis), AX_EUNSUPPORTED);
    ax_comm_trace_attach(axis, t);
    ax_xfer x = {.send = nowhere, .recv = nowhere, .count = 1 << 20, .tag = "w"};
    ax_req r;
    assert_int_equal(ax_comm_allgather_begin(axis, &x, &r), AX_OK);
    assert_int_equal(ax_comm_wait(&r), AX_OK);
    assert_int_equal(ax_comm_reduce_scatter(world, &x), AX_OK);
    assert_int_equal(t->rows, 2);
    assert_int_equal(t->row[0].bytes, 2 << 22);
    assert_int_equal(t->row[1].bytes, 8 << 22);
    double v = 3;
    assert_int_equal(ax_comm_sum(world, &v, 1), AX_OK);
    assert_true(v == 3);
    assert_int_equal(ax_comm_agree(world, AX_EIO), AX_EIO);
    assert_int_equal(ax_comm_check_equal(world, 12345678901, "it"), AX_OK);
    ax_log_setup(before);
    ax_comm_close(axis);
    ax_comm_close(world);
    free(t);
}

static void backends_are_listed_and_a_missing_one_says_why(void **state)
{
    (void)state;
    const char *const *names = ax_comm_names();
    assert_string_equal(names[0], "local");
    for (int i = 0; names[i]; i++)
        assert_null(ax_comm_missing(names[i]));
    assert_non_null(ax_comm_missing("carrier pigeon"));
}

static ax_launch launched(const char *const *variables)
{
    for (; *variables; variables += 2)
        setenv(variables[0], variables[1], 1);
    return ax_comm_launch();
}

static void forget_launchers(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK",
                                        "OMPI_COMM_WORLD_SIZE",
                                        "PMI_RANK",
                                        "PMI_SIZE",
                                        "PMIX_RANK",
                                        "SLURM_PROCID",
                                        "SLURM_NTASKS",
                                        "SLURM_STEP_ID",
                                        "SLURM_TASKS_PER_NODE",
                                        "SLURM_STEP_NUM_TASKS"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unsetenv(names[i]);
}

static void launchers_are_known_by_their_variables(void **state)
{
    (void)state;
    struct {
        const char *variables[12], *launcher;
        int rank, tasks;
    } cases[] = {
        {{NULL}, NULL, 0, 1},
        {{"OMPI_COMM_WORLD_RANK", "2", "OMPI_COMM_WORLD_SIZE", "4"}, "Open MPI mpirun", 2, 4},
        {{"PMI_RANK", "1", "PMI_SIZE", "3"}, "MPICH mpirun", 1, 3},
        {{"SLURM_PROCID", "5", "SLURM_NTASKS", "8", "SLURM_STEP_ID", "0"}, "srun", 5, 8},
        // The shell of sbatch, with and without its reserved step number: one plain process.
        {{"SLURM_PROCID", "0", "SLURM_NTASKS", "8"}, NULL, 0, 1},
        {{"SLURM_PROCID", "0", "SLURM_NTASKS", "8", "SLURM_STEP_ID", "4294967291"}, NULL, 0, 1},
        // MPICH's mpirun inside a Slurm job, whose proxies are the tasks of a step.
        {{"SLURM_PROCID", "1", "SLURM_NTASKS", "2", "SLURM_STEP_ID", "0", "PMI_RANK", "6",
          "PMI_SIZE", "8"},
         "MPICH mpirun",
         6,
         8},
        {{"PMIX_RANK", "3"}, "PMIx", 3, 0},
        {{"OMPI_COMM_WORLD_RANK", "x", "OMPI_COMM_WORLD_SIZE", "4"}, NULL, 0, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        forget_launchers();
        ax_launch got = launched(cases[i].variables);
        assert_int_equal(got.rank, cases[i].rank);
        assert_int_equal(got.tasks, cases[i].tasks);
        if (cases[i].launcher)
            assert_string_equal(got.launcher, cases[i].launcher);
        else
            assert_null(got.launcher);
    }
    forget_launchers();
    static const char *const two_nodes[] = {
        "SLURM_PROCID", "5", "SLURM_NTASKS", "8", "SLURM_STEP_ID", "0", "SLURM_TASKS_PER_NODE",
        "4(x2)",        NULL};
    assert_int_equal(launched(two_nodes).local_tasks, 4);
    forget_launchers();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_collectives_equal_the_serial_sum_bit_by_bit),
        cmocka_unit_test(vectors_larger_than_the_caches_are_written_past_them),
        cmocka_unit_test(splits_queues_lazy_mode_scalars_and_traces_hold_on_every_number_of_ranks),
        cmocka_unit_test(ranks_that_come_late_change_nothing),
        cmocka_unit_test(wrong_calls_are_refused_before_anything_moves),
        cmocka_unit_test(ranks_that_call_different_collectives_all_fail),
        cmocka_unit_test(a_rank_that_aborts_frees_the_others_which_name_it_once),
        cmocka_unit_test(memory_is_free_when_an_aborted_call_returns),
        cmocka_unit_test(a_collective_that_fails_anywhere_ends_all_ranks),
        cmocka_unit_test(twenty_thousand_tiny_collectives_of_four_ranks_take_seconds),
        cmocka_unit_test(a_measuring_communicator_counts_and_touches_nothing),
        cmocka_unit_test(backends_are_listed_and_a_missing_one_says_why),
        cmocka_unit_test(launchers_are_known_by_their_variables),
    };
    alarm(170); // a hang ends here
    return cmocka_run_group_tests(tests, NULL, NULL);
}
