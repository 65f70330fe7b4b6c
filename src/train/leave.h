// When a run must leave: a signal asked for it, or the time that the scheduler gives is over.
//
//     ax_leave l;
//     AX_TRY(ax_leave_init(&config.train, job->asked, started, &l));
//     ... after a step: ax_leave_now(&l, seconds of a step), of which the ranks take the worst
//
// The library catches no signals; the program does and tells their number (src/cli/signals.c).
#pragma once
#include "train/config.h"

typedef int ax_leave_signal(void); // the signal that asked this process to leave; 0: none did

typedef struct ax_leave {
    ax_leave_signal *asked; // NULL: nobody listens to signals
    double deadline;        // seconds since 1970, at which all must be saved; 0: none
} ax_leave;

double ax_leave_clock(void); // seconds since 1970

// The deadline is train.stop_before before the end of the job: the earlier of SLURM_JOB_END_TIME
// (only with train.stop_before) and `started` + train.wall_time. AX_EUSAGE when no end is known, or
// when it is behind us.
ax_status ax_leave_init(const ax_train_options *o, ax_leave_signal *asked, double started,
                        ax_leave *out);

// AX_OK: go on. AX_ESTOPPED: leave; also when another step of `step_s` seconds would end behind the
// deadline. AX_EINTERRUPTED: leave, asked from the keyboard.
ax_status ax_leave_now(const ax_leave *l, double step_s);
