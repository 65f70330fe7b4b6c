// Samples to batches: which rows of the training data a step reads.
//
//     ax_loader l;
//     AX_TRY(ax_loader_init(&l, corpus, batch, seed));   // refuses data below one step
//     AX_TRY(ax_loader_row(&l, step, row, &(ax_row){ids, targets, positions}));
//
// A batch is a pure function of (seed, step): row j of step s (from 1) is sample g = (s-1)*batch +
// j of an endless list. The mixture says from which source g comes and which of that source's
// samples it is (mixture.h); each source has epochs of its own, each a permutation of its own of
// all rows.
#pragma once
#include "data/corpus.h"

typedef struct ax_loader {
    const ax_corpus *corpus;
    int64_t samples; // of all sources, each once
    int64_t batch;
    uint64_t seed;
} ax_loader;

typedef struct ax_sample {
    int source;
    int64_t epoch;      // of the source, from 0
    int64_t sample;     // row of the source, from 0
    int64_t begin, end; // its tokens in the source: seq inputs and the last target, at most
} ax_sample;

// AX_EUSAGE with the numbers (samples at hand, samples a step needs, tokens a sample needs) when
// the data hold less than one step, or a source no sample.
ax_status ax_loader_init(ax_loader *l, const ax_corpus *c, int64_t batch, int64_t seed);

// What row `row` (0..batch) of `step` (1..) reads.
ax_sample ax_loader_sample(const ax_loader *l, int64_t step, int64_t row);
// The same as one number (0..samples), the sources one after the other.
int64_t ax_loader_sample_id(const ax_loader *l, int64_t step, int64_t row);

// That row. AX_EIO, AX_EFORMAT of token files.
ax_status ax_loader_row(const ax_loader *l, int64_t step, int64_t row, const ax_row *out);
