// The bytes of one step by axis and tag, from the formulas of docs/parallelism.md: written from the
// document, sharing nothing with the code that communicates but the names of the tags.
//
//     bytes_table expected;
//     bytes_expect(&arch, &config, &expected);
//     bytes_compare(&expected, &t.trace, true)      // rows that differ, printed
#pragma once
#include "train/trainer.h"

enum { BYTES_ROWS = 64 };

typedef struct bytes_row {
    const char *axis, *tag;
    ax_coll coll;
    int64_t calls, bytes;
} bytes_row;

typedef struct bytes_table {
    int rows;
    bytes_row row[BYTES_ROWS];
} bytes_table;

// The grid must fit the model and the batch.
void bytes_expect(const ax_arch *arch, const ax_trainer_config *config, bytes_table *out);

// How many rows are in one of the two only, or differ in calls or bytes.
int bytes_compare(const bytes_table *expected, const ax_comm_trace *seen, bool print);
