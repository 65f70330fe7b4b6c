// Reads a golden file (the format stands in make_models.py) and carries its values into a trainer.
//
//     golden g;
//     AX_TRY(golden_open(AX_GOLDEN_DIR "/gpt.golden", &g));
//     ax_arch a = golden_arch(&g);
//     ... ax_trainer_open ...
//     AX_TRY(golden_set_weights(&g, &t));
//     golden_close(&g);
#pragma once
#include "train/trainer.h"

typedef struct golden_tensor {
    char name[64];
    ax_dtype dtype;
    int64_t rows, cols;
    void *data;
} golden_tensor;

typedef struct golden_number {
    char name[32];
    double value;
} golden_number;

typedef struct golden {
    golden_number numbers[40];
    golden_tensor tensors[128];
    int number_count, tensor_count;
} golden;

ax_status golden_open(const char *path, golden *g);
void golden_close(golden *g);

// Aborts where the file has no such entry: a golden file and its test belong together.
double golden_value(const golden *g, const char *name);
bool golden_has_documents(const golden *g); // positions of several documents in a row
const golden_tensor *golden_find(const golden *g, const char *prefix, const char *name);
const double *golden_doubles(const golden *g, const char *name);

ax_arch golden_arch(const golden *g); // checked
ax_optim_config golden_optim(const golden *g);

// Sets every parameter, each rank its own part. After ax_params_init. Collective.
ax_status golden_set_weights(const golden *g, ax_trainer *t);
// Copies batch `step` (0: the one of logits and gradients) into t->ids and t->targets, and the
// positions where there are documents.
void golden_set_batch(const golden *g, ax_trainer *t, int64_t step);
