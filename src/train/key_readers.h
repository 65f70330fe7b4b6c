// Which keys a verb reads.
//
//     AX_TRY(ax_config_load(argc, argv, 0, &c));
//     AX_TRY(ax_config_check_readers(&c, "eval"));
//
// A key on the command line that nothing reads is a mistake, and would be passed over in silence.
// In a file it is none: a run's config.yaml serves every verb.
#pragma once
#include "train/config.h"

// Whether a verb reads a key. One that is not known here reads none of them.
bool ax_config_reads(const char *verb, const char *key);

// AX_EUSAGE names a key of the command line that `verb` does not read. A verb that is not known
// here may read all.
ax_status ax_config_check_readers(const ax_run_config *c, const char *verb);
