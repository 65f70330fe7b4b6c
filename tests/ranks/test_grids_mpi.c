// The same grids with ranks as processes. Started on eight ranks; grids of fewer ranks run several
// times side by side on parts of the world.
//
// Communicators promise the same bits on every backend, so losses and norms must be those of ranks
// that are threads, exactly; and those of one rank to rounding.
#include "grid_case.h"
#include "verdict.h"

#include "base/log.h"
#include "train/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 5, CURVE = 2 * TRIAL_STEPS };

static const struct {
    const char *grid;
    int kind, kv, split, replicated;
    ax_recompute recompute;
} wanted[] = {
    {"data=2", AX_GPT, 0, SPLIT_FOUR, 0, AX_RECOMPUTE_NONE},
    {"z=2", AX_LLAMA, 1, SPLIT_NONE, 0, AX_RECOMPUTE_FULL},
    {"y=2", AX_GPT, 0, SPLIT_ODD, 1, AX_RECOMPUTE_NONE},
    {"x=2", AX_LLAMA, 3, SPLIT_ONES, 0, AX_RECOMPUTE_NONE},
    {"x=4", AX_GPT, 2, SPLIT_NONE, 0, AX_RECOMPUTE_NONE},
    {"y=4", AX_LLAMA, 0, SPLIT_ODD, 0, AX_RECOMPUTE_SELECTIVE},
    {"x=2,y=2", AX_LLAMA, 1, SPLIT_ONES, 0, AX_RECOMPUTE_NONE},
    {"x=2,z=2", AX_GPT, 3, SPLIT_FOUR, 1, AX_RECOMPUTE_NONE},
    {"z=2,data=2", AX_LLAMA, 2, SPLIT_FOUR, 0, AX_RECOMPUTE_NONE},
    {"x=2,y=2,z=2", AX_LLAMA, 1, SPLIT_NONE, 0, AX_RECOMPUTE_NONE},
    {"x=2,y=2,data=2", AX_GPT, 0, SPLIT_ONES, 0, AX_RECOMPUTE_FULL},
    {"x=2,z=2,data=2,order=yxzd", AX_LLAMA, 3, SPLIT_ODD, 1, AX_RECOMPUTE_NONE},
    {"x=8", AX_LLAMA, 2, SPLIT_ODD, 0, AX_RECOMPUTE_NONE},
    {"y=8", AX_GPT, 0, SPLIT_ONES, 0, AX_RECOMPUTE_NONE},
    {"z=8", AX_LLAMA, 0, SPLIT_NONE, 1, AX_RECOMPUTE_SELECTIVE},
    {"data=8,order=dzyx", AX_GPT, 1, SPLIT_FOUR, 0, AX_RECOMPUTE_NONE},
};
enum { CASES = sizeof wanted / sizeof wanted[0] };

typedef struct run {
    verdict verdict;
    double curve[CASES][CURVE]; // on threads: losses, then norms
    double started;
} run;

static grid_case case_at(int i)
{
    grid_case c = {.kind = wanted[i].kind,
                   .tied = i % 2,
                   .kv = wanted[i].kv,
                   .split = wanted[i].split,
                   .replicated = wanted[i].replicated,
                   .recompute = wanted[i].recompute,
                   .overlap = AX_OVERLAP_ALL,
                   .act = AX_F64,
                   .device = "ref"};
    if (ax_grid_parse(wanted[i].grid, &c.grid) != AX_OK)
        abort();
    return c;
}

static void put_curve(const outcome *o, double curve[CURVE])
{
    memcpy(curve, o->loss, sizeof o->loss);
    memcpy(curve + TRIAL_STEPS, o->norm, sizeof o->norm);
}

// Each process makes its share of the runs on threads, before there is any MPI; a sum spreads them.
static bool run_share(run *r, int rank, int ranks)
{
    for (int i = rank; i < CASES; i += ranks) {
        grid_case c = case_at(i);
        trial t = case_trial(&c, STEPS);
        outcome o;
        if (trial_run_local(&t, &o) != AX_OK)
            return false;
        put_curve(&o, r->curve[i]);
        outcome_fini(&o);
    }
    return true;
}

static void judge(run *r, int i, const outcome *o, bool same_bits)
{
    char name[200];
    const char *tensor = "";
    grid_case c = case_at(i);
    const outcome *serial = serial_of(&c, STEPS);
    case_print(&c, name, sizeof name);
    double grad = serial ? outcome_grad_difference(o, serial, &tensor) : 1;
    double loss = serial ? outcome_loss_difference(o, serial) : 1;
    double norm = serial ? outcome_norm_difference(o, serial) : 1;
    verdict_check(&r->verdict, same_bits, "%s: losses and norms are those of threads to the bit",
                  name);
    verdict_check(
        &r->verdict, grad <= 1e-13 && loss <= 1e-12 && norm <= 1e-12,
        "%s: gradients (%s) within %.1e of one rank, losses within %.1e, norms within %.1e", name,
        tensor, grad, loss, norm);
    verdict_check(&r->verdict,
                  serial && memcmp(o->init, serial->init, (size_t)o->count * sizeof(double)) == 0 &&
                      !o->replicas && !o->uncovered && !o->bytes && !o->unmeasured && !o->disagreed,
                  "%s: initial weights, replicas, bytes and memory", name);
}

static ax_status one_case(run *r, int i, ax_comm *world)
{
    grid_case c = case_at(i);
    trial t = case_trial(&c, STEPS);
    int ranks = ax_grid_ranks(&c.grid);
    outcome o;
    ax_comm *part;
    double curve[CURVE], different;
    AX_TRY(ax_comm_split(world, "world", world->rank / ranks, world->rank, &part));
    t.dry_runs = true;
    AX_TRY(trial_run_on(&t, part, &o));
    ax_comm_close(part);
    put_curve(&o, curve);
    different = memcmp(curve, r->curve[i], sizeof curve) != 0;
    AX_TRY(ax_comm_max(world, &different, 1));
    if (world->rank == 0)
        judge(r, i, &o, different == 0);
    outcome_fini(&o);
    return AX_OK;
}

static ax_status rank_main(void *ctx, ax_comm *world)
{
    run *r = ctx;
    AX_CHECK(world->size == 8, AX_EUSAGE, "test_grids_mpi wants 8 ranks, not %d", world->size);
    AX_TRY(ax_comm_sum(world, r->curve[0], CASES * CURVE));
    for (int i = 0; i < CASES; i++)
        AX_TRY(one_case(r, i, world));
    double failed = r->verdict.failed;
    AX_TRY(ax_comm_max(world, &failed, 1));
    if (world->rank > 0)
        return AX_OK;
    verdict_part(&r->verdict, r->started, "%d grids of 2, 4 and 8 processes", CASES);
    return verdict_close(&r->verdict) ? AX_EINTERNAL : AX_OK;
}

int main(int argc, char **argv)
{
    run *r = calloc(1, sizeof *r);
    ax_launch launch = ax_comm_launch();
    ax_log_setup((ax_log_config){.ranks = 1, .level = AX_LOG_WARN});
    if (!r || trial_open_data() != AX_OK)
        return 1;
    r->verdict.verbose = argc > 1 && strcmp(argv[1], "-v") == 0;
    r->started = verdict_now();
    bool ok = run_share(r, launch.rank, launch.tasks > 0 ? launch.tasks : 1) &&
              ax_ranks_run_mpi(rank_main, r) == AX_OK;
    serial_fini();
    trial_close_data();
    free(r);
    return !ok;
}
