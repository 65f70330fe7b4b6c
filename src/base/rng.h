// Counter-based random numbers (Philox 4x32-10; Salmon et al., SC11): a value is a pure function
// of (seed, stream, index), so any rank can make any element of any tensor without the others.
//
//     uint64_t w = ax_rng_stream("blk.0.attn.q.weight");
//     float v = 0.02f * (float)ax_rng_normal(seed, w, row * cols + col);
#pragma once
#include <stdint.h>

// A stream number from a name (FNV-1a, 64 bit).
uint64_t ax_rng_stream(const char *name);

uint64_t ax_rng_bits(uint64_t seed, uint64_t stream, uint64_t index);

// Uniform in [0, 1), 53 bits.
double ax_rng_uniform(uint64_t seed, uint64_t stream, uint64_t index);

// Standard normal (Box-Muller on one Philox block, so neighbouring indices are independent).
double ax_rng_normal(uint64_t seed, uint64_t stream, uint64_t index);

// Position `i` of a pseudo-random permutation of 0..n-1, in O(1) memory (a four-round Feistel
// network over the next power of four, walked until it falls inside). 0 <= i < n.
int64_t ax_rng_permute(uint64_t seed, uint64_t stream, int64_t n, int64_t i);
