// Collectives of processes on one machine, through memory that all of them have mapped.
//
//     w.lane[p] = where rank p's lane lies; ax_lane_init(w.lane[w.me]); ... all have done so ...
//     AX_TRY(ax_window_advance(&w, r, block));     // a backend's advance
//
// Each rank owns one lane: a few slots that it alone writes and its peers read. A collective is a
// row of steps. In a step every rank puts a chunk into its next slot and, once all have put theirs,
// gets what it needs from the slots of all. It may put ahead as far as it has slots whose earlier
// contents all have got, so that copying in and copying out run side by side. A request is done
// when its own steps are: what peers have still to read lies in the lane, not in the caller's
// memory.
#pragma once
#include "comm/pieces.h"

#include <stdatomic.h>

enum { AX_WINDOW_SLOTS = 4 };

typedef struct ax_lane {
    _Alignas(64) atomic_uint put; // steps of its owner, since the lane was made
    atomic_int put_sleepers;
    _Alignas(64) atomic_uint got;
    atomic_int got_sleepers;
    _Alignas(64) unsigned char data[]; // the slots
} ax_lane;

typedef struct ax_window {
    int ranks, me;
    int spins;         // looks at a peer's counter before sleeping
    size_t slot_bytes; // a multiple of 64
    ax_lane **lane;    // by rank; owned by whoever made the window
    const void **from; // scratch, by rank
    uint32_t put, got; // this rank's steps
    uint32_t first;    // the step that the stage under way began with
    int own_lane;      // whoever made the window keeps here which one it was
} ax_window;

// The largest slots for which a lane takes at most `bytes`; 0: too little for any.
size_t ax_lane_slot(size_t bytes);
void ax_lane_init(ax_lane *lane);

// Advances the request, sums in rank order. block: until it is done. Never fails.
void ax_window_advance(ax_window *w, ax_req *r, bool block);

// Whether all peers have got what this rank put: its lane may be used for something else.
bool ax_window_is_idle(const ax_window *w);
