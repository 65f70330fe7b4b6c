// The parts of test_grids. Each prints what failed, then one line with its figures.
#pragma once
#include "grid_case.h"
#include "verdict.h"

typedef void part_run(verdict *v, bool all);

part_run part_serial, part_pairs, part_sample, part_overlap; // grids_serial.c
part_run part_documents;
part_run part_narrow;                 // grids_narrow.c
part_run part_tuned;                  // grids_tuned.c
part_run part_bytes, part_refusals;   // grids_layout.c
part_run part_pitfalls;               // grids_pitfalls.c
part_run part_memory, part_recompute; // grids_memory.c
part_run part_links;                  // grids_links.c

// Runs one case and compares it with the serial run.
typedef struct bands {
    double grad, loss, norm; // largest relative differences
} bands;
typedef struct worst {
    bands seen;
    char grad_at[320];
} worst;
void grids_compare(verdict *v, const grid_case *c, int steps, bands allowed, worst *w);
