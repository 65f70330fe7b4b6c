// A device: memory, threads and the kernel table of one rank.
//
//     ax_device dev;
//     AX_TRY(ax_device_open(&(ax_device_config){ .name = "cpu", .threads = 2, .core = -1 }, &dev));
//     AX_TRY(ax_device_alloc(&dev, bytes, &mem));
//     ...                                             // dev/kern.h
//     ax_device_free(&dev, mem);
//     ax_device_close(&dev);
//
// Backends: `ref` is plain C, single-threaded, float, double and bf16: it defines what every kernel
// means. `cpu` is oneDNN for matmuls, OpenMP and vector code for the rest. `measure` opens nothing
// and computes nothing: kernels check their shapes, count flops and return; arenas measured under
// it are what the real run allocates.
//
// One rank owns a device and calls it from one thread. Kernels run in call order; on host
// backends a call returns when the work is done.
#pragma once
#include "dev/tensor.h"
#include "dev/timeline.h"

#include <stdbool.h>

typedef struct ax_kern ax_kern;
typedef struct ax_device ax_device;
typedef struct ax_gemm_args ax_gemm_args;
typedef struct ax_tuner ax_tuner;

typedef struct ax_device_config {
    const char *name; // "ref", "cpu" or "measure"
    const char *as;   // for "measure": the backend whose workspace is measured; NULL: cpu
    int threads;      // threads of this rank's team; 0: all cores of the process
    int core;         // first core this rank's team is pinned to, in hwloc order; -1: not pinned
    size_t workspace; // bytes kernels may use inside one call; 0: none yet (see ax_device_grow)
} ax_device_config;

// What an open device runs on.
enum { AX_DEVICE_LIBRARIES = 4 };
typedef struct ax_device_facts {
    const char *isa;    // instruction set of the kernels: "avx2"; "plain C"
    char processor[64]; // its model, one word: "amd-epyc-25-1"
    const char *bf16;   // how bf16 is multiplied: "native", "widened to f32"
    bool pinned;
    struct {
        const char *name; // "oneDNN"; NULL: the list ends
        char version[24];
    } library[AX_DEVICE_LIBRARIES];
} ax_device_facts;

typedef struct ax_device_ops {
    const char *name;
    ax_status (*open)(ax_device *dev, const ax_device_config *config); // sets dev->kern
    void (*close)(ax_device *dev);
    ax_status (*alloc)(ax_device *dev, size_t bytes, void **out); // 64-byte aligned, zeroed
    void (*free)(ax_device *dev, void *mem, size_t bytes);
    ax_status (*copy)(ax_device *dev, void *to, const void *from, size_t bytes); // any direction
    ax_status (*sync)(ax_device *dev); // returns when all earlier kernels are done
    void (*facts)(const ax_device *dev, ax_device_facts *out);        // into zeroed memory
    const char *(*kern_name)(const ax_device *dev, const char *slot); // what runs a known slot
    bool (*fast_bf16)(void); // whether the processor multiplies bf16 itself; NULL: it does not
    // Ways to make a product (dev/tune.h); NULL: one alone.
    const char *(*gemm_way_name)(int way); // NULL beyond the last
    bool (*gemm_way_applies)(const ax_device *dev, const ax_gemm_args *g, int way);
    void (*gemm_forget)(ax_device *dev);
} ax_device_ops;

enum { AX_DEVICE_CORE_WORDS = 16 }; // 1024 cores

struct ax_device {
    const ax_device_ops *ops;
    const ax_kern *kern; // every slot filled
    int threads;
    bool measuring;
    void *impl;            // the backend's own
    void *workspace;       // scratch inside one kernel call; reused by the next
    size_t workspace_size; // bytes at workspace
    size_t workspace_need; // most bytes any kernel asked for so far (grown by measuring)
    double matmul_flops;   // 2*m*n*k of every gemm and attention issued since open; exact to 2^53
    void (*poll)(
        void *ctx); // called between kernels and row chunks, so host communicators progress
    void *poll_ctx;
    // The set of cores that the opening thread had before a team was pinned; none: not known.
    uint64_t cores[AX_DEVICE_CORE_WORDS];
    ax_timeline *timeline; // NULL: nobody wants to know; not owned
    ax_tuner *tuner;       // dev/tune.h; NULL: products are made the default way; not owned
};

ax_status ax_device_open(const ax_device_config *config, ax_device *dev);
void ax_device_close(ax_device *dev); // a zeroed device is legal

// Lets the calling thread, a helper that a pinned thread started, run on all cores that the rank
// had before its team was pinned. A hint: where the system refuses, the thread stays where it is.
void ax_device_unpin_thread(const ax_device *dev);

ax_status ax_device_alloc(ax_device *dev, size_t bytes, void **out);
void ax_device_free(ax_device *dev, void *mem, size_t bytes);
ax_status ax_device_copy(ax_device *dev, void *to, const void *from, size_t bytes);
ax_status ax_device_sync(ax_device *dev);

// Sets the workspace to `bytes` (what a measuring device reported as workspace_need). Set-up only.
ax_status ax_device_grow(ax_device *dev, size_t bytes);

// Names of the backends in this build, NULL-terminated, and whether `name` can run on this machine
// (a reason in plain words when not; NULL when it can).
const char *const *ax_device_names(void);
const char *ax_device_missing(const char *name);

// Whether bf16 is faster than f32 on this backend and machine, and not only smaller.
bool ax_device_has_bf16(const char *name);

// Cores this process may run on.
int ax_device_cores(void);
// Bytes of memory of this machine.
double ax_device_memory(void);
// Equal for two processes that run on the same machine and may use the same cores.
uint64_t ax_device_cores_id(void);

void ax_device_facts_of(const ax_device *dev, ax_device_facts *out);
// The same in a line: "cpu: avx2, oneDNN 2.6.3, hwloc 2.9.0, bf16 widened to f32, 2 threads".
void ax_device_describe(const ax_device *dev, char *text, size_t size);
