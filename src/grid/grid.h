// The grid: which rank stands where on x * y * z * data, and the communicators of every axis.
//
//     ax_grid_shape s;
//     AX_TRY(ax_grid_parse("x=2,y=1,z=2,data=1", &s));   // product = ranks
//     ax_grid g;
//     AX_TRY(ax_grid_open(world, s, kv_copies, &g));      // collective over world
//     ... g.cx, ax_comm_allreduce(g.x, ...)
//     ax_grid_close(&g);
//
// x cuts the outputs of a normal layer, y its inputs (and the width of the residual stream), z the
// flattened weights (and the batch), data the batch. `order` names the axes from the one whose
// neighbours are closest in rank: "xyzd" means rank = ((data*Gz + z)*Gy + y)*Gx + x.
#pragma once
#include "comm/trace.h"

typedef struct ax_grid_shape {
    int x, y, z, data;
    char order[5]; // a permutation of "xyzd"
} ax_grid_shape;

typedef struct ax_grid {
    ax_grid_shape shape;
    int rank, ranks;
    int cx, cy, cz, cd; // this rank's coordinates
    int kv_copies;      // x neighbours that hold the same kv heads; 1: every kv head once
    ax_comm *world;     // not owned
    ax_comm *x, *y, *data;
    ax_comm *z, *z_sum; // gathers and reductions apart, so that neither queues behind the other
    ax_comm *xy;        // rank y*Gx + x: the vocabulary
    ax_comm *zdata;     // rank data*Gz + z: the batch
    ax_comm *xzdata, *yzdata;
    ax_comm *kv; // the copies of this rank's kv heads
} ax_grid;

// "x=2,z=4[,order=zxyd]": missing axes are 1. AX_EUSAGE on anything else.
ax_status ax_grid_parse(const char *text, ax_grid_shape *out);
// The text that parses back; the default order is left out.
void ax_grid_print(const ax_grid_shape *s, char *text, size_t size);
int ax_grid_ranks(const ax_grid_shape *s);

// Collective over world; world's size must be the product of the shape (AX_EUSAGE otherwise).
ax_status ax_grid_open(ax_comm *world, ax_grid_shape shape, int kv_copies, ax_grid *out);
// The same grid without peers, for measuring passes. Communicators are of the measure backend.
ax_status ax_grid_open_measure(ax_grid_shape shape, int rank, int kv_copies, ax_grid *out);
// Closes what was opened here; never the world, which the measured grid's owner closes too.
void ax_grid_close(ax_grid *g); // a zeroed grid is legal

// Counts the traffic of every communicator of the grid in `t`.
void ax_grid_trace(ax_grid *g, ax_comm_trace *t);

// Advances every communicator that has unfinished requests; `grid` is an ax_grid. Handed to the
// device, which calls it between kernels.
void ax_grid_poll(void *grid);
