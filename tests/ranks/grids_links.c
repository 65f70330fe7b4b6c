// Overlap where it matters: transfers that take time. What a rank computes must not depend on when
// they are over.
#include "test_grids.h"

#include <string.h>

static const char *const grids[] = {"x=2,z=2", "y=2,z=2", "x=2,data=2", "z=2,data=2"};
enum { GRIDS_LINKED = sizeof grids / sizeof grids[0] };

static bool same_bits(const outcome *a, const outcome *b)
{
    size_t model = (size_t)a->count * sizeof *a->final;
    return a->count == b->count && memcmp(a->loss, b->loss, sizeof a->loss) == 0 &&
           memcmp(a->norm, b->norm, sizeof a->norm) == 0 &&
           memcmp(a->final, b->final, model) == 0 && memcmp(a->grad, b->grad, model) == 0;
}

void part_links(verdict *v, bool all)
{
    (void)all;
    static const ax_link slow[AX_LINKS] = {
        {.axis = "x", .bytes_per_s = 5e7, .latency_s = 2e-5},
        {.axis = "y", .bytes_per_s = 5e7, .latency_s = 2e-5},
        {.axis = "z", .bytes_per_s = 2e7, .latency_s = 1e-4},
        {.axis = "data", .bytes_per_s = 1e7, .latency_s = 1e-4},
    };
    double t0 = verdict_now();
    for (int i = 0; i < GRIDS_LINKED; i++) {
        grid_case c = {
            .kind = i % 2, .tied = i / 2, .recompute = i == 1, .act = AX_F64, .device = "ref"};
        outcome plain, off, on;
        bool ran = ax_grid_parse(grids[i], &c.grid) == AX_OK;
        trial t = case_trial(&c, 3);
        ran = ran && trial_run_local(&t, &plain) == AX_OK;
        t.links = slow;
        ran = ran && trial_run_local(&t, &off) == AX_OK;
        t.config.overlap = AX_OVERLAP_ALL;
        ran = ran && trial_run_local(&t, &on) == AX_OK;
        verdict_check(v, ran && same_bits(&plain, &off) && same_bits(&plain, &on),
                      "%s: slow links change no bit, with overlap and without", grids[i]);
        outcome_fini(&plain);
        outcome_fini(&off);
        outcome_fini(&on);
    }
    verdict_part(v, t0, "%d grids over slow links: overlap on and off are bit-equal", GRIDS_LINKED);
}
