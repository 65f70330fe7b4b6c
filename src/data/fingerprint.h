// What a file of training data is, whatever its name and place: a number that is another when its
// tokens or documents are.
//
//     uint64_t sum;
//     AX_TRY(ax_fingerprint_file(source, file, &sum));
//
// XXH3 (64 bits) of the numbers of tokens and documents, the ids and the borders of documents. A
// text is hashed as the ids that it became, so a change of the tokenizer shows too. Of a token file
// of more than four million tokens only 64 blocks count, the first, the last and those evenly
// between: a start must not read terabytes.
#pragma once
#include "data/source.h"

// `file`: 0..ax_source_files - 1. AX_EIO, AX_EFORMAT of token files. Not collective.
ax_status ax_fingerprint_file(const ax_source *s, int file, uint64_t *out);
