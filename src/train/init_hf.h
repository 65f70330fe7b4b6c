// model.init=DIR where DIR is a Hugging Face directory: its model becomes the run's.
#pragma once
#include "ckpt/hf.h"
#include "train/config.h"

// Sets the model keys that the user did not. A key that says otherwise is refused (AX_EUSAGE), but
// for model.seq, which may be shorter than the model allows, and model.init_std. Without
// data.tokenizer the directory's own tokenizer is taken, where it has one.
ax_status ax_init_hf(const char *dir, ax_run_config *c, ax_hf_config *out);

// data.tokenizer, where the user did not set it: `dir` when a tokenizer lies there.
ax_status ax_init_tokenizer(const char *dir, ax_run_config *c);
