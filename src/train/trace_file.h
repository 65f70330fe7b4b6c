// The steps of a run as a file that a person can look at: Chrome's trace-event JSON, which
// ui.perfetto.dev and chrome://tracing open. Each rank is a process; its rows are what it computes
// and waits for, and, for each axis, the collectives under way.
// (Trace Event Format, "complete" and "metadata" events.)
//
//     ax_trace_file f = {.path = "out/run1/trace.json"};
//     AX_TRY(ax_trace_begin(&f, &trainer));   // ranks agree on time zero; the timeline runs
//     ... steps, each ended by ax_trace_step(&f, &trainer, step) ...
//     AX_TRY(ax_trace_write(&f, &trainer));   // the timeline stands still; the file is there
#pragma once
#include "train/trainer.h"

typedef struct ax_trace_file {
    const char *path;
    double zero_s;  // on this rank's clock
    double begun_s; // of the step under way
    int64_t steps;  // recorded
} ax_trace_file;

// Collective. The trainer was opened with room in its timeline.
ax_status ax_trace_begin(ax_trace_file *f, ax_trainer *t);
// Marks the end of a step. Local.
void ax_trace_step(ax_trace_file *f, ax_trainer *t, int64_t step);
// Collective; every rank writes its own part. The file appears whole under its name or not at all;
// one that was there is replaced. AX_EIO names the file.
ax_status ax_trace_write(ax_trace_file *f, ax_trainer *t);
