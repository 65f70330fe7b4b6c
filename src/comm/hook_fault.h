// A communicator that misbehaves on purpose, for tests.
//
//     ax_fault f = { .nth = 12, .what = AX_FAULT_FAIL };
//     AX_TRY(ax_comm_fault_open(world, &f, &world));  // takes the old one over
//     ...                                             // the 12th collective of this rank fails
//
// Collectives are counted as they start, over the communicator and all that are split from it;
// those of one rank or of no elements do not count. The plan is the caller's memory and belongs to
// one rank; it must outlive the communicators.
#pragma once
#include "comm/comm.h"

typedef enum ax_fault_kind {
    AX_FAULT_FAIL, // AX_ECOMM on this rank; peers notice when the caller aborts
    AX_FAULT_KILL, // SIGKILL to this process
} ax_fault_kind;

typedef struct ax_fault {
    int64_t nth; // from 1; 0: never
    ax_fault_kind what;
    int delay_us;  // each collective starts up to this much later
    uint64_t seed; // of the delays
    int64_t count; // collectives started so far
} ax_fault;

// Wraps `inner`, with no request outstanding; closing the result closes it too. On failure `inner`
// is untouched.
ax_status ax_comm_fault_open(ax_comm *inner, ax_fault *plan, ax_comm **out);
