// Checksums that do not depend on the grid (XXH3, 64 bits).
//
// A tensor's is the sum, modulo 2^64, over its elements of XXH3 of the element's bytes with its
// global row-major number as seed, so that ranks add up what each of them holds. A text's is XXH3
// of its bytes with its length as seed.
#pragma once
#include "comm/comm.h"

#include <stddef.h>

// Of `count` elements of `size` bytes (4 or 8), the first of which is number `first` of its tensor.
uint64_t ax_checksum_elements(const void *bytes, size_t size, int64_t count, int64_t first);
uint64_t ax_checksum_text(const char *text, size_t length);

// Adds over the ranks, in place, exact. Collective.
ax_status ax_checksum_sum(ax_comm *c, uint64_t *sums, int count);

// 16 lower-case hexadecimal digits; parse takes nothing else.
enum { AX_CHECKSUM_DIGITS = 16 };
void ax_checksum_print(uint64_t sum, char text[AX_CHECKSUM_DIGITS + 1]);
bool ax_checksum_parse(const char *text, uint64_t *out);
