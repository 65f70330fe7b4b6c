// Emulated links: data arrives as without them, and never too early.
#include "comm_battery.h"

#include "base/log.h"
#include "comm/hook_link.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

enum { MOST_RANKS = 4 };

typedef struct rank_thread rank_thread;
struct rank_thread {
    pthread_t thread;
    ax_comm *world; // linked
    ax_links *links;
    int (*fn)(rank_thread *t);
    int wrong;
};

static void *rank_main(void *arg)
{
    rank_thread *t = arg;
    t->wrong = ax_comm_link_open(t->world, t->links, &t->world) != AX_OK;
    if (!t->wrong)
        t->wrong = t->fn(t);
    ax_comm_close(t->world);
    return NULL;
}

// Runs fn on `ranks` threads whose axes have the given links; returns what was wrong.
static int run_ranks(int ranks, const ax_link *list, int (*fn)(rank_thread *t))
{
    ax_comm *worlds[MOST_RANKS];
    rank_thread threads[MOST_RANKS];
    int wrong = 0;
    assert_int_equal(ax_comm_local_open(ranks, worlds), AX_OK);
    for (int p = 0; p < ranks; p++) {
        ax_links *links = calloc(1, sizeof *links);
        assert_non_null(links);
        for (int i = 0; i < AX_LINKS; i++)
            links->link[i] = list[i];
        threads[p] = (rank_thread){.world = worlds[p], .links = links, .fn = fn};
        assert_int_equal(pthread_create(&threads[p].thread, NULL, rank_main, &threads[p]), 0);
    }
    for (int p = 0; p < ranks; p++) {
        pthread_join(threads[p].thread, NULL);
        wrong += threads[p].wrong + (threads[p].links->flights != 0);
        free(threads[p].links);
    }
    return wrong;
}

// ---- data ----

static int battery(rank_thread *t)
{
    int wrong = battery_collectives(t->world, 5003) + battery_splits(t->world);
    wrong += battery_queues(t->world) + battery_lazy(t->world) + battery_scalars(t->world);
    return wrong + battery_trace(t->world);
}

static void data_arrives_as_without_links(void **state)
{
    (void)state;
    const ax_link list[AX_LINKS] = {{.axis = "world", .bytes_per_s = 1e9, .latency_s = 1e-6},
                                    {.axis = "p", .bytes_per_s = 1e8, .latency_s = 1e-5}};
    for (int ranks = 1; ranks <= MOST_RANKS; ranks++)
        assert_int_equal(run_ranks(ranks, list, battery), 0);
}

// ---- time ----

enum { COUNT = 25000 }; // 100 kB
static const double second_of_byte = 1e-6;

typedef struct transfer {
    ax_req req;
    float send[COUNT], recv[COUNT];
} transfer;

static ax_status begin(transfer *x, ax_comm *c)
{
    return ax_comm_allreduce_begin(
        c, &(ax_xfer){.send = x->send, .recv = x->recv, .count = COUNT, .tag = "t"}, &x->req);
}

// One all-reduce of two ranks: its bytes once over the link, and the latency.
static int takes_its_time(rank_thread *t)
{
    ax_comm *x = NULL;
    transfer *one = calloc(1, sizeof *one);
    int wrong = !one || ax_comm_split(t->world, "x", 0, t->world->rank, &x) != AX_OK;
    double begun = ax_clock_s();
    wrong += begin(one, x) != AX_OK;
    double there = begun + 4 * COUNT * second_of_byte + 0.01;
    while (!one->req.done && ax_clock_s() < there - 0.03) // polling makes it no faster
        wrong += ax_comm_progress(x) != AX_OK;
    wrong += one->req.done;
    wrong += ax_comm_wait(&one->req) != AX_OK;
    wrong += ax_clock_s() < there;
    wrong += t->links->link[0].busy_s < 0.1099 || t->links->link[0].busy_s > 0.1101;
    ax_comm_close(x);
    free(one);
    return wrong;
}

static void a_wait_returns_when_the_transfer_is_over_and_not_before(void **state)
{
    (void)state;
    const ax_link list[AX_LINKS] = {
        {.axis = "x", .bytes_per_s = 1 / second_of_byte, .latency_s = 0.01}};
    assert_int_equal(run_ranks(2, list, takes_its_time), 0);
}

// Three transfers at once: two communicators share the link of z, data has its own.
static int queue(rank_thread *t)
{
    enum { MANY = 3 };
    static const char *const names[MANY] = {"z", "zdata", "y"};
    ax_comm *c[MANY];
    transfer *x = calloc(MANY, sizeof *x);
    int wrong = x == NULL;
    for (int i = 0; i < MANY; i++)
        wrong += ax_comm_split(t->world, names[i], 0, t->world->rank, &c[i]) != AX_OK;
    double begun = ax_clock_s(), each = 4 * COUNT * second_of_byte;
    for (int i = 0; i < MANY; i++)
        wrong += begin(&x[i], c[i]) != AX_OK;
    double all_begun[1] = {ax_clock_s()};
    for (int i = MANY - 1; i >= 0; i--)
        wrong += ax_comm_wait(&x[i].req) != AX_OK;
    wrong += ax_clock_s() < begun + 2 * each;
    wrong += ax_comm_max(t->world, all_begun, 1) != AX_OK;
    // The links: y stood behind nothing, zdata behind z, and occupied data as well.
    double z = t->links->link[0].free_s, data = t->links->link[1].free_s;
    double y = t->links->link[2].free_s;
    wrong += z != data || y > all_begun[0] + 1.01 * each || t->links->link[0].busy_s < 1.99 * each;
    wrong += t->links->link[1].busy_s > 1.01 * each;
    for (int i = 0; i < MANY; i++)
        ax_comm_close(c[i]);
    free(x);
    return wrong;
}

static void transfers_share_the_link_of_an_axis_one_after_the_other(void **state)
{
    (void)state;
    const ax_link list[AX_LINKS] = {{.axis = "z", .bytes_per_s = 1 / second_of_byte},
                                    {.axis = "data", .bytes_per_s = 1 / second_of_byte},
                                    {.axis = "y", .bytes_per_s = 1 / second_of_byte}};
    assert_int_equal(run_ranks(2, list, queue), 0);
}

// The transfer starts when the last rank begins it.
static int late(rank_thread *t)
{
    ax_comm *x = NULL;
    transfer *one = calloc(1, sizeof *one);
    int wrong = !one || ax_comm_split(t->world, "x", 0, t->world->rank, &x) != AX_OK;
    double came[1] = {0};
    for (double until = ax_clock_s() + 0.05; t->world->rank == 1 && ax_clock_s() < until;)
        ;
    if (t->world->rank == 1)
        came[0] = ax_clock_s();
    wrong += begin(one, x) != AX_OK || ax_comm_wait(&one->req) != AX_OK;
    double over = ax_clock_s();
    wrong += ax_comm_max(t->world, came, 1) != AX_OK;
    wrong += over < came[0] + 4 * COUNT * second_of_byte;
    ax_comm_close(x);
    free(one);
    return wrong;
}

static void a_transfer_starts_when_its_last_rank_begins_it(void **state)
{
    (void)state;
    const ax_link list[AX_LINKS] = {{.axis = "x", .bytes_per_s = 1 / second_of_byte}};
    assert_int_equal(run_ranks(2, list, late), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_arrives_as_without_links),
        cmocka_unit_test(a_wait_returns_when_the_transfer_is_over_and_not_before),
        cmocka_unit_test(transfers_share_the_link_of_an_axis_one_after_the_other),
        cmocka_unit_test(a_transfer_starts_when_its_last_rank_begins_it),
    };
    ax_log_setup((ax_log_config){.ranks = 1, .level = AX_LOG_INFO});
    return cmocka_run_group_tests(tests, NULL, NULL);
}
