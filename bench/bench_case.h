// A training case of a measuring program: a model shape, a batch, a precision, and steps on random
// tokens. Arguments are key=value.
#pragma once
#include "train/step.h"

typedef struct bench_case {
    const char *preset; // of the library, or "llama-124m": 12 blocks, width 768, 12 heads, 4 kv
                        // heads, ffn 2048
    int64_t batch, seq, steps;
    ax_dtype act;
    ax_arch arch;
} bench_case;

// True where `argument` is one of preset=, batch=, seq=, steps=, precision=; *ok: its value is
// legal.
bool bench_case_set(bench_case *c, const char *argument, bool *ok);
// The integer from 1 to 2^20 behind `key`, which includes the "=". False: another argument.
bool bench_number(const char *argument, const char *key, int64_t *to, bool *ok);
// Resolves the model.
ax_status bench_case_open(bench_case *c);
// The same, on one rank, with all overlap and the usual optimizer.
ax_trainer_config bench_case_trainer(const bench_case *c);
// Random ids and targets of a step, the same on every grid.
void bench_case_load(const bench_case *c, ax_trainer *t, int64_t step);

typedef struct bench_spread {
    double least, median, most;
} bench_spread;
bench_spread bench_spread_of(double *values, int64_t count); // sorts them
