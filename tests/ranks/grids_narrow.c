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
    int wide, narrow; // comm.activations=fp32, comm.gradients=bf16
    bands allowed;
} precision;

static const precision precisions[] = {
    {AX_F32, 0, 0, {.grad = 1e-6, .loss = 1e-5, .norm = 1e-5}},
    {AX_F32, 0, 1, {.grad = 1e-2, .loss = 1e-4, .norm = 1e-2}},
    {AX_BF16, 0, 0, {.grad = 3e-2, .loss = 1e-3, .norm = 0.2}},
    {AX_BF16, 1, 0, {.grad = 2e-2, .loss = 5e-4, .norm = 0.1}},
    {AX_BF16, 0, 1, {.grad = 3e-2, .loss = 1e-3, .norm = 0.2}},
};

static grid_case narrow_case(int i, const ax_grid_shape *grid, const char *device,
                             const precision *p)
{
    return (grid_case){.grid = *grid,
                       .kind = i % 2,
                       .tied = i / 2 % 2,
                       .kv = (i + i / 4) % 4,
                       .split = (i + i / 7) % SPLITS,
                       .replicated = i / 3 % 2,
                       .recompute = (ax_recompute)(i / 5 % 3),
                       .keep = i / 4 % 2,
                       .overlap = AX_OVERLAP_ALL,
                       .act = p->act,
                       .wide = p->wide,
                       .narrow = p->narrow,
                       .device = device};
}

// 20 steps on every grid where that is fast, else 3, and 20 on some.
static void run_precision(verdict *v, const char *device, const precision *p, bool all)
{
    double t0 = verdict_now();
    worst w = {0};
    ax_grid_shape grid[GRIDS];
    bool fast = strcmp(device, "ref") != 0 || all;
    grid_list(grid);
    for (int i = 0; i < GRIDS; i++) {
        grid_case c = narrow_case(i, &grid[i], device, p);
        grids_compare(v, &c, fast || i % 7 == 3 ? 20 : 3, p->allowed, &w);
    }
    verdict_part(v, t0,
                 "%s%s on %s, every grid, 20 steps%s: gradients of step 1 within %.1e (%s), losses "
                 "within %.1e, norms within %.1e",
                 ax_dtype_name(p->act),
                 p->narrow ? ", gradients in bf16"
                 : p->wide ? ", sums in fp32"
                           : "",
                 device, fast ? "" : " on some and 3 on the others", w.seen.grad, w.grad_at,
                 w.seen.loss, w.seen.norm);
}

void part_narrow(verdict *v, bool all)
{
    for (const char *const *name = ax_device_names(); *name; name++)
        for (size_t i = 0; i < sizeof precisions / sizeof precisions[0]; i++)
            run_precision(v, *name, &precisions[i], all);
}
