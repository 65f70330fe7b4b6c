// A communicator over slow links, for tests and measurements: data arrives as before, but a
// transfer takes the time that it would take on a network.
//
//     static ax_links links = {.link = {{.axis = "x", .bytes_per_s = 1e9, .latency_s = 2e-5},
//                                       {.axis = "z", .bytes_per_s = 1e8}}};
//     AX_TRY(ax_comm_link_open(world, &links, &world)); // takes the old one over
//
// Each axis has one link a rank. A communicator uses the link of every axis whose name is part of
// its own ("z" of z, zdata and xzdata; both of xy); one without any is as fast as before. A
// transfer starts when all its ranks have begun it and all earlier ones of this rank on its links
// are over, occupies them for bytes / bytes_per_s + latency_s, and moves by itself: nobody need
// poll. Bytes are those that cross a rank's link in a ring: (g-1)/g of the vector (of all pieces
// together) of g ranks, twice that for an all-reduce. begin returns at once; a wait returns no
// earlier than the transfer is over, and sleeps until then.
//
// Ranks are threads of one process. The links are the caller's memory, belong to one rank and must
// outlive the communicators; all ranks give the same speeds.
#pragma once
#include "comm/comm.h"

enum { AX_LINKS = 4, AX_LINK_FLIGHTS = 1024 };

typedef struct ax_link {
    const char *axis; // NULL: the list ends
    double bytes_per_s, latency_s;
    double free_s; // ax_clock_s at which all transfers that are known so far are over
    double busy_s; // seconds occupied so far
} ax_link;

typedef struct ax_link_board ax_link_board;

typedef struct ax_link_flight { // a transfer that is begun and not complete
    ax_link_board *board;
    uint64_t serial;
    unsigned links;          // bits
    double seconds;          // that it takes
    double begun_s, asked_s; // when this rank began it, and stood waiting for it; 0: it never did
    double end_s;            // 0: not known, some rank has not begun it
    double landed_s;         // when this rank learned that it was over
    bool moved;              // its data has arrived
} ax_link_flight;

typedef struct ax_links {
    ax_link link[AX_LINKS];
    ax_link_flight flight[AX_LINK_FLIGHTS]; // in the order of their begin
    int flights;
    // Complete ones in the order of their end, for those who want to know; NULL: nobody.
    ax_link_flight *log;
    int log_room, logged; // what finds no room is left out
} ax_links;

// Collective over `inner`, with no request outstanding. Wraps it; closing the result closes it too.
// On failure `inner` is untouched.
ax_status ax_comm_link_open(ax_comm *inner, ax_links *links, ax_comm **out);

// Seconds that one collective occupies its links.
double ax_link_seconds(const ax_links *l, const ax_comm *c, ax_coll coll, const ax_xfer *x);
