// The optimizer of one rank: gradient sums, global norm and clipping, AdamW on fp32 masters.
//
//     ax_optim o = { .params = &m.params, .grid = g, .dev = dev, .config = { ... } };
//     AX_TRY(ax_optim_bind(&o, &run));              // after ax_params_bind
//     nn->grad_ready = ax_optim_grad_ready; nn->grad_ctx = &o;  // sums over data begin in backward
//     ... micro-batches ...
//     AX_TRY(ax_optim_reduce(&o));                  // all sums complete
//     AX_TRY(ax_optim_norm(&o, &norm, &nonfinite)); // the same bits on every rank
//     AX_TRY(ax_optim_update(&o, lr, norm));        // begins the gather of the new weights
//
// State is cut over (z, data): a rank updates only its part of a matrix. All calls are collective
// over the grid.
#pragma once
#include "dev/kern.h"
#include "grid/param.h"

typedef struct ax_optim_config {
    double beta1, beta2, eps, weight_decay;
    double clip; // largest global gradient norm; 0: no clipping
    bool overlap_data, overlap_update;
    bool narrow_grads; // sums over data travel in bf16
} ax_optim_config;

// Buffers of the sums over data that travel in bf16: matrices take turns, the vocabulary has its
// own.
enum { AX_NARROW_TURNS = 4, AX_NARROW_SLOTS = AX_NARROW_TURNS + 1 };
typedef struct ax_narrow {
    ax_tensor sent, back; // (1, piece), (1, part) bf16 of the largest that uses it
    ax_param *busy;       // whose sum is under way; NULL: free
} ax_narrow;

typedef struct ax_optim {
    ax_params *params;
    const ax_grid *grid;
    ax_device *dev;
    ax_optim_config config;
    int64_t updates; // applied so far: the t of the bias corrections
    ax_step_scalars scalars;
    ax_narrow narrow[AX_NARROW_SLOTS];
} ax_optim;

// reduce.c
// Takes the buffers of narrow sums from the run arena; none without narrow_grads or peers over
// data.
ax_status ax_optim_bind(ax_optim *o, ax_arena *run);
ax_status ax_optim_grad_ready(void *optim, ax_param *p);
ax_status ax_optim_reduce(ax_optim *o);

// clip.c. norm: of the finite elements, owners only; nonfinite: how many are not.
ax_status ax_optim_norm(ax_optim *o, double *norm, int64_t *nonfinite);
// The factor that brings `norm` down to `clip` (1 where it is below, or clip is 0).
double ax_clip_factor(double clip, double norm);

// optim.c
ax_status ax_optim_update(ax_optim *o, double lr, double norm);
// Waits for the gathers that an update began. Before weights are read other than through nn.
ax_status ax_optim_settle(ax_optim *o);
