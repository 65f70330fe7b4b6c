// From a Hugging Face directory to a checkpoint, and back; or to such a directory in other
// elements.
//
//     AX_TRY(ax_convert(&config, "gpt2", "start"));              // HF -> checkpoint
//     AX_TRY(ax_convert(&config, "runs/tuned", "tuned-hf"));     // run or checkpoint -> HF
//     AX_TRY(ax_convert(&config, "llama", "llama-bf16"));        // HF -> HF, with convert.dtype
//
// Every rank reads and writes the slices that the grid gives it (auto: cut over z); only weights
// are held, in fp32. The target must not exist: under a lock, `.NAME.lock` beside it, it is written
// as `.tmp-NAME` and renamed when all of it is on disk. What a killed conversion left under that
// name is removed first.
#pragma once
#include "train/config.h"

typedef struct ax_convert_result {
    const char *dtype; // of the elements written: "F32"
    int64_t parameters;
    bool to_hf;
} ax_convert_result;

// Not collective; returns when every rank of this process has ended. Sets c's model keys to those
// of the source. AX_EUSAGE: keys that do not fit, a source that is no model, a target that exists
// or is being written by another process.
ax_status ax_convert(ax_run_config *c, const char *from, const char *to, ax_convert_result *out);
