// The n-th collective of one rank fails, for n = 1, 2, ... until a whole run passes: every rank
// ends with a status, none hangs, nothing leaks (under AddressSanitizer).
#include "base/log.h"
#include "comm/hook_fault.h"
#include "train/step.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { RANKS = 4, STEPS = 2, HANG_S = 300 };

typedef struct seat {
    ax_comm *world;
    ax_fault *fault; // NULL: this rank is well
    const ax_trainer_config *config;
    ax_status st;
} seat;

static ax_status train(const ax_trainer_config *config, ax_comm *world)
{
    ax_trainer t;
    ax_step_result r;
    AX_TRY(ax_trainer_open(config, world, &t));
    ax_status st = ax_params_init(&t.model.params, &t.grid, &t.dev, 1);
    for (int i = 0; i < STEPS && st == AX_OK; i++) {
        for (int64_t k = 0; k < ax_trainer_rows(&t) * t.layout.seq; k++)
            t.ids[k] = t.targets[k] = (int32_t)(k % 7);
        st = ax_step(&t, 1e-3, &r);
    }
    ax_comm_end(world, st);
    ax_trainer_close(&t);
    return st;
}

static void *run_rank(void *arg)
{
    seat *s = arg;
    ax_log_setup((ax_log_config){.rank = s->world->rank, .ranks = RANKS, .muted = true});
    s->st = s->fault ? ax_comm_fault_open(s->world, s->fault, &s->world) : AX_OK;
    if (s->st == AX_OK)
        s->st = train(s->config, s->world);
    ax_comm_end(s->world, s->st);
    ax_comm_close(s->world);
    return NULL;
}

// How many ranks ended with a failure when the n-th collective of rank `victim` fails.
static int failures(const ax_trainer_config *config, int victim, int64_t n)
{
    ax_comm *worlds[RANKS];
    pthread_t thread[RANKS];
    seat seats[RANKS];
    ax_fault fault = {.nth = n, .what = AX_FAULT_FAIL};
    int failed = 0;
    if (ax_comm_local_open(RANKS, worlds) != AX_OK)
        return -1;
    for (int i = 0; i < RANKS; i++) {
        seats[i] = (seat){worlds[i], i == victim ? &fault : NULL, config, AX_OK};
        pthread_create(&thread[i], NULL, run_rank, &seats[i]);
    }
    for (int i = 0; i < RANKS; i++) {
        pthread_join(thread[i], NULL);
        failed += seats[i].st != AX_OK;
    }
    return failed;
}

static int survive(const char *grid, int victim, unsigned overlap)
{
    ax_arch arch;
    ax_trainer_config c = {.arch = &arch,
                           .batch = 8,
                           .device = "ref",
                           .act = AX_F64,
                           .threads = 1,
                           .overlap = overlap,
                           .optim = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .clip = 1}};
    if (ax_arch_preset("tiny", &arch) != AX_OK || ax_grid_parse(grid, &c.grid) != AX_OK)
        return 1;
    arch = (ax_arch){.kind = AX_LLAMA,
                     .layers = 1,
                     .hidden = 16,
                     .heads = 4,
                     .kv_heads = 2,
                     .head_dim = 4,
                     .ffn = 16,
                     .vocab = 31,
                     .seq = 8,
                     .norm_eps = 1e-5,
                     .rope_theta = 1e4,
                     .init_std = 0.02};
    int64_t n = 1;
    for (;; n++) {
        int failed = failures(&c, victim, n);
        if (failed == 0)
            break;
        // A late failure may find peers that are done already; the victim itself never is.
        if (failed < 0) {
            printf("FAILED  %s: no communicator\n", grid);
            return 1;
        }
    }
    printf("ok      %s, rank %d, overlap %s: %lld collectives failed one by one\n", grid, victim,
           overlap ? "on" : "off", (long long)(n - 1));
    return n > 20 ? 0 : 1; // fewer than a step has: the hook did not bite
}

int main(void)
{
    alarm(HANG_S); // a hang is a failure
    int bad = survive("x=2,data=2", 1, AX_OVERLAP_ALL) + survive("x=2,y=2", 3, 0) +
              survive("z=2,data=2", 0, AX_OVERLAP_ALL) + survive("y=2,z=2", 2, AX_OVERLAP_ALL);
    printf("%d passed, %d failed\n", 4 - bad, bad);
    return bad != 0;
}
