// Counts what moves: bytes and calls by (communicator name, tag), and seconds spent waiting.
//
//     ax_comm_trace t = { 0 };
//     ax_comm_trace_attach(world, &t);      // before the splits that should be traced
//     ... t.row[i].bytes, .tag, .axis
//
// Bytes are element count times element size as handed to the call (for allgather and
// reduce_scatter: of the whole concatenation, ranks*count), tail padding included, before any
// (g-1)/g. Communicators of one rank are not counted. One trace belongs to one rank.
#pragma once
#include "comm/comm.h"

enum { AX_TRACE_ROWS = 128 };

typedef struct ax_comm_trace_row {
    char axis[16];
    const char *tag;
    ax_coll coll;
    int64_t calls, bytes;
} ax_comm_trace_row;

typedef struct ax_comm_trace {
    int rows;
    ax_comm_trace_row row[AX_TRACE_ROWS];
    double wait_s; // inside begin and wait, all communicators
    struct {
        char axis[16];
        int64_t bytes;
        double exposed_s; // seconds spent inside begin and wait on this axis
        double moving_s;  // seconds of polls, between kernels, that moved something on it
    } axis[16];
    int axes;
} ax_comm_trace;

void ax_comm_trace_attach(ax_comm *c, ax_comm_trace *t);
void ax_comm_trace_reset(ax_comm_trace *t);

// The bytes of one call, as they are counted.
int64_t ax_comm_bytes(const ax_comm *c, ax_coll coll, const ax_xfer *x);

// For comm.c. AX_EINTERNAL when the rows are used up.
ax_status ax_comm_trace_count(ax_comm_trace *t, const ax_comm *c, ax_coll coll, const ax_xfer *x);
void ax_comm_trace_spent(ax_comm_trace *t, const ax_comm *c, double seconds);
void ax_comm_trace_moved(ax_comm_trace *t, const ax_comm *c, double seconds);
