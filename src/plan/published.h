// The communication model of AxoNN's authors, as their public code computes it (arXiv 2502.08145;
// examples/comm_model.py): ring passes of each axis divided by a bandwidth that depends on where
// the axis lies in the machine. No compute, no latency, no overlap; grids of powers of two.
//
//     ax_published_model m = {.layers = 38, .hidden = 9216, .seq = 2048, .least_tensor = 32};
//     ax_published_list all;
//     AX_TRY(ax_published_rank(&m, ranks, batch, &perlmutter, &all));
//     ... all.entry[0] is the fastest ...
//     ax_published_list_fini(&all);
//
// Letters: B sequences of the global batch, S tokens of one, t = B S / (Gdata Gz) token rows, H
// hidden width, and for each of the four matmuls of a block its width multiple K (qkv 3, attention
// output 1, mlp 4 and 4). Their r is our x, their c our y, which lies innermost: order yxzd.
// Bytes of a layer on a rank, 2 bytes a number:
//     V_data = 4 (Gdata-1)/Gdata K H^2 / (Gy Gx Gz) 2        all-reduce of fp32 gradients
//     V_z    = 3 (Gz-1)/Gz K H^2 / (Gy Gx) 2                 two gathers, one reduce-scatter
//     V_x    = 2 (Gx-1)/Gx t H / Gy 2                        all-reduce of input gradients
//     V_y    = 4 (Gy-1)/Gy t K H / Gx 2                      all-reduce of outputs, made twice
// A transposed layer (attention output, second mlp) has 4 ... t K H / Gy in V_x and 2 ... t H / Gx
// in V_y. The time of a step is the sum over layers and axes of V / 2^30 / bandwidth.
#pragma once
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

// Bandwidths in GB/s as the authors' tables hold them, by p = product of the axes further in and g
// = size of the axis. A case with g = 0 serves every g of its p that has no line of its own; the
// last p serves all beyond it.
enum { AX_PUBLISHED_CASES = 32 };
typedef struct ax_published_bandwidths {
    struct {
        int p, g;
        double gb_per_s;
    } at[AX_PUBLISHED_CASES]; // p ascending
    int cases;
} ax_published_bandwidths;

typedef struct ax_published_model {
    int64_t layers, hidden, seq;
    int least_tensor; // smallest Gx Gy Gz that holds it: the authors' stand-in for memory
} ax_published_model;

typedef struct ax_published_grid {
    int x, y, z, data;
    double seconds; // of a step
} ax_published_grid;

typedef struct ax_published_list {
    ax_published_grid *entry; // fastest first
    int count;
} ax_published_list;

// GB/s. AX_EUSAGE: the tables have nothing for this pair.
ax_status ax_published_bandwidth(const ax_published_bandwidths *b, int64_t p, int64_t g,
                                 double *gb_per_s);
// The time of one grid.
ax_status ax_published_time(const ax_published_model *m, int64_t batch,
                            const ax_published_bandwidths *b, ax_published_grid *grid);
// Every grid of powers of two with the product `ranks` (a power of two, at most 2^24), Gx Gy Gz at
// least least_tensor, and B a multiple of Gdata Gz. AX_EUSAGE where there is none. The caller
// releases the list; a zeroed one is legal.
ax_status ax_published_rank(const ax_published_model *m, int64_t ranks, int64_t batch,
                            const ax_published_bandwidths *b, ax_published_list *out);
void ax_published_list_fini(ax_published_list *l);

// The least tensor degree of a model of `parameters`, from the authors' table of their nine models;
// between two of them that of the larger. Larger ones than theirs: in proportion to the largest,
// rounded up to a power of two.
int ax_published_least_tensor(double parameters);
