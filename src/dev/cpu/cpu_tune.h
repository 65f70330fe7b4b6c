// The ways that the cpu backend knows to make a product (cpu_ways.c), and how one is taken
// (cpu_tune.c); dev/tune.h is what the rest of the program sees.
#pragma once
#include "dev/cpu/cpu.h"
#include "dev/tune.h"

typedef struct ax_cpu_way {
    const char *name;
    // Whether it can make this product, and the bytes of dev->workspace that it wants. The same
    // on a measuring device, and with and without a communicator to poll.
    bool (*applies)(const ax_device *dev, const ax_gemm_args *g, size_t *bytes);
    ax_status (*run)(ax_device *dev, const ax_gemm_args *g);
} ax_cpu_way;

// The default first; ended by a NULL name. A way never changes its place or its meaning without
// its name, which files remember.
extern const ax_cpu_way ax_cpu_ways[];

// In place of the default, on a device with a tuner; not empty, not f64.
ax_status ax_cpu_tuned_gemm(ax_device *dev, const ax_gemm_args *g);
size_t ax_cpu_tuned_workspace(const ax_device *dev, const ax_gemm_args *g);

// For the table of the backend.
const char *ax_cpu_way_name(int way);
bool ax_cpu_way_applies(const ax_device *dev, const ax_gemm_args *g, int way);
