// The cpu backend: oneDNN for matmuls, vector kernels built for several instruction sets of which
// one is picked when the device is opened, and a team of OpenMP threads for each rank. All state
// hangs on the device: ranks may be threads of one process.
#pragma once
#include "dev/kern.h"

typedef struct ax_onednn ax_onednn;
typedef struct ax_cpu_pin ax_cpu_pin;

typedef struct ax_cpu {
    ax_onednn *onednn;
    ax_cpu_pin *pin;                  // NULL: the team is not pinned
    const struct ax_cpu_build *build; // of the vector kernels
    bool native_bf16; // oneDNN multiplies bf16 with the processor's own instructions
} ax_cpu;

static inline ax_cpu *ax_cpu_of(const ax_device *dev)
{
    return dev->impl;
}

// One table for each build of the vector kernels, best first, ended by a NULL name.
typedef struct ax_cpu_build {
    const char *isa;
    const ax_kern *kern;
    ax_status (*panel_gemm)(ax_device *dev, const ax_gemm_args *g); // f32 and bf16, not empty
    size_t (*panel_gemm_workspace)(const ax_device *dev, const ax_gemm_args *g);
    bool (*runs)(void); // whether this processor has the instructions
} ax_cpu_build;
extern const ax_cpu_build ax_cpu_builds[];

// The model of the processor as one word of lower-case letters, digits and -: "amd-epyc-25-1".
void ax_cpu_processor(char *text, size_t size);

ax_status ax_cpu_gemm(ax_device *dev, const ax_gemm_args *g);
size_t ax_cpu_gemm_workspace(const ax_device *dev, const ax_gemm_args *g);

// Binds the calling thread's OpenMP team to `threads` cores from number `core` on, counted in
// hwloc order among those that this thread may use (and round again at their end). Each member
// is bound to the whole set, not to one core: a library that lets its team shrink and grow makes
// new threads, which inherit the set of the thread that calls it. *pin is NULL in a build without
// hwloc.
ax_status ax_cpu_pin_team(int core, int threads, ax_cpu_pin **pin);
void ax_cpu_unpin_team(ax_cpu_pin *pin);             // NULL is legal
void ax_cpu_pin_library(char *version, size_t size); // of hwloc; "": a build without it
