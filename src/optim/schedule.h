// Learning rate by step.
//
//     double lr = ax_schedule_lr(&s, step);      // step 1 .. steps
//
// Warm-up is linear: step w of W has lr * w/W, so step 1 is above zero and the peak falls on step
// W. Then, with t running from 0 after step W to 1 at the last step: cosine, linear, constant, or
// WSD (constant, then linear over the last `decay` share of all steps, but never before warm-up
// ends). The last step has min_lr (constant: lr).
#pragma once
#include <stdint.h>

typedef enum ax_schedule_kind {
    AX_COSINE,
    AX_LINEAR,
    AX_CONSTANT,
    AX_WSD,
} ax_schedule_kind;

typedef struct ax_schedule {
    ax_schedule_kind kind;
    double lr, min_lr;
    double decay; // WSD: share of the steps that decay, 0..1
    int64_t warmup, steps;
} ax_schedule;

double ax_schedule_lr(const ax_schedule *s, int64_t step);
