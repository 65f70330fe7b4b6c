// The factors that the tests of grids vary, and lists of cases that cover them.
//
//     grid_case c[CASES];
//     int n = cases_pairwise(c, CASES);     // every pair of values of two factors occurs
//     trial j = case_trial(&c[i], 3);
//     const outcome *serial = serial_of(&c[i], 3);
#pragma once
#include "trial.h"

enum { GRIDS = 55 }; // of 1, 2, 3, 4, 6 and 8 ranks

// How the batch is split into micro-batches, and how long sequences are.
typedef enum split {
    SPLIT_NONE, // one micro-batch: sequences are cut over y
    SPLIT_FOUR, // four micro-batches
    SPLIT_ONES, // micro-batches of one sequence: rows are cut inside it, attention by heads
    SPLIT_ODD,  // micro-batches of two sequences whose length is no power of two
    SPLITS,
} split;

typedef struct grid_case {
    ax_grid_shape grid;
    int kind; // ax_arch_kind
    int tied;
    int kv; // 0: as heads; 1: half of them; 2: two; 3: one
    int split;
    int replicated;
    ax_recompute recompute;
    int keep, lazy, settle, documents;
    int wide, narrow; // activations are summed in fp32; gradients in bf16
    int tuned;        // trial_tuning
    unsigned overlap;
    ax_dtype act;
    const char *device;
} grid_case;

// All ordered grids, the small ones first.
void grid_list(ax_grid_shape out[GRIDS]);

// Rows in which every pair of values of two factors occurs, grids among them. Returns how many.
int cases_pairwise(grid_case *out, int room);
// The i-th of the full product of grid, kind, tied, kv, split, activations and recompute; the other
// factors change from one to the next. False past the last.
bool cases_all(int64_t i, grid_case *out);

// The training job of a case. A kv count that the grid can neither cut nor copy becomes one.
trial case_trial(const grid_case *c, int steps);
void case_print(const grid_case *c, char *text, size_t size);

// The same job on one rank, in one micro-batch, without any of the options; run once and kept.
const outcome *serial_of(const grid_case *c, int steps);
void serial_fini(void);
