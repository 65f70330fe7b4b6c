// The checkpoints of a run: written at once, or beside the steps that follow.
//
//     ax_saves s = { .out = out, .config = config, .trainer = t, .beside = true };
//     AX_TRY(ax_saves_begin(&s, &point));       // finishes the one before
//     ... a step; whether any rank is ax_saves_busy goes through the step's agreement ...
//     if (none is) AX_TRY(ax_saves_finish(&s)); // its name, `latest`, train.keep
//     ax_saves_close(&s);
#pragma once
#include "train/config.h"
#include "train/trainer.h"

typedef struct ax_saves {
    // Set by the caller.
    const char *out; // run directory; its lock is held
    const ax_run_config *config;
    ax_trainer *trainer;
    bool beside; // the trainer has a snapshot to save from

    ax_ckpt_saving *flight; // NULL: none
    char name[32];          // of the last one begun
    int64_t step;           // likewise; 0: none
    ax_text yaml, state;    // read until the save is finished
} ax_saves;

typedef struct ax_saves_point { // where the run stands
    int64_t step, tokens;
    const struct ax_resume_data *data; // of rank 0
    double loss;
} ax_saves_point;

// Collective. Begins out/step-NNNNNNNN, once the one before is finished; returns when masters and
// moments may change. `whole`: not before it is finished.
ax_status ax_saves_begin(ax_saves *s, const ax_saves_point *at, bool whole);
// Whether this rank is still writing. Not collective, never waits.
bool ax_saves_busy(const ax_saves *s);
// Collective. Waits until the save in flight has its name; none in flight is legal.
ax_status ax_saves_finish(ax_saves *s);
// Without a farewell to a save in flight: after finish, or once the job has failed. A zeroed one is
// legal.
void ax_saves_close(ax_saves *s);
