// A job: the resolved configuration of a verb and all that the ranks of this process share,
// read-only once open.
//
//     ax_job job = { .config = &config, .corpus_wanted = true };
//     AX_TRY(ax_job_run(&job, train_rank));   // opens, runs train_rank on every rank, closes
//
// Starting: under mpirun or srun the launcher's ranks, else `--ranks N` threads of this process.
#pragma once
#include "ckpt/hf.h"
#include "train/config.h"
#include "train/keep_companions.h"
#include "train/leave.h"
#include "train/ranks.h"
#include "train/resume.h"
#include "train/trainer.h"

typedef struct ax_job ax_job;
typedef ax_status ax_job_main(ax_job *job, ax_comm *world);

typedef struct ax_train_summary { // of a finished training run, on rank 0
    int64_t steps, tokens;
    double loss;       // of the last step
    double valid_loss; // of the last evaluation
    bool evaluated;
    double seconds;
} ax_train_summary;

struct ax_job {
    // Set by the caller.
    ax_run_config *config;
    bool corpus_wanted; // data.train is read
    bool inference;     // no gradients, no optimizer; the batch is rounded up to fit the grid
    // Called once the model and the tokenizer are known; may set the two that follow. NULL:
    // nothing.
    ax_status (*prepare)(ax_job *job);
    int64_t sequences;      // in place of train.batch; 0: that
    int64_t cache;          // as ax_trainer_config
    bool documents_wanted;  // every document has a number (data show)
    bool scale_wanted;      // a model too large for a quick proof is scaled down
    bool run_wanted;        // it trains: train.out is written and locked, train.resume obeyed
    ax_leave_signal *asked; // NULL: nobody listens to signals
    ax_job_main *main;

    // Set by ax_job_run.
    ax_tokenizer *tokenizer;
    ax_corpus *corpus;
    ax_trainer_config trainer;
    char init[4096]; // directory that model.init names; "": random
    bool hf;         // it is a Hugging Face directory
    ax_hf_config hf_config;
    ax_resume resume;        // what the run goes on from, as chosen before the ranks started
    char kept[AX_KEPT_PATH]; // scratch: where train.out keeps its tokenizer
    char *resume_config;     // its configuration; NULL: none
    ax_lock lock;            // of train.out: the process's of rank 0
    double started;          // seconds since 1970
    ax_leave leave;
    int ranks;
    bool scaled;
    bool launched; // by mpirun or srun
    ax_train_summary trained;
};

// Not collective; returns when every rank of this process has ended. AX_EUSAGE when --ranks differs
// from the launcher's number.
ax_status ax_job_run(ax_job *job, ax_job_main *main);

// The checkpoint directory behind a path: itself, or what `latest` names in a run directory; where
// that is missing or not whole, the newest whole one there.
ax_status ax_job_checkpoint(const char *path, char *dir, size_t size);

// The tokenizer and the corpus of a job alone: no ranks, no model. Not collective. Close in any
// case.
ax_status ax_job_open_data(ax_job *job);
void ax_job_close_data(ax_job *job);

// Parameters of an open trainer: from model.init or from the seed. Collective.
ax_status ax_job_init_params(const ax_job *job, ax_trainer *t);
