// Which checkpoint a run goes on from, and what of the configuration it brings along.
//
//     AX_TRY(ax_resume_choose(config, &lock, &r, &text));   // one process: reads directories
//     AX_TRY(ax_resume_share(world, &r, &text));            // the others hear of it
//     AX_TRY(ax_resume_adopt(&r, text, config, launched));  // every process
//     ... the trainer is opened ...
//     AX_TRY(ax_resume_load(&r, config, trainer));          // every rank; may go further back
//
// A key that is not given anew keeps the value of the checkpoint. What decides the numbers (model,
// data, batch, seeds, learning rate and optimizer) cannot be given anew; steps, places, grid and
// machine can. The data may lie elsewhere, and is recognised by its fingerprints.
//
// resume.c chooses, resume_load.c loads and goes back, resume_adopt.c lays configurations over one
// another, resume_state.c tells and compares the data.
#pragma once
#include "train/lock.h"
#include "train/trainer.h"
#include "train/config.h"

enum { AX_RESUME_PATH = 4096 };

// What the checkpoint says beside its tensors; 0 or "" where it says nothing. Plain memory: ranks
// send it to one another.
typedef struct ax_resume {
    bool found;
    bool restart;   // train.out holds a run that never saved: from the start, in its place, with
                    // the keys of its config.yaml, which `dir` names
    bool elsewhere; // the checkpoint lies outside train.out
    bool back;      // a broken one may be passed over for the one before
    char run[AX_RESUME_PATH], name[64], dir[AX_RESUME_PATH + 72]; // dir: run/name
    int64_t step, updates, tokens;                                // done so far
    int64_t data_tokens;                                          // of the training data
    bool data_known;                                              // it has its fingerprints
    double loss;                                                  // of the last step
    char grid[64], dtype[8];                                      // as it was trained
} ax_resume;

// Applies train.resume and train.out, whose lock it takes where the directory exists. *config: the
// text of the checkpoint's configuration, or of a run that never saved, which the caller frees;
// NULL: none is found. AX_EUSAGE: train.out holds a run and train.resume is never; AX_EFORMAT:
// checkpoints, but no whole one, or one under the name of another step; AX_EIO: one that cannot be
// read, but may be whole.
ax_status ax_resume_choose(const ax_run_config *c, ax_lock *lock, ax_resume *r, char **config);

// Collective. Gives what rank 0 chose to all.
ax_status ax_resume_share(ax_comm *world, ax_resume *r, char **config);

// Lays the checkpoint's configuration under the one that was given, and completes it. `ranks`: the
// launcher's, or those of --ranks; 0: open. AX_EUSAGE names a key that may not change, both values
// and the way out.
ax_status ax_resume_adopt(const ax_resume *r, const char *config, int ranks, ax_run_config *c);

// Collective. Fills parameters, moments and the count of updates; where the checksums of a
// checkpoint do not hold, those of the one before. *r tells the one that was loaded. AX_EFORMAT:
// none was whole, or a whole one is not of this model; that is left as it is.
ax_status ax_resume_load(ax_resume *r, const ax_run_config *c, ax_trainer *t);

// The data of a run as its checkpoints keep it; zero-initialised is that of a rank that does not
// save.
typedef struct ax_resume_data {
    int64_t tokens; // to learn from
    char **file;    // a line each: key, share, tokens, fingerprint, name
    int files;
} ax_resume_data;
// Rank 0's: reads through the data, of large token files through samples. AX_EIO, AX_EFORMAT. *out
// is zeroed before, and ended with fini in any case.
ax_status ax_resume_data_read(const ax_corpus *c, ax_resume_data *out);
void ax_resume_data_fini(ax_resume_data *data);
// Rank 0's. AX_EUSAGE names the file that is not what it was when the checkpoint was saved. Names
// and places of files may be others. A checkpoint of an earlier version without fingerprints is
// warned of.
ax_status ax_resume_check_data(const ax_resume *r, const ax_resume_data *now);

// The text for ax_ckpt_info.state, after `step`.
void ax_resume_state(const ax_run_config *c, const ax_trainer *t, int64_t step,
                     const ax_resume_data *data, double loss, ax_text *out);

// The newest whole checkpoint of a run directory: its name, or "" where there is none.
ax_status ax_resume_newest(const char *run, char *name, size_t size);
