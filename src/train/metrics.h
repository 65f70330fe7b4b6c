// metrics.jsonl and what a person sees of a run. Rank 0's alone.
//
//     ax_metrics m;
//     AX_TRY(ax_metrics_open(&m, &(ax_metrics_place){.dir = "out/run1", .run = "{...}", ...}));
//     AX_TRY(ax_metrics_step(&m, &record));
//     AX_TRY(ax_metrics_close(&m));
//
// The file's first line is {"run": ...}, then one object a step; evaluations are lines of their
// own. A resumed run cuts what lies beyond its step and goes on with {"run": ..., "resumed_from":
// step}. Every line is written and flushed whole. On a terminal one living line shows the progress;
// in a pipe a plain line every `log_every` steps.
#pragma once
#include "comm/trace.h"

#include <stdio.h>

typedef struct ax_metrics_record {
    int64_t step, steps;
    double loss, lr, grad_norm;
    int64_t tokens; // so far
    int64_t kept_tokens;
    double step_s;
    int64_t step_tokens;
    double model_flops, hardware_flops; // of this step, all ranks
    double peak;                        // flop/s of all ranks, measured; 0: not measured
    double rank_memory_bytes;           // most over the ranks
    bool skipped;
    const ax_comm_trace *trace; // of this step, this rank; NULL: none
} ax_metrics_record;

typedef struct ax_metrics {
    FILE *file; // NULL: no run directory
    char path[4200];
    int64_t log_every;
    bool terminal, quiet;
    int width;      // of the living line as last drawn
    double started; // seconds, monotonic
    int64_t first_step;
    bool evaluated; // the resumed step has its evaluation already
} ax_metrics;

double ax_metrics_clock(void); // monotonic seconds

typedef struct ax_metrics_place {
    const char *dir; // must exist; "": no file
    const char *run; // a JSON object: configuration, plan, build
    int64_t step;    // of a resumed run: its last one
    bool resumed;    // the file may be there, and is gone on with
    bool elsewhere;  // the run that is resumed has its file in another directory
    bool replace;    // the file may be there, and is of no use
    bool done;       // resumed where nothing is left to train: no new line
    int64_t log_every;
    bool quiet;
} ax_metrics_place;

// AX_EFORMAT names the line of a file that is not ours; a half last line is cut.
ax_status ax_metrics_open(ax_metrics *m, const ax_metrics_place *place);
ax_status ax_metrics_step(ax_metrics *m, const ax_metrics_record *r);
typedef struct ax_metrics_eval {
    int64_t step, tokens;
    double valid_loss, seconds;
    double bits_per_byte; // 0: unknown
} ax_metrics_eval;
ax_status ax_metrics_evaluation(ax_metrics *m, const ax_metrics_eval *e);
// Brings the lines to disk: a checkpoint is not older than they are.
ax_status ax_metrics_sync(ax_metrics *m);
ax_status ax_metrics_close(ax_metrics *m); // a zeroed one is legal
