// A parameter: one named matrix or vector of the model, distributed over the grid.
//
// A matrix's local block (n/Gout, k/Gin) is flattened row-major, padded to a multiple of
// 64*Gz*Gdata elements and cut: a z coordinate owns one `piece` of it in the activation dtype, a
// (z, data) coordinate one `part` of that piece as master, moments and reduced gradient. Vectors
// (norms, biases, positions) are held whole by every coordinate of the axes that do not cut them.
//
//     ax_param w = { .name = "blk.0.mlp.up.weight", .rows = f, .cols = h,
//                    .row_span = AX_OVER_X, .col_span = AX_OVER_Y, .matrix = true, .decay = true };
//     AX_TRY(ax_param_place(&w, &grid));
//     ax_run r = { 0 };
//     while (ax_param_next_run(&w, &r))      // the pieces of the global matrix this rank owns
//         ... r.row, r.col, r.count, r.at
#pragma once
#include "dev/device.h"
#include "grid/grid.h"

typedef enum ax_span { // which axis cuts a dimension
    AX_WHOLE,
    AX_OVER_X,
    AX_OVER_Y,
    AX_OVER_XY, // the vocabulary: slice y*Gx + x
    AX_OVER_KV, // kv heads: over x, held by `kv_copies` neighbours each when there are too few
} ax_span;

// Which ranks' gradients of a vector are added up (section 3 of docs/parallelism.md).
typedef enum ax_sum {
    AX_SUM_ZDATA,
    AX_SUM_XZDATA,
    AX_SUM_YZDATA,
    AX_SUMS,
} ax_sum;

typedef struct ax_param {
    char name[64];
    int64_t rows, cols;  // true, global; a vector has one row
    int64_t padded_rows; // of the vocabulary; 0: as rows
    ax_span row_span, col_span;
    bool matrix;
    bool decay;
    bool joined;     // lies right behind its predecessor in memory where no padding comes between,
                     // so that one matmul serves both (k and v behind q, up behind gate)
    ax_sum sum;      // of a vector
    double init_std; // standard deviation of the initial values; 0: all init_value
    double init_value;

    // Set by ax_param_place.
    int64_t first_row, first_col; // of the local block in the (padded) global matrix
    int64_t block_rows, block_cols;
    int64_t block, piece, part; // elements; a vector: all the same
    int64_t first;              // of this rank's part in the flattened block
    bool owner;                 // counted in norms and written to files: first of its replicas

    // Set by ax_params_bind: views of the run arena. Each (1, elements).
    ax_tensor weight;    // piece: act for a matrix, acc for a vector
    ax_tensor master;    // part, acc; inside weight where the dtypes are equal
    ax_tensor m, v;      // part, acc: first and second moment
    ax_tensor grad;      // piece, acc: summed over the micro-batches of this z coordinate
    ax_tensor part_grad; // part, acc: summed over data; inside grad where Gdata = 1
    ax_req reduce;       // gradients under way over data
    int turn;            // which buffer that sum uses where it travels in bf16
    ax_req update;       // new weights under way over data
} ax_param;

ax_status ax_param_place(ax_param *p, const ax_grid *g);

// A run of elements of this rank's part that is contiguous in the global matrix. Padding is left
// out. Start from a zeroed run.
typedef struct ax_run {
    int64_t row, col, count; // global place
    int64_t at;              // offset in the part
    int64_t next;
} ax_run;
bool ax_param_next_run(const ax_param *p, ax_run *r);

// The parameters of a model, in the order of its layers.
typedef struct ax_params {
    ax_param *list; // owned
    int count;
    ax_dtype act, acc;
    ax_tensor vector_grad[AX_SUMS][2]; // all vector gradients of one sum; [1]: those of kv copies
} ax_params;

enum { AX_BIND_STATE = 1, AX_BIND_GRAD = 2 }; // what a bind makes room for, beside the weights

// Takes every view from `arena`, in the order of the list; measuring and binding call it alike.
// Without AX_BIND_STATE there are no moments, and masters only where they lie in the weights.
ax_status ax_params_bind(ax_params *ps, const ax_grid *g, ax_arena *arena, int what);

// Initial values, a pure function of (seed, name, true row, true column), into masters (or, without
// masters, weights of the coordinate's part); then ax_params_spread. Collective over data.
ax_status ax_params_init(ax_params *ps, const ax_grid *g, ax_device *dev, int64_t seed);

// Rounds masters into weights and gathers them over data. Collective over data.
ax_status ax_params_spread(ax_params *ps, const ax_grid *g, ax_device *dev);

int ax_params_find(const ax_params *ps, const char *name); // index, or -1
void ax_params_fini(ax_params *ps);
