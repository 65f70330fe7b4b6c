// Saves and loads of a small model on all ranks of a grid, for tests of checkpoints.
//
//     scene_play(scene_saving("x=2,z=2", scene_path(*state, "step-00000100")));
//     scene_play(scene_loading("y=4", scene_path(*state, "step-00000100")));   // and compares all
//
// A play fails the test where its ranks differ or an element is not what was saved.
#pragma once
#include "ckpt/ckpt.h"

// ---- a place to save in: set-up and tear-down of a test; its path is *state

int scene_open_place(void **state);
int scene_close_place(void **state);
const char *scene_path(const char *root, const char *name); // kept until the next test

// ---- a model that has every kind of parameter

enum { VOCAB = 100, H = 24, POSITIONS = 10, WIDE = 40, PARAMS = 11, SMALL = 9, FEW = 3 };
extern const ax_param scene_model[PARAMS];

// What element (row, col) holds (kind 0: the master, 1 and 2: moments), in double; a few are no
// ordinary numbers, and one is a signalling NaN, which survives only where no arithmetic touches
// it.
double scene_value(const char *name, int kind, int64_t row, int64_t col);
bool scene_holds_nan(const ax_param *p, int64_t row, int64_t col);
extern const uint32_t scene_odd_nan;

// ---- plays

typedef struct scene {
    const char *grid, *dir;
    int kv_copies, params; // 0: 1, all
    ax_dtype act, acc;
    bool save, with_state, no_state;
    bool background; // the save goes on while the parameters change
    bool pinned;     // the ranks, once their devices are open, to one core
    bool must_begin; // whatever becomes of it
    bool converted;  // the file is of another dtype
    ax_status expected;
    int64_t step;
    char *config, *state;
    const char *companions;
} scene;

scene scene_saving(const char *grid, const char *dir);
scene scene_loading(const char *grid, const char *dir);
// All ranks must return the same; *why: rank 0's message.
ax_status scene_play_any(scene s, const char **why);
const char *scene_play(scene s); // must end as expected

// ---- files

char *scene_slurp(const char *path, size_t *size); // with a zero behind; freed by the caller
void scene_write(const char *path, const void *bytes, size_t count);
bool scene_exists(const char *path);
int64_t scene_step_of(const char *dir); // that stands in a checkpoint; -1: there is none
