// The processes of one machine, and the memory they share.
//
// One window a job and machine, of at most 16 MiB a rank: MPI_Win_allocate_shared over the ranks of
// the machine. Its memory is cut into lanes (comm/window.h), and each communicator whose ranks are
// all here takes one of each rank. Where there is no window, or no lane is left, the communicator
// goes through the library's messages.
#pragma once
#include "comm/window.h"

#include <mpi.h>

enum { AX_NODE_LANES = 16 };

typedef struct ax_mpi_node {
    MPI_Comm comm; // ranks of this machine; MPI_COMM_NULL: this node is closed
    MPI_Win window;
    int ranks;
    unsigned char **base; // by rank here; NULL: there is no window
    size_t lane_bytes;
    unsigned taken; // lanes of this rank
} ax_mpi_node;

// Collective over `world`; fails on all ranks or on none. That there is no room for a window is not
// a failure: it is said once.
ax_status ax_mpi_node_open(MPI_Comm world, ax_mpi_node *node);
// farewell: the peers are there to meet, so the window is freed.
void ax_mpi_node_close(ax_mpi_node *node, bool farewell);

// Collective over `comm`: makes a window of it where all its ranks are here and each has a lane.
// w->ranks is 0 where they are not. A failure may be this rank's alone.
ax_status ax_mpi_node_window(ax_mpi_node *node, MPI_Comm comm, int spins, ax_window *w);
// Takes back the lane; peers may still read from it, for a moment. A zeroed window is legal.
void ax_mpi_node_return(ax_mpi_node *node, ax_window *w, bool farewell);
