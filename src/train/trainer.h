// One rank of a training or inference job: device, grid, arenas, model and optimizer, opened in
// order and closed in reverse.
//
//     ax_trainer_config c = { .arch = &arch, .grid = shape, .batch = 8, .device = "cpu", ... };
//     ax_trainer_size size;
//     AX_TRY(ax_trainer_measure(&c, 0, &size));      // opens nothing: bytes, flops
//     ax_trainer t;
//     AX_TRY(ax_trainer_open(&c, world, &t));         // collective
//     AX_TRY(ax_params_init(&t.model.params, &t.grid, &t.dev, seed));
//     ... fill t.ids, t.targets, t.positions ...; AX_TRY(ax_step(&t, lr, &result));
//     ax_trainer_close(&t);
#pragma once
#include "ckpt/ckpt.h"
#include "comm/trace.h"
#include "dev/tune.h"
#include "nn/model.h"
#include "optim/optim.h"

enum { AX_ARENAS = 4 };

typedef struct ax_trainer_config {
    const ax_arch *arch; // checked; must outlive the trainer
    ax_grid_shape grid;
    int64_t batch, micro_batch; // as ax_layout_choose
    ax_activations activations;
    const char *device; // "cpu" or "ref"
    bool lazy;          // communication runs only at its wait (tests)
    ax_dtype act;       // f32, bf16 or f64
    int threads;        // of this rank; 0: the cores it shares with others, divided evenly
    unsigned overlap;   // ax_overlap bits
    ax_recompute recompute;
    bool keep_gathered;
    bool wide_sums, narrow_grads; // as ax_nn
    bool document_mask;           // attention stays inside a document: t.positions are read
    bool inference;               // no gradients, no optimizer state
    int64_t cache;   // inference: positions of a sequence in a cache (nn/infer.h), and no passes
                     // over whole rows; 0: none
    bool snapshot;   // room for the copy that is saved while training goes on
    int64_t trace;   // steps that the timeline has room for; 0: there is none
    ax_tuner *tuner; // of this rank alone, outlives the trainer (train/tuning.h); NULL: none
    bool skip_nonfinite; // a step with non-finite gradients is skipped, not an error
    ax_optim_config optim;
} ax_trainer_config;

typedef struct ax_trainer_size {
    size_t arena[AX_ARENAS]; // run (parameters, state, buffers), step (activations), call
                             // (scratch), copy (the snapshot)
    size_t workspace;        // of the device
    double matmul_flops;     // issued by this rank in one step
    int64_t spans;           // most that a timeline of one step holds
} ax_trainer_size;

typedef struct ax_trainer {
    ax_trainer_config config; // threads resolved
    ax_comm *world;           // not owned
    ax_layout layout;
    ax_trainer_size size;
    ax_device dev;
    ax_grid grid;
    ax_comm_trace trace;
    ax_timeline timeline; // paused when opened
    void *memory[AX_ARENAS];
    ax_arena run, step, call, copy;
    ax_model model;
    ax_ckpt_snapshot snapshot; // zeroed where there is none
    ax_optim optim;
    int32_t *ids, *targets,
        *positions; // (accumulation, m): this coordinate's rows of the next step
} ax_trainer;

// What a rank of this job needs, without peers, device or memory. AX_EUSAGE when the grid does not
// fit. The same code path as the real step: what it reports is what is allocated and issued.
ax_status ax_trainer_measure(const ax_trainer_config *config, int rank, ax_trainer_size *out);
// The same, with every byte that this rank hands to a communicator counted in `trace`.
ax_status ax_trainer_measure_traffic(const ax_trainer_config *config, int rank,
                                     ax_trainer_size *out, ax_comm_trace *trace);

// Collective over world, whose size must be the product of the grid. Parameters are not set yet.
ax_status ax_trainer_open(const ax_trainer_config *config, ax_comm *world, ax_trainer *t);
// A zeroed trainer is legal. After ax_comm_end where the rank's work failed: peers may be reading
// this rank's memory, or waiting for it.
void ax_trainer_close(ax_trainer *t);
// All arenas and the workspace.
double ax_trainer_bytes(const ax_trainer_size *s);

// Which row (0 .. batch) of the global batch row `i` of t->ids is; rows = accumulation *
// micro_batch.
int64_t ax_trainer_row(const ax_trainer *t, int64_t i);
int64_t ax_trainer_rows(const ax_trainer *t);
