// What the files of train/resume.h share with one another, and with nobody else.
#pragma once
#include "base/log.h"
#include "train/resume.h"

// A key of ax_ckpt_info.state into *r. For ax_config_yaml_parse: ctx is the ax_resume.
ax_status ax_resume_take_state(void *ctx, const char *key, const char *value, const char *where);

// Rank 0's. The newest checkpoint of `run` of a step below `below`. Damaged ones are warned of, and
// renamed where `ours` (the lock of the run is held); nothing else is: what cannot be read, or is
// of a newer version, or stands under the name of another step is an error. Found or not, *r names
// the last one that was looked at. *config: its configuration, the caller's.
ax_status ax_resume_choose_below(const char *run, int64_t below, bool ours, ax_resume *r,
                                 char **config);

// Renames r->dir to broken-NAME and warns: "DIR what; it is passed over and now named ... (why)".
void ax_resume_set_aside(const ax_resume *r, const char *what, const char *why);

// Whether the keys that were given agree with a checkpoint's configuration. AX_EUSAGE names one.
ax_status ax_resume_compare(const ax_resume *r, const char *config, const ax_run_config *given);

// Rank 0's bytes to all. Collective.
ax_status ax_resume_share_bytes(ax_comm *world, void *bytes, size_t size);

// From here on this thread's errors are kept for ax_error_text and not said. Gives what to set up
// again.
ax_log_config ax_resume_hush(void);
