// What one rank did when: the kernels it ran, the time it stood waiting for peers, and the
// collectives that were under way.
//
//     ax_timeline t;
//     AX_TRY(ax_timeline_init(&t, spans));
//     dev.timeline = &t;                       // kernels, from here on
//     ax_comm_timeline_attach(comm, &t);       // collectives of one communicator
//     ... t.span[i] for i < t.count ...
//     ax_timeline_fini(&t);
//
// A timeline belongs to one rank and is written from its thread. It never grows: a span that finds
// no room is counted in `lost` and otherwise forgotten. A zeroed timeline only counts.
#pragma once
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum ax_timeline_kind {
    AX_TIME_KERNEL,   // the rank computes
    AX_TIME_WAIT,     // the rank stands in begin or wait of a collective
    AX_TIME_PROGRESS, // the rank moves a collective on between two kernels
    AX_TIME_STEP,     // a whole step; size[0] is its number
    AX_TIME_TRANSFER, // a collective is under way: from its begin, or the end of the one before
                      // it on the same communicator, until it is complete
} ax_timeline_kind;

typedef struct ax_timeline_span {
    const char *name; // of the kernel's slot; the tag of a collective. A string literal
    const char *axis; // name of the communicator, which owns it; NULL: a kernel
    const void *lane; // the communicator: two may serve one axis. Only compared
    ax_timeline_kind kind;
    int64_t size[3];       // gemm: m, n, k; other kernels: rows, columns of what they read, 0;
                           // collectives: bytes as the trace counts them, 0, 0
    double begin_s, end_s; // ax_clock_s
} ax_timeline_span;

typedef struct ax_timeline {
    ax_timeline_span *span;
    int64_t count, room, lost;
    bool paused; // nothing is written
} ax_timeline;

double ax_clock_s(void); // monotonic seconds of this machine

ax_status ax_timeline_init(ax_timeline *t, int64_t room);
void ax_timeline_fini(ax_timeline *t); // a zeroed one is legal
void ax_timeline_add(ax_timeline *t, const ax_timeline_span *span);
