// The matmul rate of this machine, measured where it is used: the yardstick of share_of_peak.
#pragma once
#include "comm/comm.h"
#include "dev/device.h"

// The matmul of the measurement on a measuring device, for its workspace.
ax_status ax_peak_rehearse(ax_device *dev, ax_dtype act);

// Best rate of a 1024 x 1024 x 1024 matmul of dtype `act` over about 0.3 s on every rank at once,
// summed over world. flop/s. Collective.
ax_status ax_peak_measure(ax_device *dev, ax_dtype act, ax_comm *world, double *flops_per_s);
