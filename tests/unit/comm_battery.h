// What every backend of comm/comm.h must do, run on all ranks of a world at once: the same calls
// on threads and under mpirun, against sums made here element by element in rank order.
#pragma once
#include "comm/comm.h"

// Each returns the number of things that were wrong on this rank, having printed them.
int battery_collectives(ax_comm *world, int64_t largest); // kinds, dtypes, sizes, limits, in place
int battery_splits(ax_comm *world);                       // overlapping communicators
int battery_queues(ax_comm *world);                       // many outstanding requests, polling
int battery_lazy(ax_comm *world);
int battery_scalars(ax_comm *world); // agree, sum, max, check_equal
int battery_trace(ax_comm *world);
