// The files of a run's tokenizer, and what a Hugging Face model came with, kept in the run: it goes
// on, and its checkpoints are used, when the directory that they were read from is long gone.
//
//     AX_TRY(ax_keep_companions(&(ax_companions_source){.model = init, .tokenizer = name}, "out/a"));
//     char dir[AX_KEPT_PATH];
//     ... ax_kept_companions("out/a", dir) ...   // for ax_ckpt_info.companions
#pragma once
#include "base/err.h"

#include <stdbool.h>

enum { AX_KEPT_PATH = 4200 };

typedef struct ax_companions_source {
    const char *model;     // a directory with config.json; without, or "": nothing is taken of it
    const char *tokenizer; // as data.tokenizer: byte, a directory, or a tokenizer.json by any name
    bool resumed;          // what `out` has is the run's own, and stays
    bool again;            // the run begins again: what `out` has is its own, and is made anew
} ax_companions_source;

// One rank of the job, which holds the lock of the run directory `out`. Writes out/tokenizer, whole
// or not at all; where there is nothing to keep there is no such directory. AX_EUSAGE: there is one
// that no run has made, or a link; it is not touched. AX_EIO names a file.
ax_status ax_keep_companions(const ax_companions_source *s, const char *out);

// out/tokenizer into dir[AX_KEPT_PATH]; NULL: there is none.
const char *ax_kept_companions(const char *out, char *dir);

// Where the tokenizer of a model that lies in the checkpoint `dir` is to be read: there, where it
// has one; else at `name`, data.tokenizer of its run.
const char *ax_companion_tokenizer(const char *dir, const char *name);
