// The processes of one machine, and the memory they share.
//
// One window a job and machine, of at most 16 MiB a rank: MPI_Win_allocate_shared over the ranks of
// the machine. Its memory is cut into lanes (comm/window.h), and each communicator whose ranks are
// all here takes one of each rank. Where there is no window, or no lane is left, the communicator
// goes through the library's messages.
//
// Communicators of MPI come as the address of an MPI_Comm, so that mpi.h stays out of headers.
#pragma once
#include "comm/window.h"

typedef struct ax_mpi_node ax_mpi_node;

// Collective over `world`; fails on all ranks or on none. That there is no room for a window is not
// a failure: it is said once.
ax_status ax_mpi_node_open(const void *world, ax_mpi_node **out);
// NULL is legal. farewell: the peers are there to meet, so the window is freed.
void ax_mpi_node_close(ax_mpi_node *node, bool farewell);
int ax_mpi_node_ranks(const ax_mpi_node *node); // of the job, on this machine

// Collective over `comm`: makes a window of it where all its ranks are here and each has a lane.
// w->ranks is 0 where they are not. A failure may be this rank's alone.
ax_status ax_mpi_node_window(ax_mpi_node *node, const void *comm, int spins, ax_window *w);
// Takes back the lane; peers may still read from it, for a moment. A zeroed window is legal.
void ax_mpi_node_return(ax_mpi_node *node, ax_window *w, bool farewell);
