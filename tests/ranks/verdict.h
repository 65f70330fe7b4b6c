// Counts what held and what did not, and prints the figures that were measured.
//
//     verdict v = {.verbose = true};
//     verdict_check(&v, difference <= 1e-12, "grid %s: loss differs by %g", grid, difference);
//     return verdict_close(&v);              // prints "12 passed, 0 failed"
#pragma once
#include <stdbool.h>

typedef struct verdict {
    int passed, failed;
    int part_passed; // as the current part began
    bool verbose;    // say what passed, too
} verdict;

void verdict_check(verdict *v, bool ok, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
// Ends a part of the program: its name, how many cases it had, how long it took, and a figure.
void verdict_part(verdict *v, double started, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
double verdict_now(void);
int verdict_close(const verdict *v); // the exit status
