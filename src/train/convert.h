// From a Hugging Face directory to a checkpoint, and back.
//
//     AX_TRY(ax_convert(&config, "gpt2", "runs/start"));         // HF -> checkpoint
//     AX_TRY(ax_convert(&config, "runs/tuned", "tuned-hf"));     // run or checkpoint -> HF
//
// Every rank reads and writes the slices that the grid gives it (auto: cut over z); only weights
// are held, in fp32. The target must not exist: it is written beside, under `.tmp-NAME`, and
// renamed when all of it is on disk. What a killed conversion leaves is named and must be removed.
#pragma once
#include "train/config.h"

typedef struct ax_convert_result {
    const char *dtype; // of the elements written: "F32"
    int64_t parameters;
    bool to_hf;
} ax_convert_result;

// Not collective; returns when every rank of this process has ended. Sets c's model keys to those
// of the source. AX_EUSAGE: keys that do not fit, a target that exists.
ax_status ax_convert(ax_run_config *c, const char *from, const char *to, ax_convert_result *out);
