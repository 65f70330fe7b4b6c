// The memory of a rank by kind, from the formulas of docs/parallelism.md: written from the
// document, sharing nothing with the code that allocates.
//
//     memory_table expected;
//     memory_expect(&arch, &config, &layout, &expected);
//     expected.weights + ... <= size.arena[0] <= the same + AX_MEMORY_GAP * expected.run_tensors
//
// `config.activations` must not be auto.
#pragma once
#include "train/trainer.h"

enum { AX_MEMORY_GAP = 128 }; // a tensor begins on a line of 64 bytes and leaves one free behind it

typedef struct memory_table { // bytes
    // The run arena.
    int64_t weights, grads, reduced, masters, moments; // of matrices and vectors
    int64_t gathered;                                  // two layers and the vocabulary on their way
    int64_t sums;                                      // gradients on their way, over z and data
    int64_t tables;                                    // ids, targets, positions
    int64_t run_tensors;                               // at most
    // The step arena.
    int64_t stream, block, ends; // inputs of all blocks; what a block keeps; final norm, gradient
    int64_t step;                // all
    int64_t step_tensors;
} memory_table;

void memory_expect(const ax_arch *arch, const ax_trainer_config *config, const ax_layout *layout,
                   memory_table *out);
int64_t memory_run(const memory_table *t);
