// A wait that is left out is found without a GPU: in lazy mode nothing moves before the wait that
// orders it, and what has not arrived is NaN.
//
// The beginning calls of comm.h are wrapped at link time. One tag is chosen: the caller of its
// requests gets one back that is done already, so that its wait does nothing, and the true request
// moves only when a later one of the same communicator is waited for, or at the end. Every tag that
// the model begins and waits for apart is tried in turn.
#include "grid_case.h"
#include "verdict.h"

#include "base/log.h"
#include "train/ranks.h"
#include "train/step.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Requests that stand in for the caller's, whose memory may be gone before they are done.
enum { STAND_INS = 4096 };
typedef struct left_out {
    const char *tag;
    ax_req req[STAND_INS];
    int used;
    int skipped;
} left_out;

static _Thread_local left_out *mine; // of this rank; NULL: nothing is left out

typedef ax_status begin_call(ax_comm *c, const ax_xfer *x, ax_req *r);
begin_call __real_ax_comm_allreduce_begin, __real_ax_comm_allgather_begin;
begin_call __real_ax_comm_reduce_scatter_begin, __wrap_ax_comm_allreduce_begin;
begin_call __wrap_ax_comm_allgather_begin, __wrap_ax_comm_reduce_scatter_begin;

static ax_status begin(begin_call *real, ax_comm *c, const ax_xfer *x, ax_req *r)
{
    if (!mine || strcmp(mine->tag, x->tag) != 0 || c->size == 1)
        return real(c, x, r);
    *r = (ax_req){0}; // waiting for it returns at once
    AX_CHECK(mine->used < STAND_INS, AX_EINTERNAL, "more than %d requests", STAND_INS);
    mine->skipped++;
    return real(c, x, &mine->req[mine->used++]);
}

ax_status __wrap_ax_comm_allreduce_begin(ax_comm *c, const ax_xfer *x, ax_req *r)
{
    return begin(__real_ax_comm_allreduce_begin, c, x, r);
}
ax_status __wrap_ax_comm_allgather_begin(ax_comm *c, const ax_xfer *x, ax_req *r)
{
    return begin(__real_ax_comm_allgather_begin, c, x, r);
}
ax_status __wrap_ax_comm_reduce_scatter_begin(ax_comm *c, const ax_xfer *x, ax_req *r)
{
    return begin(__real_ax_comm_reduce_scatter_begin, c, x, r);
}

typedef struct attempt {
    trial trial;
    const char *tag;
    double loss[2], norm[2];
    int64_t nonfinite;
    int skipped;
} attempt;

static ax_status two_steps(attempt *a, ax_trainer *t, left_out *l)
{
    for (int step = 0; step < 2; step++) {
        ax_step_result r;
        mine = l->tag ? l : NULL;
        ax_status st = ax_step(t, 1e-3, &r);
        mine = NULL;
        AX_TRY(st);
        if (t->grid.rank != 0)
            continue;
        a->loss[step] = r.loss;
        a->norm[step] = r.grad_norm;
        a->nonfinite += r.nonfinite;
        a->skipped = l->skipped;
    }
    return AX_OK;
}

static ax_status rank_main(void *ctx, ax_comm *world)
{
    attempt *a = ctx;
    ax_trainer t;
    ax_trainer_config c = a->trial.config;
    left_out *l = calloc(1, sizeof *l);
    AX_CHECK(l, AX_ENOMEM, "no memory for requests");
    l->tag = a->tag;
    c.arch = &a->trial.arch;
    c.lazy = c.skip_nonfinite = true;
    AX_TRY(ax_trainer_open(&c, world, &t));
    ax_status st = ax_params_init(&t.model.params, &t.grid, &t.dev, 1);
    for (int64_t i = 0; i < ax_trainer_rows(&t) * t.layout.seq; i++) {
        t.ids[i] = (int32_t)((ax_trainer_row(&t, 0) + i * 7) % a->trial.arch.vocab);
        t.targets[i] = (int32_t)(i * 5 % a->trial.arch.vocab);
    }
    if (st == AX_OK)
        st = two_steps(a, &t, l);
    for (int i = 0; i < l->used && st == AX_OK; i++)
        st = ax_comm_wait(&l->req[i]); // the same order on all ranks
    ax_trainer_close(&t);
    free(l);
    return st;
}

static bool differs(const attempt *a, const attempt *b)
{
    return a->nonfinite > 0 || memcmp(a->loss, b->loss, sizeof a->loss) != 0 ||
           memcmp(a->norm, b->norm, sizeof a->norm) != 0;
}

static void leave_out(verdict *v, const char *grid, const char *tag)
{
    grid_case c = {.kind = AX_LLAMA, .overlap = AX_OVERLAP_ALL, .act = AX_F64, .device = "ref"};
    // New weights are read by the first layer, without a look at later requests before it.
    if (strcmp(tag, "update") == 0)
        c.overlap = AX_OUPDATE;
    bool ok = ax_grid_parse(grid, &c.grid) == AX_OK;
    attempt good = {.trial = case_trial(&c, 1)}, bad = good;
    bad.tag = tag;
    int ranks = ax_grid_ranks(&c.grid);
    ok = ok && ax_ranks_run(ranks, rank_main, &good) == AX_OK &&
         ax_ranks_run(ranks, rank_main, &bad) == AX_OK;
    verdict_check(v,
                  ok && good.nonfinite == 0 && isfinite(good.loss[1]) && bad.skipped > 0 &&
                      differs(&bad, &good),
                  "%s: without the waits for '%s' (%d of them) the loss is %g instead of %g, the "
                  "norm %g instead of %g, and %lld gradients are not finite",
                  grid, tag, bad.skipped, bad.loss[1], good.loss[1], bad.norm[1], good.norm[1],
                  (long long)bad.nonfinite);
}

// What comm.h itself promises of the mode.
static ax_status read_early(void *ctx, ax_comm *world)
{
    int *wrong = ctx;
    ax_req r;
    double one = 1, sum = 0;
    ax_comm_set_lazy(world, true);
    AX_TRY(__real_ax_comm_allreduce_begin(
        world, &(ax_xfer){.send = &one, .recv = &sum, .count = 1, .dtype = AX_F64, .tag = "early"},
        &r));
    bool hidden = isnan(sum);
    AX_TRY(ax_comm_wait(&r));
    if (world->rank == 0)
        *wrong = !hidden || sum != world->size;
    return AX_OK;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *grid, *tag;
    } waits[] = {
        {"z=2", "weights"},      {"z=4,data=2", "weights"},
        {"z=2", "dw"},           {"x=2,z=2", "dw"},
        {"x=2", "rows outer"},   {"x=4,y=2", "rows outer"},
        {"x=2", "sum outer"},    {"x=2,y=2,z=2", "sum outer"},
        {"y=2", "rows inner"},   {"x=2,y=4", "rows inner"},
        {"y=2", "sum inner"},    {"x=2,y=2,data=2", "sum inner"},
        {"data=2", "gradients"}, {"x=2,z=2,data=2", "gradients"},
        {"data=2", "update"},    {"x=2,y=2,data=2", "update"},
    };
    verdict v = {.verbose = argc > 1 && strcmp(argv[1], "-v") == 0};
    double t0 = verdict_now();
    int wrong = 1;
    ax_log_setup((ax_log_config){.ranks = 1, .level = AX_LOG_WARN});
    ax_status st = ax_ranks_run(3, read_early, &wrong);
    verdict_check(&v, st == AX_OK && !wrong, "a result read before its wait is NaN");
    for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++)
        leave_out(&v, waits[i].grid, waits[i].tag);
    verdict_part(&v, t0, "a wait that is left out changes the numbers, for every tag that has one");
    return verdict_close(&v);
}
