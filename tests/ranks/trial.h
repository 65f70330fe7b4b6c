// A small training job on a grid of ranks, and everything there is to compare about it.
//
//     trial j = {.arch = ..., .config = {...}, .steps = 20, .lr = 1e-3};
//     outcome o;
//     AX_TRY(trial_run_local(&j, &o));       // ranks are threads
//     ... o.loss[0], o.grad, o.final ...
//     outcome_fini(&o);
//
// Token ids come from a generated text through the loader, as in training.
#pragma once
#include "comm/hook_link.h"
#include "train/trainer.h"

enum { TRIAL_STEPS = 20, TRIAL_BATCH = 64 };

typedef enum trial_tuning {
    TRIAL_UNTUNED,
    TRIAL_FORCED, // every product is made another way than by default, where one can make it
    TRIAL_TIMED,  // as with train.tune=on
} trial_tuning;

typedef struct trial {
    ax_arch arch;
    ax_trainer_config config; // .arch is set by the run
    int steps;
    double lr;
    bool settle;    // wait for the new weights after each step and compare all copies
    bool zero_head; // the head starts at zero (untied models)
    bool documents; // rows are packed with documents of mixed lengths, and attention is masked
    int tuned;      // trial_tuning; device cpu
    bool dry_runs;  // evaluation and logits after the last step, too: they share the arenas
    const ax_link *links; // AX_LINKS emulated links of every local rank; NULL: none
    // Whether target `k` of batch row `row` counts; NULL: all do.
    bool (*counts)(int64_t row, int64_t k);
} trial;

typedef struct span { // one parameter in the lists of an outcome
    char name[64];
    int64_t first, count;
} span;

typedef struct outcome {
    int steps, spans;
    span *span;
    int64_t count;               // elements of the model
    double *init, *grad, *final; // weights before, gradients of step 1, weights after
    double loss[TRIAL_STEPS], norm[TRIAL_STEPS];
    int64_t kept;                              // targets that count in step 1
    int64_t sample[TRIAL_STEPS * TRIAL_BATCH]; // of row r in step s: [(s - 1) * TRIAL_BATCH + r]
    double eval_loss;                          // with dry_runs
    ax_layout layout;
    ax_comm_trace trace; // of step 1 on rank 0
    // Over all ranks; each should be zero.
    int64_t replicas;   // elements of which a replica holds another number
    int64_t uncovered;  // elements not owned exactly once
    int64_t bytes;      // rows of traffic that are not as the formulas say
    int64_t unmeasured; // rows of traffic, or arenas, that are not as measured before
    int64_t disagreed;  // ranks that saw another loss, norm or sample than rank 0
} outcome;

// The text that all jobs learn from. Once a process.
ax_status trial_open_data(void);
void trial_close_data(void);

// The way that a forced product is made, and what TRIAL_TIMED does after the first step.
int trial_forced_way(const void *ctx, const ax_gemm_key *key);
ax_status trial_settle(ax_trainer *t);

ax_status trial_run_local(const trial *j, outcome *out);
// Collective over `world`, whose size must be the grid's. The outcome is whole on every rank.
ax_status trial_run_on(const trial *j, ax_comm *world, outcome *out);
void outcome_fini(outcome *o);

// Largest |a - b| / |b| over the parameters: norms over whole tensors; `worst` names the tensor.
// A key bias has a true gradient of zero: it is compared with the norm of all gradients.
double outcome_grad_difference(const outcome *a, const outcome *b, const char **worst);
// Largest relative difference over the steps.
double outcome_loss_difference(const outcome *a, const outcome *b);
double outcome_norm_difference(const outcome *a, const outcome *b);
// |a - b| / |b| of all weights after the last step.
double outcome_weight_difference(const outcome *a, const outcome *b);
