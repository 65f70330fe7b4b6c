// Puts a distributed model together: every rank's share of every parameter in one list of doubles,
// parameter after parameter, each row-major in its true shape.
//
//     AX_TRY(whole_gather(&t, WHOLE_GRAD, all, &wrong));   // all: whole_count doubles
//
// Each element is given by the rank that owns it. Then every rank compares what it holds itself,
// owner or replica, with what came out: `wrong` counts elements that are not the same number.
#pragma once
#include "train/trainer.h"

typedef enum whole_pick {
    WHOLE_GRAD,   // the reduced gradient of the last step
    WHOLE_MASTER, // what the optimizer updates
    WHOLE_WEIGHT, // what the layers read; settles pending gathers first
    WHOLE_COVER,  // 1 from each owner: the sum says how often an element is owned
} whole_pick;

int64_t whole_count(const ax_params *ps);
double whole_value(ax_tensor t, int64_t i);

// Collective over the trainer's world.
ax_status whole_gather(ax_trainer *t, whole_pick pick, double *out, int64_t *wrong);
