// Tuned products: whichever way each is made, a grid gives the serial numbers.
#include "test_grids.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const bands in_floats[] = {
    [AX_F32] = {.grad = 1e-6, .loss = 1e-5, .norm = 1e-5},
    [AX_BF16] = {.grad = 3e-2, .loss = 1e-3, .norm = 0.2},
};

// The factor beside all others: every fourth row of the pairwise list, which still holds every grid
// some times, with ways that were forced on each product and with ways that the first step timed.
void part_tuned(verdict *v, bool all)
{
    enum { ROOM = 1000 };
    double t0 = verdict_now();
    worst w[2];
    grid_case *list = calloc(ROOM, sizeof *list);
    int count = list ? cases_pairwise(list, ROOM) : 0, cases = 0;
    memset(w, 0, sizeof w);
    if (ax_device_missing("cpu")) {
        verdict_part(v, t0, "no device cpu: there is nothing to tune");
        free(list);
        return;
    }
    for (int i = 0; i < count; i += all ? 1 : 4, cases++) {
        grid_case c = list[i];
        c.device = "cpu";
        c.lazy = 0; // a device of its own
        c.tuned = cases % 3 == 2 ? TRIAL_TIMED : TRIAL_FORCED;
        c.act = cases % 4 == 3 ? AX_BF16 : AX_F32;
        grids_compare(v, &c, 3, in_floats[c.act], &w[c.act == AX_BF16]);
    }
    free(list);
    verdict_check(v, count < ROOM && cases > 50, "%d cases with tuned products", cases);
    verdict_part(
        v, t0,
        "%d combinations with tuned products, 3 steps: in fp32 gradients within %.1e (%s), "
        "losses within %.1e; in bf16 gradients within %.1e, losses within %.1e",
        cases, w[0].seen.grad, w[0].grad_at, w[0].seen.loss, w[1].seen.grad, w[1].seen.loss);
}
