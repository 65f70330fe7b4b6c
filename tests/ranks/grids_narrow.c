// Every grid in fp32 and bf16, on each device of this build.
//
// What rounding makes of a sum depends on how the grid splits it, so differences are of the size of
// the rounding, times what training makes of it. The bands were set from what was measured (the
// figures that this part prints), rounded up by a factor of about three.
#include "test_grids.h"

#include "base/log.h"

#include <stdio.h>
#include <string.h>

typedef struct precision {
    ax_dtype act;
    bands first, long_run; // of 3 steps on every grid; of 20 steps on some
} precision;

static const precision precisions[] = {
    {AX_F32, {.grad = 1e-6, .loss = 1e-5, .norm = 1e-5}, {.grad = 1e-6, .loss = 1e-5, .norm = 1e-5}},
    {AX_BF16, {.grad = 3e-2, .loss = 1e-2, .norm = 5e-2}, {.grad = 3e-2, .loss = 1e-2, .norm = 5e-2}},
};

static grid_case narrow_case(int i, const ax_grid_shape *grid, const char *device, ax_dtype act)
{
    return (grid_case){.grid = *grid,
                       .kind = i % 2,
                       .tied = i / 2 % 2,
                       .kv = (i + i / 4) % 4,
                       .split = (i + i / 7) % SPLITS,
                       .replicated = i / 3 % 2,
                       .recompute = i / 5 % 2,
                       .keep = i / 4 % 2,
                       .overlap = AX_OVERLAP_ALL,
                       .act = act,
                       .device = device};
}

static void run_precision(verdict *v, const char *device, const precision *p)
{
    double t0 = verdict_now();
    worst first = {0}, run = {0};
    ax_grid_shape grid[GRIDS];
    grid_list(grid);
    for (int i = 0; i < GRIDS; i++) {
        grid_case c = narrow_case(i, &grid[i], device, p->act);
        grids_compare(v, &c, 3, p->first, &first);
    }
    for (int i = 3; i < GRIDS; i += 7) {
        grid_case c = narrow_case(i, &grid[i], device, p->act);
        grids_compare(v, &c, 20, p->long_run, &run);
    }
    verdict_part(v, t0,
                 "%s on %s: gradients of step 1 within %.1e (%s); losses within %.1e and norms "
                 "within %.1e over 3 steps on every grid, %.1e and %.1e over 20 steps on some",
                 ax_dtype_name(p->act), device, first.seen.grad, first.grad_at, first.seen.loss,
                 first.seen.norm, run.seen.loss, run.seen.norm);
}

void part_narrow(verdict *v, bool all)
{
    (void)all;
    for (const char *const *name = ax_device_names(); *name; name++)
        for (size_t i = 0; i < sizeof precisions / sizeof precisions[0]; i++)
            run_precision(v, *name, &precisions[i]);
}
