// The verb prepare: text files to a pair of token files, under a lock on its name.
#pragma once
#include "train/config.h"

typedef struct ax_prepared {
    ax_prepare_result result;
    int64_t vocab;
    int width; // bytes of an id
} ax_prepared;

// data.train through data.tokenizer to prepare.out.{bin,idx}; PREFIX.lock keeps others away as
// long as it runs. One process: AX_EUSAGE under a launcher of several. SIGINT, SIGTERM, SIGHUP and
// SIGUSR1 are held back until the unfinished files are gone, and then do what they always do.
ax_status ax_prepare(const ax_run_config *c, ax_prepared *out);
